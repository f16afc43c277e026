"""One payment and one payout with every field of the interface set."""

from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

import attrs

from gateway_async.models.payments import (
    AccountOwner,
    AdditionalInformation,
    ApmPayment,
    Bank,
    BankAccount,
    BasicItemData,
    CartItem,
    DirectPayment,
    Discount,
    Item,
    Labels,
    MpiInfo,
    Person,
    PersonDocuments,
    Price,
    RedirectPayment,
    Subscription,
)
from gateway_async.models.payouts import (
    BankDetails,
    Beneficiary,
    BeneficiaryAddress,
    BeneficiaryInfo,
    Payer,
    PayerAddress,
    PayerInfo,
    PayoutRequest,
    PersonDocument,
)
from gateway_async.models.values import converter_of, to_amount, to_number

CARD = "4929618044173051"
SECURITY_CODE = "9137"
TOKEN = "token-for-a-card-" + "Qx7" * 40
COOKIE = "fraud-cookie-Wv55"
CAVV = "AAABBEg0VhI0VniQEjRWAAAAAAA="
SECRETS = (CARD, SECURITY_CODE, TOKEN, COOKIE, CAVV)

_Model = TypeVar("_Model")


def full(model: type[_Model], **given: Any) -> _Model:
    """Return an instance with every field set: texts to their own name, amounts to 1.50."""
    fields = {
        field.name: given.get(field.name, _sample(field))
        for field in attrs.fields(model)  # type: ignore[arg-type]  # every model is an attrs class
    }
    return model(**fields)


def _sample(field: "attrs.Attribute[Any]") -> object:
    is_number = converter_of(field) in (to_amount, to_number)
    return Decimal("1.50") if is_number else f"<{field.name}>"


def _card_fields() -> dict[str, Any]:
    price = full(Price, amount_usd="10.80", amount_local_currency="9.90")
    return {
        "items": (Item(parts=("SKU-1", "Tea", "2", "9.90")), Item(parts=("SKU-2", "", "1", "1"))),
        "token_id": TOKEN,
        "antifraud_token_cookie": COOKIE,
        "checkout_time": 120,
        "cart_items": [CartItem(basic_item_data=full(BasicItemData, price=price))],
        "account_owner": [full(AccountOwner)],
        "total_discount": [full(Discount)],
        "additional_information": [AdditionalInformation(mpi_info=full(MpiInfo, cavv=CAVV))],
        "subscription": full(Subscription, billing_cycle=12, promotion_cycle=1),
    }


def direct_payment() -> DirectPayment:
    return full(DirectPayment, card=CARD, security_code=SECURITY_CODE, **_card_fields())


def redirect_payment() -> RedirectPayment:
    return full(RedirectPayment, **_card_fields())


def apm_payment() -> ApmPayment:
    account = full(BankAccount, bank=full(Bank))
    documents = full(PersonDocuments, labels=full(Labels, bank_account=account))
    return full(
        ApmPayment,
        items=[Item(parts=("SKU-1", "Tea", "2", "9.90"))],
        person=full(Person, documents=documents),
    )


def payout_request() -> PayoutRequest:
    beneficiary = full(
        Beneficiary,
        date_of_birth=date(1990, 2, 28),
        additional_info=full(BeneficiaryInfo),
        address=full(BeneficiaryAddress),
        person_documents=[full(PersonDocument, labels=["passport", "front"])],
        bank_details=full(BankDetails),
    )
    payer = full(
        Payer,
        date_of_birth=date(1980, 12, 1),
        additional_info=full(PayerInfo),
        address=full(PayerAddress),
    )
    return full(
        PayoutRequest,
        request_id="5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
        beneficiary=beneficiary,
        payer=payer,
        payment_date=date(2024, 1, 31),
    )

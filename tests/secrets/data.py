"""What must never show, and the requests that carry it."""

from decimal import Decimal

from gateway_async import (
    AdditionalInformation,
    ApmPayment,
    BankDetails,
    Beneficiary,
    DirectPayment,
    MpiInfo,
    PayoutRequest,
    RedirectPayment,
)

CARD = "4929618044173051"
CODE = "9137"
SIGNER_SECRET = "whisper-of-the-signer-Zk81"
TOKEN = "token-for-a-card-" + "Qx7" * 40
COOKIE = "fraud-cookie-Wv55"
CAVV = "AAABBEg0VhI0VniQEjRWAAAAAAA="
REQUEST_ID = "6f0d3c5e-1f83-4cbb-9c1d-6a4c5a1f0b22"


def direct_payment(order_no: str = "N-1") -> DirectPayment:
    return DirectPayment(
        order_no=order_no,
        currency="EUR",
        amount=Decimal("12.30"),
        card=CARD,
        expiration_month="11",
        expiration_year="2031",
        security_code=CODE,
        antifraud_token_cookie=COOKIE,
        additional_information=[AdditionalInformation(mpi_info=MpiInfo(eci="05", cavv=CAVV))],
    )


def redirect_payment(order_no: str = "N-2") -> RedirectPayment:
    return RedirectPayment(
        order_no=order_no,
        currency="EUR",
        amount=Decimal("12.30"),
        token_id=TOKEN,
        antifraud_token_cookie=COOKIE,
    )


def apm_payment(order_no: str = "N-3") -> ApmPayment:
    return ApmPayment(
        order_no=order_no, currency="EUR", amount=Decimal("12.30"), payment_method="boleto"
    )


def payout_request() -> PayoutRequest:
    return PayoutRequest(
        request_id=REQUEST_ID,
        payment_amount=Decimal("100.00"),
        payment_currency="USD",
        beneficiary=Beneficiary(bank_details=BankDetails(account_number="1")),
    )

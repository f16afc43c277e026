"""What payments come to (sections 2.3, 2.4 and 4.1 of the interface)."""

from decimal import Decimal
from typing import NoReturn

import attrs

from gateway_async.models.records import Record
from gateway_async.models.values import MaskedCard, SignatureText


@attrs.frozen(kw_only=True, weakref_slot=False)
class RiskReasons(Record):
    """Why a payment was found risky or not.

    Attributes:
        name: What was checked.
        status: What that came to.
    """

    name: str | None = None
    status: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class DirectPaymentResult(Record):
    """What a payment by card comes to (section 2.3).

    Attributes:
        merchant_id: Merchant identifier.
        account_id: Merchant account identifier.
        order_no: The merchant's order number.
        amount: Amount in units of the currency.
        currency: Currency code.
        transaction_id: The gateway's identifier of the payment.
        card: The masked card number; six and four digits at most, whatever came.
        order_status: The value 1 occurs.
        result_info: Code, colon, text.
        contract_name: The name of a subscription's contract.
        recurring_id: The gateway's identifier of the subscription.
        recurring_deduction_period: The period between two payments, as text.
        recurring_deduction_time: A date and time, as text: the format is not shown.
        note: The note of the request.
        token_id: A token that stands for the card. Not in the repr.
        connector: The name of the processing connector.
        threeds_result: What 3-D Secure came to.
        risk_action: ACCEPT occurs.
        risk_score: A score, as text.
        risk_reasons: What the risk was judged by.
        encryption_data: The gateway's signature. Never shown.
    """

    merchant_id: str | None = None
    account_id: str | None = None
    order_no: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    transaction_id: str | None = None
    card: MaskedCard | None = None
    order_status: str | None = None
    result_info: str | None = None
    contract_name: str | None = None
    recurring_id: str | None = None
    recurring_deduction_period: str | None = None
    recurring_deduction_time: str | None = None
    note: str | None = None
    token_id: str | None = attrs.field(default=None, repr=False)
    connector: str | None = None
    threeds_result: str | None = None
    risk_action: str | None = None
    risk_score: str | None = None
    risk_reasons: RiskReasons | None = None
    encryption_data: SignatureText | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApmPaymentResult(Record):
    """What a payment by an alternative payment method comes to (section 2.4).

    Attributes:
        merchant_id: Merchant identifier.
        account_id: Merchant account identifier.
        order_no: The merchant's order number.
        amount: Amount in units of the currency.
        currency: Currency code.
        issuer_url: Where to send the shopper; text, never fetched.
    """

    merchant_id: str | None = None
    account_id: str | None = None
    order_no: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    issuer_url: str | None = None


@attrs.frozen(kw_only=True)
class CheckoutPage:
    """The page that a checkout answers with (section 4.1): it forwards the shopper by itself.

    Attributes:
        html: The page, ready to send to the shopper as it is. Never shown: it repeats the request.
        title: The text of its title; None if it has none.
        action: Where its form posts to, as the page has it; None without a form that posts.
    """

    html: str = attrs.field(repr=False)
    title: str | None = None
    action: str | None = None

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise TypeError("CheckoutPage repeats the signature and is not pickled; send its html")

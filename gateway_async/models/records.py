"""Records: what a reply has about one order or payment (sections 2.3 to 2.7 and 4.1).

Every field is optional: a reply may lack it. Statuses stay text, since the meaning of few is
shown.
"""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Generic, TypeVar

import attrs

from gateway_async.models.values import SignatureText, Unpicklable

Message = Annotated[str, "of the gateway's"]
"""A text that the gateway made; card numbers in it are masked."""
MaskedCard = Annotated[str, "a card"]
"""A card number as the gateway shows it; whatever came, six and four digits are left at most."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Record:
    """The base class of everything that is read from a reply.

    Attributes:
        extra: Fields that the interface does not list, as they came; those whose name suggests
            card data or a signature are `***`. Never shown.
        unreadable: By field name, the text of a value that could not be read (its first 1,000
            characters); the field itself is then None, or a list without the elements that could
            not be read. A value that is no object at all stands under `record`.
    """

    extra: Mapping[str, object] = attrs.field(factory=dict, repr=False, hash=False)
    unreadable: Mapping[str, str] = attrs.field(factory=dict, hash=False)


@attrs.frozen(kw_only=True, weakref_slot=False)
class DeliveryInformation(Record):
    """Where an order is delivered.

    Attributes:
        delivery_address: Street and number.
        delivery_city: City.
        delivery_country: Country.
        delivery_firstname: First name.
        delivery_lastname: Last name.
        delivery_postal_code: Postal code.
        delivery_state: State or province.
    """

    delivery_address: str | None = None
    delivery_city: str | None = None
    delivery_country: str | None = None
    delivery_firstname: str | None = None
    delivery_lastname: str | None = None
    delivery_postal_code: str | None = None
    delivery_state: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class FraudCheckResult(Record):
    """One fraud check of an order.

    Attributes:
        check_items: What was checked, as text.
        status: ACCEPT and REJECT occur.
    """

    check_items: Message | None = None
    status: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class SubscriptionResult(Record):
    """The subscription that an order belongs to.

    Attributes:
        contract_name: The name of the contract.
        recurring_id: The gateway's identifier of the subscription.
        recurring_status: The value 1 occurs.
        recurring_deduction_period: The period between two payments, as text.
        recurring_deduction_time: A date, as text: its format is not shown.
    """

    contract_name: str | None = None
    recurring_id: str | None = None
    recurring_status: str | None = None
    recurring_deduction_period: str | None = None
    recurring_deduction_time: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class TransactionRecord(Record):
    """One transaction of a query (section 2.5).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        reference_no: A reference of the gateway's.
        order_no: The merchant's order number.
        amount: Amount in units of the currency.
        currency: Currency code.
        payment_status: A numeric code; 3000 and 4100 occur.
        query_result: The value 1 occurs.
        is3ds: The value 0 occurs.
        transaction_date: When it was made, without a time zone (`YYYYMMDDhhmmss`).
        website: The merchant's website.
        shopper_email: The shopper's email address.
        shopper_phone: The shopper's telephone number.
        delivery_information: Where it is delivered.
        antifraud_provider: The name of the fraud-check provider.
        fraud_check_result: The fraud checks, in the order of the reply.
        subscription_result: The subscription that it belongs to.
    """

    transaction_id: str | None = None
    reference_no: str | None = None
    order_no: str | None = None
    amount: Decimal | None = None
    currency: str | None = None
    payment_status: str | None = None
    query_result: str | None = None
    is3ds: str | None = None
    transaction_date: datetime | None = None
    website: str | None = None
    shopper_email: str | None = None
    shopper_phone: str | None = None
    delivery_information: DeliveryInformation | None = None
    antifraud_provider: str | None = None
    fraud_check_result: tuple[FraudCheckResult, ...] = ()
    subscription_result: SubscriptionResult | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class _OrderRecord(Record):
    """What the records of captured, cancelled, reviewed and refunded orders share."""

    transaction_id: str | None = None
    order_no: str | None = None
    currency: str | None = None
    amount: Decimal | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class RefundRecord(_OrderRecord):
    """One refund, as a refund or a search of refunds gives it (section 2.6).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: The original amount, in units of the currency.
        refund_amount: The amount given back.
        refund_reason: The reason that was given for it.
        refund_status: The value 1 occurs.
        refund_reference: A reference; may be empty.
        refund_reference_id: The gateway's identifier of the refund; seen as the transaction_id, a
            hyphen and two digits.
        refund_message: Code, colon, text; when refunding only.
        payment_status: A numeric code; when searching only.
        refund_date: When it was refunded, without a time zone (`YYYYMMDDhhmmss`); when searching
            only.
        refund_processing_date: When it was processed, as text: its format is not shown. May be
            empty; when searching only.
    """

    refund_amount: Decimal | None = None
    refund_reason: str | None = None
    refund_status: str | None = None
    refund_reference: str | None = None
    refund_reference_id: str | None = None
    refund_message: Message | None = None
    payment_status: str | None = None
    refund_date: datetime | None = None
    refund_processing_date: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class CaptureRecord(_OrderRecord):
    """The record of one order to capture (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency.
        capture_status: The value 1 occurs.
        error_message: Empty when there was no error.
    """

    capture_status: str | None = None
    error_message: Message | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class CancelRecord(_OrderRecord):
    """The record of one order to cancel (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency.
        cancel_status: The value 1 occurs.
        error_message: Empty when there was no error.
    """

    cancel_status: str | None = None
    error_message: Message | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReviewRecord(_OrderRecord):
    """The record of one order to review (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency.
        review_flag: The verdict, repeated.
        review_status: The value 1 occurs.
        error_message: Empty when there was no error.
    """

    review_flag: str | None = None
    review_status: str | None = None
    error_message: Message | None = None


_Element = TypeVar("_Element", bound=Record)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Page(Record, Generic[_Element]):
    """One reply of a look-up that asks for no order in particular (section 2.1).

    Attributes:
        merchant_id: Merchant identifier.
        account_id: Merchant account identifier.
        return_status: Overall result; 1 on success.
        return_message: Text for it; OK on success.
        encryption_data: The gateway's signature. Never shown.
        records: The records, in the order of the reply; up to 100.
    """

    merchant_id: str | None = None
    account_id: str | None = None
    return_status: str | None = None
    return_message: Message | None = None
    encryption_data: SignatureText | None = None
    records: tuple[_Element, ...] = ()


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
class _PaymentResult(Record):
    """What the results of payments share."""

    merchant_id: str | None = None
    account_id: str | None = None
    order_no: str | None = None
    amount: Decimal | None = None
    currency: str | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class DirectPaymentResult(_PaymentResult):
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

    transaction_id: str | None = None
    card: MaskedCard | None = None
    order_status: str | None = None
    result_info: Message | None = None
    contract_name: str | None = None
    recurring_id: str | None = None
    recurring_deduction_period: str | None = None
    recurring_deduction_time: str | None = None
    note: str | None = None
    token_id: str | None = attrs.field(default=None, repr=False)
    connector: str | None = None
    threeds_result: Message | None = None
    risk_action: str | None = None
    risk_score: str | None = None
    risk_reasons: RiskReasons | None = None
    encryption_data: SignatureText | None = None


@attrs.frozen(kw_only=True, weakref_slot=False)
class ApmPaymentResult(_PaymentResult):
    """What a payment by an alternative payment method comes to (section 2.4).

    Attributes:
        merchant_id: Merchant identifier.
        account_id: Merchant account identifier.
        order_no: The merchant's order number.
        amount: Amount in units of the currency.
        currency: Currency code.
        issuer_url: Where to send the shopper; text, never fetched.
    """

    issuer_url: str | None = None


@attrs.frozen(kw_only=True)
class CheckoutPage(Unpicklable):
    """The page that a checkout answers with (section 4.1): it forwards the shopper by itself.

    It repeats the signature, and is not pickled: send its `html`.

    Attributes:
        html: The page, ready to send to the shopper as it is. Never shown: it repeats the request.
        title: The text of its title; None if it has none. Not shown either.
        action: Where its form posts to, as the page has it; None without a form that posts.
            Not shown either.
    """

    html: str = attrs.field(repr=False)
    title: str | None = attrs.field(default=None, repr=False)
    action: str | None = attrs.field(default=None, repr=False)

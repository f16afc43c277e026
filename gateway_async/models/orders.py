"""Orders: the elements of a batch (sections 2.7 and 4 of the interface)."""

from decimal import Decimal

import attrs

from gateway_async.errors import InvalidOrderError
from gateway_async.models.fields import (
    AMOUNT,
    as_amount,
    as_identifier,
    as_text,
    identifier_field,
    text_field,
)
from gateway_async.models.values import describe


@attrs.frozen(kw_only=True)
class _Order:
    """What capture, cancel, review and refund orders share."""

    transaction_id: str = attrs.field(converter=as_identifier)
    order_no: str = attrs.field(converter=as_identifier)
    currency: str = attrs.field(converter=as_identifier)
    amount: Decimal = attrs.field(converter=as_amount, metadata=AMOUNT)


@attrs.frozen(kw_only=True)
class CaptureOrder(_Order):
    """One order to capture (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency, not in cents; `str` and `int` are converted.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite
            or negative, or any value of another type, such as an amount that is a `float`.
    """


@attrs.frozen(kw_only=True)
class CancelOrder(_Order):
    """One order to cancel (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency, not in cents; `str` and `int` are converted.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite
            or negative, or any value of another type, such as an amount that is a `float`.
    """


@attrs.frozen(kw_only=True)
class ReviewOrder(_Order):
    """One order to review (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency, not in cents; `str` and `int` are converted.
        review_flag: The verdict. The interface shows the value 1 and no meaning, so ask the
            gateway which verdicts there are.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite
            or negative, or any value of another type, such as an amount that is a `float`.
    """

    review_flag: str = attrs.field(converter=as_text)


@attrs.frozen(kw_only=True)
class RefundOrder(_Order):
    """One order to refund, in whole or in part (section 4, row 8).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: The original amount, in units of the currency, not in cents; `str` and `int` are
            converted.
        refund_amount: How much of it to give back; never more than `amount`.
        refund_reason: Free text, sent as it is.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite
            or negative, any value of another type, such as an amount that is a `float`, or a
            `refund_amount` above `amount`.
    """

    refund_amount: Decimal = attrs.field(converter=as_amount, metadata=AMOUNT)
    refund_reason: str = text_field(default="")

    def __attrs_post_init__(self) -> None:
        if self.refund_amount > self.amount:
            raise InvalidOrderError(
                f"{describe(self)}.refund_amount: {self.refund_amount} is more than the order's "
                f"amount {self.amount}"
            )


@attrs.frozen(kw_only=True)
class OrderRef:
    """One order to look up: by its order number or by its transaction, never by both.

    Attributes:
        order_no: The merchant's order number.
        transaction_id: The gateway's identifier of the payment.

    Raises:
        InvalidOrderError: For a reference that is empty or no text, for both of them, or none.
    """

    order_no: str | None = identifier_field(default=None)
    transaction_id: str | None = identifier_field(default=None)

    def __attrs_post_init__(self) -> None:
        if (self.order_no is None) == (self.transaction_id is None):
            raise InvalidOrderError(
                f"{describe(self)}: give order_no or transaction_id, one of the two"
            )

    @property
    def kind(self) -> str:
        """The name of the field by which the order is looked up."""
        return "order_no" if self.order_no is not None else "transaction_id"

    @property
    def value(self) -> str:
        """The reference itself."""
        return self.order_no or self.transaction_id or ""

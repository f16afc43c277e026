"""Orders: the elements of a batch (sections 2.7 and 4 of the interface), and the outcome of each.

Also what identifies a refund: its reference, or our marker in `refund_reason`.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import InvalidOrderError
from gateway_async.models.values import (
    Identifier,
    Model,
    checked,
    describe,
    moves_nothing,
    to_amount,
)

if TYPE_CHECKING:
    from gateway_async.models.records import RefundRecord


@attrs.frozen(kw_only=True, field_transformer=checked)
class _Order(Model):
    """What capture, cancel, review and refund orders share."""

    transaction_id: Identifier
    order_no: Identifier
    currency: Identifier
    amount: Decimal = attrs.field(converter=to_amount)


@attrs.frozen(kw_only=True, field_transformer=checked)
class CaptureOrder(_Order):
    """One order to capture (section 2.7).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: Amount in units of the currency, not in cents; more than 0; `str` and `int` are
            converted.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite,
            negative or 0, or any value of another type, such as an amount that is a `float`.
    """

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not self.amount:
            raise moves_nothing(self, "amount")


@attrs.frozen(kw_only=True, field_transformer=checked)
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


@attrs.frozen(kw_only=True, field_transformer=checked)
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

    review_flag: str


@attrs.frozen(kw_only=True, field_transformer=checked)
class RefundOrder(_Order):
    """One order to refund, in whole or in part (section 4, row 8).

    Attributes:
        transaction_id: The gateway's identifier of the payment.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: The original amount, in units of the currency, not in cents; `str` and `int` are
            converted.
        refund_amount: How much of it to give back; more than 0, and never more than `amount`.
        refund_reason: Free text, sent as it is.

    Raises:
        InvalidOrderError: For a wrong value: an empty identifier, an amount that is NaN, infinite
            or negative, any value of another type, such as an amount that is a `float`, or a
            `refund_amount` that is 0 or above `amount`.
    """

    refund_amount: Decimal = attrs.field(converter=to_amount)
    refund_reason: str = ""

    def __attrs_post_init__(self) -> None:
        if not self._is_plain():  # as in `Model`, without the price of `super`
            self._convert()
        if not self.refund_amount:
            raise moves_nothing(self, "refund_amount")
        if self.refund_amount > self.amount:
            raise InvalidOrderError(
                f"{describe(self)}.refund_amount: {self.refund_amount} is more than the order's "
                f"amount {self.amount}"
            )


@attrs.frozen(kw_only=True, field_transformer=checked)
class OrderRef(Model):
    """One order to look up: by its order number or by its transaction, never by both.

    Attributes:
        order_no: The merchant's order number.
        transaction_id: The gateway's identifier of the payment.

    Raises:
        InvalidOrderError: For a reference that is empty or no text, for both of them, or none.
    """

    order_no: Identifier | None = None
    transaction_id: Identifier | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
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


class OutcomeStatus(StrEnum):
    """Whether one order was done, and with it what to do next."""

    SUCCEEDED = "succeeded"
    """The gateway says it did it; for a look-up: here is the record. Do nothing."""

    DECLINED = "declined"
    """The gateway says it did not, and why. Show the reason."""

    ABSENT = "absent"
    """Look-ups only: the gateway answered without this order. It describes; it proves nothing."""

    UNKNOWN = "unknown"
    """It may have happened. Recover, never resend."""

    NOT_SENT = "not_sent"
    """Nothing was sent, or recovery proved that it was not done.

    Resend freely, but look first after an `AlikeRefundError`, or a payout's `DuplicateOrderError`.
    """


_STATUSES = tuple(OutcomeStatus)
_CODES = {status: code for code, status in enumerate(_STATUSES)}


def status_codes(statuses: Iterable[OutcomeStatus]) -> bytes:
    """Write statuses as one byte each."""
    return bytes([_CODES[status] for status in statuses])


def count_status(codes: bytes, status: OutcomeStatus) -> int:
    """Count one status in such bytes."""
    return codes.count(_CODES[status])


def count_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status in such bytes."""
    return {status: codes.count(code) for status, code in _CODES.items()}


def present_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status that is in such bytes."""
    return {_STATUSES[code]: codes.count(code) for code in set(codes)}


_OURS = "ga-"
ANY_MARKER = re.compile(rf"\[{_OURS}[0-9a-f]{{12}}-\d{{10}}\]")
"""What every marker looks like."""


def marker_prefix_of(digits: str) -> str:
    """Return what the markers of a batch begin with, from 12 hex digits that it alone has."""
    return f"{_OURS}{digits}"


def markers_of(marker_prefix: str | None, indices: "Iterable[int]") -> list[str]:
    """Return the marker of each order at these positions; none where none is sent."""
    return [] if marker_prefix is None else [whole_marker(marker_prefix, n) for n in indices]


def whole_marker(marker_prefix: str, index: int) -> str:
    """Return the marker of one order.

    All are equally long, so that a gateway that cuts reasons cuts all of them or none.

    Args:
        marker_prefix: What every marker of the batch begins with.
        index: The order's position in the input.
    """
    return f"[{marker_prefix}-{index:010}]"


def marked(reason: str, marker: str) -> str:
    """Put a marker before a reason: at its end it might be cut off."""
    return f"{marker} {reason}".rstrip()


def reference_of(record: "RefundRecord | None") -> str:
    """Return the gateway's reference of a refund; "" where it is missing or blank."""
    reference = record.refund_reference_id if record else None
    return (reference or "").strip()

"""Orders: the elements of a batch (sections 2.7 and 4 of the interface), and the outcome of each.

Also what identifies a refund: its reference, or our marker in `refund_reason`.
"""

import functools
import re
from collections.abc import Iterable
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import InvalidOrderError
from gateway_async.models.values import (
    CONVERTER,
    SensitiveText,
    as_amount,
    as_identifier,
    as_text,
    describe,
    identifier_field,
    text_field,
    to_amount,
    to_identifier,
    to_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.models.records import RefundRecord


_PLAIN = {
    to_identifier: "type(o.{0}) is str and o.{0} and o.{0}.isascii() and o.{0}.strip() is o.{0}",
    to_text: "type(o.{0}) is str and o.{0}.isascii()",
    to_amount: "type(o.{0}) is Decimal and o.{0}.is_finite() and not o.{0}.is_signed()",
}
"""By converter, when a value is right as it is, as most are."""


def _converted_at_once(
    _: type, fields: "list[attrs.Attribute[Any]]"
) -> "list[attrs.Attribute[Any]]":
    """Set the converters of an order aside: usual values are checked at once, in half the time."""
    return [
        field
        if field.converter is None
        else field.evolve(
            converter=None,
            metadata={**field.metadata, CONVERTER: field.converter.converter},  # type: ignore[attr-defined]  # an attrs.Converter
        )
        for field in fields
    ]


@functools.cache
def _plain_check(model: type) -> "Callable[[object], bool]":
    """Compile the check whether every field of an order is right as it is."""
    checks = [
        _PLAIN.get(field.metadata[CONVERTER], "False").format(field.name)
        for field in attrs.fields(model)
        if CONVERTER in field.metadata  # a field of a subclass has a converter of its own
    ]
    source = f"lambda o: {' and '.join(checks)}"
    check: Callable[[object], bool] = eval(source, {"Decimal": Decimal})  # noqa: S307  # from the table above
    return check


@attrs.frozen(kw_only=True, field_transformer=_converted_at_once)
class _Order:
    """What capture, cancel, review and refund orders share."""

    transaction_id: str = attrs.field(converter=as_identifier)
    order_no: str = attrs.field(converter=as_identifier)
    currency: str = attrs.field(converter=as_identifier)
    amount: Decimal = attrs.field(converter=as_amount)

    def __attrs_post_init__(self) -> None:
        model = type(self)
        if _plain_check(model)(self):  # type: ignore[arg-type]  # classes can be hashed
            return
        for field in attrs.fields(model):
            if convert := field.metadata.get(CONVERTER):
                value = convert(getattr(self, field.name), self, field)
                if isinstance(value, SensitiveText):  # an order is shown, and holds no secret
                    value = value.reveal()
                object.__setattr__(self, field.name, value)


@attrs.frozen(kw_only=True, field_transformer=_converted_at_once)
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


@attrs.frozen(kw_only=True, field_transformer=_converted_at_once)
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


@attrs.frozen(kw_only=True, field_transformer=_converted_at_once)
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


@attrs.frozen(kw_only=True, field_transformer=_converted_at_once)
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

    refund_amount: Decimal = attrs.field(converter=as_amount)
    refund_reason: str = text_field(default="")

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
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
    """Nothing was sent, or recovery proved that it was not done. Resend freely."""


_STATUSES = tuple(OutcomeStatus)
_CODES = {status: code for code, status in enumerate(_STATUSES)}


def status_codes(statuses: Iterable[OutcomeStatus]) -> bytes:
    """Write statuses as one byte each."""
    return bytes([_CODES[status] for status in statuses])


def statuses_of(codes: bytes) -> list[OutcomeStatus]:
    """Read such bytes."""
    return [_STATUSES[code] for code in codes]


def count_status(codes: bytes, status: OutcomeStatus) -> int:
    """Count one status in such bytes."""
    return codes.count(_CODES[status])


def count_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status in such bytes."""
    return {status: codes.count(code) for status, code in _CODES.items()}


def present_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status that is in such bytes."""
    return {_STATUSES[code]: codes.count(code) for code in set(codes)}


ANY_MARKER = re.compile(r"\[ga-[0-9a-f]{12}-\d{10}\]")
"""What every marker looks like."""


def whole_marker(marker: str, index: int) -> str:
    """Return the marker of one order.

    All are equally long, so that a gateway that cuts reasons cuts all of them or none.

    Args:
        marker: What every marker of the batch begins with.
        index: The order's position in the input.
    """
    return f"[{marker}-{index:010}]"


def marked(reason: str, marker: str) -> str:
    """Put a marker before a reason: at its end it might be cut off."""
    return f"{marker} {reason}".rstrip()


def reference_of(record: "RefundRecord") -> str:
    """Return the gateway's reference of a refund; "" where it is missing or blank."""
    return (record.refund_reference_id or "").strip()

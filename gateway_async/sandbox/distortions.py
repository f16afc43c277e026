"""Faults that change what a reply says: its records and their fields.

The effect of the request is done, or not, as if the fault were not there. Everything here is data
and pure functions.
"""

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.sandbox.entries import to_amount
from gateway_async.sandbox.messages import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.operations import Operation

_AMOUNT_FIELDS = ("amount", "refund_amount", "payment_amount", "source_amount")


def _one_or_more(_: object, attribute: "attrs.Attribute[Any]", value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"{attribute.name}: expected None or 1 and more, got {value}")


def _probability(_: object, attribute: "attrs.Attribute[Any]", value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{attribute.name}: expected 0 to 1, got {value}")


@attrs.frozen
class Fault:
    """What every fault has.

    Attributes:
        times: How many requests it strikes; None is every one.
        probability: How likely it strikes a request, 0 to 1.
    """

    times: int | None = attrs.field(default=None, kw_only=True, validator=_one_or_more)
    probability: float = attrs.field(default=1.0, kw_only=True, validator=_probability)


@attrs.frozen
class AnswerFault(Fault):
    """A fault that changes what the gateway says; the reply is signed after it."""

    def distort(self, answer: Answer) -> Answer:
        """Return what is said instead."""
        return answer


def _changed(
    answer: Answer, count: int | None, change: "Callable[[dict[str, Any]], dict[str, Any]]"
) -> Answer:
    """Change the first `count` records, or all of them."""
    records = answer.records
    touched = len(records) if count is None else count
    return answer.with_records([*map(change, records[:touched]), *records[touched:]])


# Which records a reply holds


@attrs.frozen
class MissingItems(AnswerFault):
    """The first records are left out.

    Attributes:
        count: How many.
    """

    count: int = 1

    def distort(self, answer: Answer) -> Answer:
        """Leave them out; a reply without a list stays."""
        if answer.operation.list_field is None:
            return answer
        return answer.with_records(answer.records[self.count :])


@attrs.frozen
class DoubledItems(AnswerFault):
    """The first records come twice, one behind the other.

    Attributes:
        count: How many.
        status: The status that the second of each pair has instead, if it is to contradict.
    """

    count: int = 1
    status: str | None = None

    def distort(self, answer: Answer) -> Answer:
        """Double them; a reply without a list stays."""
        if answer.operation.list_field is None:
            return answer
        doubled = [
            one
            for record in answer.records[: self.count]
            for one in (record, _with_status(answer.operation, record, self.status))
        ]
        return answer.with_records([*doubled, *answer.records[self.count :]])


def _with_status(
    operation: "Operation", record: dict[str, Any], status: str | None, text: str | None = None
) -> dict[str, Any]:
    changed = {operation.status_field or _status_field(record): status}
    changed.update((n, text) for n in ("error_message", "refund_message") if n in record)
    return {**record, **{name: value for name, value in changed.items() if value is not None}}


def _status_field(record: dict[str, Any]) -> str:
    names = ("refund_status", "order_status", "status")
    return next((name for name in names if name in record), names[-1])


@attrs.frozen
class ReorderedItems(AnswerFault):
    """The records come in the opposite order."""

    def distort(self, answer: Answer) -> Answer:
        """Turn them round."""
        return answer.with_records(answer.records[::-1])


@attrs.frozen
class ExtraItems(AnswerFault):
    """Records come that nobody asked for, before the others.

    Attributes:
        count: How many.
    """

    count: int = 1

    def distort(self, answer: Answer) -> Answer:
        """Put strangers in front; a reply without a list stays."""
        if answer.operation.list_field is None:
            return answer
        like = next(iter(answer.records), {"amount": "1.00", "currency": "EUR"})
        strangers = [
            {**like, "transaction_id": f"{9 * 10**21 + number}", "order_no": f"stranger-{number}"}
            for number in range(1, self.count + 1)
        ]
        return answer.with_records([*strangers, *answer.records])


@attrs.frozen
class EmptyLookUp(AnswerFault):
    """The list is empty, and the request is accepted all the same."""

    def distort(self, answer: Answer) -> Answer:
        """Empty the list; a reply without a list stays."""
        return answer.with_records([]) if answer.operation.list_field else answer


@attrs.frozen
class NullList(AnswerFault):
    """The list is null."""

    def distort(self, answer: Answer) -> Answer:
        """Set null; a reply without a list stays."""
        name = answer.operation.list_field
        return attrs.evolve(answer, fields={**answer.fields, name: None}) if name else answer


# What records say


@attrs.frozen
class UnknownItemStatus(AnswerFault):
    """The first records have a status that nobody knows.

    Attributes:
        value: The status.
        text: What `error_message` or `refund_message` says beside it.
        count: How many; None is all.
    """

    value: str = "7"
    text: str = ""
    count: int | None = attrs.field(default=None, kw_only=True)

    def distort(self, answer: Answer) -> Answer:
        """Set status and text."""
        return _changed(
            answer,
            self.count,
            lambda record: _with_status(answer.operation, record, self.value, self.text),
        )


@attrs.frozen
class ChangedAmount(AnswerFault):
    """An amount is one unit more than it was.

    Attributes:
        field: Which amount.
        count: In how many records; None is all.
    """

    field: str = "amount"
    count: int | None = 1

    def distort(self, answer: Answer) -> Answer:
        """Add one unit, where the record has the field."""

        def change(record: dict[str, Any]) -> dict[str, Any]:
            amount = to_amount(record.get(self.field))
            return record if amount is None else {**record, self.field: str(amount + Decimal(1))}

        return _changed(answer, self.count, change)


@attrs.frozen
class ChangedCurrency(AnswerFault):
    """A currency is another one than it was.

    Attributes:
        value: The other one.
        count: In how many records; None is all.
    """

    value: str = "XXX"
    count: int | None = 1

    def distort(self, answer: Answer) -> Answer:
        """Set it."""
        return _changed(answer, self.count, lambda record: {**record, "currency": self.value})


@attrs.frozen
class ChangedIdentity(AnswerFault):
    """The first two records have each other's order number; a single one has a stranger's."""

    def distort(self, answer: Answer) -> Answer:
        """Exchange them."""
        pair = answer.records[:2]
        numbers = [record.get("order_no", "") for record in reversed(pair)]
        if len(pair) == 1:
            numbers = ["stranger-1"]
        changed = [{**r, "order_no": n} for r, n in zip(pair, numbers, strict=True)]
        return answer.with_records([*changed, *answer.records[2:]])


@attrs.frozen
class NumbersForText(AnswerFault):
    """Amounts, identifiers and statuses come as JSON numbers where they can."""

    def distort(self, answer: Answer) -> Answer:
        """Turn digits into whole numbers and amounts into floating point ones."""
        return _changed(attrs.evolve(answer, fields=_numbers(answer.fields)), None, _numbers)


def _numbers(record: dict[str, Any]) -> dict[str, Any]:
    return {name: _number(name, value) for name, value in record.items()}


def _number(name: str, value: Any) -> Any:  # noqa: ANN401  # any JSON value
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
        return value
    return float(value) if name in _AMOUNT_FIELDS or "." in value else int(value)


@attrs.frozen
class UnknownFields(AnswerFault):
    """Envelope and records have a field each that the interface does not list."""

    def distort(self, answer: Answer) -> Answer:
        """Add them."""
        marked = attrs.evolve(answer, fields={**answer.fields, "sandbox_field": "envelope"})
        return _changed(marked, None, lambda record: {**record, "sandbox_field": "record"})


@attrs.frozen
class ReturnStatus(AnswerFault):
    """The overall result is another one.

    Attributes:
        code: `return_status`.
        message: `return_message`.
        listed: How many records the reply still holds; None is all.
        after_effect: Whether the effect is done; if not, the list is empty.
    """

    code: str = "0"
    message: str = "system error"
    listed: int | None = 0
    after_effect: bool = attrs.field(default=True, kw_only=True)

    def distort(self, answer: Answer) -> Answer:
        """Set both; a reply without a list stays."""
        if answer.operation.list_field is None:
            return answer
        overall = {"return_status": self.code, "return_message": self.message}
        kept = answer.with_records(answer.records[: self.listed])
        return attrs.evolve(kept, fields={**kept.fields, **overall})

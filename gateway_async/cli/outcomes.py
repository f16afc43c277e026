"""Outcomes into cells, and, for `recover`, cells into outcomes. Pure.

Law: the cells of an outcome hold all that recovery goes by, and no secret.
"""

import math
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import orjson

from gateway_async.batching.results import Outcome, Sending
from gateway_async.cli.cells import to_text
from gateway_async.cli.layouts import (
    EVIDENCE_COLUMNS,
    LAYOUTS,
    OUTCOME_COLUMNS,
    STATUS,
    fields_of,
)
from gateway_async.cli.orders import make_order
from gateway_async.errors import OutcomeUnknownError, RejectedError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.report.collecting import Told as Reported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.cli.layouts import Layout

    Cells = Mapping[str, object]

_MARKER_TAIL = len("-0123456789]")
_CHECKED_IN_FILE = ("order_no", "transaction_id", "amount", "currency", "refund_amount")
"""Fields of a record that the gateway repeats of the order, for records made of cells."""


class Told(Reported, Protocol):
    """What became of one order, be it of a batch or a payout; see `Outcome`."""

    @property
    def sending(self) -> Sending | None:
        """What was noted when it was sent."""
        ...


def outcome_cells(outcome: Told, layout: "Layout") -> tuple[object, ...]:
    """Return the result cells of one order; of several records of it, see `_cell`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    code, text = _error_cells(outcome.error)
    fields = (
        _cell([_value(record, field) for record in records]) for field in layout.results.values()
    )
    evidence = _evidence(outcome, layout) if layout.keeps_evidence else ()
    return (str(outcome.status), code, text, *fields, *evidence)


def cells_without_outcome(
    layout: "Layout", status: OutcomeStatus, reason: str
) -> tuple[object, ...]:
    """Return the result cells of an order that no outcome came for."""
    empty = (None,) * (len(layout.result_columns) - len(OUTCOME_COLUMNS))
    return (str(status), None, reason, *empty)


def _error_cells(error: Exception | None) -> tuple[str | None, str | None]:
    if isinstance(error, RejectedError):
        return error.code or None, error.text or str(error)
    return getattr(error, "code", "") or None, None if error is None else str(error)


def as_objects(cells: "Cells") -> dict[str, object]:
    """Make objects of cells whose columns have dots; one without any value is None."""
    made: dict[str, Any] = {}
    for column, value in cells.items():
        *parents, name = column.split(".")
        branch = made
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return {name: _without_empty(value) for name, value in made.items()}


def _without_empty(value: object) -> object:
    if not isinstance(value, dict):
        return value
    parts = {name: _without_empty(part) for name, part in value.items()}
    return parts if any(part is not None for part in parts.values()) else None


def _value(record: object, field: str) -> object:
    if "." not in field:
        return getattr(record, field, None)
    for name in field.split("."):
        record = getattr(record, name, None)
    return record


def _cell(values: "Sequence[object]") -> object:
    """Return the cell of a field: texts of several records are joined by `;`, lists are listed."""
    if len(values) == 1 and not isinstance(values[0], tuple):  # nearly always
        return _text(values[0]) or None
    if not any(isinstance(value, tuple) for value in values):
        return ";".join(map(_text, values)) or None
    lists = [[_plain(one) for one in value] for value in values if isinstance(value, tuple)]
    found = lists[0] if len(values) == 1 else lists
    return found if any(lists) else None


def _plain(value: object) -> object:
    """Return an element of a list as JSON has it."""
    kind: type[Any] = type(value)
    if attrs.has(kind):
        return as_objects({name: _plain(_value(value, name)) for name in fields_of(kind)})
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if value is None else _text(value)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else to_text(value)


def _evidence(outcome: Told, layout: "Layout") -> "Sequence[object]":
    sending = outcome.sending
    if sending is None:
        return (None,) * len(EVIDENCE_COLUMNS)
    references = sending.references.get(outcome.order.transaction_id)
    return (
        layout.operation,
        outcome.index,
        _time(sending.ended_at),
        "yes" if sending.alone else "no",
        sending.marker_of(outcome.index),
        None if references is None else sorted(references),
    )


def _time(seconds: float) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat() if seconds < math.inf else None


class EvidenceError(Exception):
    """A row cannot be recovered by what its columns say.

    Attributes:
        column: The column that is wrong.
        reason: What is wrong, and what would be right.
    """

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}")
        self.column = column
        self.reason = reason


def operation_of(cells: "Cells") -> str:
    """Return the command that a row was sent by; empty where it was not sent.

    Raises:
        EvidenceError: If there is no such command.
    """
    name = to_text(cells.get("sent_operation"))
    if name and (name not in LAYOUTS or LAYOUTS[name].looks_up):
        raise EvidenceError("sent_operation", f"{name[:40]!r} is no command that sends orders")
    return name


def status_of(cells: "Cells") -> OutcomeStatus:
    """Return the status of a row.

    Raises:
        EvidenceError: If it has none.
    """
    if STATUS not in cells:
        raise EvidenceError(
            STATUS, "missing; is this an outcome file, as capture, cancel or refund writes it?"
        )
    text = to_text(cells.get(STATUS))
    try:
        return OutcomeStatus(text)
    except ValueError:
        known = ", ".join(OutcomeStatus)
        raise EvidenceError(STATUS, f"expected one of {known}, got {text[:40]!r}") from None


def read_outcome(cells: "Cells", position: int, layout: "Layout") -> Outcome[Any, Any]:
    """Make the outcome that a row stands for, succeeded or unknown.

    Args:
        cells: The row.
        position: Its position in the file, which counts where no other is known.
        layout: The command that it was sent by.

    Raises:
        EvidenceError: If its columns are none that a command wrote.
        InvalidOrderError: If its columns make no order.
    """
    status = status_of(cells)
    order = make_order(layout, cells)
    sending = _sending(cells, order.transaction_id)
    is_done = status is OutcomeStatus.SUCCEEDED
    return Outcome(
        order=order,
        index=position if sending is None else _index(cells),
        status=status,
        error=None if is_done else _error(cells),
        items=(_item(cells, layout),) if is_done else (),
        record_class=OPERATIONS[layout.method].record_class,
        sending=sending,
    )


def _error(cells: "Cells") -> OutcomeUnknownError:
    code, text = to_text(cells.get("code")), to_text(cells.get("error"))
    return OutcomeUnknownError(text, code=code, text=text if code else "")


def _item(cells: "Cells", layout: "Layout") -> dict[str, Any]:
    names = (*_CHECKED_IN_FILE, *layout.results.values())
    return {name: text for name in names if (text := to_text(cells.get(name)))}


def _sending(cells: "Cells", transaction_id: str) -> Sending | None:
    if not to_text(cells.get("sent_operation")):
        return None
    told = to_text(cells.get("sent_ended_at"))
    try:
        ended_at = datetime.fromisoformat(told).timestamp() if told else math.inf
    except ValueError:
        raise EvidenceError(
            "sent_ended_at", "expected a time such as 2026-11-20T03:00:00+00:00"
        ) from None
    marker = to_text(cells.get("sent_marker"))
    references = _references(cells.get("sent_references_before"))
    return Sending(
        ended_at=ended_at,
        references={} if references is None else {transaction_id: references},
        marker=marker[1:-_MARKER_TAIL] if marker else None,
        alone=to_text(cells.get("sent_alone")) == "yes",
    )


def _index(cells: "Cells") -> int:
    try:
        return int(to_text(cells.get("sent_index")))
    except ValueError:
        raise EvidenceError("sent_index", "expected a whole number") from None


def _references(value: object) -> frozenset[str] | None:
    if isinstance(value, str) and value:
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = "no JSON"
    if value is None or value == "":
        return None
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return frozenset(value)
    raise EvidenceError("sent_references_before", 'expected JSON such as ["R1"] or []')

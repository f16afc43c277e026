"""Outcomes into cells. Pure."""

from datetime import date
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.cli.cells import to_text
from gateway_async.cli.layouts import OUTCOME_COLUMNS, fields_of
from gateway_async.errors import RejectedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.batching.results import Outcome
    from gateway_async.cli.layouts import Layout
    from gateway_async.models.orders import OutcomeStatus

    Cells = Mapping[str, object]


def outcome_cells(outcome: "Outcome[Any, Any]", layout: "Layout") -> tuple[object, ...]:
    """Return the result cells of one order; of several records of it, see `_cell`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    code, text = _error_cells(outcome.error)
    fields = (
        _cell([_value(record, field) for record in records]) for field in layout.results.values()
    )
    return (str(outcome.status), code, text, *fields)


def cells_without_outcome(
    layout: "Layout", status: "OutcomeStatus", reason: str
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

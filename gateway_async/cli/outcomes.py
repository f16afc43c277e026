"""Outcomes as rows of a file: the cells of each, and all of them in the order of the input."""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import orjson

from gateway_async.batching.results import Outcome
from gateway_async.cli.orders import (
    IN_JOB,
    OUTCOME_COLUMNS,
    Layout,
    OrderFile,
    fields_of,
    is_object,
)
from gateway_async.cli.run import Run, Stop, collect
from gateway_async.cli.tables import Format, OutFile, to_text
from gateway_async.errors import RejectedError
from gateway_async.journal.rows import Row
from gateway_async.models.orders import OutcomeStatus

_DECISION_NOTE = "decision_note"
_NOT_KNOWN = OutcomeStatus.UNKNOWN, "the run ended before the outcome was known"


def outcome_cells(outcome: Outcome[Any, Any], layout: Layout) -> list[object]:
    """Return the result cells of one order; of several records of it, see `_cell`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    error = outcome.error
    text = None if error is None else str(error)
    if isinstance(error, RejectedError):
        text = error.text or text
    fields = (
        _cell([_value(record, field) for record in records]) for field in layout.results.values()
    )
    return [str(outcome.status), getattr(error, "code", "") or None, text, *fields]


def _value(record: object, field: str) -> object:
    for name in field.split("."):
        record = getattr(record, name, None)
    return record


def _cell(values: Sequence[object]) -> object:
    """Return the cell of a field: texts of several records are joined by `;`, lists are listed."""
    lists = [[_plain(one) for one in value] for value in values if isinstance(value, tuple)]
    if not lists:
        return ";".join(map(to_text, values)) or None
    return (lists[0] if len(values) == 1 else lists) if any(lists) else None


def _plain(value: object) -> object:
    """Return an element of a list as JSON has it."""
    kind: type[Any] = type(value)
    if attrs.has(kind):
        return _as_objects({name: _plain(_value(value, name)) for name in fields_of(kind)})
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if value is None else to_text(value)


def _as_objects(cells: Mapping[str, object]) -> dict[str, object]:
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


def job_columns(layout: Layout) -> list[str]:
    """Return the columns of a file with the orders of a job."""
    return ["index", "state", *_given(layout), *layout.result_columns, _DECISION_NOTE, IN_JOB]


def job_cells(name: str, row: Row, layout: Layout) -> dict[str, Any]:
    """Return the cells of an order of a job: itself, and its outcome."""
    outcome = row.outcome()
    results = zip(layout.result_columns, outcome_cells(outcome, layout), strict=True)
    given = {column: _plain(_value(outcome.order, column)) for column in _given(layout)}
    own = {_DECISION_NOTE: row.known.note or None, IN_JOB: name}
    return {"index": row.index, "state": str(row.state), **given, **dict(results), **own}


def _given(layout: Layout) -> list[str]:
    """Return the columns of an order that hold values, and no objects."""
    return [column for column, one in layout.inputs.items() if not is_object(one)]


class Results:
    """The result of each row of a file, and of the whole.

    Outcomes come as they are finished, and are written in the order of the input. Until then a
    temporary database keeps their cells: in memory while they are few, on disk beyond that.

    Args:
        file: The file.
        run: Counts every outcome.

    Attributes:
        rest: The status of rows that no outcome came for, and why.
    """

    def __init__(self, file: OrderFile, run: Run) -> None:
        self.rest: tuple[OutcomeStatus, str] = _NOT_KNOWN
        self._file = file
        self._run = run
        self._kept = sqlite3.connect("")
        self._kept.execute("CREATE TABLE kept (row INTEGER PRIMARY KEY, cells TEXT)")

    def keep(self, outcome: Outcome[Any, Any]) -> None:
        """Keep one outcome, and count it, if none came for its row."""
        cells = orjson.dumps(outcome_cells(outcome, self._file.layout)).decode()
        statement = "INSERT OR IGNORE INTO kept VALUES (?, ?)"
        if self._kept.execute(statement, (outcome.index, cells)).rowcount:
            self._run.see(outcome)

    async def collect(self, batch: Any, stop: Stop) -> None:
        """Keep every outcome of a batch."""
        await collect(batch, self.keep, self._run, stop, self._file.totals.orders)
        self.rest = OutcomeStatus.NOT_SENT, "nothing was sent: the run ended before"

    @property
    def count(self) -> int:
        """How many rows an outcome came for."""
        (count,) = self._kept.execute("SELECT count(*) FROM kept").fetchone()
        return int(count)

    def write(self, out: OutFile) -> None:
        """Write every row with its result beside it."""
        layout, run, (status, reason) = self._file.layout, self._run, self.rest
        if lost := self._file.totals.orders - self.count:
            run.counts[str(status)] += lost
            if run.report is not None:
                run.report.miss(lost, status, reason)
        has_objects, columns = out.format is Format.JSONL, layout.result_columns
        heads = list(dict.fromkeys(name.partition(".")[0] for name in columns))
        owner = {} if run.job is None else {IN_JOB: run.job}
        passed = self._file.passed_through({*columns, *heads, IN_JOB})
        nothing = [str(status), None, reason, *[None] * (len(columns) - len(OUTCOME_COLUMNS))]
        kept = self._kept.execute("SELECT row, cells FROM kept ORDER BY row")
        at, cells = next(kept, (-1, ""))
        with out.writing([*passed, *(heads if has_objects else columns), *owner]) as write:
            for index, row in enumerate(self._file.rows()):
                if run.report is not None:
                    run.report.locate(index, row.line)
                found = nothing
                if index == at:
                    found = orjson.loads(cells)
                    at, cells = next(kept, (-1, ""))
                given = {name: row.cells[name] for name in passed if name in row.cells}
                results = dict(zip(columns, found, strict=True))
                write({**given, **(_as_objects(results) if has_objects else results), **owner})

    def close(self) -> None:
        """Drop what was kept."""
        with contextlib.suppress(sqlite3.Error):
            self._kept.close()

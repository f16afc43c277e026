"""Outcomes into rows of a file, each beside the row of its order.

Outcomes come as they are finished, and are written in the order of the input. Until then a
temporary database keeps their cells: in memory while they are few, on disk beyond that.
"""

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.cli.console import gauged
from gateway_async.cli.layouts import IN_JOB, OUTCOME_COLUMNS, fields_of
from gateway_async.cli.orders import to_text
from gateway_async.cli.run import drive
from gateway_async.cli.tables import Format
from gateway_async.errors import RejectedError
from gateway_async.models.orders import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.results import Outcome
    from gateway_async.cli.console import Console
    from gateway_async.cli.layouts import Layout
    from gateway_async.cli.orders import InputFile
    from gateway_async.cli.run import RunSummary, Stop
    from gateway_async.cli.tables import OutFile
    from gateway_async.journal.rows import Row

_NEVER_TAKEN = "nothing was sent: the run ended before"
_NOT_KNOWN = "the run ended before the outcome was known"


def outcome_cells(outcome: "Outcome[Any, Any]", layout: "Layout") -> list[object]:
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


def as_objects(cells: "Mapping[str, object]") -> dict[str, object]:
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
    for name in field.split("."):
        record = getattr(record, name, None)
    return record


def _cell(values: "Sequence[object]") -> object:
    """Return the cell of a field: texts of several records are joined by `;`, lists are listed."""
    lists = [[_plain(one) for one in value] for value in values if isinstance(value, tuple)]
    if not lists:
        return ";".join(map(to_text, values)) or None
    return (lists[0] if len(values) == 1 else lists) if any(lists) else None


def _plain(value: object) -> object:
    """Return an element of a list as JSON has it."""
    kind: type[Any] = type(value)
    if attrs.has(kind):
        return as_objects({name: _plain(_value(value, name)) for name in fields_of(kind)})
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if value is None else to_text(value)


class Results:
    """The result of each row of a file, and of the whole.

    Args:
        layout: The columns.
        summary: Counts every outcome.

    Attributes:
        rest: The status of rows that no outcome came for, and why.
    """

    def __init__(self, layout: "Layout", summary: "RunSummary") -> None:
        self.summary = summary
        self.rest: tuple[OutcomeStatus, str] = OutcomeStatus.UNKNOWN, _NOT_KNOWN
        self._layout = layout
        self._kept = sqlite3.connect("")
        self._kept.execute("CREATE TABLE kept (row INTEGER PRIMARY KEY, cells TEXT)")

    def keep(self, outcome: "Outcome[Any, Any]") -> None:
        """Keep one outcome, and count it, if none came for its row."""
        cells = orjson.dumps(outcome_cells(outcome, self._layout)).decode()
        made = self._kept.execute(
            "INSERT OR IGNORE INTO kept VALUES (?, ?)", (outcome.index, cells)
        )
        if made.rowcount:
            self.summary.see(outcome)

    @property
    def count(self) -> int:
        """How many rows an outcome came for."""
        (count,) = self._kept.execute("SELECT count(*) FROM kept").fetchone()
        return int(count)

    def _table(
        self, file: "InputFile", kind: Format
    ) -> "tuple[list[str], Iterator[Mapping[str, Any]]]":
        """Return columns and rows of the outcome file, in the order of the input."""
        rest, layout, summary, report = self.rest, self._layout, self.summary, self.summary.report
        has_objects = kind is Format.JSONL
        heads = dict.fromkeys(name.partition(".")[0] for name in layout.result_columns)
        owner = {} if summary.job is None else {IN_JOB: summary.job}
        passed = file.passed_through({*layout.result_columns, *heads, IN_JOB})
        if lost := file.totals.orders - self.count:
            summary.counts[str(rest[0])] += lost
            if report is not None:
                report.miss(lost, *rest)
        nothing = [str(rest[0]), None, rest[1]]
        nothing += [None] * (len(layout.result_columns) - len(OUTCOME_COLUMNS))

        def rows() -> "Iterator[Mapping[str, Any]]":
            kept = self._kept.execute("SELECT row, cells FROM kept ORDER BY row")
            at, cells = next(kept, (-1, ""))
            for index, row in enumerate(file.rows()):
                if report is not None:
                    report.locate(index, row.line)
                found = nothing
                if index == at:
                    found = orjson.loads(cells)
                    at, cells = next(kept, (-1, ""))
                given = {name: row.cells[name] for name in passed if name in row.cells}
                results = dict(zip(layout.result_columns, found, strict=True))
                yield {**given, **(as_objects(results) if has_objects else results), **owner}

        return [*passed, *(heads if has_objects else layout.result_columns), *owner], rows()

    def write(self, out: "OutFile", file: "InputFile") -> None:
        """Write every row with its result beside it; `summary.misplaced` says if that failed."""
        try:
            columns, rows = self._table(file, out.format)
            with out.writing(columns) as write:
                for row in rows:
                    write(row)
        except OSError as error:
            self.summary.misplaced = f"{out.name} takes no more: {error.strerror or error}"

    def close(self) -> None:
        """Drop what was kept."""
        with contextlib.suppress(sqlite3.Error):
            self._kept.close()


async def collect(
    batch: "Batch[Any, Any]", results: Results, console: "Console", stop: "Stop", total: int
) -> None:
    """Drive a batch to its end: the one place where each outcome passes, as it is finished."""
    with gauged(console, results.summary.command, total) as gauge:

        def see(outcome: "Outcome[Any, Any]") -> None:
            results.keep(outcome)
            gauge.advance(str(outcome.status))

        await drive(batch, see, results.summary, stop=stop, tick=gauge.tick)
    results.rest = OutcomeStatus.NOT_SENT, _NEVER_TAKEN  # such a row was never taken from the file


def job_columns(layout: "Layout") -> list[str]:
    """Return the columns of a file with the orders of a job."""
    return ["index", "state", *_given(layout), *layout.result_columns, IN_JOB]


def job_cells(name: str, row: "Row", layout: "Layout") -> dict[str, Any]:
    """Return the cells of an order of a job: itself, and its outcome."""
    outcome = row.outcome()
    results = zip(layout.result_columns, outcome_cells(outcome, layout), strict=True)
    given = {column: _plain(_value(outcome.order, column)) for column in _given(layout)}
    return {"index": row.index, "state": str(row.state), **given, **dict(results), IN_JOB: name}


def _given(layout: "Layout") -> list[str]:
    """Return the columns of an order that hold values, and no objects."""
    return [column for column, one in layout.inputs.items() if one.kind != "object"]

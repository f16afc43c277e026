"""Outcomes as rows of a file: of a job as its journal has them, of look-ups as they were found."""

import contextlib
import sqlite3
from array import array
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

import attrs
import orjson

from gateway_async.batching.results import Outcome
from gateway_async.cli.orders import IN_JOB, Layout, OrderFile, fields_of, is_object
from gateway_async.cli.run import Run
from gateway_async.cli.tables import OutFile, Row as FileRow, to_text
from gateway_async.errors import (
    GatewayError,
    JobConflictError,
    JobNotFoundError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal import JobState, Journal
from gateway_async.journal.rows import Row
from gateway_async.models.orders import OutcomeStatus

_PAGE = 1000
_REASONS_KEPT = 1000
_DECISION_NOTE = "decision_note"
_OF_JOBS = (_DECISION_NOTE, IN_JOB)
_NOT_SENT = NotSentError("nothing was sent: the run ended before")
_NOT_OURS = OutcomeUnknownError("another process has the job, and may send it: look at it again")


# Cells


def result_cells(outcome: Outcome[Any, Any], layout: Layout) -> dict[str, str]:
    """Return the result cells of one order; of several records of it, see `_cell`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    error = outcome.error
    text = "" if error is None else str(error)
    if isinstance(error, RejectedError):
        text = error.text or text
    found = {"status": str(outcome.status), "code": getattr(error, "code", ""), "error": text}
    for column, field in layout.results.items():
        found[column] = _cell([_value(record, field) for record in records])
    return found


def _value(record: object, field: str) -> object:
    for name in field.split("."):
        record = getattr(record, name, None)
    return record


def _cell(values: Sequence[object]) -> str:
    """Return the cell of a field: texts of several records are joined by `;`, lists are JSON."""
    lists = [_plain(value) for value in values if isinstance(value, tuple)]
    if not lists:
        return ";".join(map(to_text, values))
    return to_text(lists[0] if len(values) == 1 else lists) if any(lists) else ""


def _plain(value: object) -> Any:
    """Return a part of a record as JSON has it; an object without any value is None."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    kind: type[Any] = type(value)
    if not attrs.has(kind):
        return None if value is None else to_text(value)
    parts = {field.name: _plain(getattr(value, field.name)) for field in fields_of(kind)}
    return parts if any(part is not None for part in parts.values()) else None


# Jobs


class Reasons:
    """Why a run did not send orders, which the journal does not keep: two bytes an order.

    Args:
        total: How many orders the job has.
    """

    def __init__(self, total: int) -> None:
        self._numbers = array("H", bytes(2 * total))
        self._errors: list[GatewayError | None] = [None]
        self._known: dict[str, int] = {}

    def note(self, outcome: Outcome[Any, Any]) -> None:
        """Note why an order was not sent, as long as there are not too many reasons."""
        if outcome.status is OutcomeStatus.NOT_SENT and outcome.index < len(self._numbers):
            text = str(outcome.error)
            if text not in self._known and len(self._errors) <= _REASONS_KEPT:
                self._known[text] = len(self._errors)
                self._errors.append(outcome.error)
            self._numbers[outcome.index] = self._known.get(text, 0)

    def outcome_of(self, row: Row) -> Outcome[Any, Any]:
        """Return the outcome of an order; where it was not sent, with the reason of this run."""
        outcome = row.outcome()
        if row.state is not JobState.NEW or row.index >= len(self._numbers):
            return outcome
        error = self._errors[self._numbers[row.index]]
        return outcome if error is None else attrs.evolve(outcome, error=error)


async def rows_of(journal: Journal, name: str) -> AsyncIterator[Row]:
    """Read the orders of a job, in the order of the input."""
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        for row in rows:
            yield row
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)


async def _outcomes_of(
    journal: Journal, name: str, reasons: Reasons
) -> AsyncIterator[tuple[Row, Outcome[Any, Any]]]:
    """Read the orders of a job with their outcomes.

    While another process has the job, no order of it is called not sent.
    """
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        is_open = any(row.state is JobState.NEW for row in rows)
        may_be_sent = is_open and (await journal.status(name)).is_running
        for row in rows:
            is_another = may_be_sent and row.state is JobState.NEW
            outcome = reasons.outcome_of(row)
            yield row, _of_another(outcome) if is_another else outcome
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)


async def write_job(
    run: Run,
    journal: Journal,
    name: str,
    layout: Layout,
    out: OutFile,
    *,
    reasons: Reasons,
    states: Collection[str] = (),
) -> None:
    """Write and count the orders of a job with their outcomes, as the journal has them.

    Args:
        run: Counts them.
        journal: Has them.
        name: The name of the job.
        layout: Its columns.
        out: Where they are written.
        reasons: Why orders were not sent.
        states: Only orders in these states; of all, if there are none.
    """
    own = [column for column, field in layout.inputs.items() if not is_object(field)]
    columns = ("index", "state", *own, *layout.result_columns, *_OF_JOBS)
    with out.writing(columns) as write:
        async for row, outcome in _outcomes_of(journal, name, reasons):
            if not states or row.state.value in states:
                run.see(outcome, None, row.state)
                given = {column: _cell([_value(row.order, column)]) for column in own}
                given |= {"index": str(row.index), "state": str(row.state)}
                write({**given, **result_cells(outcome, layout), **_of_job(row, name)})


async def write_file(
    run: Run,
    journal: Journal,
    name: str,
    file: OrderFile,
    out: OutFile,
    *,
    reasons: Reasons,
    may_differ: bool,
) -> None:
    """Write and count the rows of a file with their outcomes, as the journal has them of its job.

    Where the run was stopped before the journal had all of them, none of the rest was sent.

    Raises:
        JobConflictError: If `may_differ`, and the job has other orders than the file.
    """
    layout, rows = file.layout, enumerate(file.table.rows())
    columns = (*layout.result_columns, *_OF_JOBS)
    passed = [column for column in file.table.header if column not in columns]
    with out.writing([*passed, *columns]) as write:
        is_ours = True
        with contextlib.suppress(JobNotFoundError):
            is_ours = not (await journal.status(name)).is_running
            async for row, outcome in _outcomes_of(journal, name, reasons):
                _, source = next(rows, (0, None))
                if source is None or (may_differ and file.order_of(source) != row.order):
                    raise JobConflictError(f"job {name!r} has other orders than the file", job=name)
                run.see(outcome, source.line, row.state)
                results = result_cells(outcome, layout)
                write({**source.cells, **results, **_of_job(row, name)})
        for index, source in rows:
            outcome = _not_sent(file, source, index)
            if not is_ours:
                outcome = _of_another(outcome)
            run.see(outcome, source.line, JobState.NEW)
            write({**source.cells, **result_cells(outcome, layout), IN_JOB: name})


def _of_another(outcome: Outcome[Any, Any]) -> Outcome[Any, Any]:
    """Return the outcome of an order that another process may be sending now."""
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=_NOT_OURS)


def _of_job(row: Row, name: str) -> dict[str, str]:
    return {_DECISION_NOTE: row.known.note, IN_JOB: name}


def _not_sent(file: OrderFile, row: FileRow, index: int) -> Outcome[Any, Any]:
    """Return the outcome of a row that the run did not come to."""
    order, status = file.order_of(row), OutcomeStatus.NOT_SENT
    return Outcome(order=order, index=index, status=status, error=_NOT_SENT)


# Look-ups


class Found:
    """What look-ups found: it comes as it is finished, and is written in the order of the file.

    Until then a temporary database keeps it: in memory while it is little, on disk beyond that.

    Args:
        file: The orders that are looked up.
        run: Counts every outcome.
    """

    def __init__(self, file: OrderFile, run: Run) -> None:
        self._file = file
        self._run = run
        self._kept = sqlite3.connect("")
        self._kept.execute("CREATE TABLE kept (row INTEGER PRIMARY KEY, cells BLOB)")

    def keep(self, outcome: Outcome[Any, Any]) -> None:
        """Keep and count one outcome."""
        self._run.see(outcome, self._file.lines[outcome.index])
        cells = orjson.dumps(result_cells(outcome, self._file.layout))
        self._kept.execute("INSERT INTO kept VALUES (?, ?)", (outcome.index, cells))

    async def write(self, out: OutFile) -> None:
        """Write every row with its outcome; those that the run did not come to were not sent."""
        file, columns = self._file, self._file.layout.result_columns
        passed = [name for name in file.table.header if name not in columns]
        kept = self._kept.execute("SELECT row, cells FROM kept ORDER BY row")
        at, cells = next(kept, (-1, b""))
        with out.writing([*passed, *columns]) as write:
            for index, row in enumerate(file.table.rows()):
                if index == at:
                    found = orjson.loads(cells)
                    at, cells = next(kept, (-1, b""))
                else:
                    outcome = _not_sent(file, row, index)
                    self._run.see(outcome, row.line)
                    found = result_cells(outcome, file.layout)
                write({**row.cells, **found})

    def close(self) -> None:
        """Drop what was kept."""
        with contextlib.suppress(sqlite3.Error):
            self._kept.close()

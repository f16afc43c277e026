"""Outcomes as rows of a file: of a job as its journal has them, of look-ups as they were found."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, TextIO

import attrs
import orjson

from gateway_async.batching.results import Outcome
from gateway_async.batching.table import RECORD, cell_of, cells_of
from gateway_async.cli.orders import DECISION_NOTE, IN_JOB, Layout, OrderFile
from gateway_async.cli.run import Run
from gateway_async.cli.tables import Row as FileRow, csv_writer, to_text
from gateway_async.errors import (
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
_NOT_SENT = NotSentError("nothing was sent: the run ended before")
_NOT_OURS = OutcomeUnknownError("another process has the job, and may send it: look at it again")


# Cells


def result_cells(outcome: Outcome[Any, Any], layout: Layout) -> dict[str, str]:
    """Return the result cells of one order; those of several records of it are joined by `;`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    error = outcome.error
    text = "" if error is None else str(error)
    if isinstance(error, RejectedError):
        text = error.text or text
    found = {"status": str(outcome.status), "code": getattr(error, "code", ""), "error": text}
    read = [{**cells_of(one), **cells_of(one, RECORD)} for one in records]
    for column in layout.results:
        found[column] = ";".join(to_text(one.get(column)) for one in read)
    return found


def _order_cell(order: object, column: str) -> object:
    """Return a field of an order; of what is nested in it, behind dots."""
    for name in column.split("."):
        order = getattr(order, name, None)
    return cell_of(order)


# What a run keeps


class Kept:
    """Bytes of orders by position: in memory while they are few, on disk beyond that."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("")
        self._database.execute("CREATE TABLE kept (row INTEGER PRIMARY KEY, cells BLOB)")

    def __setitem__(self, index: int, cells: bytes) -> None:
        self._database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (index, cells))

    def get(self, index: int) -> bytes | None:
        """Return what is kept of an order; None for nothing."""
        query = "SELECT cells FROM kept WHERE row = ?"
        found = self._database.execute(query, (index,)).fetchone()
        return None if found is None else found[0]

    def close(self) -> None:
        """Drop what was kept."""
        self._database.close()

    def note(self, outcome: Outcome[Any, Any]) -> None:
        """Keep why this run did not send an order, which a journal does not know."""
        if outcome.status is OutcomeStatus.NOT_SENT:
            self[outcome.index] = str(outcome.error).encode()


# Jobs


async def _pages_of(journal: Journal, name: str) -> AsyncIterator[Sequence[Row]]:
    """Read the orders of a job, in the order of the input, many at a time."""
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        yield rows
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)


async def rows_of(journal: Journal, name: str) -> AsyncIterator[Row]:
    """Read the orders of a job one by one."""
    async for rows in _pages_of(journal, name):
        for row in rows:
            yield row


async def write_job(
    run: Run,
    journal: Journal,
    layout: Layout,
    out: TextIO,
    *,
    reasons: Kept | None = None,
    states: Collection[str] = (),
) -> None:
    """Write and count the orders of a job with their outcomes, as the journal has them.

    Args:
        run: Counts them, and names the job.
        journal: Has them.
        layout: Its columns.
        out: Where they are written.
        reasons: Why orders were not sent.
        states: Only orders in these states; of all, if there are none.
    """
    columns = ("index", "state", *layout.inputs, *layout.result_columns, DECISION_NOTE, IN_JOB)
    write = csv_writer(out, columns)
    async for row, outcome in _outcomes(run, journal, reasons):
        if not states or row.state.value in states:
            run.report.see(outcome)
            run.states[row.state] += 1
            given = {column: _order_cell(row.order, column) for column in layout.inputs}
            given |= {"index": str(row.index), "state": str(row.state)}
            write({**given, **result_cells(outcome, layout), **_of_job(row, run)})


async def write_file(
    run: Run, journal: Journal, file: OrderFile, out: TextIO, *, reasons: Kept, may_differ: bool
) -> None:
    """Write and count the rows of a file with their outcomes, as the journal has them of its job.

    Where the run was stopped before the journal had all of them, none of the rest was sent.

    Raises:
        JobConflictError: If `may_differ`, and the job has other orders than the file.
    """
    layout, rows = file.layout, enumerate(file.table.rows())
    columns = (*layout.result_columns, DECISION_NOTE, IN_JOB)
    passed = [column for column in file.table.header if column not in columns]
    write = csv_writer(out, [*passed, *columns])
    async for row, outcome in _outcomes(run, journal, reasons):
        _, source = next(rows, (0, None))
        if source is None or (may_differ and file.order_of(source) != row.order):
            raise JobConflictError(
                f"job {run.job!r} has other orders than the file; nothing was sent", job=run.job
            )
        run.report.see(outcome, source.line)
        run.states[row.state] += 1
        write({**source.cells, **result_cells(outcome, layout), **_of_job(row, run)})
    is_another = await _is_running(journal, run)
    for index, source in rows:
        outcome = _not_sent(file, source, index, is_another=is_another)
        run.report.see(outcome, source.line)
        run.states[JobState.NEW] += 1
        write({**source.cells, **result_cells(outcome, layout), IN_JOB: run.job})


async def _outcomes(
    run: Run, journal: Journal, reasons: Kept | None
) -> AsyncIterator[tuple[Row, Outcome[Any, Any]]]:
    """Read the orders of a job with their outcomes; why this run did not send some is in `reasons`.

    While another process has the job, no order of it is called not sent.
    """
    with contextlib.suppress(JobNotFoundError):  # it was stopped before
        async for rows in _pages_of(journal, str(run.job)):
            is_open = any(row.state is JobState.NEW for row in rows)
            is_another = is_open and await _is_running(journal, run)
            for row in rows:
                outcome = row.outcome()
                if row.state is JobState.NEW and is_another:
                    outcome = _of_another(outcome)
                elif row.state is JobState.NEW and reasons and (why := reasons.get(row.index)):
                    outcome = attrs.evolve(outcome, error=NotSentError(why.decode()))
                yield row, outcome


async def _is_running(journal: Journal, run: Run) -> bool:
    try:
        return (await journal.status(str(run.job))).is_running
    except JobNotFoundError:
        return False


def _of_another(outcome: Outcome[Any, Any]) -> Outcome[Any, Any]:
    """Return the outcome of an order that another process may be sending now."""
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=_NOT_OURS)


def _not_sent(
    file: OrderFile, row: FileRow, index: int, *, is_another: bool = False
) -> Outcome[Any, Any]:
    """Return the outcome of a row that the run did not come to."""
    order, status = file.order_of(row), OutcomeStatus.NOT_SENT
    outcome = Outcome[Any, Any](order=order, index=index, status=status, error=_NOT_SENT)
    return _of_another(outcome) if is_another else outcome


def _of_job(row: Row, run: Run) -> dict[str, Any]:
    return {DECISION_NOTE: row.known.note, IN_JOB: run.job}


# Look-ups


async def write_found(run: Run, file: OrderFile, found: Kept, out: TextIO) -> None:
    """Write every row with what was found; those that the run did not come to were not sent.

    Args:
        run: Counts those, too.
        file: The orders that were looked up.
        found: The result cells of each that was, as JSON.
        out: Where they are written.
    """
    columns = file.layout.result_columns
    passed = [name for name in file.table.header if name not in columns]
    write = csv_writer(out, [*passed, *columns])
    for index, row in enumerate(file.table.rows()):
        if (cells := found.get(index)) is not None:
            write({**row.cells, **orjson.loads(cells)})
        else:
            outcome = _not_sent(file, row, index)
            run.report.see(outcome, row.line)
            write({**row.cells, **result_cells(outcome, file.layout)})

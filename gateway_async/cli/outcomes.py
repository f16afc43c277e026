"""Outcomes as rows of a file: of a job as its journal has them, of look-ups as they were found."""

import sqlite3
from collections.abc import AsyncIterator, Collection
from typing import Any, TextIO

import attrs

from gateway_async.batching.table import RECORD, cell_of, cells_of
from gateway_async.cli.orders import (
    DECISION_NOTE,
    IN_JOB,
    STATE,
    OrderFile,
    input_columns,
    result_columns,
)
from gateway_async.cli.run import Run
from gateway_async.cli.tables import csv_writer, to_text
from gateway_async.errors import NotSentError, OutcomeUnknownError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.rows import Row
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.report.report import reason_of

_NOT_OURS = OutcomeUnknownError("another process has the job, and may send it: look at it again")


def result_cells(outcome: Outcome[Any, Any], columns: Collection[str]) -> dict[str, str]:
    """Return the result cells of one order; those of several records of it are joined by `;`."""
    records = outcome.record if isinstance(outcome.record, tuple) else (outcome.record,)
    read = [{**cells_of(one), **cells_of(one, RECORD)} for one in records]
    found = {column: ";".join(to_text(one.get(column)) for one in read) for column in columns}
    said = {
        "status": str(outcome.status),
        "code": getattr(outcome.error, "code", ""),
        "error": reason_of(outcome.error),
    }
    return {**found, **said}


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


async def rows_of(journal: Journal, name: str) -> AsyncIterator[Row]:
    """Read the orders of a job, in the order of the input, many at a time."""
    async for rows in journal.pages(name):
        for row in rows:
            yield row


async def write_job(
    run: Run,
    journal: Journal,
    out: TextIO,
    *,
    file: OrderFile | None = None,
    reasons: Kept | None = None,
    states: Collection[str] = (),
) -> None:
    """Write and count the orders of a job with their outcomes, as the journal has them.

    While another process has the job, no order of it is called not sent.

    Args:
        run: Counts them, and names the job.
        journal: Has them.
        out: Where they are written.
        file: The file that the job is of, whose rows are written; None to write the orders.
        reasons: Why this run did not send orders.
        states: Only orders in these states; of all, if there are none.
    """
    job, operation = str(run.job), OPERATIONS[run.operation]
    results = (*result_columns(operation), STATE, DECISION_NOTE, IN_JOB)
    fields = [name for name, _ in input_columns(operation.order_class)]
    columns = ["index", *fields] if file is None else file.table.header
    write = csv_writer(out, [*(name for name in columns if name not in results), *results])
    sources = None if file is None else file.table.rows()
    is_another = (await journal.status(job)).is_running
    async for row in rows_of(journal, job):
        outcome, cells, line = row.outcome(), None, None
        if sources is not None:
            line, cells, _ = next(sources)
        if states and row.state.value not in states:
            continue
        if row.state is JobState.NEW and is_another:
            outcome = attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=_NOT_OURS)
        elif row.state is JobState.NEW and reasons and (why := reasons.get(row.index)):
            outcome = attrs.evolve(outcome, error=NotSentError(why.decode()))
        run.report.see(outcome, line)
        run.states[row.state] += 1
        of_job = {STATE: row.state, DECISION_NOTE: row.known.note, IN_JOB: job}
        write({**(cells or _cells_of(row, fields)), **result_cells(outcome, results), **of_job})


def _cells_of(row: Row, fields: Collection[str]) -> dict[str, Any]:
    """Return the cells of an order that no file has: its fields, those in its parts with dots."""
    found: dict[str, Any] = {"index": row.index}
    for column in fields:
        value = row.order
        for name in column.split("."):
            value = getattr(value, name, None)
        found[column] = cell_of(value)
    return found

"""Outcomes as rows of a file: of a job as its journal has them, of look-ups as they were found."""

import contextlib
import itertools
import sqlite3
from array import array
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, TextIO

import attrs
import orjson

from gateway_async.batching.table import RECORD, cell_of, cells_of
from gateway_async.cli.orders import (
    DECISION_NOTE,
    IN_JOB,
    INDEX,
    STATE,
    OrderFile,
    input_columns,
    result_columns,
)
from gateway_async.cli.run import Run
from gateway_async.cli.tables import csv_writer, to_text
from gateway_async.errors import JobNotFoundError, NotSentError, OutcomeUnknownError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.rows import JobOrder
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.report.report import reason_of

_NOT_OURS = OutcomeUnknownError(
    "the lease of the job still runs, so another process may send it: look at it again"
)


def result_cells(outcome: Outcome[Any, Any], columns: Collection[str]) -> dict[str, str]:
    """Return the result cells of one order; those of several records of it are joined by `;`."""
    record = outcome.record
    prefix = RECORD if any(name.startswith(RECORD) for name in columns) else ""
    read = [cells_of(one, prefix) for one in (record if isinstance(record, tuple) else (record,))]
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
        found = self._database.execute("SELECT cells FROM kept WHERE row = ?", (index,)).fetchone()
        return None if found is None else found[0]

    def __iter__(self) -> Iterator[bytes]:
        return (cells for (cells,) in self._database.execute("SELECT cells FROM kept ORDER BY row"))

    def close(self) -> None:
        """Drop what was kept."""
        self._database.close()

    def note(self, outcome: Outcome[Any, Any]) -> None:
        """Keep why this run did not send an order, which a journal does not know."""
        if outcome.status is OutcomeStatus.NOT_SENT:
            self[outcome.index] = str(outcome.error).encode()


def write_rows(
    kept: Kept, columns: Sequence[str], out: TextIO, file: OrderFile | None = None
) -> None:
    """Write the cells that are kept, of a file beside those of its rows."""
    passed = [] if file is None else [one for one in file.table.header if one not in columns]
    write = csv_writer(out, [*passed, *columns])
    beside = itertools.repeat({}) if file is None else (row.cells for row in file.table.rows())
    for cells, found in zip(beside, kept, strict=file is not None):
        write({**cells, **orjson.loads(found)})


async def orders_of(journal: Journal, name: str) -> AsyncIterator[JobOrder]:
    """Read the orders of a job, in the order of the input, many at a time."""
    async for page in journal.pages(name):
        for each in page:
            yield each


async def places_in(file: OrderFile, journal: Journal, name: str) -> Sequence[int]:
    """Return which row of a file each order of a job has; empty if it has others, or there is none.

    Orders that are alike in every field have their rows in sequence.
    """
    ours, theirs = file.hashes, array("q")
    with contextlib.suppress(JobNotFoundError):  # a submission that was refused left no job
        async for each in orders_of(journal, name):
            theirs.append(hash(each.order))
    if ours == theirs:
        return range(len(ours))
    if sorted(ours) != sorted(theirs):
        return ()
    by_hash = (sorted(range(len(one)), key=one.__getitem__) for one in (theirs, ours))
    return [place for _, place in sorted(zip(*by_hash, strict=True))]


async def write_job(
    run: Run,
    journal: Journal,
    out: TextIO,
    *,
    file: OrderFile | None = None,
    places: Sequence[int] = (),
    reasons: Kept | None = None,
) -> None:
    """Write and count the orders of a job with their outcomes, as the journal has them.

    While another process has the job, no order of it is called not sent.

    Args:
        run: Counts them, names the job, and takes in its status.
        journal: Has them.
        out: Where they are written.
        file: The file that the job is of, whose rows are written; None to write the orders.
        places: Which row of the file each order has.
        reasons: Why this run did not send orders.
    """
    job = str(run.job)
    run.status = status = await journal.status(job)
    run.operation = status.operation
    operation = OPERATIONS[status.operation]
    results = (INDEX, *result_columns(operation), STATE, DECISION_NOTE, IN_JOB)
    fields = [name for name, _ in input_columns(operation.order_class)] if file is None else []
    with contextlib.closing(Kept()) as kept:
        async for each in orders_of(journal, job):
            outcome, place, line = each.outcome(), each.index, None
            if each.state is OrderState.NEW and status.is_running:
                outcome = attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=_NOT_OURS)
            elif each.state is OrderState.NEW and reasons and (why := reasons.get(each.index)):
                outcome = attrs.evolve(outcome, error=NotSentError(why.decode()))
            if file is not None:
                place = places[each.index]
                line = file.lines[place]
            run.report.see(outcome, line)
            order = {name: to_text(_cell_at(each.order, name)) for name in fields}
            cells = {**order, **result_cells(outcome, results), INDEX: each.index, IN_JOB: job}
            cells |= {STATE: each.state, DECISION_NOTE: each.known.note}
            kept[place] = orjson.dumps(cells)
        write_rows(kept, [*fields, *results], out, file)


def _cell_at(order: object, path: str) -> object:
    """Return the cell of a field, or of one in a part, which is named with dots."""
    for name in path.split("."):
        order = getattr(order, name, None)
    return cell_of(order)

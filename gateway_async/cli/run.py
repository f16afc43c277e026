"""A run: a batch, or what is used like one, driven to its end whatever happens, and its summary.

What is known is never given up: it is written to the file of the run, and into its report.
"""

import asyncio
import contextlib
import functools
import itertools
import os
import signal
import sqlite3
from array import array
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import urlsplit

import attrs
import orjson

from gateway_async.batching.table import RECORD, cell_of, cells_of
from gateway_async.cli.console import Console, Exit, counted, listed, print_json, progress
from gateway_async.cli.files import (
    JOB_COLUMNS,
    STDIO,
    OrderFile,
    input_columns,
    out_file,
    result_columns,
    row_writer,
    to_text,
)
from gateway_async.cli.options import Files, Journaled
from gateway_async.cli.settings import Settings
from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, GatewayError, NotSentError, OutcomeUnknownError
from gateway_async.journal import JobStatus, Journal, OrderState
from gateway_async.journal.rows import JobOrder
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation.summary import Summary
from gateway_async.report import Head, Report, render
from gateway_async.report.report import reason_of
from gateway_async.signing import Credentials

_REASONS_SHOWN = 3
_NOT_OURS = OutcomeUnknownError(
    "the lease of the job still runs, so another process may send it: look at it again"
)

# Stopping

_SAID = (
    "stopping: waiting for what is in flight; press Ctrl-C again not to wait",
    "stopping at once: what is in flight is not waited for, and ends as unknown",
)


class Stop:
    """Takes Ctrl-C and SIGTERM from when it is made until the event loop ends.

    Inside `cancelling`, each cancels the task that is there: the first drains it, the second does
    not wait. Outside, it is only counted, so that what is known is written whatever happens.

    Attributes:
        count: How many came.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.count: int = 0
        self._task: asyncio.Task[Any] | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._count_one)

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let each signal cancel the running task; one that came before does so at once."""
        self._task = task = asyncio.current_task()
        self._cancel()
        try:
            yield
        finally:
            self._task = None
            while task is not None and task.cancelling():
                task.uncancel()  # it goes on: what is known is still to be written

    def _count_one(self) -> None:
        self.count += 1
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and self.count:
            self._console.say(_SAID[min(self.count, len(_SAID)) - 1])
            self._task.cancel()


# Outcomes as rows


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
    write = row_writer(out, [*passed, *columns])
    beside = itertools.repeat({}) if file is None else (row.cells for row in file.table.rows())
    for cells, found in zip(beside, kept, strict=file is not None):
        write({**cells, **orjson.loads(found)})


# A run


@attrs.define(kw_only=True)
class Run:
    """What a command does with orders, and what it came to.

    Attributes:
        command: The command.
        console: Where people read what happens.
        given: The options: where the results go, and what the next command needs.
        settings: Name gateway and journal; by default as the options and the environment say.
        source: The input; None where it is a journal.
        job: The name of the job, if it is one.
        again: Whether the same line, given again, may begin anew.
        operation: The operation of the orders.
        left: The result, with requests, retries and what is unexpected; None without any.
        status: How far the job has come, as the journal has it at the end.
        failure: What ended it early.
        misplaced: Why the outcomes are not where they were asked for; empty where they are.
        stop: Ends what is driven on a signal; there is one while the run is carried out.
    """

    command: str
    console: Console
    given: Files
    settings: Settings = attrs.Factory(lambda run: run.given.settings(), takes_self=True)
    source: Path | None = None
    job: str | None = None
    again: bool = False
    operation: str = attrs.Factory(lambda run: run.command.replace("-", "_"), takes_self=True)
    left: Any = None
    status: JobStatus | None = None
    failure: GatewayError | None = None
    misplaced: str = ""
    stop: Stop = attrs.field(init=False)

    @functools.cached_property
    def credentials(self) -> Credentials:
        """Who speaks, and how it signs; the secret is read once."""
        return self.settings.credentials(os.environ)

    def client(self) -> GatewayClient:
        """Make a client, whose exchanges are timed for the report."""
        return self.settings.client(self.credentials, telemetry=self.report.latencies)

    @functools.cached_property
    def report(self) -> Report:
        """Counts what the run comes to, for its summary and its page."""
        return Report(self.operation, job=self.job, dialect=self.settings.dialect)

    @property
    def books(self) -> Summary | None:
        """What a reconciliation came to; None for any other run."""
        return getattr(self.left, "summary", None)

    @property
    def states(self) -> Mapping[OrderState, int]:
        """How many orders of a job are in each state, as the journal has them at the end."""
        return Counter() if self.status is None else self.status.counts

    @property
    def exit_code(self) -> int:
        """0: all succeeded. 1: some declined, absent or different. 3: some unknown or misplaced."""
        books, counts = self.books, self.report.counts
        if self.failure is not None or self.misplaced:
            return Exit.UNSETTLED
        if books is not None:
            is_settled = not books.unanswered and books.exhausted
            return (Exit.DONE if books.ok else Exit.NOT_ALL_DONE) if is_settled else Exit.UNSETTLED
        if counts["unknown"] or counts["not_sent"]:
            return Exit.UNSETTLED
        return Exit.NOT_ALL_DONE if counts["declined"] or counts["absent"] else Exit.DONE

    def as_dict(self, head: Head) -> dict[str, Any]:
        """Return what `--json` prints."""
        found = attrs.asdict(head)
        found["next"] = [command for _, command in found.pop("next_lines")]
        found |= {"out": None if self.misplaced else head.out, "seconds": head.seconds}
        if self.books is not None:
            return found | attrs.asdict(self.books) | {"entries": self.books.entries}
        counts = self.report.counts
        return found | {
            "journal": None if self.job is None else self.settings.place,
            "counts": counts,
            "amounts": {kind: one.amounts for kind, one in self.report.totals.items()},
            "orders": counts.total(),
            "held": self.states[OrderState.HELD],
        }

    def check(self, *, needs_out: bool = True, needs_secret: bool = True) -> None:
        """Refuse what keeps the command from its end, before anything is sent.

        Args:
            needs_out: Whether there must be a file for the outcomes.
            needs_secret: Whether anything is signed.

        Raises:
            ConfigurationError: If a file is missing or has another use, or who speaks is not known.
        """
        if needs_secret:
            self.credentials  # noqa: B018  # they are read here
        files, journal = self.given, self.settings.journal_file
        if needs_out and (files.out is None or (files.json and files.out == STDIO)):
            other = "; not -, since --json has standard output for itself" * files.json
            raise ConfigurationError(
                f"--out: name the file for the outcomes, such as --out outcomes.csv{other}"
            )
        taken = {
            "the journal": journal,
            "the file of orders": self.source,
            "the file of settings": files.config,
        }
        for option, path in (("--out", files.out), ("--report", files.report)):
            for what, there in taken.items():
                if path and there and path != STDIO and path.resolve() == there.resolve():
                    raise ConfigurationError(f"{option}: {path} is {what}; name another file")
            taken[f"the file of {option}"] = path

    async def carry_out(self, work: Callable[[TextIO], Coroutine[Any, Any, None]]) -> int:
        """Do the work, say what it came to, and return the exit code.

        Args:
            work: Drives something, and writes its outcomes; a signal stops the driving alone.
        """
        files, started = self.given, datetime.now().astimezone()
        with out_file(files.report) if files.report else contextlib.nullcontext() as page:
            try:
                with out_file(files.out or STDIO) as out:
                    self.stop = Stop(self.console)
                    await work(out)
            except (OSError, GatewayError) as error:
                if self.left is None and self.status is None:  # nothing to report
                    raise
                self.misplaced = str(getattr(error, "strerror", None) or error)
            head = self._head(started)
            self._tell(head)
            if page is not None:
                page.write(render(self.report, head, self.books))
        if page is not None:
            self.console.note(f"report: {files.report}")
        return self.exit_code

    async def drive(self, streamed: Any, *, total: int, see: Callable[[Any], object]) -> None:
        """Hand over everything that finishes; after a stop or an error, what is known by then.

        Args:
            streamed: What is driven: a batch, or a reconciliation.
            total: How many orders or entries there are, for the progress that is shown.
            see: Sees everything that finishes, once each.

        Raises:
            ConfigurationError: If it was stopped before it began.
            GatewayError: If it could not begin; nothing was sent.
        """

        def look() -> tuple[int, Mapping[str, int]]:
            so_far = streamed.progress
            if isinstance(so_far, Summary):
                return so_far.entries, so_far.differences
            return so_far.done, so_far.counts

        with progress(self.console, self.command, total, look):
            try:
                with self.stop.cancelling(), contextlib.suppress(asyncio.CancelledError):
                    async with streamed:
                        async for one in streamed:
                            see(one)
            except GatewayError as error:
                self.failure = error
            left = None
            with contextlib.suppress(RuntimeError):  # it did not begin
                left = streamed.result
            if left is None or (self.job and streamed.progress.total is None):
                raise self.failure or ConfigurationError("stopped before anything was sent")
        self.left = left
        for one in left:
            see(one)

    def _tell(self, head: Head) -> None:
        """Say what it came to and what to do, on the console and as JSON."""
        console = self.console
        console.sum_up()
        books, report = self.books, self.report
        more = sum(count for count, *_ in report.reasons[_REASONS_SHOWN:])
        reasons = report.reasons[:_REASONS_SHOWN]
        strangers = 0 if books is not None else head.unexpected
        lines = [
            str(books) if books is not None else self._summary(head),
            *(f"{count:,} x {kind.replace('_', ' ')}: {reason}" for count, kind, reason in reasons),
            f"and {more:,} more, in the outcomes" * bool(more),
            f"records that belong to no order of the file: {strangers}" * bool(strangers),
            f"it ended early: {self.failure}" if self.failure is not None else "",
            f"the outcomes cannot be written: {self.misplaced}" if self.misplaced else "",
            *(f"{what}:\n  {command}" for what, command in self._advice()),
        ]
        for line in filter(None, lines):
            console.say(line)
        if self.given.json:
            print_json(self.as_dict(head))

    def _summary(self, head: Head) -> str:
        """Return what a run of orders came to, by status."""
        totals = self.report.totals
        orders = counted(sum(one.orders for one in totals.values()), "order")
        sent = "" if head.requests is None else f"; {counted(head.requests, 'request')} sent"
        again = f", {counted(head.retries, 'attempt')} repeated" if head.retries else ""
        found = ", ".join(filter(None, [orders, listed(totals)]))
        return f"{self.command}: {found}{sent}{again}; {head.seconds:.1f} s"

    def _advice(self) -> list[tuple[str, str]]:
        """Return what is left to do, and the command for each."""
        job, new, held = self.job or "", self.states[OrderState.NEW], self.states[OrderState.HELD]
        unknown = self.states[OrderState.UNKNOWN] + self.states[OrderState.INTENT]
        is_open = unknown or new or self.failure if job else self.exit_code == Exit.UNSETTLED
        line = self.given.line
        go_on = self.console.line
        if job and (self.again or self.source in (None, STDIO)):  # the same line may begin anew
            go_on = line("jobs", "resume", job, "--out", str(self.given.out), taken=Journaled)
        rest = "not all is done; go on with"
        if self.status is not None and self.status.is_sliced:  # `jobs resume` refuses it
            rest, go_on = "not all is done; workers run it, as this shows", line("watch", job)
        doubt = f"{held:,} held for your decision, {unknown:,} not known yet; see them with"
        show = line("jobs", "show", job)
        decide = line("jobs", "resolve", job, "OUTCOME", "INDEX", "--note", "WHY")
        write = line("jobs", "outcomes", job, "--out", "outcomes.csv")
        how = (
            "look into each, then decide on it by its index (--state held in its place: on all); "
            "OUTCOME is not_sent (the next run sends it, perhaps a second time), or declined or "
            "succeeded (it is never sent)"
        )
        advice = (
            (is_open, rest, go_on),
            (held or unknown, doubt, show),
            (held, how, decide),
            (job and self.misplaced, "the journal has the outcomes; write them with", write),
        )
        return [(what, command) for holds, what, command in advice if holds]

    def _head(self, started: datetime) -> Head:
        left: Any = self.books or self.left
        unexpected = getattr(left, "unexpected", 0)
        address = self.settings.address if self.status is None else self.status.gateway
        return Head(
            command=self.command,
            gateway=urlsplit(address).netloc or None,
            started_at=started,
            ended_at=datetime.now().astimezone(),
            source=None if self.source is None else str(self.source),
            out=None if self.given.out is None else str(self.given.out),
            job=self.job,
            next_lines=tuple(self._advice()),
            failure=None if self.failure is None else str(self.failure),
            requests=getattr(left, "requests", None),
            retries=getattr(left, "retries", None),
            unexpected=getattr(unexpected, "count", unexpected),
        )


# The outcomes of a job


async def orders_of(journal: Journal, name: str) -> AsyncIterator[JobOrder]:
    """Read the orders of a job, in the order of the input, many at a time."""
    async for page in journal.pages(name):
        for each in page:
            yield each


async def places_in(file: OrderFile, journal: Journal, name: str) -> Sequence[int]:
    """Return which row of a file each order of a job has; empty if it has others.

    Orders that are alike in every field have their rows in sequence.
    """
    ours, theirs = file.hashes, array("q")
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
    results = result_columns(operation)
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
            known = each.index, each.state, each.known.note, job
            in_job = dict(zip(JOB_COLUMNS, known, strict=True))
            kept[place] = orjson.dumps({**order, **result_cells(outcome, results), **in_job})
        write_rows(kept, [*fields, *results, *JOB_COLUMNS], out, file)


def _cell_at(order: object, path: str) -> object:
    """Return the cell of a field, or of one in a part, which is named with dots."""
    for name in path.split("."):
        order = getattr(order, name, None)
    return cell_of(order)

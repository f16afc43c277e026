"""A run: a batch, or what is used like one, driven to its end whatever happens, and its summary.

Every outcome is seen exactly once, by one function, and what is known is never given up: it is
written beside the rows of its file, in the journal, and in a report.
"""

import asyncio
import contextlib
import itertools
import shlex
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import attrs
import orjson

from gateway_async.batching.results import Outcome
from gateway_async.cli.console import Console, gauged, print_json, summary_table
from gateway_async.cli.orders import IN_JOB, OUTCOME_COLUMNS, Layout, OrderFile, fields_of
from gateway_async.cli.tables import STDIO, Format, OutFile, TableError, new_file, out_file, to_text
from gateway_async.errors import (
    AlikeRefundError,
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    NotDoneError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal.rows import Row
from gateway_async.models.orders import OutcomeStatus
from gateway_async.reconciliation.summary import Summary
from gateway_async.report import Head, Report, render
from gateway_async.report.report import BEGINNING
from gateway_async.telemetry import Telemetry

DONE, NOT_ALL_DONE, USAGE, UNSETTLED = 0, 1, 2, 3
"""The exit codes: all succeeded; some declined or absent; nothing was sent; some unknown."""

_REASONS_SHOWN = 3
_REASONS_KEPT = 1000
_OTHER_REASONS = "other reasons, which the outcomes have"
_SECONDS_BETWEEN_TICKS = 0.5
_EXIT_CODES = {"unknown": 3, "not_sent": 3, "declined": 1, "absent": 1}
_NOT_BEGUN = (InvalidOrderError, JobBusyError, JobConflictError, JobNotFoundError)
"""Errors that say that this run sent nothing."""
_NEVER_TAKEN = OutcomeStatus.NOT_SENT, "nothing was sent: the run ended before"
_NOT_KNOWN = OutcomeStatus.UNKNOWN, "the run ended before the outcome was known"


UNLISTED = (
    "{count:,} were answered with a status or text that your dialect does not list: ask the "
    "gateway what it means, and list it in config.toml under [dialect], such as "
    'declined_statuses = ["0"]. It counts for replies to come; only `gateway-async jobs resolve` '
    "decides on orders that are held already"
)
"""What to do about orders whose reply has no meaning yet."""


class RefusedError(Exception):
    """Nothing is sent, for a reason that is no error of the program's or the gateway's."""


def guarded(console: Console, work: Callable[[], int]) -> int:
    """Do the work of a command; where it cannot be begun, say why.

    Returns:
        The exit code.
    """
    try:
        with console.passing_on_logs():
            return work()
    except (TableError, GatewayError, RefusedError) as error:
        console.refuse(str(error))
    except KeyboardInterrupt:
        console.refuse("stopped")
        return UNSETTLED
    except OSError as error:  # such as a disk that is full, or `| head`
        console.refuse(f"it ended early: {error}")
        return UNSETTLED
    return USAGE


def confirm(console: Console, what: str, *, yes: bool) -> None:
    """Ask whether money may be sent.

    Args:
        console: Where to ask.
        what: What would be done, with its totals.
        yes: Whether that was answered by an option.

    Raises:
        RefusedError: If the answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not console.can_ask:
        raise RefusedError(
            f"{what}: there is no terminal to confirm it at; nothing was sent. Give --yes to go on "
            "without being asked"
        )
    try:
        if console.ask(f"{what}. Go on?"):
            return
    except KeyboardInterrupt:
        raise RefusedError("stopped before anything was sent") from None
    raise RefusedError("nothing was sent")


def check_json(out: Path | None, *, json: bool) -> None:
    """Refuse `--json` where rows would go to standard output, too.

    Raises:
        RefusedError: If they would.
    """
    if json and out in (None, STDIO):
        raise RefusedError("--json: the summary goes to standard output; name a file in --out")


def on_job(words: Iterable[str], options: Iterable[str]) -> str:
    """Write a command on a job, with the options that name its journal and its gateway."""
    return shlex.join(["gateway-async", "jobs", *words, *options])


def is_unlisted(error: GatewayError | None) -> bool:
    """Return whether an order was answered with what the dialect gives no meaning."""
    return isinstance(error, NotDoneError | OutcomeUnknownError) and bool(error.code)


# What it came to


@attrs.define(kw_only=True)
class RunSummary:
    """What a command did, for its last lines, `--json` and the report.

    Attributes:
        command: The command.
        base_url: The gateway's address; None where none was asked.
        source: The input; None where it is a journal.
        out: Where every single outcome is written; None where they are printed.
        format: The format of standard input and output.
        job: The name of the job, if it is one.
        journal: The file of its journal, or the database.
        report: Collects the report; None where none was asked for.
        books: What a reconciliation came to.
        counts: How many orders have each status.
        held: How many of those that are not sent wait for a decision: they were proved not to be
            done, or the gateway lists a refund like them.
        not_done: How many of those were proved not to be done.
        unlisted: How many have a reply with a status or text that the dialect does not list.
        reasons: How many orders did not succeed for each reason; the first thousand reasons.
        requests: Requests made, None where they were not counted.
        retries: How many of them were repeats.
        unexpected: Records that came back and belong to no order.
        seconds: How long it took.
        failure: What ended it early.
        misplaced: Why the outcomes are not where they were asked for; empty where they are.
        next_lines: The commands to give next.
    """

    command: str
    base_url: str | None = None
    source: Path | None = None
    out: Path | None = None
    format: Format = Format.CSV
    job: str | None = None
    journal: str | None = None
    report: Report | None = None
    books: Summary | None = None
    counts: Counter[str] = attrs.field(factory=Counter)
    held: int = 0
    not_done: int = 0
    unlisted: int = 0
    reasons: Counter[str] = attrs.field(factory=Counter)
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0
    seconds: float = 0.0
    failure: GatewayError | None = None
    misplaced: str = ""
    next_lines: list[str] = attrs.field(factory=list)

    def see(self, outcome: Outcome[Any, Any]) -> None:
        """Count one outcome, and pass it on to the report."""
        self.counts[str(outcome.status)] += 1
        self.held += isinstance(outcome.error, NotDoneError | AlikeRefundError)
        self.not_done += isinstance(outcome.error, NotDoneError)
        self.unlisted += is_unlisted(outcome.error)
        self.note_reason(outcome.error)
        if self.report is not None:
            self.report.see(outcome)

    @property
    def latencies(self) -> Telemetry | None:
        """Gets the times of requests for the report; None where none was asked for."""
        return None if self.report is None else self.report.latencies

    def note_reason(self, error: GatewayError | None) -> None:
        """Note why something did not succeed."""
        text = "" if error is None else str(error)
        if text and text not in self.reasons and len(self.reasons) >= _REASONS_KEPT:
            text = _OTHER_REASONS
        if text:
            self.reasons[text] += 1

    @contextlib.contextmanager
    def surviving(self) -> Iterator[None]:
        """Let an error end a run that has begun, and raise only one of a run that has not."""
        try:
            yield
        except GatewayError as error:
            if not self.has_begun:
                raise
            self.failure = error

    @property
    def has_begun(self) -> bool:
        """Whether there is anything to report."""
        return self.books is not None or bool(self.counts) or self.seconds > 0

    @property
    def exit_code(self) -> int:
        """0: all succeeded. 1: some declined, absent or different. 3: some unknown or misplaced."""
        books = self.books
        if self.failure is not None or self.misplaced:
            return UNSETTLED
        if books is not None:
            is_settled = not books.unanswered and books.exhausted
            return (DONE if books.ok else NOT_ALL_DONE) if is_settled else UNSETTLED
        statuses = (status for status, count in self.counts.items() if count)
        return max((_EXIT_CODES.get(status, 0) for status in statuses), default=DONE)

    def as_dict(self) -> dict[str, Any]:
        """Return what `--json` prints."""
        hidden = attrs.filters.exclude(
            *(
                "base_url",
                "format",
                "report",
                "books",
                "misplaced",
                "next_lines",
                "not_done",
                "unlisted",
            )
        )
        found = attrs.asdict(self, recurse=False, filter=hidden) | {
            "orders": self.counts.total(),
            "reasons": dict(self.reasons.most_common(_REASONS_SHOWN)),
            "out": None if self.misplaced else self.out,
            "next": self.next_lines,
        }
        if self.books is None:
            return found
        books = attrs.asdict(self.books) | {"orders": self.books.entries}
        books["differences"] = {kind: n for kind, n in self.books.differences.items() if n}
        books["counts"] = {n: books.pop(n) for n in ("matched", "differing", "unanswered")}
        return found | books

    def tell(self, console: Console) -> None:
        """Say what it came to."""
        if self.books is None:
            row = (self.command, self.counts, self.requests, self.retries, self.seconds)
            console.show("summary", summary_table([row]), **self.as_dict())
        shown = self.reasons.most_common(_REASONS_SHOWN)
        for reason, count in shown:
            console.tell("reason", f"{count} x {reason}", count=count, reason=reason)
        if more := self.reasons.total() - sum(count for _, count in shown):
            console.tell("reason", f"and {more:,} for other reasons, in the outcomes", count=more)
        if self.unexpected:
            text = f"records that belong to no order of the file: {self.unexpected}"
            console.tell("unexpected", text, count=self.unexpected)
        if self.failure is not None:
            console.tell("failure", f"it ended early: {self.failure}")

    def advise(self, console: Console, options: Iterable[str]) -> None:
        """Say what to do about orders that are unknown, or were not sent.

        Args:
            console: Where to say it.
            options: Those that name this journal and this gateway.
        """

        def line(what: str, *words: str) -> None:
            command = on_job(words, options) if words else "the same command"
            console.tell("next", f"{what}:\n  {command}", command=command)
            self.next_lines.append(command)

        unknown, left = self.counts["unknown"], self.counts["not_sent"] - self.held
        if self.job is None:
            if unknown or left:
                what = f"{unknown + left} were not answered: give the command again"
                console.tell("next", what, count=unknown + left)
                self.next_lines.append(what)
            return
        if unknown or left > 0 or self.failure is not None:
            words = ("resume", self.job, "--out", str(self.out)) if self.source == STDIO else ()
            kind = ("--format", self.format) if words and self.out == STDIO else ()
            line(f"{unknown} unknown and {left} not sent; go on with", *words, *kind)
        if self.held:
            what = (
                f"{self.held} are held: they wait for your decision (`gateway-async jobs resolve`)"
            )
            if self.not_done:
                what += (
                    f"; the {self.not_done} that were proved not to be done also go out by this "
                    "command with `resend_absent = true` under [recovery]"
                )
            console.tell("held", what, count=self.held)
        if self.unlisted:
            console.tell("unlisted", UNLISTED.format(count=self.unlisted), count=self.unlisted)
        if unknown or self.held:
            line("what waits for a decision is listed by", "show", self.job)
        if self.misplaced:
            words = ("outcomes", self.job, "--out", "outcomes.csv")
            line("the journal has the outcomes; write them with", *words)


# The report


@contextlib.contextmanager
def reporting(
    path: Path | None, summary: RunSummary, console: Console, journal: Path | None = None
) -> Iterator[None]:
    """Begin a report; it is written when the block ends, however it ends.

    It is made of what is recorded elsewhere: if it cannot be written, nothing else changes.

    Args:
        path: The file; None for no report.
        summary: What it is about.
        console: Where it is said if it cannot be written.
        journal: The file of the journal, if it is one.

    Raises:
        ConfigurationError: If the file cannot be written; nothing was sent.
    """
    if path is None:
        yield
        return
    others = {one.resolve() for one in (summary.source, summary.out, journal) if one is not None}
    if path == STDIO or path.resolve() in others:
        raise ConfigurationError(
            "--report: name a file of its own for the page, such as --report night.html"
        )
    if path.exists() and not _may_be_replaced(path):
        raise ConfigurationError(
            f"--report: {path} is there already and is no report, so it is not written over; name "
            "another file, such as --report night.html"
        )
    started = datetime.now().astimezone()
    report = Report(summary.command.replace("-", "_"), job=summary.job)
    with new_file(path, console.warn, option="--report: ", replaces=_may_be_replaced) as file:
        summary.report = report
        try:
            yield
        finally:
            if summary.has_begun:
                try:
                    file.end(render(report, _head(summary, started), summary.books))
                except OSError as error:
                    reason = error.strerror or error
                    console.warn(f"the report could not be written to {path}: {reason}")
    if not file.problem:
        console.tell("report", f"report: {path}", path=str(path))


def _may_be_replaced(path: Path) -> bool:
    """Return whether a file is empty, or a report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(BEGINNING.encode())) in {b"", BEGINNING.encode()}


def _head(summary: RunSummary, started: datetime) -> Head:
    books = summary.books

    def shown(path: Path | None, stdio: str) -> str | None:
        return None if path is None else stdio if path == STDIO else str(path)

    return Head(
        command=summary.command,
        gateway=None if summary.base_url is None else urlsplit(summary.base_url).netloc,
        started_at=started,
        ended_at=datetime.now().astimezone(),
        source=shown(summary.source, "standard input"),
        out=shown(summary.out, "standard output"),
        job=summary.job,
        next_lines=tuple(summary.next_lines),
        failure=None if summary.failure is None else str(summary.failure),
        requests=summary.requests if books is None else books.requests,
        retries=summary.retries,
        unexpected=summary.unexpected if books is None else books.unexpected,
    )


# Outcomes as rows


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
    return ["index", "state", *_given(layout), *layout.result_columns, IN_JOB]


def job_cells(name: str, row: Row, layout: Layout) -> dict[str, Any]:
    """Return the cells of an order of a job: itself, and its outcome."""
    outcome = row.outcome()
    results = zip(layout.result_columns, outcome_cells(outcome, layout), strict=True)
    given = {column: _plain(_value(outcome.order, column)) for column in _given(layout)}
    return {"index": row.index, "state": str(row.state), **given, **dict(results), IN_JOB: name}


def _given(layout: Layout) -> list[str]:
    """Return the columns of an order that hold values, and no objects."""
    return [column for column, one in layout.inputs.items() if one.kind != "object"]


class Results:
    """The result of each row of a file, and of the whole.

    Outcomes come as they are finished, and are written in the order of the input. Until then a
    temporary database keeps their cells: in memory while they are few, on disk beyond that.

    Args:
        layout: The columns.
        summary: Counts every outcome.

    Attributes:
        rest: The status of rows that no outcome came for, and why.
    """

    def __init__(self, layout: Layout, summary: RunSummary) -> None:
        self.summary = summary
        self.rest: tuple[OutcomeStatus, str] = _NOT_KNOWN
        self._layout = layout
        self._kept = sqlite3.connect("")
        self._kept.execute("CREATE TABLE kept (row INTEGER PRIMARY KEY, cells TEXT)")

    def keep(self, outcome: Outcome[Any, Any]) -> None:
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

    def write(self, out: OutFile, file: OrderFile) -> None:
        """Write every row with its result beside it."""
        layout, summary = self._layout, self.summary
        report, (status, reason) = summary.report, self.rest
        if lost := file.totals.orders - self.count:
            summary.counts[str(status)] += lost
            if report is not None:
                report.miss(lost, status, reason)
        has_objects, columns = out.format is Format.JSONL, layout.result_columns
        heads = list(dict.fromkeys(name.partition(".")[0] for name in columns))
        owner = {} if summary.job is None else {IN_JOB: summary.job}
        passed = file.passed_through({*columns, *heads, IN_JOB})
        nothing = [str(status), None, reason, *[None] * (len(columns) - len(OUTCOME_COLUMNS))]
        kept = self._kept.execute("SELECT row, cells FROM kept ORDER BY row")
        at, cells = next(kept, (-1, ""))
        with out.writing([*passed, *(heads if has_objects else columns), *owner]) as write:
            for index, row in enumerate(file.rows()):
                if report is not None:
                    report.locate(index, row.line)
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


# Stopping


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANG_UP = getattr(signal, "SIGHUP", None)
"""Comes when a terminal is closed; not where there are none."""
_SAID = (
    "stopping: waiting for what is in flight; press Ctrl-C again not to wait",
    "stopping at once: what is in flight is not waited for, and ends as unknown",
)
_TURNS_APART = 20
"""Turns of the loop in which a task notices its cancellation; sooner, two would count as one."""


class Stop:
    """Takes Ctrl-C, SIGTERM and SIGHUP while it is entered.

    Inside `cancelling`, each cancels the task that is there: the first drains it, the second does
    not wait. Outside, it is only counted, so that what is known is written whatever happens.

    Attributes:
        count: How many came.
    """

    def __init__(self, console: Console) -> None:
        self.count: int = 0
        self._console = console
        self._before: dict[signal.Signals, Any] = {}
        self._target: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    def __enter__(self) -> Self:
        heeded = list(_SIGNALS)
        if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:  # of nohup
            heeded.append(_HANG_UP)
        self._before = {number: signal.signal(number, self._come) for number in heeded}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let each signal cancel the running task; those that came before do so at once."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("what is cancelled must be a task")
        came = asyncio.Semaphore(self.count)
        self._target = asyncio.get_running_loop(), came
        canceller = asyncio.create_task(self._cancel_each_time(task, came))
        try:
            yield
        finally:
            self._target = None
            canceller.cancel()
            while task.cancelling():
                task.uncancel()  # it goes on: what is known is still to be written

    def _come(self, number: int, frame: object) -> None:
        del frame
        if number == _HANG_UP and self.count:  # a shell passes on what the terminal sent
            return
        self.count += 1
        if self._target is not None:  # nothing is printed here: a line may be half written
            loop, came = self._target
            loop.call_soon_threadsafe(came.release)

    async def _cancel_each_time(self, task: asyncio.Task[Any], came: asyncio.Semaphore) -> None:
        for number in itertools.count(1):
            await came.acquire()
            task.cancel()
            said = _SAID[min(number, len(_SAID)) - 1]
            self._console.tell("stopping", said, signals=self.count)
            for _ in range(_TURNS_APART):
                await asyncio.sleep(0)


# Driving


async def drive(
    streamed: Any,
    see: Callable[[Any], None],
    summary: RunSummary,
    *,
    stop: Stop,
    tick: Callable[[], None],
) -> None:
    """Hand over everything that finishes; after a stop or an error, what is known by then.

    Args:
        streamed: What is driven.
        see: Sees everything that finishes, once each.
        summary: Takes in what ended it early, and what was counted.
        stop: Knows when to stop.
        tick: Called from time to time, also where nothing finishes.

    Raises:
        ConfigurationError: If it was stopped before it began.
        GatewayError: If it could not begin; nothing was sent.
    """
    left: Iterable[Any] | None = None
    has_begun, started = True, time.monotonic()
    ticker = asyncio.create_task(_ticking(tick))
    try:
        with stop.cancelling(), contextlib.suppress(asyncio.CancelledError):
            async with streamed:
                async for one in streamed:
                    see(one)
    except _NOT_BEGUN:
        has_begun = False
        raise
    except GatewayError as error:
        summary.failure = error
    finally:  # also where a defect ended it: what is known may be the only record
        ticker.cancel()
        with contextlib.suppress(RuntimeError):  # it did not begin
            left = streamed.result if has_begun else None
        if left is not None:
            summary.seconds = time.monotonic() - started
            summary.requests = getattr(left, "requests", None)
            summary.retries = getattr(left, "retries", None)
            summary.unexpected = getattr(getattr(left, "unexpected", None), "count", 0)
        for one in left or ():
            see(one)
    if left is None:
        raise summary.failure or ConfigurationError("stopped before anything was sent")


async def _ticking(tick: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
        tick()


async def collect(
    batch: Any,
    results: Results,
    console: Console,
    stop: Stop,
    total: int,
) -> None:
    """Drive a batch to its end: the one place where each outcome passes, as it is finished."""
    with gauged(console, results.summary.command, total) as gauge:

        def see(outcome: Outcome[Any, Any]) -> None:
            results.keep(outcome)
            gauge.advance(str(outcome.status))

        await drive(batch, see, results.summary, stop=stop, tick=gauge.tick)
    results.rest = _NEVER_TAKEN  # such a row was never taken from the file


def carry_out(
    summary: RunSummary,
    console: Console,
    work: Callable[[Stop], Coroutine[Any, Any, None]],
    write: Callable[[OutFile], None],
    *,
    ask: Callable[[], None] = lambda: None,
    report: Path | None,
    journal: Path | None = None,
    json: bool,
    options: tuple[str, ...] = (),
) -> int:
    """Do the work, and write its outcomes, whatever ends it; a signal does not end the writing.

    Args:
        summary: Names the file, and gets what it came to.
        console: Where people read what happens.
        work: What is done; it is stopped by signals.
        write: Writes the outcomes, once there are any.
        ask: Asks a person, once the file is there.
        report: The file for a report, if there is to be one.
        journal: The file of the journal, if it is one.
        json: Whether the summary is printed as JSON.
        options: Those that name the journal and the gateway, for the next command.

    Returns:
        The exit code.
    """
    check_json(summary.out, json=json)
    with reporting(report, summary, console, journal), contextlib.ExitStack() as stopping:
        with out_file(summary.out or STDIO, summary.format, console.warn) as out:
            ask()
            stop = stopping.enter_context(Stop(console))
            try:
                with summary.surviving():
                    asyncio.run(work(stop))
            finally:
                if summary.has_begun:
                    try:
                        write(out)
                    except (OSError, GatewayError) as error:
                        reason = getattr(error, "strerror", None) or error
                        summary.misplaced = f"{out.name} cannot be written: {reason}"
                        console.warn(summary.misplaced)
        summary.misplaced = summary.misplaced or out.problem
        summary.tell(console)
        summary.advise(console, options)
    if json:
        print_json(summary.as_dict())
    return summary.exit_code

"""A run: a batch, or what is used like one, driven to its end whatever happens, and its summary.

What is known is never given up: it is written to the file of the run, and into its report.
"""

import asyncio
import contextlib
import itertools
import shlex
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import attrs

from gateway_async.batching.results import Outcome
from gateway_async.cli.console import Console, gauged, plain_table, print_json, summary_table
from gateway_async.cli.options import Files
from gateway_async.cli.settings import Settings
from gateway_async.cli.tables import STDIO, OutFile, check_is_csv, out_file
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
)
from gateway_async.journal import JobState
from gateway_async.operations import OPERATIONS
from gateway_async.reconciliation.summary import Summary
from gateway_async.report import Head, Report, render
from gateway_async.telemetry import Telemetry

DONE, NOT_ALL_DONE, UNSETTLED = 0, 1, 3
"""Exit codes: all succeeded; some declined or absent; some unknown. 2 is for a wrong command."""

_REASONS_SHOWN = 3
_REASONS_KEPT = 1000
_OTHER_REASONS = "other reasons, which the outcomes have"
_SECONDS_BETWEEN_TICKS = 0.5
_EXIT_CODES = {"unknown": 3, "not_sent": 3, "declined": 1, "absent": 1}
_NOT_BEGUN = (InvalidOrderError, JobBusyError, JobConflictError, JobNotFoundError)
"""Errors that say that this run sent nothing."""
_FACTS = (
    *("command", "source", "job", "journal", "counts", "requests", "retries", "unexpected"),
    *("seconds", "failure"),
)
"""What `--json` prints of a run as it is."""


def confirm(console: Console, what: str, *, yes: bool) -> None:
    """Ask whether money may be sent.

    Args:
        console: Where to ask.
        what: What would be done, with its totals.
        yes: Whether that was answered by an option.

    Raises:
        ConfigurationError: If the answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not console.can_ask:
        raise ConfigurationError(
            f"{what}: there is no terminal to confirm it at; nothing was sent. Give --yes to go on "
            "without being asked"
        )
    try:
        if console.ask(f"{what}. Go on?"):
            return
    except KeyboardInterrupt:
        raise ConfigurationError("stopped before anything was sent") from None
    raise ConfigurationError("nothing was sent")


def on_job(words: Iterable[str], options: Iterable[str]) -> str:
    """Write a command on a job, with the options that name its journal and its gateway."""
    return shlex.join(["gateway-async", "jobs", *words, *options])


@attrs.define(kw_only=True)
class Run:
    """What a command does with orders, and what it came to.

    Attributes:
        command: The command.
        console: Where people read what happens.
        files: Where the results go.
        settings: Name gateway and journal.
        options: Those that name journal and gateway, for the next command.
        source: The input; None where it is a journal.
        again: Whether the same line, once the job is done, would send its orders once more.
        job: The name of the job, if it is one.
        operation: The operation of the orders.
        report: Collects the report; None where none was asked for.
        books: What a reconciliation came to.
        has_begun: Whether there is anything to write and to report.
        counts: How many orders have each status.
        states: How many orders of a job are in each state, as the journal has them at the end.
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
    console: Console = attrs.field(factory=Console)
    files: Files = attrs.field(factory=Files)
    settings: Settings = attrs.field(factory=Settings)
    options: tuple[str, ...] = ()
    source: Path | None = None
    again: bool = False
    job: str | None = None
    operation: str = attrs.Factory(lambda run: run.command.replace("-", "_"), takes_self=True)
    report: Report | None = None
    books: Summary | None = None
    has_begun: bool = False
    counts: Counter[str] = attrs.field(factory=Counter)
    states: Counter[JobState] = attrs.field(factory=Counter)
    reasons: Counter[str] = attrs.field(factory=Counter)
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0
    seconds: float = 0.0
    failure: GatewayError | None = None
    misplaced: str = ""
    next_lines: list[str] = attrs.field(factory=list)

    def see(
        self, outcome: Outcome[Any, Any], line: int | None, state: JobState | None = None
    ) -> None:
        """Count one outcome, and pass it on to the report."""
        self.counts[str(outcome.status)] += 1
        if state is not None:
            self.states[state] += 1
        self.note_reason(outcome.error)
        if self.report is not None:
            self.report.see(outcome, line)

    def note_reason(self, error: GatewayError | None) -> None:
        """Note why something did not succeed."""
        text = "" if error is None else str(error)
        if text and text not in self.reasons and len(self.reasons) >= _REASONS_KEPT:
            text = _OTHER_REASONS
        if text:
            self.reasons[text] += 1

    @property
    def latencies(self) -> Telemetry | None:
        """Gets the times of requests for the report; None where none was asked for."""
        return None if self.report is None else self.report.latencies

    @property
    def journal(self) -> str | None:
        """The file of the job's journal, or its database."""
        return None if self.job is None else self.settings.place

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
        found = {name: getattr(self, name) for name in _FACTS} | {
            "orders": self.counts.total(),
            "held": self.states[JobState.HELD],
            "reasons": dict(self.reasons.most_common(_REASONS_SHOWN)),
            "out": None if self.misplaced else self.files.out,
            "next": self.next_lines,
        }
        if self.books is None:
            return found
        books = attrs.asdict(self.books) | {"orders": self.books.entries}
        books["differences"] = {kind: n for kind, n in self.books.differences.items() if n}
        books["counts"] = {n: books.pop(n) for n in ("matched", "differing", "unanswered")}
        return found | books

    def check_files(self) -> None:
        """Refuse files that are not each one of its own.

        Raises:
            ConfigurationError: If they would meet.
        """
        files, seen = self.files, dict[Path, str]()
        named = (
            ("the file with the orders", self.source),
            ("the journal", self.settings.journal_file if self.settings.journal else None),
            ("--out", files.out),
            ("--report", files.report),
        )
        for what, path in named:
            if path is not None and path != STDIO:
                other = seen.setdefault(path.resolve(), what)
                if other != what:
                    raise ConfigurationError(f"{what}: {path} is {other}; name another file")
        if files.out is not None:
            check_is_csv(files.out)

    def carry_out(
        self,
        work: Callable[[OutFile, "Stop"], Awaitable[None]],
        write: Callable[[OutFile], Awaitable[None]] | None = None,
        *,
        ask: Callable[[], None] = lambda: None,
    ) -> int:
        """Do the work, and write its outcomes, whatever ends it; a signal does not end the writing.

        Args:
            work: What is done; it is stopped by signals.
            write: Writes the outcomes at the end, once there are any; None where the work does.
            ask: Asks a person, once the file is there.

        Returns:
            The exit code.
        """

        async def work_and_write(out: OutFile, stop: Stop) -> None:
            try:
                await work(out, stop)
            except GatewayError as error:
                if not self.has_begun:
                    raise
                self.failure = error
            finally:
                if self.has_begun and write is not None:
                    try:
                        await write(out)
                    except GatewayError as error:
                        self.misplaced = str(error)

        with self.reporting(), contextlib.ExitStack() as stopping:
            with out_file(self.files.out or STDIO, self.console.warn) as out:
                ask()
                stop = stopping.enter_context(Stop(self.console))
                asyncio.run(work_and_write(out, stop))
            self.misplaced = self.misplaced or out.problem
            self._tell()
            self._advise()
        if self.files.json:
            print_json(self.as_dict())
        return self.exit_code

    def _tell(self) -> None:
        """Say what it came to."""
        console, books = self.console, self.books
        if books is None:
            row = (self.command, self.counts, self.requests, self.retries, self.seconds)
            console.rich.print(summary_table([row]))
        else:
            names = ("payments", "amount", "refunded")
            rows = (
                (
                    *(code, side, f"{getattr(totals, f'{side}_count'):,}"),
                    *(f"{getattr(totals, f'{side}_{name}'):,f}" for name in names[1:]),
                )
                for code, totals in books.currencies.items()
                for side in ("ledger", "gateway")
            )
            console.rich.print(plain_table(("currency", "side", *names), rows, numbers=names))
            console.say(str(books))
        shown = self.reasons.most_common(_REASONS_SHOWN)
        for reason, count in shown:
            console.say(f"{count} x {reason}")
        if more := self.reasons.total() - sum(count for _, count in shown):
            console.say(f"and {more:,} more, in the outcomes")
        if self.unexpected:
            console.say(f"records that belong to no order of the file: {self.unexpected}")
        if self.failure is not None:
            console.say(f"it ended early: {self.failure}")
        if self.misplaced:
            console.warn(self.misplaced)

    def _advise(self) -> None:
        """Say what to do about orders that are unknown, or were not sent."""

        def line(what: str, *words: str) -> None:
            command = on_job(words, self.options) if words else "the same command"
            self.console.say(f"{what}:\n  {command}")
            self.next_lines.append(command)

        if self.job is None:
            if self.exit_code == UNSETTLED:
                self.next_lines.append("not all was answered and written: give the command again")
                self.console.say(self.next_lines[-1])
            return
        new, held = self.states[JobState.NEW], self.states[JobState.HELD]
        unknown = self.states[JobState.UNKNOWN] + self.states[JobState.INTENT]
        if unknown or new or self.failure is not None:
            is_other = self.again or self.source == STDIO
            words = ("resume", self.job, "--out", str(self.files.out)) if is_other else ()
            line(f"{unknown} unknown and {new} not sent; go on with", *words)
        if held:
            asked = OPERATIONS[self.operation]
            by = "" if asked.recovered_by else f"; ask the gateway by {asked.identity_field}"
            self.console.say(
                f"{held:,} {'order is' if held == 1 else 'orders are'} held for your decision "
                f"(`gateway-async jobs resolve`){by}. What you write under [dialect] counts for "
                "later replies only"
            )
        if unknown or held:
            line("what waits for a decision is listed by", "show", self.job)
        if self.misplaced:
            words = ("outcomes", self.job, "--out", "outcomes.csv")
            line("the journal has the outcomes; write them with", *words)

    @contextlib.contextmanager
    def reporting(self) -> Iterator[None]:
        """Begin a report, if one is wanted; it is written when the block ends, however it ends.

        It is made of what is recorded elsewhere: if it cannot be written, nothing else changes.

        Raises:
            ConfigurationError: If a file cannot be written; nothing was sent.
        """
        path, console, started = self.files.report, self.console, datetime.now().astimezone()
        self.check_files()
        if self.files.json and self.files.out in (None, STDIO):
            raise ConfigurationError(
                "--json: the summary goes to standard output; name a file in --out"
            )
        if path is None:
            yield
            return
        self.report = report = Report(self.operation, job=self.job)
        with out_file(path, console.warn, option="--report: ") as file:
            try:
                yield
            finally:
                if self.has_begun:
                    file.end(render(report, self._head(started), self.books))
        if not file.problem:
            console.note(f"report: {path}")
        elif self.has_begun:
            console.warn(f"--report: {file.problem}")

    def _head(self, started: datetime) -> Head:
        def shown(path: Path | None, stdio: str) -> str | None:
            return None if path is None else stdio if path == STDIO else str(path)

        books = self.books
        return Head(
            command=self.command,
            gateway=urlsplit(self.settings.address).netloc or None,
            started_at=started,
            ended_at=datetime.now().astimezone(),
            source=shown(self.source, "standard input"),
            out=shown(self.files.out, "standard output"),
            job=self.job,
            next_lines=tuple(self.next_lines),
            failure=None if self.failure is None else str(self.failure),
            requests=self.requests if books is None else books.requests,
            retries=self.retries,
            unexpected=self.unexpected if books is None else books.unexpected,
        )


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
            self._console.say(_SAID[min(number, len(_SAID)) - 1])
            for _ in range(_TURNS_APART):
                await asyncio.sleep(0)


# Driving


async def drive(
    streamed: Any, see: Callable[[Any], None], run: Run, *, stop: Stop, tick: Callable[[], None]
) -> None:
    """Hand over everything that finishes; after a stop or an error, what is known by then.

    Args:
        streamed: What is driven.
        see: Sees everything that finishes, once each.
        run: Takes in what ended it early, and what was counted.
        stop: Knows when to stop.
        tick: Called from time to time, also where nothing finishes.

    Raises:
        ConfigurationError: If it was stopped before it began.
        GatewayError: If it could not begin; nothing was sent.
    """
    left: Any = None
    has_begun, started = True, time.monotonic()
    ticker = asyncio.create_task(ticking(tick))
    try:
        with stop.cancelling(), contextlib.suppress(asyncio.CancelledError):
            async with streamed:
                async for one in streamed:
                    see(one)
    except _NOT_BEGUN:
        has_begun = False
        raise
    except GatewayError as error:
        run.failure = error
    finally:  # also where a defect ended it: what is known may be the only record
        ticker.cancel()
        with contextlib.suppress(RuntimeError):  # it did not begin
            left = streamed.result if has_begun else None
        if left is not None:
            run.has_begun, run.seconds = True, time.monotonic() - started
            run.requests = getattr(left, "requests", None)
            run.retries = getattr(left, "retries", None)
            run.unexpected = getattr(getattr(left, "unexpected", None), "count", 0)
        for one in left or ():
            see(one)
    if left is None:
        raise run.failure or ConfigurationError("stopped before anything was sent")


async def ticking(tick: Callable[[], None]) -> None:
    """Call something twice a second, until it is cancelled."""
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
        tick()


async def collect(
    batch: Any, run: Run, stop: Stop, total: int, keep: Callable[[Any], None] = lambda _: None
) -> None:
    """Drive a batch to its end: the one place where each outcome passes, as it is finished."""
    with gauged(run.console, run.command, total) as gauge:

        def see(outcome: Outcome[Any, Any]) -> None:
            keep(outcome)
            gauge.advance(str(outcome.status))

        await drive(batch, see, run, stop=stop, tick=gauge.tick)

"""A run: a batch, or what is used like one, driven to its end whatever happens, and its summary.

Every outcome is seen exactly once, by one function, and what is known is never given up.
"""

import asyncio
import contextlib
import itertools
import shlex
import signal
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import attrs

from gateway_async.cli.console import summary_table
from gateway_async.cli.tables import STDIO, TableError
from gateway_async.client import GatewayClient
from gateway_async.errors import (
    AlikeRefundError,
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    JobBusyError,
    JobConflictError,
    JobNotFoundError,
    NotDoneError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager
    from types import FrameType

    from gateway_async.batching.results import Outcome
    from gateway_async.cli.console import Console
    from gateway_async.cli.settings import Settings
    from gateway_async.reconciliation.summary import Summary
    from gateway_async.report import Report
    from gateway_async.signing import Credentials

DONE, NOT_ALL_DONE, USAGE, UNSETTLED = 0, 1, 2, 3
"""The exit codes: all succeeded; some declined or absent; nothing was sent; some unknown."""

_REASONS_SHOWN = 3
_REASONS_KEPT = 1000
_OTHER_REASONS = "other reasons, which the outcomes have"
_SECONDS_BETWEEN_TICKS = 0.5
_EXIT_CODES = {"unknown": 3, "not_sent": 3, "declined": 1, "absent": 1}
_NOT_BEGUN = (InvalidOrderError, JobBusyError, JobConflictError, JobNotFoundError)
"""Errors that say that this run sent nothing."""


class RefusedError(Exception):
    """Nothing is sent, for a reason that is no error of the program's or the gateway's."""


def guarded(console: "Console", work: "Callable[[], int]") -> int:
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


def confirm(console: "Console", what: str, *, yes: bool) -> None:
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


# What it came to


@attrs.define(kw_only=True)
class RunSummary:
    """What a command did, for its last lines, `--json` and the report.

    Attributes:
        command: The command.
        base_url: The gateway's address; None where none was asked.
        source: The input; None where it is a journal.
        out: Where every single outcome is written; None where they are printed.
        stdio: The format of standard output.
        job: The name of the job, if it is one.
        journal: The file of its journal, or the database.
        report: Collects the report; None where none was asked for.
        books: What a reconciliation came to.
        counts: How many orders have each status.
        held: How many of those that are not sent wait for a decision: they were proved not to be
            done, or the gateway lists a refund like them.
        not_done: How many of those were proved not to be done.
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
    stdio: str = "csv"
    job: str | None = None
    journal: str | None = None
    report: "Report | None" = None
    books: "Summary | None" = None
    counts: Counter[str] = attrs.field(factory=Counter)
    held: int = 0
    not_done: int = 0
    reasons: Counter[str] = attrs.field(factory=Counter)
    requests: int | None = None
    retries: int | None = None
    unexpected: int = 0
    seconds: float = 0.0
    failure: GatewayError | None = None
    misplaced: str = ""
    next_lines: list[str] = attrs.field(factory=list)

    def see(self, outcome: "Outcome[Any, Any]") -> None:
        """Count one outcome, and pass it on to the report."""
        self.counts[str(outcome.status)] += 1
        self.held += isinstance(outcome.error, NotDoneError | AlikeRefundError)
        self.not_done += isinstance(outcome.error, NotDoneError)
        self.note_reason(outcome.error)
        if self.report is not None:
            self.report.see(outcome)

    def note_reason(self, error: GatewayError | None) -> None:
        """Note why something did not succeed."""
        text = "" if error is None else str(error)
        if text and text not in self.reasons and len(self.reasons) >= _REASONS_KEPT:
            text = _OTHER_REASONS
        if text:
            self.reasons[text] += 1

    @contextlib.contextmanager
    def surviving(self) -> "Iterator[None]":
        """Let an error end a run that has begun, and raise only one of a run that has not."""
        try:
            yield
        except GatewayError as error:
            if not self.has_begun:
                raise
            self.failure = error

    def note_result(self, result: Any) -> None:  # noqa: ANN401  # of a batch
        """Take in what a batch counted itself."""
        self.requests = getattr(result, "requests", None)
        self.retries = getattr(result, "retries", None)
        unexpected = getattr(result, "unexpected", None)
        self.unexpected = 0 if unexpected is None else unexpected.count

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
            *("base_url", "stdio", "report", "books", "misplaced", "next_lines", "not_done")
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

    def tell(self, console: "Console") -> None:
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

    def advise(self, console: "Console", what: str, line: str) -> None:
        """Give the command to give next, to people and to the report."""
        console.tell("next", f"{what}:\n  {line}", command=line)
        self.next_lines.append(line)

    def advise_on_job(self, console: "Console", options: "Iterable[str]") -> None:
        """Say what to do about orders of a job that are unknown, or were not sent.

        Args:
            console: Where to say it.
            options: Those that name this journal and this gateway.
        """
        resume = "the same command"
        if self.source == STDIO:  # its input is gone
            kind = ("--format", self.stdio) if self.out == STDIO else ()
            resume = on_job(("resume", str(self.job), "--out", str(self.out), *kind), options)
        unknown, left = self.counts["unknown"], self.counts["not_sent"] - self.held
        if unknown or left > 0 or self.failure is not None:
            self.advise(console, f"{unknown} unknown and {left} not sent; go on with", resume)
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
        if unknown or self.held:
            show = on_job(("show", str(self.job)), options)
            self.advise(console, "what waits for a decision is listed by", show)
        if self.misplaced:
            write = on_job(("outcomes", str(self.job), "--out", "outcomes.csv"), options)
            self.advise(console, "the journal has the outcomes; write them with", write)


def on_job(words: "Iterable[str]", options: "Iterable[str]") -> str:
    """Write a command on a job, with the options that name its journal and its gateway."""
    return shlex.join(["gateway-async", "jobs", *words, *options])


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

    def __init__(self, console: "Console") -> None:
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
    def cancelling(self) -> "Iterator[None]":
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

    def _come(self, number: int, frame: "FrameType | None") -> None:
        del frame
        if number == _HANG_UP and self.count:  # a shell passes on what the terminal sent
            return
        self.count += 1
        if self._target is not None:  # nothing is printed here: a line may be half written
            loop, came = self._target
            loop.call_soon_threadsafe(came.release)

    async def _cancel_each_time(self, task: "asyncio.Task[Any]", came: asyncio.Semaphore) -> None:
        for number in itertools.count(1):
            await came.acquire()
            task.cancel()
            said = _SAID[min(number, len(_SAID)) - 1]
            self._console.tell("stopping", said, signals=self.count)
            for _ in range(_TURNS_APART):
                await asyncio.sleep(0)


# Driving


async def drive(
    streamed: Any,  # noqa: ANN401  # a `Batch`, or a reconciliation
    see: "Callable[[Any], None]",
    summary: RunSummary,
    *,
    stop: Stop,
    tick: "Callable[[], None]",
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
            summary.note_result(left)
        for one in left or ():
            see(one)
    if left is None:
        raise summary.failure or ConfigurationError("stopped before anything was sent")


async def _ticking(tick: "Callable[[], None]") -> None:
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
        tick()


def make_client(
    settings: "Settings",
    credentials: "Credentials",
    summary: RunSummary | None = None,
    *,
    limiter: "AbstractAsyncContextManager[object] | None" = None,
) -> GatewayClient:
    """Make the client that the settings describe.

    Args:
        settings: The settings.
        credentials: Who speaks, and how it signs.
        summary: Its report, if any, gets the times of requests.
        limiter: What stands in for one that holds the rate of this process alone.

    Raises:
        ConfigurationError: If a setting is wrong, or a rate needs an extra that is not installed.
    """
    if limiter is None and settings.rate is not None:
        try:
            from aiolimiter import AsyncLimiter  # noqa: PLC0415  # only where a rate is set
        except ModuleNotFoundError:
            raise ConfigurationError(
                "--rate needs aiolimiter: pip install 'gateway-async[cli]'"
            ) from None
        limiter = AsyncLimiter(1, 1 / settings.rate)  # requests leave evenly
    return GatewayClient(
        settings.base_url,
        credentials,
        timeouts=settings.timeouts,
        retry=settings.retry,
        policy=settings.policy,
        recovery=settings.recovery,
        dialect=settings.dialect,
        allow_http=settings.allow_http,
        ssl=settings.ssl_context(),
        proxy=settings.proxy,
        trust_env=settings.trust_env,
        limiter=limiter,
        telemetry=summary.report.latencies if summary and summary.report else None,
    )

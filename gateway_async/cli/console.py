"""What the command line says and shows: lines on standard error, progress and JSON."""

import asyncio
import contextlib
import itertools
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, TextIO, cast

import attrs
from rich.console import Console as RichConsole
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import Operation
from gateway_async.report.report import Totals

_SECONDS_BETWEEN_FRAMES = 0.1
_MOST_KINDS = 1000
_FRAMES_BETWEEN_LINES = 50
_CONTROLS = {
    one: f"\\x{one:02x}" for one in (*range(0x20), *range(0x7F, 0xA0)) if chr(one) not in "\n\t"
}


class Exit(IntEnum):
    """How a command ended; the reference page of the command line has what each code means."""

    DONE = 0
    NOT_ALL_DONE = 1
    WRONG = 2
    UNSETTLED = 3


class _Forgiving:
    """A stream that may have lost its reader: no outcome is lost for a line that is."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()


@contextlib.contextmanager
def explained(problem: str, expected: str = "") -> Iterator[None]:
    """Say what is wrong where the system refuses what the block does.

    Args:
        problem: What cannot be done, in our words; the system's reason follows.
        expected: What would be right.

    Raises:
        ConfigurationError: In place of an error of the system.
    """
    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "not UTF-8") or error
        advice = f"; {expected}" if expected else ""
        raise ConfigurationError(f"{problem}: {reason}{advice}") from None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end at once what the block does, which is not awaited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def plain_console(file: TextIO) -> RichConsole:
    """Return a console that shows texts as they are: no markup, and lines as long as they are."""
    return RichConsole(file=file, soft_wrap=True, markup=False, emoji=False, highlight=False)


def output(text: str) -> None:
    """Print what a command is asked for."""
    print(plain(text), flush=True)  # noqa: T201  # a reader that went away shows here


def print_json(value: object) -> None:
    """Print what a command is asked for as JSON."""

    def write(part: object) -> str:
        return part.isoformat(timespec="seconds") if isinstance(part, datetime) else str(part)

    # ASCII escapes control characters, and names of files that are not in UTF-8.
    output(json.dumps(value, default=write, indent=2))


def plain(text: str) -> str:
    """Return a text for a terminal, control characters escaped: a gateway's are not trusted."""
    return text.translate(_CONTROLS)


def listed(found: Mapping[Any, int] | Mapping[Any, Totals]) -> str:
    """Return how many have each status, or are in each state, that any has, and how much money."""
    order = [*OutcomeStatus, *sorted({*found} - {*OutcomeStatus})]
    texts = []
    for name, one in ((name, found[name]) for name in order if name in found):
        count, money = (one.orders, one.money) if isinstance(one, Totals) else (one, "")
        texts += [f"{count:,} {name}{f' ({money})' if money else ''}"] if count else []
    return ", ".join(texts)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural but for one."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


@attrs.define
class Console:
    """Says what happens.

    Attributes:
        line: The command as it was given, to be given again.
        is_quiet: Whether only the end, and what is wrong, is said.
        is_verbose: Whether everything that the library logs is said.
        is_json: Whether each thing is said as a line of JSON.
        has_begun: Whether orders may have been sent.
        rich: Where it is said.
    """

    line: str = ""
    is_quiet: bool = False
    is_verbose: bool = False
    is_json: bool = False
    has_begun: bool = False
    rich: RichConsole = attrs.field(
        factory=lambda: plain_console(cast("TextIO", _Forgiving(sys.stderr)))
    )
    _alike: dict[tuple[str, ...], tuple[int, str]] = attrs.field(factory=dict, init=False)
    """By logger and kind of warning, how many there were beyond the first, and the last."""

    def confirm(self, what: str) -> None:
        """Ask whether money may be sent.

        Raises:
            ConfigurationError: If the answer is no, or there is no terminal to ask at.
        """
        if not (self.rich.is_terminal and sys.stdin.isatty()):
            raise ConfigurationError(
                f"{what}: there is no terminal to confirm it at; nothing was sent. Give --yes to "
                "go on without being asked"
            )
        with contextlib.suppress(EOFError, KeyboardInterrupt), interruptible():
            self.rich.print(plain(f"{what}. Go on? [y/N] "), end="")
            if input().strip().lower() in {"y", "yes"}:
                return
        raise ConfigurationError("nothing was sent")

    def say(self, message: str, level: str = "INFO", logger: str = "gateway_async.cli") -> None:
        """Say one thing; level and logger are shown in JSON."""
        message = plain(message)
        if self.is_json:
            time = datetime.now(UTC).isoformat()
            line = {"time": time, "level": level, "logger": logger, "message": message}
            message = json.dumps(line)
        self.rich.print(message)

    def note(self, message: str) -> None:
        """Say one thing that `--quiet` leaves out."""
        if not self.is_quiet:
            self.say(message)

    @contextlib.contextmanager
    def passing_on_logs(self) -> Iterator[None]:
        """Say what is logged as warning or worse, and what is waited for; as text, once a kind."""
        handler, root = logging.Handler(), logging.getLogger()
        handler.emit = self._pass_on  # type: ignore[method-assign]  # all that a handler of ours does
        level, name = logging.INFO, "gateway_async.recovery"
        if self.is_verbose:
            level, name = logging.DEBUG, "gateway_async"
        logger = logging.getLogger(name)
        before = logger.level
        logger.setLevel(logging.WARNING if self.is_quiet else level)
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)
            logger.setLevel(before)
            self.sum_up()

    def _pass_on(self, record: logging.LogRecord) -> None:
        about = [str(one) for one in record.args or () if isinstance(one, Operation)]
        kind, text = (record.name, str(record.msg), *about), record.getMessage()
        if kind in self._alike and not self.is_json:
            self._alike[kind] = self._alike[kind][0] + 1, text
        else:
            self.say(text, record.levelname, record.name)
            if record.levelno >= logging.WARNING and len(self._alike) < _MOST_KINDS:
                self._alike[kind] = 0, ""

    def sum_up(self) -> None:
        """Say how many more warnings of each kind there were, with the last of them."""
        for more, last in self._alike.values():
            if more:
                self.say(f"{more:,} more of these, the last: {last}" if more > 1 else last)
        self._alike.clear()


# Stopping

_FIRST = "stopping: waiting for what is in flight; press Ctrl-C again not to wait"
_NEXT = "stopping at once: what is in flight is not waited for, and ends as unknown"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stoppable(console: Console, drain: Callable[[], object] | None = None) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM stop the block: the first drains it, the second does not wait.

    Behind it, they are ignored, so that what is known is written whatever happens.

    Args:
        console: Where it is said.
        drain: Stops the block in place of the first cancellation.
    """
    task: Any = asyncio.current_task()
    loop, console.has_begun = asyncio.get_running_loop(), True
    ways = itertools.chain([(_FIRST, drain or task.cancel)], itertools.repeat((_NEXT, task.cancel)))

    def stop() -> None:
        said, end = next(ways)
        console.say(said)
        end()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            yield
    finally:
        for number in _SIGNALS:
            loop.add_signal_handler(number, lambda: None)
        while task.cancelling():
            task.uncancel()  # it goes on: what is known is still to be written


# Progress


@contextlib.contextmanager
def progress(
    console: Console,
    name: str,
    total: int,
    look: Callable[[], tuple[int, Mapping[Any, int]]],
    *,
    is_shared: bool = False,
) -> Iterator[None]:
    """Show a bar while the block runs; where there is no terminal, a line every few seconds.

    Args:
        console: Where it is shown.
        name: What is counted.
        total: How many there are.
        look: Returns how many are done, and how many have each status.
        is_shared: Whether rows go to the same terminal, so that no bar fits between them.
    """
    is_plain = console.is_quiet or console.is_json or is_shared
    has_bar = console.rich.is_terminal and not is_plain
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console.rich,
        redirect_stdout=False,
        disable=not has_bar,
    )
    bar.add_task(name, total=total)
    (task,) = bar.tasks

    def show() -> None:
        count, counts = look()
        rate = f"{task.speed or 0:,.1f} a second"
        parts = filter(None, (f"{name}: {count:,} of {total:,}", rate, listed(counts)))
        bar.update(task.id, completed=count, description=", ".join(parts))

    async def tick() -> None:
        for frame in itertools.count(1):
            show()
            if not has_bar and frame % _FRAMES_BETWEEN_LINES == 0:
                left = "" if task.time_remaining is None else f", {task.time_remaining:,.0f} s left"
                console.note(f"{task.description}{left}")
            await asyncio.sleep(_SECONDS_BETWEEN_FRAMES)

    with bar:
        ticker = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticker.cancel()
            show()

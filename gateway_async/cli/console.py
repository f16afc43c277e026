"""What the command line says and shows: lines on standard error, progress, tables and JSON."""

import contextlib
import json
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO, cast

import attrs
from rich.box import SIMPLE_HEAD
from rich.console import Console as RichConsole
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

_LOGGER = "gateway_async"
_WAITS = ("gateway_async.jobs", "gateway_async.recovery")
_PIPE_COLUMNS = 160
STATUSES = ("succeeded", "declined", "absent", "unknown", "not_sent")
SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_FRAMES = 0.1


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


def plain_console(file: TextIO, width: int | None = None) -> RichConsole:
    """Return a console that shows texts as they are: what comes from files is no markup."""
    return RichConsole(file=file, width=width, markup=False, emoji=False, highlight=False)


def standard_output() -> RichConsole:
    """Return a console for what a command is asked for; in a pipe, lines stay whole."""
    return plain_console(sys.stdout, None if sys.stdout.isatty() else _PIPE_COLUMNS)


def print_json(value: object) -> None:
    """Print what a command is asked for as JSON."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")


@attrs.frozen(kw_only=True)
class Console:
    """Says what happens.

    Attributes:
        is_quiet: Whether only the end, and what is wrong, is said.
        is_verbose: Whether everything that the library logs is said.
        rich: Where it is said.
    """

    is_quiet: bool = False
    is_verbose: bool = False
    rich: RichConsole = attrs.field(
        factory=lambda: plain_console(cast("TextIO", _Forgiving(sys.stderr)))
    )

    @property
    def can_ask(self) -> bool:
        """Whether a person is there to answer."""
        return self.rich.is_terminal and sys.stdin.isatty()

    def ask(self, question: str) -> bool:
        """Return whether the answer to a question is yes."""
        self.rich.print(f"{question} [y/N] ", end="", soft_wrap=True)
        try:
            return input().strip().lower() in {"y", "yes"}
        except EOFError:
            return False

    def say(self, message: str) -> None:
        """Say one thing."""
        self.rich.print(message, soft_wrap=True)

    def note(self, message: str) -> None:
        """Say one thing that `--quiet` leaves out."""
        if not self.is_quiet:
            self.say(message)

    def warn(self, message: str) -> None:
        """Say that something is unwise."""
        self.say(f"warning: {message}")

    def refuse(self, message: str) -> None:
        """Say why the command does not run."""
        self.say(f"gateway-async: {message}")

    @contextlib.contextmanager
    def passing_on_logs(self, *others: str) -> Iterator[None]:
        """Say what the library logs as warning or worse, and what it waits for; alike ones once.

        Args:
            others: Names of loggers whose warnings are passed on in place of the library's.
        """
        handler = _Handler(self)
        level, names = (logging.DEBUG, (_LOGGER,)) if self.is_verbose else (logging.INFO, _WAITS)
        levels = {one: one.level for one in map(logging.getLogger, names)}
        for name in others or (_LOGGER,):
            logging.getLogger(name).addHandler(handler)
        for one in levels:
            one.setLevel(logging.WARNING if self.is_quiet else level)
        try:
            yield
        finally:
            for name in others or (_LOGGER,):
                logging.getLogger(name).removeHandler(handler)
            for one, before in levels.items():
                one.setLevel(before)
            handler.sum_up()


class _Handler(logging.Handler):
    """Passes on the first record of each kind, and counts the others."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._seen: Counter[tuple[str, str]] = Counter()
        self._last: dict[tuple[str, str], str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.name, str(record.msg)
        self._seen[kind] += record.levelno >= logging.WARNING
        if self._seen[kind] <= 1:
            self._console.say(record.getMessage())
        else:
            self._last[kind] = record.getMessage()

    def sum_up(self) -> None:
        """Say how many more of each kind there were, with the last of them."""
        for kind, text in self._last.items():
            more = self._seen[kind] - 1
            self._console.say(f"{more:,} more of these, the last: {text}" if more > 1 else text)


# Progress


class Gauge:
    """Counts what is finished, and shows it from time to time: as lines, or by a bar.

    Args:
        console: Where lines are said.
        name: What is counted.
        total: How many there are.
        clock: Seconds that only grow.
        bar: Shows how many are done, and the counts, in place of lines.

    Attributes:
        counts: How many have each status.
    """

    def __init__(
        self,
        console: Console,
        name: str,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        bar: Callable[[int, str], object] | None = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._console, self._name, self._total = console, name, total
        self._clock, self._bar = clock, bar
        self._seconds = SECONDS_BETWEEN_LINES if bar is None else _SECONDS_BETWEEN_FRAMES
        self._started = self._shown_at = clock()
        self._done = 0

    def advance(self, status: str) -> None:
        """Note one order."""
        self.counts[status] += 1
        self.reach(self._done + 1)

    def reach(self, done: int) -> None:
        """Note how many orders are done, where they come without a status."""
        self._done = done
        self.tick()

    def tick(self) -> None:
        """Show how far it has come, if that was not shown just now."""
        now = self._clock()
        if now - self._shown_at >= self._seconds:
            self._shown_at = now
            self.show()

    def show(self) -> None:
        """Show how far it has come."""
        order = [*STATUSES, *sorted({*self.counts} - {*STATUSES})]
        listed = ", ".join(f"{self.counts[n]:,} {n}" for n in order if self.counts[n])
        seconds = self._clock() - self._started
        rate = f"{self._done / seconds if seconds > 0 else 0:,.0f}/s"
        if self._bar is not None:
            self._bar(self._done, f"{rate} {listed}")
        else:
            text = f"{self._name}: {self._done:,} of {self._total:,}, {rate}"
            self._console.note(", ".join(filter(None, (text, listed))))


@contextlib.contextmanager
def gauged(console: Console, name: str, total: int) -> Iterator[Gauge]:
    """Show progress while the block runs: a bar on a terminal, else a line from time to time."""
    if not console.rich.is_terminal or console.is_quiet:
        yield Gauge(console, name, total)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    # Where standard output goes elsewhere, what a command prints must not end above the bar.
    same = sys.stdout.isatty()
    with Progress(*columns, console=console.rich, redirect_stdout=same) as progress:
        task = progress.add_task(name, total=total, counts="")

        def show(done: int, counts: str) -> None:
            progress.update(task, completed=done, counts=counts)

        gauge = Gauge(console, name, total, bar=show)
        yield gauge
        gauge.show()


# Tables


def plain_table(
    names: Iterable[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()
) -> Table:
    """Return a table without lines; those of its columns that hold numbers are right-aligned."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(
            name,
            overflow="fold",
            justify="right" if name in numbers else "left",
            no_wrap=name == "name",  # a job's name is copied
        )
    for row in rows:
        table.add_row(*map(str, row))
    return table


Stage = tuple[str, Mapping[str, int], int | None, int | None, float]
"""Name of a stage, orders by status, requests, retries, and seconds."""


def summary_table(stages: Sequence[Stage]) -> Table:
    """Return the table of what happened; statuses that no order has are left out."""
    shown = [name for name in STATUSES if any(counts.get(name) for _, counts, *_ in stages)]
    numbers = ("orders", *shown, "requests", "retries", "time")
    rows = [
        (
            name,
            *(n or "-" for n in (sum(counts.values()), *(counts.get(one, 0) for one in shown))),
            *("-" if n is None else n for n in (requests, retries)),
            f"{seconds:.1f} s",
        )
        for name, counts, requests, retries, seconds in stages
    ]
    return plain_table(("stage", *numbers), rows, numbers)

"""What the command line shows while it works, and at the end: progress, and the summary."""

import contextlib
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from gateway_async.cli.talk import Talk

STATUSES = ("succeeded", "declined", "absent", "unknown", "not_sent")
SECONDS_BETWEEN_LINES = 5.0
SECONDS_BETWEEN_FRAMES = 0.1


class Gauge(Protocol):
    """Shows how far something has come."""

    def show(self, done: int, counts: "Mapping[str, int]") -> None:
        """Show the number of orders that are done, and how many have each status."""
        ...


class Gauged:
    """Counts what is finished, and shows it from time to time.

    Attributes:
        counts: How many have each status.
    """

    def __init__(
        self, gauge: Gauge, seconds: float, clock: "Callable[[], float]" = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._gauge = gauge
        self._seconds = seconds
        self._clock = clock
        self._shown_at = clock()
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
            self._gauge.show(self._done, self.counts)

    def finish(self) -> None:
        """Show the end."""
        self._gauge.show(self._done, self.counts)


class _Rate(TextColumn):
    """Orders a second."""

    def __init__(self) -> None:
        super().__init__("{task.speed}")

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "-/s", style="progress.data.speed")


class _Bar:
    def __init__(self, progress: Progress, name: str, total: int | None) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=total, counts="")

    def show(self, done: int, counts: "Mapping[str, int]") -> None:
        self._progress.update(self._task, completed=done, counts=_listed(counts))


class Lines:
    """Shows progress as lines: for logs, and where there is no terminal."""

    def __init__(
        self,
        talk: "Talk",
        name: str,
        total: int | None,
        clock: "Callable[[], float]" = time.monotonic,
    ) -> None:
        self._talk = talk
        self._name = name
        self._total = total
        self._clock = clock
        self._started = clock()
        self._before = 0

    def show(self, done: int, counts: "Mapping[str, int]") -> None:
        """Say one line; how long it will take, only while it comes on."""
        seconds = self._clock() - self._started
        rate = done / seconds if seconds > 0 else 0.0
        left = None
        parts = [f"{self._name}: {done:,}"]
        if self._total is not None:
            parts = [f"{parts[0]} of {self._total:,}"]
            left = (self._total - done) / rate if done > self._before else None
        self._before = done
        parts += [f"{rate:,.0f}/s"] + ([f"{left:.0f} s left"] if left else [])
        self._talk.tell(
            "progress",
            ", ".join([*parts, *([_listed(counts)] if counts else [])]),
            done=done,
            total=self._total,
            rate=round(rate, 1),
            seconds_left=None if left is None else round(left, 1),
            counts=dict(counts),
        )


def _listed(counts: "Mapping[str, int]") -> str:
    order = [*STATUSES, *sorted(set(counts) - {*STATUSES})]
    return ", ".join(f"{counts[name]:,} {name}" for name in order if counts.get(name))


@contextlib.contextmanager
def gauged(talk: "Talk", name: str, total: int | None) -> "Iterator[Gauged]":
    """Show progress while the block runs: a bar on a terminal, else a line from time to time."""
    if not talk.has_bar:
        yield Gauged(Lines(talk, name, total), SECONDS_BETWEEN_LINES)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[counts]}"),
    )
    # Where standard output goes elsewhere, what a command prints must not end above the bar.
    same = sys.stdout.isatty()
    with Progress(*columns, console=talk.console, redirect_stdout=same) as progress:
        made = Gauged(_Bar(progress, name, total), SECONDS_BETWEEN_FRAMES)
        yield made
        made.finish()


def summary_table(
    rows: "Iterable[tuple[str, Mapping[str, int], int | None, int | None, float]]",
) -> Table:
    """Return the table of what happened; statuses that no order has are left out.

    Args:
        rows: Name of the stage, orders by status, requests, retries, and seconds.
    """
    stages = list(rows)
    shown = [name for name in STATUSES if any(counts.get(name) for _, counts, *_ in stages)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("stage", no_wrap=True)
    for name in ("orders", *shown, "requests", "retries", "time"):
        table.add_column(name, justify="right", overflow="fold")
    for name, counts, requests, retries, seconds in stages:
        numbers = (sum(counts.values()), *(counts.get(status, 0) for status in shown))
        known = ("-" if n is None else str(n) for n in (requests, retries))
        table.add_row(name, *(str(n) if n else "-" for n in numbers), *known, f"{seconds:.1f} s")
    return table

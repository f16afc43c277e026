"""What the command line shows while it works, and at the end: progress, and tables."""

import contextlib
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gateway_async.cli.talk import Talk

STATUSES = ("succeeded", "declined", "absent", "unknown", "not_sent")
SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_FRAMES = 0.1


class Gauge:
    """Counts what is finished, and shows it from time to time: as lines, or by a bar.

    Args:
        talk: Where lines are said.
        name: What is counted.
        total: How many there are; None where that is not known.
        clock: Seconds that only grow.
        bar: Shows how many are done, and the counts, in place of lines.

    Attributes:
        counts: How many have each status.
    """

    def __init__(
        self,
        talk: "Talk",
        name: str,
        total: int | None,
        clock: "Callable[[], float]" = time.monotonic,
        bar: "Callable[[int, str], object] | None" = None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._talk, self._name, self._total, self._clock, self._bar = talk, name, total, clock, bar
        self._seconds = SECONDS_BETWEEN_LINES if bar is None else _SECONDS_BETWEEN_FRAMES
        self._started = self._shown_at = clock()
        self._done = self._shown = 0

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
        """Show how far it has come; how long it will take, only while it comes on."""
        order = [*STATUSES, *sorted(set(self.counts) - {*STATUSES})]
        listed = ", ".join(f"{self.counts[n]:,} {n}" for n in order if self.counts.get(n))
        if self._bar is not None:
            self._bar(self._done, listed)
            return
        seconds, done, total = self._clock() - self._started, self._done, self._total
        rate = done / seconds if seconds > 0 else 0.0
        left = (total - done) / rate if total is not None and done > self._shown else None
        self._shown = done
        of = "" if total is None else f" of {total:,}"
        parts = [f"{self._name}: {done:,}{of}", f"{rate:,.0f}/s"]
        parts += [f"{left:.0f} s left"] if left else []
        self._talk.tell(
            "progress",
            ", ".join([*parts, *([listed] if listed else [])]),
            done=done,
            total=total,
            rate=round(rate, 1),
            seconds_left=None if left is None else round(left, 1),
            counts=dict(self.counts),
        )


class _Rate(ProgressColumn):
    """Orders a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f}/s" if speed else "-/s", style="progress.data.speed")


@contextlib.contextmanager
def gauged(talk: "Talk", name: str, total: int | None) -> "Iterator[Gauge]":
    """Show progress while the block runs: a bar on a terminal, else a line from time to time."""
    if not talk.has_bar:
        yield Gauge(talk, name, total)
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
        task = progress.add_task(name, total=total, counts="")
        gauge = Gauge(
            talk,
            name,
            total,
            bar=lambda done, counts: progress.update(task, completed=done, counts=counts),
        )
        yield gauge
        gauge.show()


def plain_table(
    names: "Iterable[str]", rows: "Iterable[Sequence[object]]", numbers: "Iterable[str]" = ()
) -> Table:
    """Return a table without lines; those of its columns that hold numbers are right-aligned."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold", justify="right" if name in numbers else "left")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def summary_table(
    rows: "Iterable[tuple[str, Mapping[str, int], int | None, int | None, float]]",
) -> Table:
    """Return the table of what happened; statuses that no order has are left out.

    Args:
        rows: Name of the stage, orders by status, requests, retries, and seconds.
    """
    stages = list(rows)
    shown = [name for name in STATUSES if any(counts.get(name) for _, counts, *_ in stages)]
    numbers = ("orders", *shown, "requests", "retries", "time")

    def cells() -> "Iterator[tuple[object, ...]]":
        for name, counts, requests, retries, seconds in stages:
            found = (sum(counts.values()), *(counts.get(status, 0) for status in shown))
            known = ("-" if n is None else n for n in (requests, retries))
            yield (name, *(n or "-" for n in found), *known, f"{seconds:.1f} s")

    return plain_table(("stage", *numbers), cells(), numbers)

"""What the command line shows on a terminal: lines, progress bars and the summary."""

import contextlib
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rich.console import Console

STATUSES = ("succeeded", "declined", "absent", "unknown", "not_sent")


def tell(console: "Console", message: str) -> None:
    """Print a line as it is, without markup and unbroken."""
    console.print(message, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def progress_bar(console: "Console", name: str, total: int) -> "Iterator[Callable[[int], None]]":
    """Show a bar while the block runs, on a terminal only; yields what moves it on."""
    columns = (
        TextColumn("{task.description:>14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=total)
        yield lambda orders: progress.advance(task, orders)


def summary_table(
    rows: "Iterable[tuple[str, Mapping[str, int], int | None, int | None, float]]",
) -> RichTable:
    """Return the table of what happened; statuses that no order has are left out.

    Args:
        rows: Name of the stage, orders by status, requests, retries, and seconds.
    """
    stages = list(rows)
    shown = [name for name in STATUSES if any(counts.get(name) for _, counts, *_ in stages)]
    table = RichTable(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("stage", no_wrap=True)
    for name in ("orders", *shown, "requests", "retries", "time"):
        table.add_column(name, justify="right", overflow="fold")
    for name, counts, requests, retries, seconds in stages:
        numbers = (sum(counts.values()), *(counts.get(status, 0) for status in shown))
        known = ("-" if n is None else str(n) for n in (requests, retries))
        table.add_row(name, *(str(n) if n else "-" for n in numbers), *known, f"{seconds:.1f} s")
    return table

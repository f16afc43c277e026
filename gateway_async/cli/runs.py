"""One command on one file: check everything, send, and write every outcome, whatever happens."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
from rich.console import Console

from gateway_async.cli.layouts import OUTCOME_COLUMNS
from gateway_async.cli.settings import read_settings
from gateway_async.cli.shows import progress_bar, summary_table, tell
from gateway_async.cli.tables import TableError, outcome_cells, read_table, table_text
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, InvalidOrderError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.outcomes import Outcome
    from gateway_async.cli.layouts import Layout
    from gateway_async.cli.settings import GatewaySettings
    from gateway_async.cli.tables import Table

USAGE = 2
_ERROR = OUTCOME_COLUMNS.index("error")
_REASONS_SHOWN = 3
_EXIT_CODES = {"unknown": 3, "not_sent": 3, "declined": 1, "absent": 1}
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class UsageError(Exception):
    """The command cannot run as it was given; nothing was sent."""


@attrs.define(kw_only=True)
class Run:
    """What became of one file.

    Attributes:
        results: The result cells of each order, None while its outcome is not known.
        requests: Requests made.
        retries: How many of them were repeats.
        unexpected: Records that came back and belong to no order of the file.
        seconds: How long it took.
    """

    results: list[tuple[str, ...] | None]
    requests: int = 0
    retries: int = 0
    unexpected: int = 0
    seconds: float = 0.0

    @property
    def counts(self) -> Counter[str]:
        """How many orders ended in each status."""
        return Counter(cells[0] if cells else "unknown" for cells in self.results)

    @property
    def reasons(self) -> Counter[str]:
        """How many orders did not succeed for each reason."""
        return Counter(cells[_ERROR] for cells in self.results if cells and cells[_ERROR])

    @property
    def exit_code(self) -> int:
        """0: all succeeded. 1: some declined or absent. 3: some unknown or not sent."""
        return max((_EXIT_CODES.get(status, 0) for status in self.counts), default=0)


def run_file(layout: "Layout", source: "Path", out: "Path") -> int:
    """Do the whole job of one command and return its exit code.

    Args:
        layout: The columns of the command.
        source: The CSV file with the orders.
        out: Where the outcomes go.
    """
    console = Console(stderr=True)
    try:
        settings = read_settings(os.environ)
        table = _read(source, layout)
        with _outcome_file(out, replace=layout.looks_up) as file:
            run = _run(settings, table, layout, console)
            _write(file, table_text(table, layout, run.results))
    except TableError as error:
        return _refuse(console, f"{source}: {error}")
    except (ConfigurationError, UsageError) as error:
        return _refuse(console, str(error))
    _report(console, layout, run)
    return run.exit_code


def _refuse(console: Console, message: str) -> int:
    tell(console, f"gateway-async: {message}")
    return USAGE


def _read(source: "Path", layout: "Layout") -> "Table":
    try:
        body = source.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}") from None
    return read_table(body, layout, Dialect())


@contextlib.contextmanager
def _outcome_file(out: "Path", *, replace: bool) -> "Iterator[TextIO]":
    """Open a file beside `out`, before anything is sent; it takes its place at the end."""
    if not replace and out.exists() and out.stat().st_size:
        raise UsageError(
            f"{out} exists already and may be the only record of an earlier run; "
            "move it away, or name another file"
        )
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        file = beside.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None
    try:
        with file:
            yield file
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)


def _write(file: "TextIO", text: str) -> None:
    """Write the outcomes; on standard output where the file takes no more."""
    try:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        sys.stderr.write(f"gateway-async: {error.strerror}; the outcomes follow\n")
        sys.stdout.write(text)


def _run(settings: "GatewaySettings", table: "Table", layout: "Layout", console: Console) -> Run:
    run = Run(results=[None] * len(table.orders))
    started = time.monotonic()
    try:
        asyncio.run(_send(settings, table, layout, run, console))
    except InvalidOrderError as error:
        raise table.problems_of(error) from None
    run.seconds = time.monotonic() - started
    return run


async def _send(
    settings: "GatewaySettings", table: "Table", layout: "Layout", run: Run, console: Console
) -> None:
    async with GatewayClient(settings.base_url, settings.credentials) as gateway:
        send: Callable[[list[Any]], Batch[Any, Any]] = getattr(gateway, layout.method)
        batch = send(table.orders)
        with progress_bar(console, layout.operation, len(table.orders)) as advance:

            def keep(outcome: "Outcome[Any, Any]") -> None:
                run.results[outcome.index] = outcome_cells(outcome, layout)
                advance(1)

            with _cancelled_by_signals(console):
                await _collect(batch, keep)
        result = batch.result
        run.requests, run.retries = result.requests, result.retries
        run.unexpected = result.unexpected.count


async def _collect(batch: "Batch[Any, Any]", keep: "Callable[[Outcome[Any, Any]], None]") -> None:
    """Hand over every outcome; after a cancellation, those that are known by then."""
    with contextlib.suppress(asyncio.CancelledError):
        async with batch:
            async for outcome in batch:
                keep(outcome)
    try:
        known = batch.result
    except RuntimeError:
        raise UsageError("stopped before anything was sent") from None
    for outcome in known:
        keep(outcome)


@contextlib.contextmanager
def _cancelled_by_signals(console: Console) -> "Iterator[None]":
    """Let each Ctrl-C or SIGTERM cancel this task once: the first drains, the second stops."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def cancel() -> None:
        tell(console, "stopping: waiting for what is in flight; press Ctrl-C again not to wait")
        if task is not None:
            task.cancel()

    try:
        with contextlib.suppress(NotImplementedError):  # Windows keeps Python's own handling
            for number in _SIGNALS:
                loop.add_signal_handler(number, cancel)
        yield
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in _SIGNALS:
                loop.remove_signal_handler(number)


def _report(console: Console, layout: "Layout", run: Run) -> None:
    row = (layout.operation, run.counts, run.requests, run.retries, run.seconds)
    console.print(summary_table([row]))
    for reason, count in run.reasons.most_common(_REASONS_SHOWN):
        tell(console, f"{count} x {reason}")
    if run.unexpected:
        tell(console, f"{run.unexpected} records came back that belong to no order of the file")

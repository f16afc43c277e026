"""`jobs`: what a journal holds; `jobs resolve` decides on an order, `jobs resume` goes on."""

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway_async.cli.commands.common import (
    DONE,
    UNSETTLED,
    Results,
    collect,
    confirm,
    guarded,
    wording,
)
from gateway_async.cli.files.outfile import Existing, out_file
from gateway_async.cli.inputs import Totals
from gateway_async.cli.layouts import LAYOUTS, Layout
from gateway_async.cli.options import (
    FileOptions,
    GatewayOptions,
    JournalOptions,
    Line,
    Out,
    PaceOptions,
    open_journal,
)
from gateway_async.cli.outcomes import outcome_cells
from gateway_async.cli.reports import About, Reporting, reporting
from gateway_async.cli.runs import make_client
from gateway_async.cli.stopping import Stop
from gateway_async.cli.talk import standard_output
from gateway_async.errors import GatewayError
from gateway_async.journal import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from gateway_async.cli.files.outfile import OutFile
    from gateway_async.cli.settings.settings import Settings
    from gateway_async.cli.talk import Talk
    from gateway_async.journal import JobStatus, Journal
    from gateway_async.journal.rows import Row
    from gateway_async.signing import Credentials

jobs = App(name="jobs", help="List, show, resolve and resume the jobs of a journal.")

_PAGE = 1000
_SHOWN = 100
_IN_DOUBT = ("held", "unknown", "intent")
_State = Literal["new", "intent", "succeeded", "declined", "unknown", "held"]
_Decision = Literal["succeeded", "declined", "not_sent", "unknown"]
_YES = Annotated[bool, Parameter(negative="")]


def _with_journal(
    gateway: GatewayOptions | None,
    journal: JournalOptions | None,
    work: "Callable[[Journal, Talk], Awaitable[int]]",
) -> int:
    """Open the journal, do something with it, and return the exit code."""
    who = gateway or GatewayOptions()
    talk = who.talk()

    async def opened(settings: "Settings") -> int:
        async with open_journal(settings) as found:
            return await work(found, talk)

    def run() -> int:
        settings = who.settings(os.environ, journal=(journal or JournalOptions()).checked())
        return asyncio.run(opened(settings))

    return guarded(talk, run)


async def _rows(journal: "Journal", name: str) -> "AsyncIterator[Row]":
    """Read the orders of a job, in the order of the input."""
    rows = await journal.store.page(name, -1, _PAGE)
    while rows:
        for row in rows:
            yield row
        rows = await journal.store.page(name, rows[-1].index, _PAGE)


def _layout(operation: str) -> Layout:
    return LAYOUTS[operation.replace("_", "-")]


@jobs.default
def list_jobs(
    *, journal: JournalOptions | None = None, gateway: GatewayOptions | None = None
) -> int:
    """List the jobs of a journal, the oldest first."""

    async def work(found: "Journal", talk: "Talk") -> int:
        del talk
        standard_output().print(_table(await found.jobs()))
        return DONE

    return _with_journal(gateway, journal, work)


@jobs.command
def show(
    name: str,
    /,
    *,
    journal: JournalOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Show how far a job has come, and its orders in doubt, with index and reason.

    Nothing is sent.

    Args:
        name: The name of the job.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        del talk
        standard_output().print(_table([await found.status(name)]))
        table, count = _doubt_table(), 0
        async for row in _rows(found, name):
            if row.state.value in _IN_DOUBT:
                count += 1
                if count <= _SHOWN:
                    order = row.order
                    table.add_row(
                        str(row.index), row.state, order.transaction_id, order.order_no, row.text
                    )
        if count:
            standard_output().print(table)
        if count > _SHOWN:
            more = f"... and {count - _SHOWN:,} more; `jobs outcomes` writes them all"
            standard_output().print(more, markup=False, highlight=False)
        return DONE

    return _with_journal(gateway, journal, work)


@jobs.command
def outcomes(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    state: Annotated[tuple[_State, ...], Parameter(negative="", consume_multiple=False)] = (),
    journal: JournalOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Write what became of the orders of a job, as the journal has it. Nothing is sent.

    Args:
        name: The name of the job.
        out: The file; - for standard output.
        state: Only the orders in this state, such as held; may be repeated.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        status = await found.status(name)
        about = About(command="jobs outcomes", out=out, job=name)
        options = files or FileOptions()
        with (
            reporting(options.report, about, talk) as told,
            out_file(
                out, options.stdio, existing=Existing.SET_ASIDE_AT_END, warn=talk.warn
            ) as file,
        ):
            layout = _layout(status.operation)
            results = Results(layout=layout, told=told)
            sink = file.sink(_job_columns(layout))
            async for row in _rows(found, name):
                if not state or row.state.value in state:
                    results.count(row.outcome())
                    sink.write(_job_cells(row, layout))
            sink.close()
        return DONE

    return _with_journal(gateway, journal, work)


@jobs.command
def resolve(  # noqa: PLR0913  # one keyword an option
    name: str,
    index: int,
    status: _Decision,
    /,
    *,
    note: str,
    journal: JournalOptions | None = None,
    gateway: GatewayOptions | None = None,
) -> int:
    """Decide what became of an order that is in doubt. Nothing is sent.

    Args:
        name: The name of the job.
        index: The position of the order in the job, from 0, as `jobs show` tells it.
        status: What became of it; not_sent lets the next run send it.
        note: Why, such as "seen in the merchant portal"; it is kept.
    """

    async def work(found: "Journal", talk: "Talk") -> int:
        await found.resolve(name, index, status, note)
        talk.tell("resolved", f"job {name}: order {index} is {status}", index=index)
        return DONE

    return _with_journal(gateway, journal, work)


@attrs.frozen(kw_only=True)
class _Resuming:
    name: str
    out: "Path"
    yes: bool
    talk: "Talk"
    settings: "Settings"
    files: FileOptions
    line: str

    def run(self) -> int:
        about = About(
            command="jobs resume", base_url=self.settings.base_url, out=self.out, job=self.name
        )
        with reporting(self.files.report, about, self.talk) as told:
            return self._resume(told)

    def _resume(self, told: Reporting) -> int:
        credentials = self.settings.credentials(os.environ, self.talk.warn)
        with out_file(
            self.out, self.files.stdio, existing=Existing.SET_ASIDE, warn=self.talk.warn
        ) as out:
            status, totals = asyncio.run(self._head())
            layout = _layout(status.operation)
            if layout.confirms and totals.orders:
                what = wording(layout, totals, self.settings.base_url)
                confirm(self.talk, f"job {self.name}: {what}", yes=self.yes)
            results = Results(layout=layout, told=told)
            with Stop(self.talk) as stop:
                try:
                    asyncio.run(self._drive(credentials, results, stop, out))
                except GatewayError as error:
                    if not results.tally.has_begun:
                        raise
                    results.tally.failure = error  # `jobs outcomes` writes what the journal has
                results.tally.report(self.talk, f"resume {self.name}")
        if results.tally.exit_code == UNSETTLED:
            self.talk.tell("resume", f"go on with\n  {self.line}", command=self.line)
            told.next_lines.append(self.line)
        return results.tally.exit_code

    async def _head(self) -> "tuple[JobStatus, Totals]":
        """Return how far the job has come, and what is left to be sent."""
        totals = Totals()
        async with open_journal(self.settings) as journal:
            status = await journal.status(self.name)
            layout = _layout(status.operation)
            if layout.confirms:
                async for row in _rows(journal, self.name):
                    if row.state is JobState.NEW:
                        order = row.order
                        totals.add((order.currency, getattr(order, layout.total)))
        return status, totals

    async def _drive(
        self, credentials: "Credentials", results: Results, stop: Stop, out: "OutFile"
    ) -> None:
        async with contextlib.AsyncExitStack() as opened:
            journal = await opened.enter_async_context(open_journal(self.settings))
            client = make_client(self.settings, credentials, results.told.telemetry)
            gateway = await opened.enter_async_context(client)
            await collect(
                gateway.resume(journal.job(self.name)),
                talk=self.talk,
                stop=stop,
                results=results,
                total=(await journal.status(self.name)).total,
            )
            sink = out.sink(_job_columns(results.layout))
            async for row in _rows(journal, self.name):
                sink.write(_job_cells(row, results.layout))
            sink.close()


@jobs.command
def resume(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    yes: _YES = False,
    journal: JournalOptions | None = None,
    pace: PaceOptions | None = None,
    files: FileOptions | None = None,
    gateway: GatewayOptions | None = None,
    line: Line,
) -> int:
    """Go on with a job whose orders are in the journal.

    Args:
        name: The name of the job.
        out: The file for what became of its orders; - for standard output.
        yes: Do not ask before money is sent.
    """
    who, pacing = gateway or GatewayOptions(), pace or PaceOptions()
    talk = who.talk()

    def work() -> int:
        settings = who.settings(
            os.environ,
            journal=(journal or JournalOptions()).checked(),
            rate=pacing.rate,
            policy=pacing.policy,
        )
        return _Resuming(
            name=name,
            out=out,
            yes=yes,
            talk=talk,
            settings=settings,
            files=files or FileOptions(),
            line=line,
        ).run()

    return guarded(talk, work)


def _job_columns(layout: Layout) -> list[str]:
    return ["index", "state", *layout.columns, *layout.result_columns]


def _job_cells(row: "Row", layout: Layout) -> dict[str, Any]:
    """Return the cells of an order of a job: itself, and what became of it."""
    outcome = row.outcome()
    results = zip(layout.result_columns, outcome_cells(outcome, layout), strict=True)
    given = {name: getattr(outcome.order, name) for name in layout.columns}
    return {"index": row.index, "state": str(row.state), **given, **dict(results)}


def _table(statuses: "list[JobStatus]") -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("job", "operation", "merchant", "since", "orders", "states"):
        justify: Any = "right" if name == "orders" else "left"
        table.add_column(name, overflow="fold", justify=justify)
    for status in statuses:
        states = [f"{count:,} {state}" for state, count in status.counts.items() if count]
        running = ["running now"] if status.is_running else []
        table.add_row(
            status.name,
            status.operation,
            f"{status.merchant_id}/{status.account_id}",
            f"{status.created_at:%Y-%m-%d %H:%M}",
            f"{status.total:,}",
            ", ".join([*states, *running]),
        )
    return table


def _doubt_table() -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("index", justify="right")
    for name in ("state", "transaction_id", "order_no", "reason"):
        table.add_column(name, overflow="fold")
    return table

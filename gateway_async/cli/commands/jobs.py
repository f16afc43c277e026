"""`jobs`: what a journal holds, what a person decides on it, and `jobs resume`, which goes on."""

import asyncio
import contextlib
import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from gateway_async.cli.console import plain_table, print_json, standard_output
from gateway_async.cli.jobs import (
    KnownJob,
    State,
    job_facts,
    layout_of,
    place_of,
    rows_of,
    so_far,
)
from gateway_async.cli.options import (
    ConsoleArgument,
    FileOptions,
    GatewayOptions,
    JournalOptions,
    Out,
    PaceOptions,
    open_journal,
)
from gateway_async.cli.orders import Totals, wording
from gateway_async.cli.outcomes import Results, collect, job_cells, job_columns
from gateway_async.cli.reports import reporting
from gateway_async.cli.run import (
    DONE,
    UNSETTLED,
    RefusedError,
    RunSummary,
    Stop,
    check_json,
    confirm,
    make_client,
)
from gateway_async.cli.tables import out_file
from gateway_async.journal import JobState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from gateway_async.cli.settings import Settings
    from gateway_async.journal import JobStatus, Journal

jobs: App = App(name="jobs", help="List, show, resolve and resume the jobs of a journal.")

_SHOWN = 100
_IN_DOUBT = ("held", "unknown", "intent")
_DECISIONS = ("succeeded", "declined", "not_sent", "unknown")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
_LONGEST_SHOWN = 40
_NAMED = 5


def _on_journal(
    gateway: GatewayOptions, journal: JournalOptions, work: "Callable[[Journal], Awaitable[int]]"
) -> int:
    """Open a journal that is there, do something with it, and return the exit code."""

    async def opened() -> int:
        async with open_journal(settings, create=False) as found:
            return await work(found)

    settings = gateway.settings(journal=journal.checked())
    return asyncio.run(opened())


@jobs.default
@jobs.command(name="list")
def list_jobs(
    *,
    json: bool = False,
    journal: JournalOptions = JournalOptions(),
    gateway: GatewayOptions = GatewayOptions(),
) -> int:
    """List the jobs of a journal, the oldest first.

    Example: `gateway-async jobs list --json`

    Args:
        json: Print a JSON list with an object for each job.
    """

    async def work(found: "Journal") -> int:
        statuses = await found.jobs()
        if json:
            print_json([job_facts(status) for status in statuses])
        else:
            standard_output().print(_table(statuses))
        return DONE

    return _on_journal(gateway, journal, work)


def _table(statuses: "Iterable[JobStatus]") -> Any:  # noqa: ANN401  # of rich
    return plain_table(
        ("job", "operation", "merchant", "since", "orders", "states"),
        (
            (
                status.name,
                status.operation,
                f"{status.merchant_id}/{status.account_id}",
                f"{status.created_at:%Y-%m-%d %H:%M}",
                f"{status.total:,}",
                ", ".join(filter(None, [so_far(status), "running now" * status.is_running])),
            )
            for status in statuses
        ),
        numbers=("orders",),
    )


@jobs.command
def show(
    name: str,
    /,
    *,
    json: bool = False,
    journal: JournalOptions = JournalOptions(),
    gateway: GatewayOptions = GatewayOptions(),
) -> int:
    """Show how far a job has come, and its orders in doubt, with index and reason.

    Nothing is sent.

    Example: `gateway-async jobs show NAME`

    Args:
        name: The name of the job.
        json: Print one JSON object; the first hundred orders in doubt are under `in_doubt`.
    """

    async def work(found: "Journal") -> int:
        status = await found.status(name)
        columns = ("index", "state", *layout_of(status).naming, "reason")
        rows, count = list[tuple[Any, ...]](), 0
        async for row in rows_of(found, name):
            if row.state.value in _IN_DOUBT:
                count += 1
                if count <= _SHOWN:
                    names = (str(getattr(row.order, column)) for column in columns[2:-1])
                    rows.append((row.index, str(row.state), *names, row.known.text))
        if json:
            in_doubt = [dict(zip(columns, cells, strict=True)) for cells in rows]
            print_json({**job_facts(status), "in_doubt": in_doubt, "in_doubt_count": count})
            return DONE
        table = standard_output()
        table.print(_table([status]))
        if count:
            table.print(plain_table(columns, rows, numbers=("index",)))
        if count > _SHOWN:
            table.print(f"... and {count - _SHOWN:,} more; `jobs outcomes` writes them all")
        return DONE

    return _on_journal(gateway, journal, work)


@jobs.command
def outcomes(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    state: Annotated[tuple[State, ...], Parameter(consume_multiple=False)] = (),
    journal: JournalOptions = JournalOptions(),
    files: FileOptions = FileOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Write the outcomes of the orders of a job, as the journal has them. Nothing is sent.

    Example: `gateway-async jobs outcomes NAME --state held --out held.csv`

    Args:
        name: The name of the job.
        out: The file; - for standard output.
        state: Only the orders in this state, such as held; may be repeated.
    """

    async def work(found: "Journal") -> int:
        layout = layout_of(await found.status(name))
        summary = RunSummary(command="jobs outcomes", out=out, job=name)
        with (
            reporting(files.report, summary, console),
            out_file(out, files.stdio, console.warn) as file,
            file.writing(job_columns(layout)) as write,
        ):
            async for row in rows_of(found, name):
                if not state or row.state.value in state:
                    summary.see(row.outcome())
                    write(job_cells(name, row, layout))
        return UNSETTLED if file.problem else DONE

    return _on_journal(gateway, journal, work)


# Deciding


@jobs.command
def resolve(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *which: str,
    note: str | None = None,
    state: Annotated[
        tuple[Literal["held", "unknown"], ...], Parameter(consume_multiple=False)
    ] = (),
    journal: JournalOptions = JournalOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Decide the outcome of orders that are in doubt: of all that are named, or of none.

    Nothing is sent.

    Example: `gateway-async jobs resolve NAME 17 151-199 succeeded --note "seen in the portal"`

    Args:
        name: The name of the job.
        which: The positions of the orders in the job, from 0, as `jobs show` prints them, such as
            17 or 151-199; then their outcome: succeeded, declined, unknown, or not_sent,
            which lets the next run send them.
        note: Why, such as "seen in the merchant portal"; it must be given, and is kept.
        state: Only the orders in this state, of those that are named or else of the whole job;
            may be repeated.
    """

    async def work(found: "Journal") -> int:
        *named, decision = which or ("",)
        spans = [_span(text) for one in named for text in one.split(",")]
        if decision not in _DECISIONS:
            got = f", got {decision[:_LONGEST_SHOWN]!r}" if decision else ""
            raise RefusedError(
                f"status: expected one of {', '.join(_DECISIONS)} behind the positions{got}"
            )
        if not spans and not state:
            raise RefusedError(
                "index: say which orders, by their positions as `jobs show` prints them, such as "
                "17 or 151-199, or by --state held"
            )
        if note is None or not note.strip():
            raise RefusedError('--note: say why, such as --note "seen in the merchant portal"')
        status = await found.status(name)
        orders = await _orders(found, status, spans, state)
        await found.resolve(name, orders, decision, note)
        how_many = "1 order is" if len(orders) == 1 else f"{len(orders):,} orders are"
        column = layout_of(status).naming[-1]  # a position is soon mistaken for another
        first = [
            row for n in orders[:_NAMED] for row in await found.rows(name, after=n - 1, limit=1)
        ]
        shown = ", ".join(f"{row.index} ({column} {getattr(row.order, column)})" for row in first)
        more = f" and {len(orders) - _NAMED:,} more" if len(orders) > _NAMED else ""
        text = f"job {name}: {how_many} {decision}: {shown}{more}"
        console.tell("resolved", text, index=orders[:_NAMED], count=len(orders))
        return DONE

    return _on_journal(gateway, journal, work)


def _span(text: str) -> range:
    """Read positions: one, or the first and the last of several."""
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise RefusedError(
            f"index: expected positions such as 17 or 151-199, got {text[:_LONGEST_SHOWN]!r}"
        )
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise RefusedError(
            f"index: expected the lower position first, got {text[:_LONGEST_SHOWN]!r}"
        )
    return range(first, last + 1)


async def _orders(
    journal: "Journal", job: "JobStatus", spans: "Sequence[range]", state: "Sequence[str]"
) -> list[int]:
    """Return the positions that are meant."""
    beyond = [span[-1] for span in spans if span[-1] >= job.total]
    if beyond:
        raise RefusedError(
            f"index: job {job.name} has {job.total:,} orders, from 0 to {job.total - 1}; there is "
            f"no {beyond[0]}"
        )
    meant = {index for span in spans for index in span}
    if not state:
        return sorted(meant)
    found = [
        row.index
        async for row in rows_of(journal, job.name)
        if row.state.value in state and (not spans or row.index in meant)
    ]
    if not found:
        raise RefusedError(f"--state: no order of them in job {job.name} is {' or '.join(state)}")
    return found


# Going on


async def _head(settings: "Settings", name: str) -> "tuple[JobStatus, Totals]":
    """Return how far a job has come, and what is left of it to be sent."""
    totals = Totals()
    async with open_journal(settings, create=False) as journal:
        status = await journal.status(name)
        if status.is_cut:
            raise RefusedError(
                f"job {name} was cut into slices, which workers run: start one with "
                "`gateway-async worker`, and see how far it comes with `gateway-async watch`"
            )
        layout = layout_of(status)
        if layout.confirms:
            async for row in rows_of(journal, name):
                if row.state is JobState.NEW:
                    totals.add(layout.moved(row.order))
    return status, totals


@jobs.command
def resume(  # noqa: PLR0913  # one keyword an option
    name: str,
    /,
    *,
    out: Out,
    yes: bool = False,
    json: bool = False,
    journal: JournalOptions = JournalOptions(),
    pace: PaceOptions = PaceOptions(),
    files: FileOptions = FileOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Go on with a job whose orders are in the journal.

    Example: `gateway-async jobs resume NAME --out outcomes.csv`

    Args:
        name: The name of the job.
        out: The file for the outcomes; - for standard output.
        yes: Do not ask before money is sent.
        json: Print one JSON object at the end: counts, job, files and the next commands.
    """
    check_json(out, json=json)
    settings = gateway.settings(journal=journal.checked(), rate=pace.rate, policy=pace.policy)
    place, credentials = place_of(settings), settings.credentials(os.environ, console.warn)
    summary = RunSummary(
        command="jobs resume", base_url=settings.base_url, out=out, job=name, journal=place
    )
    with reporting(files.report, summary, console):
        with out_file(out, files.stdio, console.warn) as file:
            status, totals = asyncio.run(_head(settings, name))
            layout, job = layout_of(status), KnownJob(name=name, place=place, status=status)
            if layout.confirms and totals.orders:
                what = wording(layout, totals, settings.base_url)
                confirm(console, f"{job.asked}: {what}", yes=yes)
            console.tell("resume", job.described, is_new=job.is_new, journal=place)

            async def work(stop: Stop) -> None:
                async with (
                    open_journal(settings, create=False) as opened,
                    make_client(settings, credentials, summary) as client,
                ):
                    batch = client.resume(opened.job(name))
                    with contextlib.closing(Results(layout, summary)) as results:
                        await collect(batch, results, console, stop, status.total)
                    with file.writing(job_columns(layout)) as write:
                        async for row in rows_of(opened, name):
                            write(job_cells(name, row, layout))

            try:
                with Stop(console) as stop, summary.surviving():
                    asyncio.run(work(stop))
            except OSError as error:
                console.warn(f"{file.name} takes no more: {error.strerror or error}")
        summary.misplaced = file.problem or ("" if file.is_whole else f"{file.name} is not whole")
        summary.tell(console)
        if summary.exit_code == UNSETTLED:
            summary.advise_on_job(console, (*journal.again, *gateway.again))
    if json:
        print_json(summary.as_dict())
    return summary.exit_code

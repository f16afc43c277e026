"""Jobs of a journal: which one a file is, and `jobs`, which lists, shows, resolves, resumes."""

import asyncio
import contextlib
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import attrs
import orjson
from cyclopts import App, Parameter

from gateway_async.cli.console import plain_table, print_json, standard_output
from gateway_async.cli.orders import LAYOUTS, Totals, wording
from gateway_async.cli.run import (
    DONE,
    UNLISTED,
    UNSETTLED,
    RefusedError,
    Results,
    RunSummary,
    Stop,
    carry_out,
    collect,
    confirm,
    is_unlisted,
    job_cells,
    job_columns,
    reporting,
)
from gateway_async.cli.settings import (
    ConsoleArgument,
    FormatOption,
    JobOptions,
    Out,
    PaceOptions,
    ReportOption,
    Settings,
    YesOption,
)
from gateway_async.cli.tables import Format, OutFile, out_file
from gateway_async.errors import JobNotFoundError
from gateway_async.journal import JobState, JobStatus, Journal
from gateway_async.journal.rows import Row
from gateway_async.settings import place_of_gateway

_PAGE = 1000
_DIGITS = 16
"""Of the digest of a file's orders in the name of its job."""
_LONGEST_PART = 80
_MOST_TIMES = 100
"""So often the same orders are made again at most."""

# Which job a file is


@attrs.frozen(kw_only=True)
class KnownJob:
    """A job as a command finds it.

    Attributes:
        name: Its name.
        place: Its journal: the path of the file, or the database.
        status: How far it has come; None where it is new: none of its orders can have been sent.
        before: How far the jobs of the same orders have come that it is made again after.
    """

    name: str
    place: str
    status: JobStatus | None = None
    before: tuple[JobStatus, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether each of its orders succeeded or was declined: nothing is left to do."""
        return self.status is not None and _is_done(self.status)

    @property
    def asked(self) -> str:
        """Its description where a person is asked whether to go on."""
        if not self.before:
            return self.described
        before = "; ".join(f"{_named(one)} has {so_far(one)}" for one in self.before)
        return f"AGAIN, as {self.described} ({before})"

    @property
    def described(self) -> str:
        """How far it has come, in words."""
        if self.status is None:
            return f"new job {self.name} in {self.place}"
        kind = "is done" if self.is_done else "goes on"
        return f"{_named(self.status)} in {self.place} {kind}: {so_far(self.status)}"


def _is_done(status: JobStatus) -> bool:
    done = status.counts[JobState.SUCCEEDED] + status.counts[JobState.DECLINED]
    return done == status.total


def _named(status: JobStatus) -> str:
    return f"job {status.name} of {status.created_at:%Y-%m-%d %H:%M}"


def so_far(status: JobStatus) -> str:
    """Return how many orders are in each state, in words."""
    return ", ".join(f"{count:,} {state}" for state, count in status.counts.items() if count)


def name_of_orders(operation: str, settings: Settings, orders: str) -> str:
    """Return the name of the job of a file: made of its orders, and of who sends them where.

    Args:
        operation: What is done with them.
        settings: Name the gateway and the merchant.
        orders: The digest of the orders; how the file is written makes no difference to it.

    Raises:
        ConfigurationError: If the gateway's address is wrong.
    """
    gateway, who = place_of_gateway(settings.address), settings.who
    # Without the scheme, which the journal compares: a name that changes sends a file once more.
    place = gateway.partition("://")[2]
    parts = (operation, place, who["merchant_id"], who["account_id"], orders)
    digest = hashlib.sha256(orjson.dumps(parts)).hexdigest()[:_DIGITS]
    shown = (who["merchant_id"], urlsplit(gateway).netloc)
    return "-".join((operation, *(one[:_LONGEST_PART] for one in shown), digest))


def find_job(
    settings: Settings, name: str, *, again: bool | None = None, create: bool = True
) -> KnownJob:
    """Find out how far a job has come; no file is made where there is none.

    Args:
        settings: Name the journal.
        name: The name of the job.
        again: Whether the orders are to be sent once more when they are done, as `NAME-again-2`
            and so on; the last of these jobs is found. None for the job of that name alone.
        create: Whether the journal may be made in a database that is there.

    Raises:
        ConfigurationError: If it has no name, or the settings name no journal.
        JournalError: If the journal cannot be read.
    """
    numbers = () if again is None else range(2, _MOST_TIMES + 1)
    names, found = (name, *(f"{name}-again-{number}" for number in numbers)), list[JobStatus]()

    async def read() -> None:
        async with settings.open_journal(create=create) as journal:
            for one in names:
                journal.job(one)  # refuses what is no name
                try:
                    status = await journal.status(one)
                except JobNotFoundError:
                    return
                if not status.imported:  # what a killed import left is as good as new
                    return
                found.append(status)

    if (file := settings.journal_file) is None or file.exists():  # a server is asked
        asyncio.run(read())
    if not found:
        return KnownJob(name=name, place=settings.place)
    if again and _is_done(found[-1]):
        after = f"{name}-again-{len(found) + 1}"
        return KnownJob(name=after, place=settings.place, before=tuple(found))
    return KnownJob(name=found[-1].name, place=settings.place, status=found[-1])


async def rows_of(journal: Journal, name: str) -> AsyncIterator[Row]:
    """Read the orders of a job, in the order of the input."""
    rows = await journal.rows(name, limit=_PAGE)
    while rows:
        for row in rows:
            yield row
        rows = await journal.rows(name, after=rows[-1].index, limit=_PAGE)


# What a journal holds


jobs: App = App(name="jobs", help="List, show, resolve and resume the jobs of a journal.")

_SHOWN = 100
_IN_DOUBT = ("held", "unknown", "intent")
_DECISIONS = ("succeeded", "declined", "not_sent", "unknown")
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)
_LONGEST_SHOWN = 40
_NAMED = 5
_State = Literal["new", "intent", "succeeded", "declined", "unknown", "held"]


def _on_journal(gateway: JobOptions, work: Callable[[Journal], Awaitable[int]]) -> int:
    """Open a journal that is there, do something with it, and return the exit code."""

    async def opened() -> int:
        async with settings.open_journal(create=False) as found:
            return await work(found)

    settings = gateway.settings()
    return asyncio.run(opened())


def _facts(status: JobStatus) -> dict[str, Any]:
    """Return what is known of a job, as JSON has it."""
    return {
        "job": status.name,
        "operation": status.operation,
        "merchant_id": status.merchant_id,
        "account_id": status.account_id,
        "created_at": status.created_at.isoformat(),
        "orders": status.total,
        "states": {str(state): count for state, count in status.counts.items() if count},
        "is_running": status.is_running,
    }


@jobs.default
@jobs.command(name="list")
def list_jobs(
    *,
    json: bool = False,
    gateway: JobOptions = JobOptions(),
    console: ConsoleArgument,
) -> int:
    """List the jobs of a journal, the oldest first.

    Example: `gateway-async jobs list --json`

    Args:
        json: Print a JSON list with an object for each job.
    """
    statuses = asyncio.run(_statuses(gateway.settings()))
    if json:
        print_json([_facts(status) for status in statuses or ()])
    elif statuses:
        standard_output().print(_table(statuses))
    else:
        console.tell("jobs", f"there are no jobs yet in {gateway.settings().place}", count=0)
    return DONE


async def _statuses(settings: Settings) -> list[JobStatus]:
    """Return all jobs; none where no file of a journal was made yet."""
    if (file := settings.journal_file) is not None and not file.exists():
        return []
    async with settings.open_journal(create=False) as journal:
        return await journal.jobs()


def _table(statuses: Iterable[JobStatus]) -> Any:
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
    gateway: JobOptions = JobOptions(),
) -> int:
    """Show how far a job has come, and its orders in doubt, with index and reason.

    Nothing is sent.

    Example: `gateway-async jobs show NAME`

    Args:
        name: The name of the job.
        json: Print one JSON object; the first hundred orders in doubt are under `in_doubt`.
    """

    async def work(found: Journal) -> int:
        status = await found.status(name)
        columns = ("index", "state", *LAYOUTS[status.operation].naming, "reason")
        rows, count, unlisted = list[tuple[Any, ...]](), 0, 0
        async for row in rows_of(found, name):
            if row.state.value in _IN_DOUBT:
                count += 1
                unlisted += is_unlisted(row.outcome().error)
                if count <= _SHOWN:
                    names = (str(getattr(row.order, column)) for column in columns[2:-1])
                    rows.append((row.index, str(row.state), *names, row.known.text))
        if json:
            in_doubt = [dict(zip(columns, cells, strict=True)) for cells in rows]
            print_json({**_facts(status), "in_doubt": in_doubt, "in_doubt_count": count})
            return DONE
        table = standard_output()
        table.print(_table([status]))
        if count:
            table.print(plain_table(columns, rows, numbers=("index",)))
        if unlisted:
            table.print(UNLISTED.format(count=unlisted), soft_wrap=True)
        if count > _SHOWN:
            table.print(f"... and {count - _SHOWN:,} more; `jobs outcomes` writes them all")
        return DONE

    return _on_journal(gateway, work)


@jobs.command
def outcomes(
    name: str,
    /,
    *,
    out: Out,
    state: Annotated[tuple[_State, ...], Parameter(consume_multiple=False)] = (),
    stdio: FormatOption = Format.CSV,
    report: ReportOption = None,
    gateway: JobOptions = JobOptions(),
    console: ConsoleArgument,
) -> int:
    """Write the outcomes of the orders of a job, as the journal has them. Nothing is sent.

    Example: `gateway-async jobs outcomes NAME --state held --out held.csv`

    Args:
        name: The name of the job.
        out: The file; - for standard output.
        state: Only the orders in this state, such as held; may be repeated.
    """

    async def work(found: Journal) -> int:
        layout = LAYOUTS[(await found.status(name)).operation]
        summary = RunSummary(command="jobs outcomes", out=out, job=name)
        with (
            reporting(report, summary, console),
            out_file(out, stdio, console.warn) as file,
            file.writing(job_columns(layout)) as write,
        ):
            async for row in rows_of(found, name):
                if not state or row.state.value in state:
                    summary.see(row.outcome())
                    write(job_cells(name, row, layout))
        return UNSETTLED if file.problem else DONE

    return _on_journal(gateway, work)


# Deciding


@jobs.command
def resolve(
    name: str,
    /,
    *which: str,
    note: str | None = None,
    state: Annotated[
        tuple[Literal["held", "unknown"], ...], Parameter(consume_multiple=False)
    ] = (),
    gateway: JobOptions = JobOptions(),
    console: ConsoleArgument,
) -> int:
    """Decide the outcome of orders that are in doubt: of all that are named, or of none.

    Nothing is sent.

    Example: `gateway-async jobs resolve NAME 17 151-199 succeeded --note "seen in the portal"`

    Args:
        name: The name of the job.
        which: The orders, by their index in the job, from 0, as `jobs show` prints them, such as
            17 or 151-199; then their outcome: succeeded, declined, unknown, or not_sent,
            which lets the next run send them.
        note: Why, such as "seen in the merchant portal"; it must be given, and is kept.
        state: Only the orders in this state, of those that are named or else of the whole job;
            may be repeated.
    """

    async def work(found: Journal) -> int:
        *named, decision = which or ("",)
        indices = [text for one in named for text in one.split(",")]
        if decision not in _DECISIONS:
            got = f", got {decision[:_LONGEST_SHOWN]!r}" if decision else ""
            raise RefusedError(
                f"status: expected one of {', '.join(_DECISIONS)} behind the orders{got}"
            )
        if not indices and not state:
            raise RefusedError(
                "index: say which orders, by their index as `jobs show` prints it, such as 17 or "
                "151-199, or by --state held"
            )
        if note is None or not note.strip():
            raise RefusedError('--note: say why, such as --note "seen in the merchant portal"')
        status = await found.status(name)
        orders = await _orders(found, status, indices, state)
        await found.resolve(name, orders, decision, note)
        how_many = "1 order is" if len(orders) == 1 else f"{len(orders):,} orders are"
        column = LAYOUTS[status.operation].naming[-1]  # an index is soon mistaken for another
        first = [
            row for n in orders[:_NAMED] for row in await found.rows(name, after=n - 1, limit=1)
        ]
        shown = ", ".join(f"{row.index} ({column} {getattr(row.order, column)})" for row in first)
        more = f" and {len(orders) - _NAMED:,} more" if len(orders) > _NAMED else ""
        text = f"job {name}: {how_many} {decision}: {shown}{more}"
        console.tell("resolved", text, index=orders[:_NAMED], count=len(orders))
        return DONE

    return _on_journal(gateway, work)


async def _orders(
    journal: Journal, job: JobStatus, named: Iterable[str], state: Sequence[str]
) -> list[int]:
    """Return the indices that are meant.

    Raises:
        RefusedError: If there are none, or one that is beyond the last.
    """
    meant = set[int]()
    for text in named:
        found = _SPAN.fullmatch(text.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise RefusedError(
                f"index: expected such as 17 or 151-199, got {text[:_LONGEST_SHOWN]!r}"
            )
        if last >= job.total:
            raise RefusedError(
                f"index: job {job.name} has {job.total:,} orders, from 0 to {job.total - 1}; there "
                f"is no {last}"
            )
        meant.update(range(first, last + 1))
    if state:
        rows = [row async for row in rows_of(journal, job.name) if row.state.value in state]
        meant = {row.index for row in rows if not meant or row.index in meant}
    if not meant:
        raise RefusedError(f"--state: no order of them in job {job.name} is {' or '.join(state)}")
    return sorted(meant)


# Going on


async def _head(settings: Settings, name: str) -> tuple[JobStatus, Totals]:
    """Return how far a job has come, and what is left of it to be sent."""
    totals = Totals()
    async with settings.open_journal(create=False) as journal:
        status = await journal.status(name)
        if status.is_cut:
            raise RefusedError(
                f"job {name} was cut into slices, which workers run: start one with "
                "`gateway-async worker`, and see how far it comes with `gateway-async watch`"
            )
        layout = LAYOUTS[status.operation]
        if layout.confirms:
            async for row in rows_of(journal, name):
                if row.state is JobState.NEW:
                    totals.add(layout.moved(row.order))
    return status, totals


@jobs.command
def resume(
    name: str,
    /,
    *,
    out: Out,
    yes: YesOption = False,
    json: bool = False,
    pace: PaceOptions = PaceOptions(),
    stdio: FormatOption = Format.CSV,
    report: ReportOption = None,
    gateway: JobOptions = JobOptions(),
    console: ConsoleArgument,
) -> int:
    """Go on with a job whose orders are in the journal.

    Example: `gateway-async jobs resume NAME --out outcomes.csv`

    Args:
        name: The name of the job.
        out: The file for the outcomes; - for standard output.
        json: Print one JSON object at the end: counts, job, files and the next commands.
    """
    settings = gateway.settings(pace)
    credentials = settings.credentials(os.environ, console.warn)
    status, totals = asyncio.run(_head(settings, name))
    layout = LAYOUTS[status.operation]
    job = KnownJob(name=name, place=settings.place, status=status)
    summary = RunSummary(
        command="jobs resume",
        base_url=settings.address,
        out=out,
        format=stdio,
        job=name,
        journal=job.place,
    )

    def ask() -> None:
        if layout.confirms and totals.orders:
            what = wording(layout.command, totals, settings.address)
            confirm(console, f"{job.asked}: {what}", yes=yes)
        console.tell("resume", job.described, is_new=False, journal=job.place)

    async def work(stop: Stop) -> None:
        async with (
            settings.open_journal(create=False) as journal,
            settings.client(credentials, telemetry=summary.latencies) as client,
        ):
            with contextlib.closing(Results(layout, summary)) as results:
                batch = client.resume(journal.job(name))
                await collect(batch, results, console, stop, status.total)

    def write(file: OutFile) -> None:
        async def written() -> None:
            with file.writing(job_columns(layout)) as add:
                async with settings.open_journal(create=False) as journal:
                    async for row in rows_of(journal, name):
                        add(job_cells(name, row, layout))

        asyncio.run(written())

    return carry_out(
        *(summary, console, work, write),
        ask=ask,
        report=report,
        journal=settings.journal_file,
        json=json,
        options=gateway.again,
    )

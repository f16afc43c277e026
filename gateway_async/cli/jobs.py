"""Jobs of a journal: which one a file is, how one is run, and `jobs`, which lists and decides."""

import asyncio
import contextlib
import hashlib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Annotated, Any, Literal, TextIO
from urllib.parse import urlsplit

import attrs
import orjson
from cyclopts import App

from gateway_async.cli import options
from gateway_async.cli.console import Exit, counted, listed, output, print_json
from gateway_async.cli.orders import OrderFile
from gateway_async.cli.outcomes import Kept, rows_of, write_job
from gateway_async.cli.run import Run
from gateway_async.cli.settings import Settings
from gateway_async.errors import ConfigurationError, JobNotFoundError, JournalError
from gateway_async.journal import JobState, JobStatus, Journal
from gateway_async.journal.codec import difference
from gateway_async.journal.rows import Row
from gateway_async.journal.states import DECISIONS, IN_DOUBT
from gateway_async.operations import OPERATIONS, OperationClass
from gateway_async.report.report import Totals

_DIGITS = 16
"""Of the digest of a file's orders in the name of its job."""
_LONGEST_PART = 80
_LOOKED_THROUGH = 100_000
"""Among so many orders of the latest jobs, those of a new one are looked for: in a second."""

# Which job a file is


@attrs.frozen
class KnownJob:
    """A job as a command finds it.

    Attributes:
        name: Its name.
        place: Its journal: the path of the file, or the database.
        status: How far it has come; None where it is new: none of its orders can have been sent.
        before: How far the jobs of the same orders have come after which it is, or was, made again.
        others: Of each other job that has orders of a new one, too, what became of them.
    """

    name: str
    place: str
    status: JobStatus | None = None
    before: tuple[JobStatus, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether each of its orders succeeded or was declined: nothing is left to do."""
        status = self.status
        return status is not None and status.done and not status.counts[JobState.HELD]

    @property
    def states(self) -> dict[str, int]:
        """How many of its orders are in each state; empty where it is new."""
        return {} if self.status is None else states_of(self.status)

    def __str__(self) -> str:
        """How far it has come, and what was done before."""
        before = "; ".join(f"{_dated(one)} has {listed(states_of(one))}" for one in self.before)
        if self.status is not None:
            kind = "is done" if self.is_done else "goes on"
            held = "; without --again, orders that these have are held"
            made = f" (made by --again: {before}{held})" if before else ""
            return f"{_dated(self.status)} in {self.place} {kind}: {listed(self.states)}{made}"
        new = f"new job {self.name} in {self.place}"
        return f"AGAIN, as {new} ({before})" if before else "\n".join((*self.others, new))


def _date(status: JobStatus) -> str:
    return f"{status.created_at:%Y-%m-%d %H:%M}"


def _dated(status: JobStatus) -> str:
    return f"job {status.name} of {_date(status)}"


def states_of(status: JobStatus) -> dict[str, int]:
    """Return how many orders of a job are in each state that one is in."""
    return {str(state): count for state, count in status.counts.items() if count}


def name_of_orders(operation: str, settings: Settings, orders: str) -> str:
    """Return the name of the job of a file: made of its orders, and of who sends them where.

    Args:
        operation: What is done with them.
        settings: Name the gateway and the merchant.
        orders: The digest of the orders; how the file is written makes no difference to it.

    Raises:
        ConfigurationError: If the gateway's address is wrong.
    """
    gateway, merchant = settings.address, str(settings.merchant_id)
    # Without the scheme, which the journal compares: a name that changes sends a file once more.
    place = gateway.partition("://")[2]
    parts = (operation, place, merchant, settings.account_id, orders)
    digest = hashlib.sha256(orjson.dumps(parts)).hexdigest()[:_DIGITS]
    shown = (merchant, urlsplit(gateway).netloc)
    return "-".join((operation, *(one[:_LONGEST_PART] for one in shown), digest))


def find_job(
    settings: Settings, file: OrderFile, *, job: str | None = None, again: bool = False
) -> KnownJob:
    """Find out how far the job of a file has come; no journal is made where there is none.

    Args:
        settings: Name the journal.
        file: The file.
        job: The name of the job; by default, one that is made of its orders, and `-again-2` and so
            on behind it, where they were sent once more: the last of these jobs is found.
        again: Whether the orders are to be sent once more when they are done.

    Raises:
        ConfigurationError: If it has no name, the settings name no journal, the job of that name
            has other orders, or another job may pay a payout of the file.
        JournalError: If the journal cannot be read.
    """
    operation = file.operation
    name = job if job is not None else name_of_orders(operation.name, settings, file.digest)
    settings.open_journal(create=False).job(name)  # refuses what is no name
    made_again = (f"{name}-again-{number}" for number in itertools.count(2))
    names = itertools.chain([name], made_again if job is None else ())

    async def find() -> KnownJob:
        found, others = list[JobStatus](), list[str]()
        async with settings.open_journal() as journal:
            for one in names:
                try:
                    status = await journal.status(one)
                except JobNotFoundError:
                    break
                if not status.imported:  # what a killed import left is as good as new
                    break
                found.append(status)
            if found and job is not None:
                await _check_orders(journal, found[0], settings, file)
            if not found and not (again and operation.kind is OperationClass.KEYED):
                others = [one async for one in _others(journal, settings, file)]
        if not found:
            return KnownJob(name, settings.place, others=tuple(others))
        known = KnownJob(found[-1].name, settings.place, found[-1], before=tuple(found[:-1]))
        if again and known.is_done:
            return KnownJob(f"{name}-again-{len(found) + 1}", settings.place, before=tuple(found))
        return known

    place = settings.journal_file
    if place is not None and not place.exists():  # a server is asked
        return KnownJob(name, settings.place)
    return asyncio.run(find())


async def _check_orders(
    journal: Journal, job: JobStatus, settings: Settings, file: OrderFile
) -> None:
    """Refuse a file of other orders than those of the job that is to go on with it.

    Raises:
        ConfigurationError: Naming the first line that differs, its columns that do, and both values
            of the first of them; or for what, and for whom, the job is.
    """
    whose = {name: str(getattr(settings, name)) for name in ("merchant_id", "account_id")}
    subject = {"operation": file.operation.name, **whose, "gateway": settings.address}
    problem = (await journal.job(job.name).head()).difference(subject)
    orders = zip(file.lines, file.orders(), strict=False)
    async for row in rows_of(journal, job.name):
        line, order = next(orders, (0, row.order))
        if not problem and row.order != order:
            problem = f"line {line} has another {difference(row.order, order)}"
        if problem:
            break
    if not problem and job.total != file.totals.orders:
        problem = f"it has {job.total:,}, and the file {file.totals.orders:,}"
    if problem:
        raise ConfigurationError(
            f"job {job.name!r} has other orders: {problem}; nothing was sent. Give the file of the "
            "job, or, for different orders only, another --job"
        )


async def _others(journal: Journal, settings: Settings, file: OrderFile) -> AsyncIterator[str]:
    """Say what became of the orders of a file in the latest jobs: with another amount, say.

    Raises:
        ConfigurationError: If one of them may pay a payout of the file.
    """
    whose = (file.operation.name, settings.merchant_id, settings.account_id)
    is_allowed = settings.policy.duplicates == "allow"
    must_differ = settings.dialect.must_send_once(file.operation) and not is_allowed
    left = _LOOKED_THROUGH
    for job in reversed(await journal.jobs()):
        is_ours = (job.operation, job.merchant_id, job.account_id) == whose
        if not (is_ours and job.imported and job.gateway in ("", settings.address)):
            continue
        left -= job.total
        if left < 0:
            return
        states, differing, example = Counter[str](), 0, ""
        try:
            async for row in rows_of(journal, job.name):
                found = None if row.state is JobState.DECLINED else file.find(row.order)
                if found is None:
                    continue
                if must_differ:
                    raise ConfigurationError(
                        f"line {found[0]}: its request_id stands in job {job.name!r}, and may be "
                        "paid by it; nothing was sent. Leave out what that job has, or give "
                        "another payout a request_id of its own"
                    )
                states[row.state] += 1
                if not found[1]:
                    differing += 1
                    amount = " ".join(map(str, file.operation.moved_by(row.order) or ()))
                    example = example or f"line {found[0]}: {amount} there"
        except JournalError as error:  # such as one that another release stored
            yield f"{_dated(job)} may have orders of this file, too: {error}"
            continue
        if states.keys() - {JobState.NEW}:
            other = f", {differing:,} with another amount ({example})" if differing else ""
            count = counted(states.total(), "order")
            yield f"{_dated(job)} has {count} of this file ({listed(states)}){other}"


# Running one


def run_job(run: Run, known: KnownJob, question: str = "", file: OrderFile | None = None) -> int:
    """Run a job, write the outcomes of all of its orders, and return the exit code.

    Args:
        run: Takes in what it comes to.
        known: The job.
        question: What a person is asked, unless the job is done; nothing is asked if it is empty.
        file: The file that it is made from; None where the journal has its orders.

    Raises:
        ConfigurationError: If workers alone run it, or the answer was no.
    """
    run.job = known.name
    is_cut = known.status is not None and known.status.is_cut and known.status.imported
    if is_cut and not known.is_done:
        raise ConfigurationError(
            f"job {known.name!r} was cut into slices, which workers alone run; start one with:\n"
            f"  {options.worker_line(run.given)}"
        )
    if run.again:
        run.settings = _settings_of_again(run, known.status)
        if question and OPERATIONS[run.operation].confirms:
            question += "; refunds and payouts that other jobs made are made again"
    if question and not known.is_done:
        run.console.confirm(f"{known}: {question}")
    else:
        tell = run.console.say if known.others else run.console.note  # what may be sent once more
        tell(f"{known}{'; nothing is sent' * known.is_done}")
    reasons = Kept()

    async def drive() -> None:
        async with run.settings.open_journal() as journal, run.client() as client:
            job = journal.job(known.name)
            if file is None:
                batch, total = client.resume(job), sum(known.states.values())
            else:
                batch = client.batch(run.operation, file.orders(), job=job)
                total = file.totals.orders
            await run.drive(batch, total=total, see=reasons.note)

    async def work(out: TextIO) -> None:
        with run.keeping_failure():
            if not is_cut:  # else workers have done it, and no process can take it
                await drive()
        run.has_begun = True
        async with run.settings.open_journal(create=False) as journal:
            await write_job(run, journal, out, file=file, reasons=reasons)

    with contextlib.closing(reasons):
        return run.carry_out(work)


def _settings_of_again(run: Run, status: JobStatus | None) -> Settings:
    """Return settings that hold neither alike refunds nor payouts that other jobs have."""
    policy, recovery = run.settings.policy, run.settings.recovery
    # Where the journal is an old copy, refunds since the job began are its own; dates of the
    # gateway have whole seconds.
    is_off = status is None or recovery.hold_alike_hours is None
    recovery = attrs.evolve(recovery, hold_alike_hours=None if is_off else 1 / 3600)
    if OPERATIONS[run.operation].kind is OperationClass.KEYED:
        policy = attrs.evolve(policy, duplicates="allow")
    return attrs.evolve(run.settings, recovery=recovery, policy=policy)


# What a journal holds


jobs: App = App(
    name="jobs",
    help="""List, show, resolve and resume the jobs of a journal.

Example: `gateway-async jobs show NAME`""",
)

_SHOWN = 100
_SPAN = re.compile(r"([0-9]+)(?:-([0-9]+))?", re.ASCII)


def _facts(status: JobStatus) -> dict[str, Any]:
    """Return what is known of a job, as JSON has it."""
    names = ("operation", "gateway", "merchant_id", "account_id", "created_at")
    return {
        "job": status.name,
        **{name: getattr(status, name) for name in names},
        "orders": status.total,
        "states": states_of(status),
        "is_running": status.is_running,
    }


def _running(status: JobStatus, settings: Settings) -> str:
    words = f"running, or its process ended within {settings.journal_lease_seconds:g} s"
    return words if status.is_running else "no"


async def _read(settings: Settings, name: str) -> tuple[JobStatus, Mapping[str, Totals], list[Row]]:
    """Return how far a job has come, its sums by state, and its first orders in doubt."""
    async with settings.open_journal(create=False) as journal:
        status, in_doubt = await journal.status(name), list[Row]()
        totals = defaultdict[str, Totals](lambda: Totals(dialect=settings.dialect))
        async for row in rows_of(journal, name):
            totals[row.state].add(row.operation.moved_by(row.order))
            if row.state in IN_DOUBT and len(in_doubt) < _SHOWN:
                in_doubt.append(row)
    return status, totals, in_doubt


@jobs.command(name="list")
async def list_jobs(
    *, json: bool = False, given: options.Stored = options.Stored(), console: options.Shown
) -> None:
    """List the jobs of a journal, the oldest first.

    Example: `gateway-async jobs list --json`

    Args:
        json: Print a JSON list with an object for each job.
    """
    settings = given.settings()
    async with settings.open_journal(create=False) as journal:
        # Orders that are refused when they are handed over leave a job without any.
        statuses = [one for one in await journal.jobs() if one.total or one.imported]
    if json:
        print_json([_facts(status) for status in statuses])
        return
    if not statuses:
        console.note(f"there are no jobs yet in {settings.place}")
    for status in statuses:
        states = listed(states_of(status)) or "no orders"
        place = f" at {status.gateway}" if status.gateway else ""
        output(f"{status.name}\n  {status.operation} of {_date(status)}{place}: {states}")
        if status.is_running:
            output(f"  {_running(status, settings)}")


@jobs.command
async def show(
    name: str, /, *, json: bool = False, given: options.Stored = options.Stored()
) -> None:
    """Show how far a job has come, and its orders in doubt, with index and reason.

    Example: `gateway-async jobs show NAME`

    Args:
        name: The name of the job.
        json: Print one JSON object; the first hundred orders in doubt are under `in_doubt`.
    """
    settings = given.settings()
    status, totals, in_doubt = await _read(settings, name)
    operation, count = OPERATIONS[status.operation], sum(totals[one].orders for one in IN_DOUBT)
    is_keyed = operation.kind is OperationClass.KEYED
    naming = (operation.identity_field,) if is_keyed else ("transaction_id", "order_no")
    rows: list[tuple[Any, ...]] = [
        (row.index, str(row.state), *(getattr(row.order, one) for one in naming), row.known.text)
        for row in in_doubt
    ]
    facts = _facts(status)
    if json:
        columns = ("index", "state", *naming, "reason")
        listing = [dict(zip(columns, cells, strict=True)) for cells in rows]
        facts["amounts"] = {str(state): one.amounts for state, one in totals.items() if one.orders}
        print_json({**facts, "in_doubt": listing, "in_doubt_count": count})
        return
    facts["created_at"], facts["is_running"] = _date(status), _running(status, settings)
    facts["states"] = listed(totals) or "no orders"
    for field, value in facts.items():
        output(f"{field:<12} {value}")
    if count:
        output(f"\nindex  state    {'  '.join(naming)}")
    for index, state, *ids, reason in rows:
        output(f"{index:>5}  {state:<7}  {'  '.join(ids)}\n       {reason}")
    if count > _SHOWN:
        output(f"... and {count - _SHOWN:,} more; `jobs outcomes` writes them all")


@jobs.command
def outcomes(
    name: str,
    /,
    *,
    state: Annotated[tuple[JobState, ...], options.Repeated] = (),
    given: options.Written = options.Written(),
    console: options.Shown,
) -> int:
    """Write the outcomes of the orders of a job, as the journal has them. Nothing is sent.

    Example: `gateway-async jobs outcomes NAME --state held --out held.csv`

    Args:
        name: The name of the job.
        state: Only the orders in this state, such as held; may be repeated.
    """
    run = Run(command="jobs outcomes", console=console, given=given, job=name)
    run.check(needs_secret=False)

    async def write(out: TextIO) -> None:
        async with run.settings.open_journal(create=False) as journal:
            status = await journal.status(name)
            run.gateway, run.operation, run.has_begun = status.gateway, status.operation, True
            await write_job(run, journal, out, states=state)

    run.carry_out(write)
    return Exit.UNSETTLED if run.misplaced or run.failure else Exit.DONE


# Deciding


@jobs.command
async def resolve(
    name: str,
    /,
    *which: str,
    note: str,
    state: Annotated[tuple[Literal["held", "unknown"], ...], options.Repeated] = (),
    given: options.Stored = options.Stored(),
    console: options.Shown,
) -> None:
    """Decide on orders that are in doubt, on all that are named or on none; nothing is sent.

    Example: `gateway-async jobs resolve NAME 17 151-199 succeeded --note "seen in the portal"`

    Args:
        name: The name of the job.
        which: The orders, by their index in the job, from 0, as `jobs show` prints them, such as
            17 or 151-199, or payouts by their request_id; then their outcome: succeeded, declined,
            unknown, or not_sent, which lets the next run send them.
        note: Why, such as "seen in the merchant portal"; it is kept.
        state: In place of names: all orders of the job that are in this state; may be repeated.
    """
    *words, decision = which or ("",)
    if decision not in DECISIONS or bool(words) == bool(state):
        wrong = f"{decision!r} is no outcome; " if which and decision not in DECISIONS else ""
        raise ConfigurationError(
            f"{wrong}name the orders and then their outcome, such as `17 151-199 succeeded`, or "
            f"`declined --state held`; the outcome is one of {', '.join(DECISIONS)}"
        )
    async with given.settings().open_journal(create=False) as journal:
        status = await journal.status(name)
        meant = [one for text in words for one in _named(text, status)]
        if state:
            meant += [row.index async for row in rows_of(journal, name) if row.state in state]
        await journal.resolve(name, meant, decision, note)
    then = "; the next run of the job sends them" if decision == "not_sent" else ""
    console.note(f"job {name}: {counted(len(meant), 'order')} {decision}{then}")


def _named(text: str, job: JobStatus) -> Iterable[int | str]:
    """Return the indexes that `17` or `151-199` stands for; of payouts, also a request_id.

    Raises:
        ConfigurationError: If it is none of these.
    """
    if (found := _SPAN.fullmatch(text)) is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if first <= last:
            return range(first, min(last, max(first, job.total)) + 1)
    if OPERATIONS[job.operation].kind is OperationClass.KEYED:
        return [text]
    raise ConfigurationError(
        f"{text!r} is no index of an order, such as 17, and no range of them, such as 151-199; "
        "`jobs show` lists them"
    )


# Going on


@jobs.command
def resume(
    name: str, /, *, given: options.Resuming = options.Resuming(), console: options.Shown
) -> int:
    """Go on with a job whose orders are in the journal.

    Example: `gateway-async jobs resume NAME --out outcomes.csv`

    Args:
        name: The name of the job.
    """
    run = Run(command="jobs resume", console=console, given=given)
    run.check()
    status, totals, _ = asyncio.run(_read(run.settings, name))
    run.operation = status.operation
    left, resent = Totals(dialect=run.settings.dialect), run.settings.recovery.resend_absent
    for state in (JobState.NEW, *(IN_DOUBT if resent else ())):
        left.include(totals[state])
    is_asked = left.orders and OPERATIONS[status.operation].confirms and not given.yes
    asked = f"{status.operation} {left} at {run.settings.address}" if is_asked else ""
    return run_job(run, KnownJob(name, run.settings.place, status), asked)

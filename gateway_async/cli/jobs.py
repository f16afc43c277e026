"""List, show, resolve and resume the jobs of a journal.

Example: `gateway-async jobs show NAME`
"""
# This is the help of `jobs`; the first half finds the job of a file, and runs one.

import asyncio
import contextlib
import hashlib
import itertools
import os
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import attrs
import orjson
from cyclopts import App, Parameter
from cyclopts.types import PositiveInt

from gateway_async.cli import options
from gateway_async.cli.console import (
    Console,
    Exit,
    counted,
    listed,
    output,
    print_json,
    progress,
    stoppable,
)
from gateway_async.cli.files import OrderFile, open_orders
from gateway_async.cli.kept import Kept
from gateway_async.cli.run import Run, carried_out, drive, orders_of, write_job
from gateway_async.cli.settings import Settings
from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.journal import JobStatus, Journal, OrderState
from gateway_async.journal.states import IN_DOUBT, Proof
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS, Operation
from gateway_async.outcomes import Outcome
from gateway_async.report.report import Totals
from gateway_async.settings import WorkerPolicy
from gateway_async.workers import Workers
from gateway_async.workers.workers import watch as watch_job

_DIGITS = 16
"""Of the digest of a file's orders in the name of its job."""
_LONGEST_PART = 80
_LOOKED_THROUGH = 100_000
"""Among so many orders of the latest jobs, those of a new one are looked for: in a second."""
_MOST_SHOWN = 300
"""So many orders are in the requests that a dry run shows."""

# Which job a file is


@attrs.frozen
class KnownJob:
    """A job as a command finds it.

    Attributes:
        name: Its name.
        operation: What is done with its orders.
        settings: Name its journal and the gateway.
        places: Which row of the file each of its orders has; empty if it has others.
        left: What its next run sends, in all.
        first: The first orders that its next run sends.
        status: How far it has come; None where it is new: none of its orders can have been sent.
        before: How far the jobs of the same orders have come after which it is, or was, made again.
        others: The state of the orders of a new job in each other job that has them, too.
    """

    name: str
    operation: Operation
    settings: Settings
    places: Sequence[int]
    left: Totals
    first: Sequence[Any]
    status: JobStatus | None = None
    before: tuple[JobStatus, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do."""
        return self.status is not None and _is_done(self.status)

    def confirm(self, console: Console, *, yes: bool) -> bool:
        """Ask before money leaves, or orders of a job are sent again; return whether it was asked.

        Raises:
            ConfigurationError: If the answer was no.
        """
        is_repeated = self.status is None and bool(self.others or self.before)
        is_asked = self.left.orders and (self.operation.confirms or is_repeated) and not yes
        if is_asked:
            console.confirm(f"{self}: {self.operation} {self.left} at {self.settings.address}")
        return bool(is_asked)

    def __str__(self) -> str:
        """How far it has come, and what was done before."""
        before = "; ".join(f"{_dated(one)} has {listed(one.counts)}" for one in self.before)
        place = self.settings.place
        if self.status is not None:
            kind = "is done" if self.is_done else "goes on"
            made = f" (made by --again: {before}; refunds that these have are held)"
            text = f"{_dated(self.status)} in {place} {kind}: {listed(self.status.counts)}"
            return f"{text}{made if before else ''}"
        new = f"new job {self.name} in {place}"
        return f"AGAIN, as {new} ({before})" if before else "\n".join((*self.others, new))


def _dated(status: JobStatus) -> str:
    return f"job {status.name} of {status.created_at.astimezone():%Y-%m-%d %H:%M}"


def _is_done(status: JobStatus) -> bool:
    """Return whether each order of a job succeeded or was declined: nothing is left to do."""
    return status.done and not status.counts[OrderState.HELD]


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


async def find_job(file: OrderFile, *, job: str | None = None, again: bool = False) -> KnownJob:
    """Find out how far the job of a file has come; no journal is made where there is none.

    Args:
        file: The file.
        job: The name of the job; by default, one that is made of its orders, and `-again-2` and so
            on behind it, where they were sent once more: the last of these jobs is found.
        again: Whether the orders are to be sent once more when they are done.

    Raises:
        ConfigurationError: If it has no name, the settings name no journal, or it is to be sent
            once more while another job has orders of it in doubt.
        JournalError: If the journal cannot be read.
    """
    settings = file.settings
    settings.check_named()
    name = job if job is not None else name_of_orders(file.operation.name, settings, file.digest)
    settings.open_journal().job(name)  # refuses what is no name
    first = [*itertools.islice(file.orders(), _MOST_SHOWN)]
    rows = range(file.totals.orders)
    new = KnownJob(name, file.operation, settings, rows, file.totals, first)
    place = settings.journal_file
    if place is not None and not place.exists():  # a server is asked
        return new
    made_again = (f"{name}-again-{number}" for number in itertools.count(2))
    names = itertools.chain([name], made_again if job is None else ())
    async with settings.open_journal() as journal:
        there = {one.name: one for one in await journal.jobs()}
        found = tuple([there[one] for one in itertools.takewhile(there.__contains__, names)])
        if not found:
            others = [one async for one in _others(journal, reversed(there.values()), file)]
            if again and (left := [text for text, is_left in others if is_left]):
                problem = "--again: orders of this file are in doubt; decide on them first"
                raise ConfigurationError("\n".join((problem, *left)))
            return attrs.evolve(new, others=tuple([text for text, _ in others]))
        if again and _is_done(found[-1]):
            return attrs.evolve(new, name=f"{name}-again-{len(found) + 1}", before=found)
        return await read_job(journal, found[-1], settings, file, found[:-1])


async def read_job(
    journal: Journal,
    status: JobStatus,
    settings: Settings,
    file: OrderFile | None = None,
    before: tuple[JobStatus, ...] = (),
) -> KnownJob:
    """Read a job, and what its next run sends.

    With `resend_absent`, that is all that it may send: a look-up shows first what is absent.

    Args:
        journal: Has the job.
        status: How far it has come.
        settings: Say what is sent again, and how amounts are written.
        file: The file of its orders; None where the journal alone has them.
        before: How far the jobs have come after which it was made again.
    """
    hashes, left, first = array("q"), Totals(dialect=settings.dialect), list[Any]()
    operation = OPERATIONS[status.operation]
    resends = settings.recovery.resend_absent and operation.recovered_by
    async for each in orders_of(journal, status.name):
        hashes.append(hash(each.order))
        may_be_absent = each.state in IN_DOUBT and each.known.proof != Proof.NEVER_SENT
        if each.state is OrderState.NEW or (resends and may_be_absent):
            left.add(operation.moved_by(each.order))
            first.extend([each.order] * (len(first) < _MOST_SHOWN))
    places = match_rows(hashes, file.hashes if file else hashes)
    return KnownJob(status.name, operation, settings, places, left, first, status, before)


def match_rows(job: Sequence[int], file: Sequence[int]) -> Sequence[int]:
    """Return which row of a file each order of a job has; empty if it has others.

    Orders that are alike in every field have their rows in sequence.

    Args:
        job: The hashes of the orders of the job.
        file: Those of the file.
    """
    if job == file:
        return range(len(file))
    if sorted(job) != sorted(file):
        return ()
    by_hash = (sorted(range(len(one)), key=one.__getitem__) for one in (job, file))
    return [place for _, place in sorted(zip(*by_hash, strict=True))]


async def _others(
    journal: Journal, latest: Iterable[JobStatus], file: OrderFile
) -> AsyncIterator[tuple[str, bool]]:
    """Name the state of a file's orders in the latest jobs that sent any, or whose workers will.

    Beside it stands whether any is known to be in doubt, or still to be sent.
    """
    left = _LOOKED_THROUGH
    for job in (job for job in latest if job.operation == file.operation.name):
        left -= job.total
        if left < 0:
            return
        states = Counter[str]()
        try:
            async for each in orders_of(journal, job.name):
                states[each.state] += file.has(each.order)
        except JournalError as error:  # such as one that another release stored
            yield f"{_dated(job)} may have orders of this file, too: {error}", False
            continue
        idle = {OrderState.DECLINED}
        if not job.is_sliced:  # else workers send what is new
            idle.add(OrderState.NEW)
        if found := {*+states} - idle:
            count = counted(states.total(), "order")
            is_left = bool(found - {OrderState.SUCCEEDED})
            yield f"{_dated(job)} has {count} of this file ({listed(states)})", is_left


# Running one


async def run_job(
    run: Run, known: KnownJob, file: OrderFile | None = None, *, yes: bool = False
) -> int:
    """Run a job, write the outcomes of all of its orders, and return the exit code.

    Args:
        run: Takes in what it comes to.
        known: The job.
        file: The file that it is made from; None where the journal has its orders.
        yes: Whether no person is asked.

    Raises:
        ConfigurationError: If the answer was no.
    """
    run.job = known.name
    if run.again and known.status is None:  # no alike refund, no paid payout is held
        settings, is_keyed = run.settings, known.operation.is_keyed
        recovery = attrs.evolve(settings.recovery, hold_alike_hours=None)
        duplicates = "allow" if is_keyed else settings.policy.duplicates
        policy = attrs.evolve(settings.policy, duplicates=duplicates)
        run.settings = attrs.evolve(settings, recovery=recovery, policy=policy)
    is_asked = known.confirm(run.console, yes=yes)
    tell = run.console.say if known.others else run.console.note  # what may be sent once more
    with carried_out(run) as out, contextlib.closing(Kept()) as reasons:

        def see(outcome: Outcome[Any, Any]) -> None:
            """Keep why this run did not send an order, which a journal does not know."""
            if outcome.status is OutcomeStatus.NOT_SENT:
                reasons[outcome.index] = str(outcome.error)

        async with run.settings.open_journal() as journal, run.client() as client:
            job = journal.job(known.name)
            if not is_asked and known.places:  # or else it has other orders, and is refused
                tell(f"{known}{'; no order is sent' * (not known.left.orders)}")
            if file is not None and (known.status is None or not known.places):
                batch = client.batch(run.operation, file.orders(), job=job)
            else:
                batch = client.resume(job)
            await drive(run, batch, total=len(known.places), see=see)
        async with run.settings.open_journal(create=False) as journal:
            await write_job(run, journal, out, file=file, places=known.places, reasons=reasons)
    return run.exit_code


# What a journal holds


jobs: App = App(name="jobs", help=__doc__)

_SHOWN = 100
_NAMING = ("transaction_id", "order_no", "request_id")


def facts_of(status: JobStatus) -> dict[str, Any]:
    """Return what is known of a job, as JSON has it."""
    names = ("operation", "gateway", "merchant_id", "account_id", "created_at", "is_running")
    return {
        "job": status.name,
        **{name: getattr(status, name) for name in names},
        "orders": status.total,
        "states": {str(state): count for state, count in status.counts.items() if count},
    }


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
        statuses = await journal.jobs()
    if json:
        print_json([facts_of(status) for status in statuses])
        return
    if not statuses:
        console.note(f"there are no jobs yet in {settings.place}")
    for status in statuses:
        _print(status, listed(status.counts))


def _print(status: JobStatus, states: str) -> None:
    place = f" at {status.gateway}" if status.gateway else ""
    output(f"{_dated(status)}: {status.operation}{place}\n  {states or 'no orders'}")
    if status.is_running:
        output("  running, or its process ended within seconds")


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
    async with settings.open_journal(create=False) as journal:
        status, in_doubt = await journal.status(name), list[dict[str, Any]]()
        operation = OPERATIONS[status.operation]
        totals = {str(one): Totals(dialect=settings.dialect) for one in OrderState}
        async for each in orders_of(journal, name):
            order, state = each.order, each.state
            totals[state].add(operation.moved_by(order))
            if state in IN_DOUBT and len(in_doubt) < _SHOWN:
                named = {one: getattr(order, one) for one in _NAMING if hasattr(order, one)}
                reason = str(each.outcome().error)
                in_doubt.append({"index": each.index, "state": state, **named, "reason": reason})
    count = sum(totals[one].orders for one in IN_DOUBT)
    if json:
        amounts = {state: one.amounts for state, one in totals.items() if one.orders}
        doubt = {"in_doubt": in_doubt, "in_doubt_count": count}
        print_json({**facts_of(status), "amounts": amounts, **doubt})
        return
    _print(status, listed(totals))
    for row in in_doubt:
        output("  ".join(map(str, row.values())))
    if more := count - len(in_doubt):
        output(f"and {more:,} more; `jobs outcomes` writes them all")


@jobs.command
async def outcomes(
    name: str, /, *, given: options.Written = options.Written(), console: options.Shown
) -> int:
    """Write the outcomes of the orders of a job, as the journal has them. Nothing is sent.

    Example: `gateway-async jobs outcomes NAME --out outcomes.csv`

    Args:
        name: The name of the job.
    """
    run = Run(command="jobs outcomes", console=console, given=given, job=name)
    run.check(needs_secret=False)
    with carried_out(run) as out:
        async with run.settings.open_journal(create=False) as journal:
            await write_job(run, journal, out)
    return run.exit_code


# Deciding


@jobs.command
async def resolve(
    name: str,
    outcome: Literal["succeeded", "declined", "not_sent", "unknown"],
    /,
    *orders: options.Index,
    note: str,
    state: Annotated[
        tuple[Literal["held", "unknown"], ...], Parameter(consume_multiple=False)
    ] = (),
    given: options.Stored = options.Stored(),
    console: options.Shown,
) -> None:
    """Decide on orders that are in doubt, on all that are named or on none; nothing is sent.

    Example: `gateway-async jobs resolve NAME succeeded 17 151 --note "seen in the portal"`

    Args:
        name: The name of the job.
        outcome: Their outcome; not_sent lets the next run send them.
        orders: The orders, by their index in the job, from 0, as `jobs show` prints it.
        note: Why, such as "seen in the merchant portal"; it is kept.
        state: In place of orders: all of the job that are in this state; may be repeated.
    """
    if bool(orders) == bool(state):
        raise ConfigurationError("resolve: expected orders, or --state, and not both")
    async with given.settings().open_journal(create=False) as journal:
        found = [each.index async for each in orders_of(journal, name) if each.state in state]
        meant = [*dict.fromkeys((*orders, *found))]
        await journal.resolve(name, meant, outcome, note)
    sent = "it" if len(meant) == 1 else "them"
    then = f"; the next run of the job sends {sent}" if outcome == "not_sent" else ""
    console.note(f"job {name}: {counted(len(meant), 'order')} {outcome}{then}")


# Going on


@jobs.command
async def resume(
    name: str, /, *, given: options.Resuming = options.Resuming(), console: options.Shown
) -> int:
    """Go on with a job whose orders are in the journal.

    Example: `gateway-async jobs resume NAME --out outcomes.csv`

    Args:
        name: The name of the job.
    """
    run = Run(command="jobs resume", console=console, given=given)
    run.check()
    async with run.settings.open_journal(create=False) as journal:
        known = await read_job(journal, await journal.status(name), run.settings)
    run.operation = str(known.operation)
    return await run_job(run, known, yes=given.yes)


# Jobs that many machines run, from one queue and one journal

_POLICY = WorkerPolicy()
_SUBMITTED = [name for name, row in OPERATIONS.items() if row.takes_jobs and row.list_field]


async def submit(
    orders: options.Source,
    /,
    *,
    job: str,
    operation: Annotated[str, Parameter(choices=_SUBMITTED)] = "refund",
    slice_size: PositiveInt = _POLICY.slice_size,
    duplicates: options.Duplicates = None,
    yes: bool = False,
    given: options.Journaled = options.Journaled(),
    console: options.Shown,
) -> None:
    """Keep the orders of a file in the journal, for workers alone to send.

    Example: `gateway-async submit refunds.csv --job monday --journal
    postgresql://me@db.example/gateway`

    Nothing is sent by this command. From then on workers alone run the job, whatever the journal;
    they find it within seconds.

    Args:
        orders: The file with the orders, one a row: CSV or JSON Lines; - for standard input.
        job: The name of the job: the same command, given again, is harmless.
        operation: What is done with them.
        slice_size: How many orders a worker takes at a time.
        duplicates: What to do with several rows of one transaction: refuse the file, or send them
            one after the other.
        yes: Do not ask before the job is handed to the workers.
    """
    settings = given.settings()
    credentials = settings.credentials(os.environ)
    policy = attrs.evolve(settings.policy, duplicates=duplicates or settings.policy.duplicates)
    settings = attrs.evolve(settings, policy=policy)
    with open_orders(orders, OPERATIONS[operation], settings) as file:
        known = await find_job(file, job=job)
        if file.unread:
            console.note(f"columns that are not sent: {file.unread}")
        known.confirm(console, yes=yes)
        async with settings.open_journal() as journal, settings.client(credentials) as client:
            kept, sent = journal.job(job), file.orders()
            console.has_begun = True  # from here on, workers may send it
            total = await client.submit(operation, sent, job=kept, slice_size=slice_size)
    then = f"workers alone run its {counted(total, 'order')} from now on (`gateway-async worker`)"
    if known.is_done:
        then = "nothing is left to send"
    console.note(f"{known}; {then}")


async def worker(
    *,
    slices: PositiveInt = 10,
    broker: str | None = None,
    queue: str = "gateway_async",
    given: options.Running = options.Running(),
    console: options.Shown,
) -> int:
    """Run slices of jobs that many machines share, until it is stopped.

    Example: `gateway-async worker --broker amqp://mq.example/ --journal
    postgresql://me@db.example/gateway`

    The first signal lets the slices that run come to an end, a second one breaks them off (exit
    code 3).

    A rate is shared by all workers of this merchant, whatever machine they are on; it needs a
    journal on PostgreSQL. A deadline is each slice's.

    Args:
        slices: How many slices are run at once.
        broker: The RabbitMQ, such as amqp://host/. A URL with a password goes into
            GATEWAY_BROKER.
        queue: The name of the queue: one for each merchant and journal.
    """
    options.check_no_password("broker", broker)
    settings, url = given.settings(), broker or os.environ.get("GATEWAY_BROKER")
    if not url:
        raise ConfigurationError(
            "--broker: name the RabbitMQ to work for, such as amqp://HOST/ (or GATEWAY_BROKER)"
        )
    credentials = settings.credentials(os.environ)
    from gateway_async.workers.rabbit import rabbit_broker, serve  # isort: skip  # names the extra
    from aio_pika.exceptions import AMQPError

    made = rabbit_broker(url, queue=queue, slices_at_once=slices)

    @contextlib.asynccontextmanager
    async def client() -> AsyncIterator[GatewayClient]:
        shared: contextlib.AbstractAsyncContextManager[Any] = contextlib.nullcontext()
        if settings.rate is not None:  # of all workers together
            from gateway_async.workers.rate import shared_rate

            who = f"{credentials.merchant_id}/{credentials.account_id} at {settings.address}"
            requests = max(1, int(settings.rate))  # at once: no more than a second has
            seconds = requests / settings.rate
            shared = shared_rate(settings.journal, who, requests=requests, seconds=seconds)
        async with shared as limiter, settings.client(credentials, limiter=limiter) as one:
            yield one

    settings.open_journal()  # makes the folder of the usual one, for this user alone
    Workers(made, client, settings.journal)
    until = asyncio.Event()  # the slices that run come to an end
    code = Exit.UNSETTLED  # if they are broken off
    console.note(f"working for queue {queue}")
    try:
        with stoppable(console, drain=until.set):
            await serve(made, until, slices_at_once=slices)
            code = Exit.DONE
    except AMQPError as error:
        reason = type(error).__name__
        raise ConfigurationError(
            "--broker: it cannot be reached, or refuses the user, the virtual host or the "
            f"queue ({reason})"
        ) from None
    return code


async def watch(
    job: str,
    /,
    *,
    json: bool = False,
    given: options.Stored = options.Stored(),
    console: options.Shown,
) -> int:
    """Show how far a job has come that workers run, until it is done. Nothing is sent.

    Example: `gateway-async watch monday`

    Args:
        job: The name of the job.
        json: Print one JSON object at the end, as `jobs show --json` does without amounts.
    """
    held = f"what waits for your decision is listed by\n  {given.line('jobs', 'show', job)}"
    async with given.settings().open_journal(create=False) as journal:
        last = await journal.status(job)
        with progress(console, job, last.total, lambda: (last.settled, last.counts)):
            async for last in watch_job(journal, job, _POLICY.watch_seconds):
                if last.counts[OrderState.HELD] and not (last.is_running or last.done):
                    console.note(held)  # others may wait for them, and the job with these
    console.say(f"job {job}: {listed(last.counts) or 'no orders'}")
    if json:
        print_json(facts_of(last))
    succeeded = last.counts[OrderState.SUCCEEDED]
    if succeeded == last.total:
        return Exit.DONE
    if succeeded + last.counts[OrderState.DECLINED] == last.total:
        return Exit.NOT_ALL_DONE
    console.say(held)
    return Exit.UNSETTLED

"""`submit`, `worker` and `watch`: jobs that many machines run, from one queue and one journal."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal

import attrs

from gateway_async.cli import options
from gateway_async.cli.console import counted, gauged, print_json
from gateway_async.cli.jobs import find_job, so_far, states_of
from gateway_async.cli.orders import LAYOUTS, OrderFile
from gateway_async.cli.run import DONE, NOT_ALL_DONE, UNSETTLED, Stop, next_line
from gateway_async.cli.settings import Settings
from gateway_async.cli.tables import open_table
from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError
from gateway_async.journal import JobState
from gateway_async.journal.location import locate
from gateway_async.settings import WorkerPolicy
from gateway_async.signing import Credentials
from gateway_async.workers import Workers
from gateway_async.workers.workers import watch as watch_job

_POLICY = WorkerPolicy()


def _make(
    settings: Settings,
    credentials: Credentials,
    broker: Any,
    policy: WorkerPolicy,
    rate: float | None = None,
) -> Workers:
    """Make what submits jobs, or works on them.

    Args:
        settings: Name the gateway and the journal.
        credentials: Who speaks, and how it signs.
        broker: The queue, or what stands in for one.
        policy: How jobs are cut and worked on.
        rate: Requests a second of all workers together; None for no limit.
    """

    @contextlib.asynccontextmanager
    async def client() -> AsyncIterator[GatewayClient]:
        async with contextlib.AsyncExitStack() as opened:
            limiter = None
            if rate is not None:
                from gateway_async.workers.rate import shared_rate

                who = f"{credentials.merchant_id}/{credentials.account_id} at {settings.address}"
                exact = Fraction(rate).limit_denominator(100)  # requests in so many seconds
                requests, seconds = max(1, exact.numerator), float(exact.denominator)
                shared = shared_rate(settings.journal, who, requests=requests, seconds=seconds)
                limiter = await opened.enter_async_context(shared)
            made = settings.client(credentials, limiter=limiter)
            yield await opened.enter_async_context(made)

    settings.open_journal()  # makes its folder and file, for this user alone
    return Workers(broker, client, locate(settings.journal).absolute_url, policy=policy)


@contextlib.contextmanager
def _reaching_the_queue() -> Iterator[None]:
    """Say that the queue cannot be reached.

    Raises:
        ConfigurationError: If it cannot.
    """
    try:
        yield
    except ConnectionError as error:
        raise ConfigurationError(
            f"--broker: it cannot be reached ({type(error).__name__})"
        ) from None


def submit(
    orders: options.Source,
    /,
    *,
    job: str,
    operation: Literal["capture", "cancel", "review", "refund"] = "refund",
    slice_size: Annotated[int, options.AtLeastOne] = _POLICY.slice_size,
    duplicates: options.Duplicates = None,
    yes: bool = False,
    queue: options.Queue = options.Queue(),
    gateway: options.Journaled = options.Journaled(),
    console: options.Shown,
) -> int:
    """Keep the orders of a file in the journal, for workers alone to send.

    Example: `gateway-async submit refunds.csv --job monday --journal
    postgresql://me@db.example/gateway`

    Nothing is sent by this command, and from then on workers alone run the job, whatever the
    journal. The queue, if one is named, hears of the job at once; else the workers find it by
    themselves within seconds.

    Args:
        orders: The CSV file with the orders, one a row, or - for standard input.
        job: The name of the job: the same command, given again, is harmless.
        operation: What is done with them.
        slice_size: How many orders a worker takes at a time.
        duplicates: What to do with several rows of one transaction: refuse the file, or send them
            one after the other.
        yes: Do not ask before the job is handed to the workers.
    """
    layout, settings = LAYOUTS[operation], gateway.settings(duplicates=duplicates)
    repeats = settings.policy.duplicates != "reject"
    with open_table(orders) as table:
        file = OrderFile(table, layout, settings.dialect, repeats=repeats)
        credentials = settings.credentials(os.environ, console.warn)
        known, url = find_job(settings, job), queue.url()
        if file.operation.confirms and not yes:
            question = f"{known.asked}, for workers alone: {file.question(settings.address)}"
            console.confirm(question)

        async def wake_nobody(job: str, slice_number: int) -> None:
            """Stand in for a queue that is not named."""

        async def work() -> int:
            broker: Any = wake_nobody
            if url is not None:
                from gateway_async.workers.rabbit import rabbit_broker

                broker = rabbit_broker(url, queue=queue.queue, slices_at_once=1)
            policy = attrs.evolve(_POLICY, slice_size=slice_size)
            async with _make(settings, credentials, broker, policy) as jobs:
                return await jobs.submit(operation, file.orders(), job=job, wake=url is not None)

        with _reaching_the_queue(), file.naming_lines():
            count = asyncio.run(work())
    start = next_line("worker", "--broker", "amqp://HOST/", given=gateway, taken=options.Journaled)
    console.note(
        f"{known.described}; workers alone run it from now on, all of its "
        f"{counted(count, 'order')} (start one with `{start}`)"
    )
    return DONE


async def worker(
    *,
    slices: Annotated[int, options.AtLeastOne] = 10,
    queue: options.Queue = options.Queue(),
    pace: options.BatchPace = options.BatchPace(),
    gateway: options.Journaled = options.Journaled(),
    console: options.Shown,
) -> int:
    """Run slices of jobs that many machines share, until it is stopped.

    Example: `gateway-async worker --broker amqp://mq.example/ --journal
    postgresql://me@db.example/gateway`

    The first signal lets the slices that run come to an end.

    A rate is shared by all workers of this merchant, whatever machine they are on; it needs a
    journal on PostgreSQL. A deadline is each slice's.

    Args:
        slices: How many slices are run at once.
    """
    settings, url = gateway.settings(pace), queue.url()
    if url is None:
        raise ConfigurationError(
            "--broker: name the RabbitMQ to work for, such as amqp://HOST/ (or GATEWAY_BROKER)"
        )
    credentials = settings.credentials(os.environ, console.warn)
    policy = attrs.evolve(_POLICY, lease_seconds=settings.journal_lease_seconds)
    with Stop(console) as stop, _reaching_the_queue():
        from gateway_async.workers.rabbit import rabbit_broker, serve

        broker = rabbit_broker(url, queue=queue.queue, slices_at_once=slices)
        workers = _make(settings, credentials, broker, policy, settings.rate)
        until = asyncio.Event()
        console.note(f"{workers!r}: working for queue {queue.queue}")
        working = asyncio.create_task(serve(broker, until, slices_at_once=slices))
        with stop.cancelling():
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                until.set()  # the slices that run come to an end; a second signal does not wait
                try:
                    await asyncio.shield(working)
                except asyncio.CancelledError:
                    working.cancel()
                    await asyncio.wait({working})
    return DONE


async def watch(
    job: str,
    /,
    *,
    json: bool = False,
    stored: options.Stored = options.Stored(),
    console: options.Shown,
) -> int:
    """Show how far a job has come that workers run, until it is done. Nothing is sent.

    Example: `gateway-async watch monday`

    Args:
        job: The name of the job.
        json: Print one JSON object at the end: job, orders and states.
    """
    async with stored.settings().open_journal(create=False) as journal:
        last = await journal.status(job)
        async with gauged(console, job, last.total, lambda: last.settled) as gauge:
            async for last in watch_job(journal, job, _POLICY.watch_seconds):
                is_first = not gauge.counts
                gauge.counts.clear()
                gauge.counts.update(states_of(last.counts))
                if is_first:
                    gauge.show()
    console.say(f"job {job}: {so_far(last.counts) or 'no orders'}")
    if json:
        print_json({"job": job, "orders": last.total, "states": states_of(last.counts)})
    succeeded = last.counts[JobState.SUCCEEDED]
    if succeeded == last.total:
        return DONE
    if succeeded + last.counts[JobState.DECLINED] == last.total:
        return NOT_ALL_DONE
    line = next_line("jobs", "show", job, given=stored)
    console.say(f"what waits for your decision is listed by\n  {line}")
    return UNSETTLED

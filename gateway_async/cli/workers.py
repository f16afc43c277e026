"""`submit`, `worker` and `watch`: jobs that many machines run, from one queue and one journal."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.types import PositiveInt

from gateway_async.cli import options
from gateway_async.cli.console import Exit, counted, listed, print_json, progress, stoppable
from gateway_async.cli.files import open_orders
from gateway_async.cli.jobs import facts_of, find_job
from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError
from gateway_async.journal import OrderState
from gateway_async.operations import OPERATIONS
from gateway_async.settings import WorkerPolicy
from gateway_async.workers import Workers
from gateway_async.workers.workers import watch as watch_job

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
        known = await find_job(settings, file, job=job)
        if file.unread:
            console.note(f"columns that are not sent: {file.unread}")
        known.confirm(console, settings, yes=yes)
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
) -> None:
    """Run slices of jobs that many machines share, until it is stopped.

    Example: `gateway-async worker --broker amqp://mq.example/ --journal
    postgresql://me@db.example/gateway`

    The first signal lets the slices that run come to an end.

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
    console.note(f"working for queue {queue}")
    try:
        with stoppable(console, drain=until.set):
            await serve(made, until, slices_at_once=slices)
    except AMQPError as error:
        reason = type(error).__name__
        raise ConfigurationError(
            "--broker: it cannot be reached, or refuses the user, the virtual host or the "
            f"queue ({reason})"
        ) from None


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

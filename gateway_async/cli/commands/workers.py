"""`submit`, `worker` and `watch`: jobs that many machines run, from one queue and one journal."""

import asyncio
import contextlib
import os
import re
import shlex
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from gateway_async.cli.console import gauged, print_json
from gateway_async.cli.jobs import look_at
from gateway_async.cli.layouts import LAYOUTS
from gateway_async.cli.options import (
    ConsoleArgument,
    FormatOptions,
    GatewayOptions,
    JournalOptions,
    PaceOptions,
    Source,
    open_journal,
)
from gateway_async.cli.orders import Reader, check_file, wording
from gateway_async.cli.run import (
    DONE,
    NOT_ALL_DONE,
    UNSETTLED,
    RefusedError,
    Stop,
    confirm,
    make_client,
)
from gateway_async.cli.tables import open_table
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.journal import JobState
from gateway_async.journal.location import locate
from gateway_async.operations import OPERATIONS
from gateway_async.settings import WorkerPolicy
from gateway_async.workers import Workers
from gateway_async.workers.workers import watch as watch_job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from taskiq import AsyncBroker

    from gateway_async.cli.console import Console
    from gateway_async.cli.orders import InputFile
    from gateway_async.cli.settings import Settings
    from gateway_async.client import GatewayClient
    from gateway_async.signing import Credentials
    from gateway_async.workers import JobProgress

_VARIABLE = "GATEWAY_BROKER"
_USER_AND_PASSWORD = re.compile(r"//[^:/@]*:[^@]*@")
_EXTRA = frozenset({"taskiq", "taskiq_aio_pika", "aio_pika", "psycopg_pool", "pyrate_limiter"})
_QUEUE_LOGS = ("aio_pika", "aiormq", "taskiq")
_POLICY = WorkerPolicy()
_AtLeastOne = Parameter(validator=Number(gte=1))

if TYPE_CHECKING:
    Operation = str
else:
    Operation = Literal[tuple(name for name, row in OPERATIONS.items() if row.is_money_batch)]


@Parameter(name="*", group="Queue")
@attrs.frozen(kw_only=True)
class QueueOptions:
    """Which queue wakes the workers.

    Attributes:
        broker: The RabbitMQ, such as amqp://host/. A URL with a password goes into
            GATEWAY_BROKER.
        queue: The name of the queue: one for each merchant and journal.
    """

    broker: str | None = None
    queue: str = "gateway_async"

    def url(self) -> str | None:
        """Return the URL of the broker; None where none is named.

        Raises:
            ConfigurationError: If an option holds a password, which others could see.
        """
        if self.broker is not None and _USER_AND_PASSWORD.search(self.broker):
            raise ConfigurationError(
                "--broker: a password in an option shows in process lists; put the URL into "
                f"{_VARIABLE}"
            )
        return self.broker or os.environ.get(_VARIABLE) or None


def _workers(
    broker: "AsyncBroker | Callable[..., Any]",
    settings: "Settings",
    credentials: "Credentials",
    policy: WorkerPolicy,
    rate: float | None = None,
) -> Workers:
    """Make what submits jobs, or works on them; a rate is that of all workers together."""
    open_journal(settings)  # refuses what is missing
    url = locate(settings.journal).absolute_url

    @contextlib.asynccontextmanager
    async def gateway() -> "AsyncIterator[GatewayClient]":
        async with contextlib.AsyncExitStack() as opened:
            limiter = None
            if rate is not None:
                from gateway_async.workers.rate import shared_rate  # noqa: PLC0415  # an extra

                who = f"{credentials.merchant_id}/{credentials.account_id} at {settings.base_url}"
                exact = Fraction(rate).limit_denominator(100)  # requests in so many seconds
                requests, seconds = max(1, exact.numerator), float(exact.denominator)
                shared = shared_rate(settings.journal, who, requests=requests, seconds=seconds)
                limiter = await opened.enter_async_context(shared)
            made = make_client(settings, credentials, limiter=limiter)
            yield await opened.enter_async_context(made)

    return Workers(broker, gateway, url, policy=policy)


@contextlib.contextmanager
def _telling_what_is_missing() -> "Iterator[None]":
    """Say which extra a queue needs.

    Raises:
        ConfigurationError: If it is not installed.
        RefusedError: If the queue cannot be reached.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _EXTRA:
            raise
        raise ConfigurationError(
            f"a queue needs {error.name}: pip install 'gateway-async[workers]'"
        ) from None
    except ConnectionError as error:
        raise RefusedError(f"--broker: it cannot be reached ({type(error).__name__})") from None


# submit


def submit(  # noqa: PLR0913  # one keyword an option
    orders: Source,
    /,
    *,
    job: str,
    operation: Operation = "refund",
    slice_size: Annotated[int, _AtLeastOne] = _POLICY.slice_size,
    duplicates: Literal["reject", "serialize"] | None = None,
    yes: bool = False,
    queue: QueueOptions = QueueOptions(),
    journal: JournalOptions = JournalOptions(),
    files: FormatOptions = FormatOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Keep the orders of a file in the journal, for workers to send.

    Nothing is sent by this command. The queue, if one is named, hears of the job at once; else the
    workers find it by themselves within seconds.

    Args:
        orders: The file with the orders, one a row: .csv or .jsonl, or - for standard
            input.
        job: The name of the job: the same command, given again, is harmless.
        operation: What is done with them.
        slice_size: How many orders a worker takes at a time.
        duplicates: What to do with several rows of one transaction: refuse the file, or send them
            one after the other.
        yes: Do not ask before the job is handed to the workers.
    """
    layout = LAYOUTS[operation]
    settings = gateway.settings(
        journal=journal.checked(),
        policy={} if duplicates is None else {"duplicates": duplicates},
    )
    repeats = settings.policy.duplicates != "reject"
    with open_table(orders, files.stdio) as table:
        file = check_file(table, Reader(layout, settings.dialect, repeats=repeats))
        policy = attrs.evolve(_POLICY, slice_size=slice_size)
        make = partial(
            _workers,
            settings=settings,
            credentials=settings.credentials(os.environ, console.warn),
            policy=policy,
        )
        known = look_at(settings, job)
        if layout.confirms:
            what = wording(layout, file.totals, settings.base_url, file.unread)
            confirm(console, f"{known.asked}: {what}", yes=yes)
        try:
            count = asyncio.run(_submit(make, queue, operation, file, job))
        except InvalidOrderError as error:
            raise file.problems_of(error) from None
    said = f"its {count:,} orders wait for workers"
    if not known.is_new:
        said = f"workers send what is left of its {count:,} orders"
    text = f"{known.described}; {said}"
    console.tell("submitted", text, orders=count, is_new=known.is_new, journal=known.place)
    return DONE


async def _submit(
    make: "Callable[..., Workers]", queue: QueueOptions, operation: str, file: "InputFile", job: str
) -> int:
    async def wake_nobody(job: str, slice_number: int) -> None:
        """Stand in for a queue that is not named."""

    url = queue.url()
    broker: AsyncBroker | Callable[..., Any] = wake_nobody
    with _telling_what_is_missing():
        if url is not None:
            from gateway_async.workers.rabbit import rabbit_broker  # noqa: PLC0415  # an extra

            broker = rabbit_broker(url, queue=queue.queue, slices_at_once=1)
        async with make(broker) as jobs:
            return await jobs.submit(operation, file.orders(), job=job, wake=url is not None)


# worker


def worker(  # noqa: PLR0913  # one keyword an option
    *,
    slices: Annotated[int, _AtLeastOne] = 10,
    queue: QueueOptions = QueueOptions(),
    journal: JournalOptions = JournalOptions(),
    pace: PaceOptions = PaceOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Run slices of jobs until it is stopped: the first signal lets those that run come to an end.

    A rate is shared by all workers of this merchant, whatever machine they are on; it needs a
    journal on PostgreSQL. A deadline is each slice's.

    Args:
        slices: How many slices are run at once.
    """
    settings = gateway.settings(journal=journal.checked(), rate=pace.rate, policy=pace.policy)
    url = queue.url()
    if url is None:
        raise ConfigurationError(
            f"--broker: say which queue to work for, such as amqp://host/ (or {_VARIABLE})"
        )
    make = partial(
        _workers,
        settings=settings,
        credentials=settings.credentials(os.environ, console.warn),
        policy=attrs.evolve(_POLICY, lease_seconds=settings.journal_lease_seconds),
        rate=settings.rate,
    )
    with (
        Stop(console) as stop,
        console.passing_on_logs(*_QUEUE_LOGS),
        _telling_what_is_missing(),
    ):
        asyncio.run(_work(make, url, queue.queue, slices, console, stop))
    return DONE


async def _work(  # noqa: PLR0913, PLR0917  # what the command was given
    make: "Callable[..., Workers]",
    url: str,
    queue: str,
    slices: int,
    console: "Console",
    stop: Stop,
) -> None:
    from gateway_async.workers.rabbit import rabbit_broker, serve  # noqa: PLC0415  # an extra

    broker = rabbit_broker(url, queue=queue, slices_at_once=slices)
    workers, until = make(broker), asyncio.Event()
    console.tell("working", f"{workers!r}: working for queue {queue}", queue=queue)
    working = asyncio.get_running_loop().create_task(serve(broker, until, slices_at_once=slices))
    with stop.cancelling():
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            until.set()  # the slices that run come to an end; a second signal ends the waiting
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                working.cancel()
                await asyncio.wait({working})


# watch


def watch(
    job: str,
    /,
    *,
    json: bool = False,
    journal: JournalOptions = JournalOptions(),
    gateway: GatewayOptions = GatewayOptions(),
    console: ConsoleArgument,
) -> int:
    """Show how far a job has come that workers run, until it is done. Nothing is sent.

    Args:
        job: The name of the job.
        json: Print one JSON object at the end: job, orders and states.
    """
    url = journal.checked()
    last = asyncio.run(_watch(gateway.settings(journal=url), job, console))
    counts = {str(state): count for state, count in last.counts.items() if count}
    listed = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    console.tell("done", f"job {job}: {listed or 'no orders'}", counts=counts)
    if json:
        print_json({"job": job, "orders": last.total, "states": counts})
    code = _exit_code(last)
    if code == UNSETTLED:
        given = ("--journal", url) if url else ()
        line = shlex.join(["gateway-async", "jobs", "show", job, *given, *gateway.again])
        console.tell("next", f"what waits for your decision is listed by\n  {line}", command=line)
    return code


async def _watch(settings: "Settings", job: str, console: "Console") -> "JobProgress":
    last: JobProgress | None = None
    async with open_journal(settings, create=False) as journal:
        total = (await journal.status(job)).total
        with gauged(console, job, total) as gauge:
            async for last in watch_job(journal, job, _POLICY.watch_seconds):
                gauge.counts.clear()
                gauge.counts.update({str(s): count for s, count in last.counts.items() if count})
                gauge.reach(last.settled)
    if last is None:
        raise RefusedError(f"job {job} was not looked at")
    return last


def _exit_code(progress: "JobProgress") -> int:
    """Return the exit code for the outcomes, as of any command that sends."""
    succeeded = progress.counts[JobState.SUCCEEDED]
    declined = progress.counts[JobState.DECLINED]
    if succeeded == progress.total:
        return DONE
    return NOT_ALL_DONE if succeeded + declined == progress.total else UNSETTLED

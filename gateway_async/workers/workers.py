"""Jobs for many processes: submitted by one, run by any, told by the journal.

Law: all that a process must know to run a slice is the name of the job and the number of the
slice; whether it may is the journal's to say.
"""

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, Self

from gateway_async.errors import ConfigurationError
from gateway_async.journal import Journal
from gateway_async.settings import WorkerPolicy, setting
from gateway_async.workers.running import SliceEnd, run_slice
from gateway_async.workers.sweeping import keep_sweeping, sweep
from gateway_async.workers.watching import collect, watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from taskiq import AsyncBroker

    from gateway_async.batching.results import BatchResult
    from gateway_async.client import GatewayClient
    from gateway_async.workers.watching import JobProgress

    Enqueue = Callable[[str, int], Awaitable[object]]
    GatewayFactory = Callable[[], AbstractAsyncContextManager[GatewayClient]]


class Workers:
    """Jobs of one merchant, in one journal, that many processes share.

    Make it once in a module that every process imports, whether it submits jobs or runs them:

        broker = AioPikaBroker("amqp://...?heartbeat=10", qos=10)
        jobs = Workers(broker, make_gateway, "postgresql://...")

    and start workers with ``taskiq worker module:broker -w 1 --max-async-tasks 10 --ack-type
    when_executed``. Elsewhere use it as ``async with jobs``, unless the broker is started anyway.

    Args:
        broker: A taskiq broker; or, for any other queue, your own ``async def enqueue(job,
            slice_number)``, whose workers then await `run_slice` inside ``async with jobs``.
        gateway_factory: Makes the client of a process, such as ``lambda: GatewayClient(...)``, or
            any asynchronous context manager that gives one.
        journal_url: Where the journal is; SQLite serves one machine.
        policy: How slices are shared out.

    Raises:
        ConfigurationError: If one of them is something else.
    """

    def __init__(
        self,
        broker: "AsyncBroker | Enqueue",
        gateway_factory: "GatewayFactory",
        journal_url: str,
        *,
        policy: WorkerPolicy | None = None,
    ) -> None:
        self._policy = setting("policy", policy, WorkerPolicy)
        _check_broker(broker)
        _check_factory(gateway_factory)
        self._make_gateway = gateway_factory
        self._url = journal_url
        self._new_journal()  # a wrong URL is refused at once
        self._exits = contextlib.AsyncExitStack()
        self._journal: Journal | None = None
        self._gateway: GatewayClient | None = None
        self._queue = None
        if callable(broker):
            self._enqueue: Enqueue = broker
        else:
            from gateway_async.workers.taskiq_queue import TaskiqQueue  # noqa: PLC0415  # an extra

            self._queue = TaskiqQueue(
                broker, run=self.run_slice, open_here=self._open, close_here=self._close
            )
            self._enqueue = self._queue.enqueue

    def __repr__(self) -> str:
        return f"<Workers on {self._new_journal()!r}>"

    # Submitting and watching

    async def submit(
        self,
        operation: str,
        orders: "Iterable[Any] | AsyncIterable[Any]",
        *,
        job: str,
        wake: bool = True,
    ) -> int:
        """Keep the orders of a job in the journal, cut it into slices, and hand those over.

        Submitting the same orders again, after whatever happened, is harmless. Where the queue
        fails, the job is kept all the same, and workers find it by themselves.

        Args:
            operation: ``"capture"``, ``"cancel"``, ``"review"`` or ``"refund"``.
            orders: An iterable or asynchronous iterable of its orders.
            job: The name of the job.
            wake: Whether to tell the queue at once; else the workers find the job at their next
                sweep.

        Returns:
            How many orders it has.

        Raises:
            InvalidOrderError: If any order is wrong; nothing is kept.
            ConfigurationError: For another operation, or a wrong name.
            JobConflictError: If there are other orders under this name.
            JobBusyError: If another process is submitting it, or was killed doing so just now.
            JournalError: If the orders cannot be kept.
            Exception: What the queue raised; the job is kept.
        """
        journal, gateway = self._opened()
        total = await gateway.submit(
            operation, orders, job=journal.job(job), slice_size=self._policy.slice_size
        )
        if wake:
            await self.sweep()
        return total

    async def watch(self, job: str) -> "AsyncIterator[JobProgress]":
        """Yield how far a job has come, now and whenever that changed, until it is done.

        Raises:
            JobNotFoundError: If there is no such job.
            JobConflictError: If it is in one piece.
            JournalError: If the journal cannot be read.
        """
        journal, _ = self._opened()
        async for progress in watch(journal, job, self._policy.watch_seconds):
            yield progress

    async def result(self, job: str) -> "BatchResult[Any, Any]":
        """Wait until a job is done, and return what became of every order, in input order.

        What is held for an operator is `unknown`, or `not_sent` where it was proved not to be
        done. The requests of other processes are not counted.

        Raises:
            JobNotFoundError: If there is no such job.
            JobConflictError: If it is in one piece.
            JournalError: If the journal cannot be read.
        """
        journal, _ = self._opened()
        async for _ in watch(journal, job, self._policy.watch_seconds):
            pass
        return await collect(journal, job)

    # The seam to a queue

    async def enqueue(self, job: str, slice_number: int) -> None:
        """Hand a slice to the queue; doing so twice, or needlessly, is harmless."""
        await self._enqueue(job, slice_number)

    async def run_slice(self, job: str, slice_number: int) -> SliceEnd:
        """Run a slice here, unless it is finished or somebody has it.

        Args:
            job: The name of the job.
            slice_number: The number of the slice, from 1.

        Returns:
            How it ended; whatever is left, the sweeper hands over again.

        Raises:
            ConfigurationError: If the number is no int, such as the text that a queue made of it.
            JobNotFoundError: If there is no such job or slice.
            JobConflictError: If the job is another merchant's.
            JournalError: If what happens cannot be kept.
        """
        journal, gateway = self._opened()
        return await run_slice(journal, gateway, job, slice_number)

    async def sweep(self) -> int:
        """Hand every slice to the queue that nobody has and that is due.

        Workers of a taskiq broker do so by themselves; call it from time to time on other queues.
        Any number of processes may.

        Returns:
            How many slices were handed over.

        Raises:
            JournalError: If the journal cannot be read.
            Exception: What the queue raised.
        """
        journal, gateway = self._opened()
        who = gateway.credentials
        merchant = (who.merchant_id, who.account_id)
        return await sweep(journal, merchant, self._policy, self.enqueue)

    async def keep_sweeping(self) -> None:
        """Sweep every `WorkerPolicy.sweep_seconds`, whatever fails, until it is cancelled."""
        await keep_sweeping(self.sweep, self._policy.sweep_seconds)

    # Life

    async def __aenter__(self) -> Self:
        if self._journal is not None:
            raise ConfigurationError(f"{self!r} is open already")
        if self._queue is None:
            await self._open(sweeps=False)
        else:
            await self._queue.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._queue is None:
            await self._close()
        else:
            await self._queue.stop()

    async def _open(self, sweeps: bool) -> None:  # noqa: FBT001  # the queue's one question
        if self._journal is not None:
            return  # a broker in memory starts as a worker's, too
        async with contextlib.AsyncExitStack() as stack:
            journal = await stack.enter_async_context(self._new_journal())
            gateway = await stack.enter_async_context(self._make_gateway())
            if sweeps:
                sweeper = asyncio.get_running_loop().create_task(self.keep_sweeping())
                stack.push_async_callback(_end, sweeper)
            self._exits = stack.pop_all()
        self._journal, self._gateway = journal, gateway  # not before both are open

    async def _close(self) -> None:
        self._journal = self._gateway = None
        await self._exits.aclose()

    def _new_journal(self) -> Journal:
        return Journal.open(self._url, lease_seconds=self._policy.lease_seconds)

    def _opened(self) -> "tuple[Journal, GatewayClient]":
        if self._journal is None or self._gateway is None:
            raise ConfigurationError(
                "these Workers are not open: use them as `async with jobs`, or start their broker"
            )
        return self._journal, self._gateway


def _check_broker(broker: object) -> None:
    """Check that slices can be handed to something.

    Raises:
        ConfigurationError: If it is neither a taskiq broker nor an asynchronous function.
    """
    if hasattr(broker, "register_task"):
        return
    if callable(broker) and (inspect.iscoroutinefunction(broker) or not _is_function(broker)):
        return
    raise ConfigurationError(
        "broker: expected a taskiq broker, such as gateway_async.workers.rabbit.rabbit_broker(url) "
        f"makes, or an `async def enqueue(job, slice_number)`, got {_named(broker)}"
    )


def _check_factory(factory: object) -> None:
    """Check that something can be called for a client to be entered.

    Raises:
        ConfigurationError: If it cannot.
    """
    is_bare = inspect.iscoroutinefunction(factory) or inspect.isasyncgenfunction(factory)
    if not callable(factory) or is_bare:
        raise ConfigurationError(
            "gateway_factory: expected a function that makes a client, such as `lambda: "
            "GatewayClient(...)`, or one decorated with contextlib.asynccontextmanager, got "
            f"{_named(factory)}"
        )


def _is_function(value: object) -> bool:
    while isinstance(value, functools.partial):
        value = value.func
    return inspect.isfunction(value) or inspect.ismethod(value)


def _named(value: object) -> str:
    if not _is_function(value):
        return type(value).__name__
    is_async = inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)
    return "an `async def` alone" if is_async else "a function that is not `async def`"


async def _end(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})

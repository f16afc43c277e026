"""Jobs for many processes: submitted by one, run by any; the journal is the truth.

All that a process needs to run a slice is the name of the job and the number of the slice. The
journal decides whether it may: a slice that another process has is left alone, and one that is
finished costs a look. So a queue only wakes workers: it may hand a slice over twice, late or never,
since a slice that is not finished is handed over again sooner or later.
"""

import asyncio
import contextlib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from gateway_async.batching.results import BatchResult
from gateway_async.errors import (
    ConfigurationError,
    JobBusyError,
    JobConflictError,
    LeaseLostError,
    hide_arguments,
)
from gateway_async.journal import Journal
from gateway_async.journal.rows import Merchant, StoredChunk
from gateway_async.models.orders import count_statuses
from gateway_async.settings import WorkerPolicy, expect, setting
from gateway_async.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from taskiq import AsyncBroker

    from gateway_async.client import GatewayClient
    from gateway_async.journal import JobStatus
    from gateway_async.settings import Kind

    Enqueue = Callable[[str, int], Awaitable[object]]
    GatewayFactory = Callable[[], AbstractAsyncContextManager[GatewayClient]]

TASK_NAME = "gateway_async.run_slice"
_FACTORY: "Kind" = (callable, "a function that makes a client")
# How long a queue may take for one slice: one that cannot be reached may never say so.
_LONGEST_SECONDS = 10.0

_LOG = Log("workers")


class SliceEnd(StrEnum):
    """How a run of a slice ended."""

    FINISHED = "finished"
    """No run has anything more to do in it; orders may be held for a person."""

    BUSY = "busy"
    """Another process has it."""

    LOST = "lost"
    """This process was too slow, and another may have it."""

    LEFT = "left"
    """Something is left to do: the gateway does not answer, or an order waits for a held one."""


async def watch(journal: "Journal", job: str, seconds: float) -> "AsyncIterator[JobStatus]":
    """Yield how far a job has come, now and whenever that changed, until it is done.

    Args:
        journal: Where it is; open.
        job: Its name.
        seconds: How long to wait between two looks.

    Raises:
        JobNotFoundError: If there is no such job.
        JobConflictError: If it is in one piece, which no worker runs, and not done.
    """
    last = None
    while last is None or not last.done:
        seen = await journal.status(job)
        if not (seen.is_sliced or seen.done):
            problem = f"job {job!r} is in one piece: GatewayClient.resume runs it, not workers"
            raise JobConflictError(problem, job=job)
        if seen != last:
            yield seen
            last = seen
        if not seen.done:
            await asyncio.sleep(seconds)


async def _is_finished(journal: "Journal", job: str, slice_number: int) -> bool:
    slices = await journal.slices(job)
    return any(each.number == slice_number and each.finished for each in slices)


@hide_arguments
class Workers:
    """Jobs of one merchant at one gateway, in one journal, that many processes share.

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
        if not (callable(broker) or hasattr(broker, "register_task")):
            raise ConfigurationError(
                "broker: expected a taskiq broker or an `async def enqueue(job, slice_number)`, "
                f"got {type(broker).__name__}"
            )
        self._make_gateway = expect("gateway_factory", gateway_factory, _FACTORY)
        self._journal = Journal.open(journal_url, lease_seconds=self._policy.lease_seconds)
        self._exits = contextlib.AsyncExitStack()
        self._open_ones: tuple[Journal, GatewayClient] | None = None
        self._broker: AsyncBroker | None = None if callable(broker) else broker
        self._enqueue: Enqueue = broker if callable(broker) else self._register(broker)

    def _register(self, broker: "AsyncBroker") -> "Enqueue":
        """Let a broker run slices, and open this where its process starts."""
        from taskiq import TaskiqEvents, TaskiqState  # noqa: PLC0415  # an extra

        async def run_slice(job: str, slice_number: int) -> str:
            return str(await self.run_slice(job, slice_number))

        async def begin(_: TaskiqState) -> None:
            await self._open(sweeps=broker.is_worker_process)

        async def end(_: TaskiqState) -> None:
            await self._close()

        task = broker.register_task(run_slice, task_name=TASK_NAME)
        broker.on_event(TaskiqEvents.CLIENT_STARTUP, TaskiqEvents.WORKER_STARTUP)(begin)
        broker.on_event(TaskiqEvents.CLIENT_SHUTDOWN, TaskiqEvents.WORKER_SHUTDOWN)(end)
        return task.kiq

    def __repr__(self) -> str:
        return f"<Workers on {self._journal!r}>"

    # Submitting and watching

    async def submit(
        self, operation: str, orders: "Iterable[Any] | AsyncIterable[Any]", *, job: str
    ) -> int:
        """Keep the orders of a job in the journal, cut it into slices, and hand those over.

        Submitting the same orders again, after whatever happened, is harmless. Where the queue
        fails, the job is kept all the same, and workers find it by themselves.

        Args:
            operation: ``"capture"``, ``"cancel"``, ``"review"``, ``"refund"`` or ``"payout"``.
            orders: An iterable or asynchronous iterable of its orders.
            job: The name of the job.

        Returns:
            How many orders it has.

        Raises:
            InvalidOrderError: If any order is wrong; nothing is kept.
            ConfigurationError: For another operation, or a wrong name.
            JobConflictError: If there are other orders under this name.
            JournalError: If the orders cannot be kept.
            Exception: What the queue raised; the job is kept.
        """
        journal, gateway = self._opened()
        total = await gateway.submit(
            operation, orders, job=journal.job(job), slice_size=self._policy.slice_size
        )
        await self.sweep()
        return total

    def watch(self, job: str) -> "AsyncIterator[JobStatus]":
        """Yield how far a job has come, now and whenever that changed, until it is done.

        Raises:
            JobNotFoundError: If there is no such job.
            JobConflictError: If it is in one piece, which no worker runs, and not done.
            JournalError: If the journal cannot be read.
        """
        journal, _ = self._opened()
        return watch(journal, job, self._policy.watch_seconds)

    async def result(self, job: str) -> "BatchResult[Any, Any]":
        """Wait until a job is done, and return the outcome of every order, in input order.

        What is held for a person is `unknown`, or `not_sent` where it was proved not to be
        done. An order that waits for a held one of its transaction (``duplicates="serialize"``)
        keeps the job open until a person decides. The requests of other processes are not counted.

        Raises:
            JobNotFoundError: If there is no such job.
            JobConflictError: If it is in one piece, which no worker runs, and not done.
            JournalError: If the journal cannot be read.
        """
        journal, _ = self._opened()
        async for _ in self.watch(job):
            pass
        chunks = [StoredChunk(rows) async for rows in journal.pages(job)]
        counts = count_statuses(b"".join(chunk.statuses for chunk in chunks))
        return BatchResult(counts=counts, chunks=tuple(chunks))

    # The seam to a queue

    async def run_slice(self, job: str, slice_number: int) -> SliceEnd:
        """Run a slice here, unless it is finished or another process has it.

        Args:
            job: The name of the job.
            slice_number: The number of the slice, from 1.

        Returns:
            How it ended; whatever is left, the sweeper hands over again.

        Raises:
            ConfigurationError: If the number is no number, such as a text that a queue made of it.
            JobNotFoundError: If there is no such job or slice.
            JobConflictError: If the job is another merchant's or gateway's, or the number is 0.
            JournalError: If what happens cannot be kept.
        """
        journal, gateway = self._opened()
        if await _is_finished(journal, job, slice_number):
            return SliceEnd.FINISHED
        try:
            await gateway.resume(journal.job(job), slice_number=slice_number)
        except JobBusyError:
            return SliceEnd.BUSY
        except LeaseLostError:
            return SliceEnd.LOST
        is_finished = await _is_finished(journal, job, slice_number)
        return SliceEnd.FINISHED if is_finished else SliceEnd.LEFT

    async def sweep(self) -> int:
        """Hand up to 1,000 slices to the queue that no process has and that are due.

        Workers of a taskiq broker do so by themselves; call it from time to time on other queues.
        Any number of processes may.

        Returns:
            How many slices were handed over.

        Raises:
            JournalError: If the journal cannot be read.
            Exception: What the queue raised.
        """
        journal, gateway = self._opened()
        merchant = Merchant.of(gateway.credentials, gateway.gateway)
        due = await journal.claim_due(merchant, self._policy.wake_seconds)
        handed = 0
        try:
            for job, slice_number in due:
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await self._enqueue(job, slice_number)
                handed += 1
        finally:
            if handed < len(due):
                await journal.make_due(due[handed:])
        return handed

    async def keep_sweeping(self) -> None:
        """Sweep every `WorkerPolicy.sweep_seconds`, whatever fails, until it is cancelled."""
        while True:
            # At first, too: a broker connects after this was begun.
            await asyncio.sleep(self._policy.sweep_seconds)
            try:
                await self.sweep()
            except Exception as error:  # noqa: BLE001  # any queue's; the next sweep tries again
                _LOG.warning("slices were not handed to the queue: %s", type(error).__name__)

    # Life

    async def __aenter__(self) -> Self:
        if self._open_ones is not None:
            raise ConfigurationError(f"{self!r} is open already")
        if self._broker is None:
            await self._open(sweeps=False)
            return self
        try:
            await self._broker.startup()
        except BaseException:  # raised again; a cancellation, too, leaves a broker behind
            await self._broker.shutdown()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._broker is None:
            await self._close()
        else:
            await self._broker.shutdown()

    async def _open(self, *, sweeps: bool) -> None:
        if self._open_ones is not None:
            return  # a broker in memory starts as a worker's, too
        async with contextlib.AsyncExitStack() as stack:
            journal = await stack.enter_async_context(self._journal)
            gateway = await stack.enter_async_context(self._make_gateway())
            if sweeps:
                sweeper = asyncio.get_running_loop().create_task(self.keep_sweeping())
                # It is cancelled, and gives back to the journal what it did not hand over.
                stack.push_async_callback(asyncio.wait, [sweeper])
                stack.callback(sweeper.cancel)
            self._exits = stack.pop_all()
        self._open_ones = journal, gateway  # not before both are open

    async def _close(self) -> None:
        self._open_ones = None
        await self._exits.aclose()

    def _opened(self) -> "tuple[Journal, GatewayClient]":
        if self._open_ones is None:
            raise ConfigurationError(
                "these Workers are not open: use them as `async with jobs`, or start their broker"
            )
        return self._open_ones

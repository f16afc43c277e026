"""A batch over a journal: its orders are kept first, then sent, and told once they are settled.

Law: an order leaves only after its intent is kept, and only while the lease is ours; what became
of it is told only after it is kept. What is unknown is told last, once the gateway's own records
were asked. While another process has the job, nothing of it is called `not_sent`.
"""

import asyncio
import functools
import hashlib
import logging
import math
import os
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.batching.feed import OrderFeed
from gateway_async.batching.runner import BatchRunner, Runner
from gateway_async.errors import JobBusyError, JournalError, LeaseLostError
from gateway_async.jobs.log import ROWS_AT_ONCE, IntentRecorder, new_orders
from gateway_async.jobs.recovering import JobRecovery
from gateway_async.jobs.submitting import submit_job
from gateway_async.jobs.telling import Telling
from gateway_async.journal.rows import StoredChunk
from gateway_async.journal.states import JobState
from gateway_async.session import is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine

    from gateway_async.batching.results import ChunkResult, Progress
    from gateway_async.journal import Job, JobHead
    from gateway_async.journal.lease import Lease
    from gateway_async.journal.rows import Row
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

T = TypeVar("T")

_log = logging.getLogger("gateway_async.jobs")

_SETTLED = (JobState.SUCCEEDED, JobState.DECLINED)
_RENEWALS_A_LEASE = 3
_CLOCKS_DIFFER_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 300.0


class JobRun(Runner):
    """A job under way in this process."""

    def __init__(  # noqa: PLR0913  # one keyword a setting
        self,
        session: "Session",
        operation: "Operation",
        job: "Job",
        orders: object,
        *,
        policy: "BatchPolicy",
        recovery: "RecoveryPolicy",
        slice_number: int = 0,
    ) -> None:
        super().__init__(operation.record_class, policy)
        self._session = session
        self._operation = operation
        self._job = job
        self._slice_number = slice_number
        self._recovery = recovery
        self._feed = (
            None if orders is None else OrderFeed(operation, session.dialect, policy, orders)
        )
        self._total = 0
        self._telling = Telling(range(0), 0)
        self._is_read = False
        self._run: BatchRunner | None = None
        self._aside_task: asyncio.Task[Any] | None = None
        self._lost: LeaseLostError | None = None

    @property
    def progress(self) -> "Progress":
        """How far it has come."""
        made = self.results.progress(self._total if self._is_read else None)
        if self._run is None:
            return made
        inner = self._run.results
        return attrs.evolve(
            made, requests=made.requests + inner.requests, retries=made.retries + inner.retries
        )

    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start.

        Raises:
            InvalidOrderError: If any order of a collection is wrong; nothing is sent.
            asyncio.CancelledError: The cancellation, once `result` is there; nothing is sent.
        """
        self.streamed = streamed
        try:
            if self._feed is not None:
                await self._feed.check_all()
        except asyncio.CancelledError as cancelled:
            self.gate.stop("the call was cancelled")
            await self.finish(cancelled)
        self._begin(self._conduct(), f"{self._operation} job {self._job.name}")

    @property
    def _collection(self) -> "tuple[object, ...] | None":
        """The orders as they were handed in, where that is a collection."""
        return None if self._feed is None else self._feed.source.collection

    def add_unsent(self) -> None:
        """Record what is left of a collection: an earlier process may have sent any of it."""
        collection = self._collection
        if collection is None or (not self._is_read and self.failure is not None):
            return
        if not self._is_read:
            self._read(range(len(collection)), len(collection))
        for block in self._telling.unread(collection, ROWS_AT_ONCE):
            self._telling.note(block)
            self.results.add(block)

    def _read(self, span: range, total: int) -> None:
        self._is_read = True
        self._total = total
        self._telling = Telling(span, total)

    @property
    def _is_exhausted(self) -> bool:
        return self._is_read and self._telling.is_whole

    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""
        if self._feed is not None:
            await self._feed.aclose()

    def _end_unsent(self) -> None:
        if self._aside_task is not None:
            self._aside_task.cancel()
        if self._run is not None:
            self._run.leave(self.gate.stop_reason or "")

    def abandon(self) -> None:
        """End what is still on its way; the journal is still told."""
        self._end_unsent()
        if self._run is not None:
            self._run.abandon()

    # The job, from its first step to its last

    async def _conduct(self) -> None:
        if self._feed is not None:
            given = (self._session, self._operation, self._job, self._feed)
            if await self._patiently(functools.partial(submit_job, *given)) is None:
                return
        lease = await self._patiently(self._take)
        if lease is None:
            return
        keeper = asyncio.get_running_loop().create_task(self._keep_lease(lease))
        try:
            await self._work_through(lease)
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
            await self._release(lease)
        if self._lost is not None:
            raise self._lost

    async def _take(self) -> "Lease":
        owner = f"{socket.gethostname()}:{os.getpid()} {uuid.uuid4()}"
        return await self._job.take(owner, self._slice_number)

    async def _patiently(self, attempt: "Callable[[], Coroutine[Any, Any, T]]") -> T | None:
        """Wait for the lease of a process that may have died; a living one renews it."""
        try:
            return await self._aside(attempt())
        except JobBusyError as error:
            if self._slice_number:
                raise  # others are to be had meanwhile
            busy = error
        seconds = min(busy.seconds_left, _LONGEST_WAIT_SECONDS) + _CLOCKS_DIFFER_SECONDS
        _log.info(
            "job %r waits %.1f s: another process has its lease, and may have died",
            self._job.name,
            seconds,
        )
        await self._aside(asyncio.sleep(seconds))
        made = await self._aside(attempt())
        if made is None and not self._is_leaving:
            raise busy  # the time of the batch was over before that of the other's lease
        return made

    async def _work_through(self, lease: "Lease") -> None:
        head = await self._job.head()
        self._read(lease.span, lease.total)
        recovery = JobRecovery(
            self._session, lease, self._recovery, self._policy, started_at=time.time()
        )
        try:
            await self._recover(lease, recovery, hold=False)
            await self._tell_settled(lease)
            for _ in range(self._session.retry.attempts):
                await self._send_new(lease, _marker(head))
                if not await self._recover(lease, recovery, hold=True):
                    break
            if self._slice_number:
                await lease.finish()
        except LeaseLostError as error:
            self._lose(error)
            raise
        finally:
            if self._run is not None:  # cut short from outside, by a signal handler for one
                await self._run.drain("the job was cut short")  # what is told must stay true
                await self._run.close_input()
            await self._tell_left(lease)

    async def _send_new(self, lease: "Lease", marker: str) -> None:
        """Send what is new, and tell what is settled."""
        if self._is_leaving or self._lost is not None:
            return
        # Only an import sees to it that no two are equal, and an earlier run may have waived it.
        is_open = self._policy.duplicates == "allow"
        policy = self._policy if is_open else attrs.evolve(self._policy, duplicates="serialize")
        source = new_orders(lease, self._collection, self._telling.is_told)
        log = IntentRecorder(lease, self._lose)
        run = self._run = BatchRunner(
            self._session,
            self._operation,
            source,
            policy=policy,
            recovery=self._recovery,
            gate=self.gate,
            recorder=log,
            marker=marker,
        )
        if not is_open:
            async for rows in self._rows(lease, (JobState.UNKNOWN, JobState.HELD)):
                run.note_unknown([row.order for row in rows])
        await run.start(streamed=self.streamed)
        is_left = False
        while not run.is_over and run.failure is None:
            if not is_left and (reason := self.gate.stop_reason) is not None:
                is_left = True
                run.leave(reason)  # what it would only call not sent stays in the journal
            block = run.take()
            if block is not None:
                await self._tell(self._telling.settled(block))
            else:
                await run.change()
        if not run.is_over:
            await run.drain("the journal or a collaborator failed")
        result = await run.finish(quiet=True)
        self._run = None
        self.results.absorb(result)
        for block in result.chunks:
            await self._tell(self._telling.settled(block))
        failure = run.failure or log.failure or source.failure
        if failure is not None:
            raise failure

    async def _recover(self, lease: "Lease", recovery: JobRecovery, *, hold: bool) -> int:
        """Ask the gateway about what is unknown, and return how many orders are new again."""
        again = 0
        async for rows in self._rows(lease, (JobState.UNKNOWN,)):
            if not self._may_look:
                break
            found = await self._aside(recovery.look(rows))
            if found is None:
                break
            self.results.requests += found.requests
            again += await recovery.keep(found, hold=hold)
        return again

    async def _rows(
        self, lease: "Lease", states: "Collection[JobState]"
    ) -> "AsyncIterator[list[Row]]":
        last = -1
        while rows := await lease.rows(states, after=last, limit=ROWS_AT_ONCE):
            yield rows
            last = rows[-1].index

    @property
    def _may_look(self) -> bool:
        return not (self._is_leaving or self.gate.is_too_late or self._lost)

    # Telling

    async def _tell_settled(self, lease: "Lease") -> None:
        """Tell what earlier processes settled."""
        async for rows in self._rows(lease, _SETTLED):
            await self._tell(StoredChunk(tuple(rows)), again=True)

    async def _tell_left(self, lease: "Lease") -> None:
        """Tell what was not told so far, as it stands in the journal."""
        await self._look_at_lease(lease)
        for first, last in self._telling.gaps(ROWS_AT_ONCE):
            rows = await lease.rows_between(first, last)
            for block in self._telling.left(
                rows,
                ours=lambda: self._lost is None,
                # What a stream still held is not told once it is left.
                unsent=self._collection is not None or not self._is_leaving,
                reason=self.gate.stop_reason,
            ):
                await self._tell(block)

    async def _look_at_lease(self, lease: "Lease") -> None:
        try:
            await lease.confirm()
        except LeaseLostError as error:
            self._lose(error)
        except JournalError as error:
            self._lose_if_over(lease, error)

    async def _tell(self, block: "ChunkResult | None", *, again: bool = False) -> None:
        if block is None or not block.indices:
            return
        self._telling.note(block)
        self.results.add(block, known=again)
        self._changed.set()
        while self._is_piled_up:
            if is_cancelled():
                raise asyncio.CancelledError  # perhaps nobody is left to take what is settled
            await self.change()

    @property
    def _is_piled_up(self) -> bool:
        full = len(self.results.finished) >= self._policy.concurrency
        return self.streamed and full and not self._is_leaving

    # The lease

    async def _keep_lease(self, lease: "Lease") -> None:
        while self._lost is None:
            await asyncio.sleep(self._job.journal.lease_seconds / _RENEWALS_A_LEASE)
            try:
                await lease.renew()
            except LeaseLostError as error:
                self._lose(error)
            except JournalError as error:
                self._lose_if_over(lease, error)

    def _lose_if_over(self, lease: "Lease", error: JournalError) -> None:
        if lease.expires_in() <= 0:  # until then the next renewal may be in time
            text = f"the lease could not be renewed: {error}"
            self._lose(LeaseLostError(text, job=lease.job))

    def _lose(self, error: LeaseLostError) -> None:
        """Send nothing more: the job is another process's."""
        if self._lost is None:
            self._lost = error
            self.gate.stop("the lease of the job was lost")
            self._end_unsent()

    async def _release(self, lease: "Lease") -> None:
        try:
            await lease.release()
        except JournalError:
            return  # it runs out by itself

    async def _aside(self, work: "Coroutine[Any, Any, T]") -> T | None:
        """Do what sends nothing, until the job is left or its time is over; then return None."""
        loop = asyncio.get_running_loop()
        task = self._aside_task = loop.create_task(work)
        seconds = self.gate.deadline - loop.time()
        if self._is_leaving:
            task.cancel()
        try:
            await asyncio.wait({task}, timeout=None if math.isinf(seconds) else max(0, seconds))
        finally:  # also where the event loop ends, and cancels everything at once
            task.cancel()
            await asyncio.wait({task})
            self._aside_task = None
        return None if task.cancelled() else task.result()


def _marker(head: "JobHead") -> str:
    """Return what the markers of a job begin with: the same in every process that runs it."""
    text = f"{head.name} {head.created_at.isoformat()}"
    return f"ga-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

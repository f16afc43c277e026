"""A batch over a journal: its orders are kept first, then sent, and told once they are settled.

Law: an order leaves only after its intent is kept, and only while the lease is ours; what became
of it is told only after it is kept. What is unknown is told last, once the gateway's own records
were asked. While another process has the job, nothing of it is called `not_sent`.
"""

import asyncio
import hashlib
import math
import os
import socket
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.batching.chunks import Chunk
from gateway_async.batching.intake import Intake
from gateway_async.batching.lifecycle import Lifecycle
from gateway_async.batching.log import Within
from gateway_async.batching.outcomes import ListedBlock, UniformBlock, count_statuses
from gateway_async.batching.running import Run
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import JobBusyError, JournalError, LeaseLostError, OutcomeUnknownError
from gateway_async.jobs.log import ROWS_AT_ONCE, LeasedLog, NewOrders
from gateway_async.jobs.recovering import JobRecovery
from gateway_async.journal.rows import StoredBlock
from gateway_async.journal.states import JobState

if TYPE_CHECKING:
    from gateway_async.batching.outcomes import Block, Outcome
    from gateway_async.batching.plans import Plan
    from gateway_async.batching.results import Progress
    from gateway_async.journal.job import Job, JobStatus
    from gateway_async.journal.lease import Lease
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

T = TypeVar("T")

_SETTLED = (JobState.SUCCEEDED, JobState.DECLINED)
_FINAL = (OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED)
_RENEWALS_A_LEASE = 3
_CLOCKS_DIFFER_SECONDS = 0.1
_NOT_TAKEN_UP = "nothing was sent by this call, which ended before the job was read; resume the job"
_TAKEN_OVER = "another process has taken the job over; ask journal.outcomes() what became of it"


class JobRun(Lifecycle):
    """A job under way in this process."""

    def __init__(  # noqa: PLR0913  # one keyword a setting
        self,
        session: "Session",
        plan: "Plan",
        job: "Job",
        orders: object,
        *,
        policy: "BatchPolicy",
        recovery: "RecoveryPolicy",
    ) -> None:
        super().__init__(plan.record_class, policy)
        self._session = session
        self._plan = plan
        self._job = job
        self._recovery = recovery
        self._intake = None if orders is None else Intake(plan, session.dialect, policy, orders)
        self._told: bytearray | None = None
        self._run: Run | None = None
        self._aside_task: asyncio.Task[Any] | None = None
        self._lost: LeaseLostError | None = None

    @property
    def progress(self) -> "Progress":
        """How far it has come."""
        total = None if self._told is None else len(self._told)
        made = self.tally.progress(total)
        if self._run is None:
            return made
        inner = self._run.tally
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
            if self._intake is not None:
                await self._intake.check_all()
        except asyncio.CancelledError as cancelled:
            self.gate.stop("the call was cancelled")
            await self.finish(cancelled)
        self._begin(self._conduct(), f"{self._plan.operation} job {self._job.name}")

    def give_up(self) -> None:
        """Record the orders of a collection whose job was not taken up."""
        taken = self._intake.source.taken if self._intake is not None else None
        if self._told is not None or taken is None or self.failure is not None:
            return
        self._told = bytearray(b"\1") * len(taken)
        # An earlier process may have sent them, as far as anybody knows before the job is read.
        error = OutcomeUnknownError(_NOT_TAKEN_UP)
        for start in range(0, len(taken), ROWS_AT_ONCE):
            part = taken[start : start + ROWS_AT_ONCE]
            chunk = Chunk(range(start, start + len(part)), part)
            block = UniformBlock(chunk=chunk, status=OutcomeStatus.UNKNOWN, error=error)
            self.tally.record(block)

    @property
    def _is_exhausted(self) -> bool:
        return self._told is not None and 0 not in self._told

    async def _aclose(self) -> None:
        if self._intake is not None:
            await self._intake.aclose()

    def _let_go(self) -> None:
        if self._aside_task is not None:
            self._aside_task.cancel()
        if self._run is not None:
            self._run.leave(self.gate.closed_because or "")

    def abandon(self) -> None:
        """End what is still on its way; the journal is still told."""
        self._let_go()
        if self._run is not None:
            self._run.abandon()

    # The job, from its first step to its last

    async def _conduct(self) -> None:
        has_orders = self._intake is not None
        if has_orders and await self._aside(self._patiently(self._submit)) is None:
            return
        lease = await self._aside(self._patiently(self._take))
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

    async def _submit(self) -> int:
        who = self._session.credentials
        return await self._job.submit(
            self._plan.operation.name, who.merchant_id, who.account_id, self._pages()
        )

    async def _take(self) -> "Lease":
        return await self._job.take(f"{socket.gethostname()}:{os.getpid()} {uuid.uuid4()}")

    async def _pages(self) -> AsyncIterator[list[Any]]:
        intake = self._intake
        if intake is None:
            return
        page: list[Any] = []
        async for index, order in intake.left():
            error = intake.check(order) if intake.source.taken is None else None
            if error is not None:
                raise type(error)(f"order {index}: {error}; nothing of the job was sent")
            page.append(order)
            if len(page) == ROWS_AT_ONCE:
                yield page
                page = []
                await asyncio.sleep(0)
        yield page

    async def _patiently(self, attempt: "Callable[[], Awaitable[T]]") -> T:
        """Wait for the lease of a process that may have died; a living one renews it."""
        try:
            return await attempt()
        except JobBusyError as busy:
            seconds = busy.seconds_left
        await asyncio.sleep(seconds + _CLOCKS_DIFFER_SECONDS)
        return await attempt()

    async def _work_through(self, lease: "Lease") -> None:
        status = await self._job.head()
        self._told = bytearray(status.total)
        recovery = JobRecovery(
            self._session, lease, self._recovery, self._policy, started_at=time.time()
        )
        try:
            await self._recover(lease, recovery, hold=False)
            await self._tell_settled(lease)
            for _ in range(self._session.retry.attempts):
                await self._send_new(lease, _marker(status))
                if not await self._recover(lease, recovery, hold=True):
                    break
        finally:
            await self._tell_left(lease)

    async def _send_new(self, lease: "Lease", marker: str) -> None:
        """Send what is new, and tell what is settled."""
        if self._leaving or self._lost is not None:
            return
        log = LeasedLog(lease, self._lose)
        assert self._told is not None  # noqa: S101  # set before
        run = self._run = Run(
            self._session,
            self._plan,
            NewOrders(lease, self._plan.operation.name, self._told),
            policy=self._policy,
            recovery=self._recovery,
            within=Within(self.gate, log, marker),
        )
        if self._policy.duplicates == "serialize":
            async for rows in self._unknown(lease):
                run.note_unknown([row.order for row in rows])
        await run.start(streamed=self.streamed)
        while not run.is_over and run.failure is None:
            block = run.take()
            if block is not None:
                await self._tell_known(block)
            else:
                await run.change()
        if not run.is_over:
            await run.drain("the journal or a collaborator failed")
        result = await run.finish(quiet=True)
        self._run = None
        self.tally.absorb(result)
        for block in result.blocks:
            await self._tell_known(block)
        if run.failure is not None:
            raise run.failure

    async def _recover(self, lease: "Lease", recovery: JobRecovery, *, hold: bool) -> int:
        """Ask the gateway about what is unknown, and return how many orders are new again."""
        again = 0
        async for rows in self._unknown(lease):
            if not self._may_look:
                break
            found = await self._aside(recovery.look(rows))
            if found is None:
                break
            again += await recovery.keep(found, hold=hold)
        return again

    async def _unknown(self, lease: "Lease") -> "AsyncIterator[list[Any]]":
        last = -1
        while rows := await lease.rows({JobState.UNKNOWN}, after=last, limit=ROWS_AT_ONCE):
            yield rows
            last = rows[-1].index

    @property
    def _may_look(self) -> bool:
        return not (self._leaving or self.gate.is_too_late or self._lost)

    # Telling

    async def _tell_settled(self, lease: "Lease") -> None:
        """Tell what earlier processes settled."""
        last = -1
        while rows := await lease.rows(_SETTLED, after=last, limit=ROWS_AT_ONCE):
            await self._tell(StoredBlock(tuple(rows)))
            last = rows[-1].index

    async def _tell_known(self, block: "Block") -> None:
        """Tell what need not be looked up; the rest is in the journal, and told at the end."""
        counts = count_statuses(block.statuses)
        withheld = counts[OutcomeStatus.UNKNOWN]
        if self._lost is not None:
            withheld += counts[OutcomeStatus.NOT_SENT]
        if not withheld:
            await self._tell(block)
        elif withheld < len(block.indices):
            told = [o for o in block.outcomes() if self._is_known(o)]
            await self._tell(ListedBlock(tuple(told)))

    def _is_known(self, outcome: "Outcome[Any, Any]") -> bool:
        if outcome.status is OutcomeStatus.NOT_SENT:
            return self._lost is None
        return outcome.status is not OutcomeStatus.UNKNOWN

    async def _tell_left(self, lease: "Lease") -> None:
        """Tell what was not told so far, as it stands in the journal."""
        told = self._told or bytearray()
        first = told.find(0)
        while first >= 0:
            last = min(first + ROWS_AT_ONCE, len(told)) - 1
            rows = await lease.rows_between(first, last)
            left = [row for row in rows if not told[row.index] and self._is_to_be_told(row.state)]
            if left and self._lost is not None:
                await self._tell(ListedBlock(tuple(_taken_over(row.outcome()) for row in left)))
            elif left:
                await self._tell(StoredBlock(tuple(left)))
            first = told.find(0, last + 1)

    def _is_to_be_told(self, state: JobState) -> bool:
        """Say whether to tell an order now: what a stream still held is not, once it is left."""
        is_collection = self._intake is not None and self._intake.source.taken is not None
        return state is not JobState.NEW or is_collection or not self._leaving

    async def _tell(self, block: "Block") -> None:
        for index in block.indices:
            self._told[index] = 1  # type: ignore[index]  # set before anything is told
        self.tally.record(block)
        self._changed.set()
        while self._is_piled_up:
            await self.change()

    @property
    def _is_piled_up(self) -> bool:
        full = len(self.tally.finished) >= self._policy.concurrency
        return self.streamed and full and not self._leaving

    # The lease

    async def _keep_lease(self, lease: "Lease") -> None:
        while self._lost is None:
            await asyncio.sleep(self._job.journal.lease_seconds / _RENEWALS_A_LEASE)
            try:
                await lease.renew()
            except LeaseLostError as error:
                self._lose(error)
            except JournalError as error:
                if lease.expires_in() <= 0:  # until then the next renewal may be in time
                    text = f"the lease could not be renewed: {error}"
                    self._lose(LeaseLostError(text, job=lease.job))

    def _lose(self, error: LeaseLostError) -> None:
        """Send nothing more: the job is another process's."""
        if self._lost is None:
            self._lost = error
            self.gate.stop("the lease of the job was lost")
            self._let_go()

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
        if self._leaving:
            task.cancel()
        await asyncio.wait({task}, timeout=None if math.isinf(seconds) else max(0, seconds))
        while not task.done():
            task.cancel()
            await asyncio.wait({task})
        self._aside_task = None
        return None if task.cancelled() else task.result()


def _marker(status: "JobStatus") -> str:
    """Return what the markers of a job begin with: the same in every process that runs it."""
    text = f"{status.name} {status.created_at.isoformat()}"
    return f"ga-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _taken_over(outcome: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Call what is not settled unknown: another process may be at it now."""
    if outcome.status in _FINAL:
        return outcome
    error = LeaseLostError(_TAKEN_OVER)
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=error)

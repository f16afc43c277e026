"""What a process does with a job, from the lease to the last outcome.

An order leaves only after its intent is durable, and only while the lease is ours; its outcome is
yielded only after it is durable. What succeeded or was declined is yielded at once, the rest at the
end, under the lease: while another process has the job, nothing of it is called `not_sent`.
"""

import asyncio
import contextlib
import functools
import math
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.batching.batch import Batch, check_batch, check_size
from gateway_async.batching.chunks import Chunk, FailedChunk
from gateway_async.batching.feed import GivenOrders
from gateway_async.batching.results import BatchResult
from gateway_async.batching.runner import BatchRunner, WorkerPool
from gateway_async.errors import (
    AlikeRefundError,
    GatewayError,
    JobBusyError,
    JournalError,
    LeaseLostError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.jobs.input import JobInput
from gateway_async.jobs.recorder import JournalRecorder, NewOrders
from gateway_async.journal import Job, OrderState
from gateway_async.journal.chunk_store import ChunkStore, is_of_another_job
from gateway_async.journal.codec import job_operation
from gateway_async.journal.rows import Known, Merchant, StoredChunk, known_of
from gateway_async.journal.states import DECISIONS, FINAL, IN_DOUBT, STATUSES, Proof
from gateway_async.models.orders import OutcomeStatus, count_statuses, reference_of, status_codes
from gateway_async.models.records import RefundRecord
from gateway_async.operations import identity_of
from gateway_async.outcomes import ListedOutcomes
from gateway_async.recovery.recover import Recovery
from gateway_async.settings import expect
from gateway_async.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Iterator

    from gateway_async.journal.chunk_store import Related
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.rows import JobOrder
    from gateway_async.operations import Operation
    from gateway_async.outcomes import ChunkResult, Outcome
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

T = TypeVar("T")

_log = Log("jobs")

_READ_AT_ONCE = 1000
_MOST_REASONS = 10_000
_FINAL = frozenset(STATUSES[state] for state in FINAL)
_FINAL_CODES = frozenset(status_codes(_FINAL))
_CLOCKS_DIFFER_SECONDS, _LOOKS_AGAIN_SECONDS = 0.1, 1.0
_NOT_OURS = (
    "the lease of the job was lost, and another process may have it; resume the job, or read "
    "journal.outcomes()"
)
_NOT_KEPT = (
    "this run sent nothing: the deadline passed before all of its orders were kept in the journal"
)
_NOT_READ = "the journal was not read to its end; run the job again, or read journal.outcomes()"


def job_batch(  # noqa: PLR0913  # what is sent, and how
    session: "Session",
    job: Job,
    policy: "BatchPolicy",
    *,
    operation: "Operation | None" = None,
    orders: object = None,
    slice_number: int = 0,
) -> Batch[Any, Any]:
    """Make a batch of a job, or of one of its slices.

    Args:
        session: The way to the gateway.
        job: The job.
        policy: How it is sent.
        operation: The operation; None, as the orders, where the journal has them.
        orders: The orders, to be stored first; see `check_batch`.
        slice_number: Which slice; 0 for all of a job that has none.

    Raises:
        ConfigurationError: If `job` is no `Job`, or the operation cannot be one.
    """
    job = expect("job", job, Job)
    name = f"job {job.name!r}"
    if operation is not None:
        operation = job_operation(operation.name)
        name = f"{operation} {name}"
        check_batch(operation, orders, policy)

    async def open_run() -> BatchRunner:
        known = operation or (await job.read(lambda orders: orders.codec)).operation
        check_size(known, policy)
        given = None if orders is None else GivenOrders(orders)
        span = session.instrumentation.batch(known.name, orders, policy, job=job.name)
        run = BatchRunner(session, known, policy, span, given)
        run.work = JobWork(run, job, slice_number)
        return run

    return Batch(name, open_run)


class Yielded:
    """Which orders of a job, or of a slice of it, were yielded: each is, once.

    Args:
        span: The positions from the first order to the last; of a slice, not all are its own.
        total: How many orders it has; None if that is not known yet.
    """

    def __init__(self, span: range = range(0), total: int | None = None) -> None:
        self.total: int | None = total
        self._span = span
        self._flags = bytearray(len(span))

    def add(self, indices: "Collection[int]") -> None:
        """Note that the orders at these positions are yielded."""
        for index in indices:
            self._flags[index - self._span.start] = 1

    def __contains__(self, index: int) -> bool:
        return bool(self._flags[index - self._span.start])

    @property
    def is_complete(self) -> bool:
        """Whether every order was yielded."""
        return self._flags.count(1) == self.total

    def gaps(self) -> "Iterator[range]":
        """Yield stretches of positions that hold orders not yielded yet."""
        start, at = self._span.start, -1 if self.is_complete else self._flags.find(0)
        while at >= 0:
            end = min(at + _READ_AT_ONCE, len(self._flags))
            yield range(start + at, start + end)
            at = self._flags.find(0, end)


class JobWork:
    """What a job does in this process; `run` does all of it, in order.

    Args:
        run: The batch.
        job: The job.
        slice_number: Which slice; 0 for all of a job that has none.
    """

    def __init__(self, run: BatchRunner, job: Job, slice_number: int) -> None:
        self._run = run
        self._gate = run.gate
        self._job = job
        self._slice_number = slice_number
        # What sends the orders that are new: another in each round.
        self._pool: WorkerPool | None = None
        self._lease: Lease
        self._yielded = Yielded()
        # Why orders were not sent in this run: the journal keeps only that they are new.
        self._reasons: dict[int, GatewayError] = {}
        self._limit: asyncio.Timeout | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether every order was yielded."""
        return self._yielded.is_complete

    def add_remaining(self) -> None:
        """Add what remains of a collection as unknown: an earlier process may have sent it."""
        orders = self._run.collection
        if orders is None:
            return
        if self._yielded.total is None:  # the job was not taken
            if self._run.failure is not None:  # which is raised, without outcomes
                return
            self._yielded = Yielded(range(len(orders)), len(orders))
        error = OutcomeUnknownError(_NOT_READ)
        for span in self._yielded.gaps():
            indices = [index for index in span if index not in self._yielded]
            chunk = Chunk(indices, [orders[index] for index in indices])
            self._add_final(chunk.failed(error))

    def end_unsent(self) -> None:
        """End what sends nothing: requests that were not written, waits, look-ups.

        The first call ends a wait or a look-up by a timeout; once that has expired, the next one
        cancels the task.
        """
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)
        elif self._limit is not None:
            self._run.task.cancel()
        if self._pool is not None:
            self._pool.end_unsent()

    def abandon(self) -> None:
        """End what is still on its way; the journal still records it."""
        self.end_unsent()
        if self._pool is not None:
            self._pool.abandon()

    # The job, from its first step to its last

    async def run(self) -> None:
        """Do all of it, in order."""
        run = self._run
        if run.given is not None:
            submit = JobInput(run.session, self._job, run.policy, run.checker, run.given).submit()
            if await self._until_leaving(submit, is_timed=run.given.waits) is None:
                if not run.is_leaving:
                    raise NotSentError(_NOT_KEPT)
                return
        if (lease := await self._take()) is None:
            return
        self._lease = lease
        run.total = lease.total
        self._yielded = Yielded(lease.span, lease.total)
        lease.on_lost = self._stop
        keeper = asyncio.get_running_loop().create_task(lease.keep())
        try:
            await self._work_through()
        finally:
            keeper.cancel()  # a renewal that it began goes before the release
            lease.on_lost = lambda: None  # nothing is left to stop, and it refers to this
            with contextlib.suppress(JournalError):  # it runs out by itself
                await lease.release(is_serial=run.policy.duplicates != "allow")
        if lease.lost is not None:
            raise lease.lost

    async def _take(self) -> "Lease | None":
        """Take the job; while another process has it, look each second until its lease must end.

        The lease of a process that died runs out; a living one renews it, and may soon be done.
        """
        merchant = Merchant.of(self._run.session.credentials, self._run.session.gateway)
        now, until = asyncio.get_running_loop().time, math.inf
        while True:
            take = self._job.take(merchant, self._slice_number)
            try:
                return await self._until_leaving(take, is_timed=False)
            except JobBusyError as busy:
                # Of slices, others are to be had meanwhile.
                if self._slice_number or now() >= until or self._gate.is_too_late:
                    raise
                if until == math.inf:
                    seconds = busy.seconds_left + _CLOCKS_DIFFER_SECONDS
                    until = now() + seconds
                    said = "job %r waits %.1f s at most: another process has it, or died with it"
                    _log.warning(said, self._job.name, seconds)
            await self._until_leaving(asyncio.sleep(min(until - now(), _LOOKS_AGAIN_SECONDS)))

    async def _work_through(self) -> None:
        """Yield what is final; send what is new, in rounds as long as recovery makes orders new.

        What is not final, such as what could not be recorded, is read from the journal at the end.
        """
        run, policy = self._run, self._run.policy
        if policy.duplicates != "allow":
            # Another policy may have let orders of one transaction in: never send two at once.
            policy = attrs.evolve(policy, duplicates="serialize")
        recovery = run.session.recovery
        recorder = JournalRecorder(self._lease, run.operation, recovery, policy.duplicates)
        try:
            await self._recover(hold=False)  # what this run does may still be the proof
            async for page in self._lease.pages(FINAL):  # by earlier processes
                for each in page:
                    if recorder.claims and each.known.reference:
                        recorder.claim({each.order.transaction_id: each.known.reference})
                await self._yield(StoredChunk(page), is_reported=True)
            for _ in range(run.session.retry.attempts):
                if run.is_leaving or self._lease.lost is not None:
                    break
                orders = NewOrders(self._lease)
                pool = self._pool = WorkerPool(run, orders, policy, recorder, self._add_chunk)
                await self._send_new(pool, recorder)
                if not await self._recover(hold=True):
                    break
        finally:
            await self._yield_remaining()

    async def _send_new(self, pool: WorkerPool, recorder: JournalRecorder) -> None:
        """Send the orders of a pool; with "serialize", none may follow one like it in doubt."""
        async for page in self._lease.pages(IN_DOUBT):
            pool.note_unknown([each.order for each in page if each.known.proof != Proof.NEVER_SENT])
        try:
            await pool.run()
        finally:  # what is yielded must stay true
            self._pool = None
            pool.add_remaining()
            await recorder.recorded()
        if recorder.failure is not None:
            raise recorder.failure

    # What is unknown

    async def _recover(self, *, hold: bool) -> int:
        """Ask the gateway about what is unknown, and return how many orders are new again.

        Args:
            hold: Whether what stays unclear is held for a person; else it stays unknown.
        """
        again, lease, operation = 0, self._lease, self._run.operation
        async for page in lease.pages((OrderState.UNKNOWN,)):
            names = {*map(identity_of(operation), (each.order for each in page))}
            seen = await lease.read(functools.partial(ChunkStore.related, identities=names))
            if not operation.recovered_by:
                found = {each.index: held_for_a_person(each) for each in page}
            else:
                if self._run.is_leaving or self._gate.is_too_late or lease.lost:
                    break
                shown = await self._until_leaving(self._look_up(seen, hold=hold))
                if shown is None:
                    break
                found = shown
            record = functools.partial(ChunkStore.recover, found=found, seen=seen)
            again += await lease.change("keep what was found out", record)
        return again

    async def _look_up(self, seen: "Related", *, hold: bool) -> dict[int, Known]:
        """Look up what is unknown; return what was found out, by position.

        What must be known besides goes with it: a control refund, and the other orders of the
        transactions, also those of other jobs, which may claim a refund.

        Args:
            seen: The orders of each transaction.
            hold: Whether what stays unclear is held for a person; else it stays unknown.
        """
        run, lease, recovery = self._run, self._lease, self._run.session.recovery
        known = {each.index: each for related in seen.values() for each in related}
        # Of any slice of the job.
        if (control := await self._job.read(ChunkStore.control_refund)) is not None:
            known[control.index] = control
        rivals: list[Any] = []
        outcomes: list[Outcome[Any, Any]] = []
        for _, each in sorted(known.items()):
            if is_of_another_job(each) and each.state is not OrderState.SUCCEEDED:
                rivals.append(each.order)
            else:
                outcomes.append(each.outcome(taken_at=lease.taken_at))
        listed = ListedOutcomes(tuple(outcomes))
        given = BatchResult[Any, Any](counts=count_statuses(listed.statuses), chunks=(listed,))
        # The job resends by itself: it records an intent first.
        looking = attrs.evolve(recovery, resend_absent=False)
        session = attrs.evolve(run.session, recovery=looking)
        lookups = Recovery(session, run.policy, rivals)
        try:
            result = await lookups.recover(given)
        finally:  # also if it is cancelled
            run.results.add_requests(lookups.counts)
        resend = recovery.resend_absent
        found = ((one.index, _found(one, hold=hold, resend=resend)) for one in result)
        return {index: one for index, one in found if one is not None}

    # What is yielded: at once what succeeded or was declined, the rest at the end

    def _add_chunk(self, chunk: "ChunkResult") -> None:
        """Add the final outcomes of a chunk, and note why orders were not sent."""
        if (
            isinstance(chunk, FailedChunk)
            and chunk.status is OutcomeStatus.NOT_SENT
            # What is held has its reason in the journal: each order has an error of its own, and
            # so many of them take too much memory.
            and not isinstance(chunk.error, AlikeRefundError)
            and len(self._reasons) < _MOST_REASONS
        ):
            self._reasons |= dict.fromkeys(chunk.indices, chunk.error)
        final = chunk
        if not {*chunk.statuses} <= _FINAL_CODES:
            final = ListedOutcomes(tuple(one for one in chunk.outcomes() if one.status in _FINAL))
        self._add_final(final)

    def _add_final(self, chunk: "ChunkResult", *, is_reported: bool = False) -> None:
        """Add outcomes that do not change any more."""
        if chunk.indices:
            self._run.results.add(chunk, is_reported=is_reported)
            self._yielded.add(chunk.indices)
        self._run.changed.set()

    async def _yield(self, chunk: "ChunkResult", *, is_reported: bool = False) -> None:
        self._add_final(chunk, is_reported=is_reported)
        while not (self._run.is_leaving or await self._run.wait_for_room()):
            pass

    async def _yield_remaining(self) -> None:
        """Yield what was not yielded so far, as the journal has it."""
        yielded = self._yielded
        if yielded.is_complete:
            return  # all of it was recorded while the lease was ours
        with contextlib.suppress(LeaseLostError):  # which is in `lost`
            await self._lease.renew()
        # A stream that is being left pulls no more orders, so what is new is none of its outcomes.
        yields_new = self._run.collection is not None or not self._run.is_leaving
        reason = self._gate.stop_reason or "this run did not send it"
        default = NotSentError(f"nothing was sent: {reason}")
        for span in yielded.gaps():
            remaining = [
                each
                async for page in self._lease.pages(tuple(OrderState), span)
                for each in page
                if each.index not in yielded and (yields_new or each.state is not OrderState.NEW)
            ]
            # Asked anew each time: a caller may take its time, or this process stand still.
            with contextlib.suppress(LeaseLostError):
                self._lease.check()
            outcomes = tuple(self._remaining_outcome(each, default) for each in remaining)
            await self._yield(ListedOutcomes(outcomes))

    def _remaining_outcome(self, each: "JobOrder", default: GatewayError) -> "Outcome[Any, Any]":
        """Make the outcome of an order that this run leaves as it is; `default` is why."""
        outcome = each.outcome()
        if self._lease.lost is not None and outcome.status not in _FINAL:
            error: GatewayError = LeaseLostError(_NOT_OURS)  # another process may be at it now
            return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=error)
        if each.state is not OrderState.NEW:
            return outcome
        return attrs.evolve(outcome, error=self._reasons.get(each.index, default))

    def _stop(self) -> None:
        """Send nothing more: the job is another process's."""
        self._gate.stop("the lease of the job was lost")
        self.end_unsent()
        self._run.changed.set()

    async def _until_leaving(
        self, work: "Coroutine[Any, Any, T]", *, is_timed: bool = True
    ) -> T | None:
        """Do what sends nothing, until the batch is being left; then return None.

        Args:
            work: What is done.
            is_timed: Whether the deadline ends it, too.
        """
        if self._run.is_leaving:
            work.close()
            return None
        has_end = is_timed and self._gate.deadline < math.inf
        limit = self._limit = asyncio.timeout_at(self._gate.deadline if has_end else None)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                return None
            raise
        finally:
            self._limit = None


def _found(outcome: "Outcome[Any, Any]", *, hold: bool, resend: bool) -> Known | None:
    """Return what the journal keeps of an order that was looked up; None where it stays as it is.

    Args:
        outcome: What the look-up says of it.
        hold: Whether what stays unclear is held for a person.
        resend: Whether what was proved not to be done is new again.
    """
    found = known_of(DECISIONS[outcome.status], outcome.error)
    if found.state == OrderState.SUCCEEDED and isinstance(outcome.record, RefundRecord):
        return found._replace(reference=reference_of(outcome.record))
    if found.state == OrderState.NEW and not resend:
        found = found._replace(state=OrderState.HELD, proof=Proof.NOT_DONE)
    return found if hold or found.state != OrderState.HELD else None


def held_for_a_person(job_order: "JobOrder") -> Known:
    """Return that an unknown order is held which no look-up shows: a payout, or a review."""
    operation = job_order.operation
    name = getattr(job_order.order, operation.identity_field)
    text = (
        f"ask the gateway about {operation.identity_field} {name!r}, since a {operation} cannot be "
        f"looked up, and decide (`resolve`); {job_order.known.text}"
    )
    return job_order.known._replace(state=OrderState.HELD, text=text)

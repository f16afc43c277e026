"""Jobs: batches over a journal, which survive the process that runs them.

A job is sent like any other batch; its orders come from the journal (`NewOrders`), and a recorder
writes to it. Its orders are stored first. Then, under its lease: what is unknown is looked up, what
earlier processes settled is yielded, what is new is sent, and what is still unknown is looked up
once more.

An order leaves only after its intent is durable, and only while the lease is ours; its outcome is
yielded only after it is durable. What succeeded or was declined is yielded at once, the rest at the
end, under the lease: while another process has the job, nothing of it is called `not_sent`.
"""

import asyncio
import contextlib
import functools
import hashlib
import logging
import math
import os
import socket
import time
from collections import defaultdict, deque
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.batching.batch import Batch, check_batch, check_size
from gateway_async.batching.feed import Chunk, GivenOrders, OrderFeed
from gateway_async.batching.outcomes import FailedChunk, ListedOutcomes
from gateway_async.batching.recorder import IntentRecorder
from gateway_async.batching.results import BatchResult
from gateway_async.batching.runner import BatchRunner, Tasks, WorkerPool
from gateway_async.errors import (
    AlikeRefundError,
    ConfigurationError,
    DuplicateOrderError,
    GatewayError,
    JobBusyError,
    JournalError,
    LeaseLostError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.journal import Job, JobState
from gateway_async.journal.chunks import ANYWHERE, Orders
from gateway_async.journal.rows import ALIKE, NOT_DONE, Known, StoredChunk, codec_of, known_of
from gateway_async.journal.submit import Submission
from gateway_async.models.orders import OutcomeStatus, count_statuses, status_codes
from gateway_async.operations import OPERATIONS, OperationClass
from gateway_async.recovery.recover import Recovery
from gateway_async.session import is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from gateway_async.batching.outcomes import ChunkResult, Outcome
    from gateway_async.journal.leases import Lease, Whose
    from gateway_async.journal.rows import Row
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

    # By transaction, and then by position.
    States = dict[Any, dict[int, JobState]]
    Found = dict[Any, dict[int, Known]]
    # The orders of one chunk that are new, with their positions.
    Group = list[tuple[int, Any]]

T = TypeVar("T")

_log = logging.getLogger("gateway_async.jobs")

_ROWS_AT_ONCE = 1000
# So many that the wait for them, in which another chunk may be sent, counts for little.
_NEW_AT_ONCE = 2000
_PAY_NO_MORE = (JobState.UNKNOWN, JobState.HELD, JobState.SUCCEEDED)
_SETTLED = (JobState.SUCCEEDED, JobState.DECLINED)
_FINAL = (OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED)
_FINAL_CODES = frozenset(status_codes(_FINAL))
_RENEWALS_A_LEASE = 3
_CLOCKS_DIFFER_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 300.0
_NOT_OURS = (
    "the lease of the job was lost, and another process may have it; resume the job, or read "
    "journal.outcomes()"
)
_NOT_READ = "the journal was not read to its end; run the job again, or read journal.outcomes()"


def job_batch(  # noqa: PLR0913  # what is sent, and how
    session: "Session",
    job: object,
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
        ConfigurationError: If `job` is none, or the operation is none of a job.
    """
    known = _checked(job)
    name = f"job {known.name!r}{f', slice {slice_number}' if slice_number else ''}"
    if operation is not None:
        name = f"{codec_of(operation.name).operation} {name}"
        check_batch(operation, orders, policy)

    async def open_run() -> BatchRunner:
        row = operation or OPERATIONS[(await known.head()).operation]
        check_size(row, policy)
        run = BatchRunner(session, row, policy)
        run.work = JobWork(run, known, orders, slice_number)
        return run.reported(session.observer.batch(row.name, orders, policy, job=known.name))

    return Batch(name, open_run)


async def submit_orders(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    name: str,
    orders: object,
    job: object,
    *,
    policy: "BatchPolicy",
    slice_size: int,
) -> int:
    """Keep the orders of a job, cut into slices, and send nothing; return how many they are.

    Raises:
        ConfigurationError: If `job` is none, or the operation is none of a job.
        InvalidOrderError: If any order is wrong; nothing is stored.
    """
    known = _checked(job)
    operation = codec_of(name).operation
    check_batch(operation, orders, policy)
    feed = OrderFeed(operation, session.dialect, policy, GivenOrders(orders))
    try:
        await feed.check_all()
        return await _submit(session, operation, known, feed, policy, slice_size)
    finally:
        await feed.aclose()


def _checked(job: object) -> Job:
    if not isinstance(job, Job):
        raise ConfigurationError(
            f"job: expected journal.job(name) of a gateway_async Journal, got {type(job).__name__}"
        )
    return job


async def _submit(  # noqa: PLR0913, PLR0917  # what is submitted, and how
    session: "Session",
    operation: "Operation",
    job: "Job",
    feed: "OrderFeed",
    policy: "BatchPolicy",
    slice_size: int = 0,
) -> int:
    """Keep the orders of a job, or find that they are the ones that it has."""
    submission = Submission(
        job=job,
        operation=operation,
        whose=_whose(session),
        chunk_size=feed.chunk_size,
        slice_size=slice_size,
        repeats=session.dialect.payout_deduplicates or policy.duplicates == "allow",
    )
    return await submission.carry_out(_pages(feed))


def _whose(session: "Session") -> "Whose":
    return session.credentials.merchant_id, session.credentials.account_id, session.gateway


async def _pages(feed: "OrderFeed") -> "AsyncIterator[Sequence[Any]]":
    """Yield the orders of an input; those of a collection were checked before."""
    source, position = feed.source, 0
    while not source.ended:
        orders: list[Any] = []
        await source.pull(orders, _ROWS_AT_ONCE)
        problems = feed.check_page(position, orders) if source.collection is None else {}
        for index, error in problems.items():
            raise type(error)(f"order {index}: {error}; this run sent nothing")
        yield orders
        position += len(orders)
        await asyncio.sleep(0)


# A run


class JobWork:
    """What a job does in this process; `_conduct` does all of it, in order."""

    def __init__(self, run: BatchRunner, job: "Job", orders: object, slice_number: int) -> None:
        session, operation, policy = run.session, run.operation, run.policy
        self._run = run
        self._gate = run.gate
        self._session = session
        self._operation = operation
        self._policy = policy
        self._job = job
        self._slice_number = slice_number
        self._input = None
        # The orders as they were handed in, where that is a collection.
        self._collection: tuple[object, ...] | None = None
        if orders is not None:
            self._input = OrderFeed(operation, session.dialect, policy, GivenOrders(orders))
            self._collection = self._input.source.collection
        # What sends the orders that are new: another in each round.
        self._pool: WorkerPool | None = None
        self._lease: Lease
        self._taken_at = 0.0
        # The positions from the first order to the last, how many of them are ours, and which of
        # them were yielded; until the lease is taken, none is known.
        self._positions: range | None = None
        self._total = 0
        self._yielded = bytearray()
        # Why an order was not sent in this run; the journal keeps only that it is new.
        self._reasons: dict[int, GatewayError] = {}
        self._limit: asyncio.Timeout | None = None
        self._lost: LeaseLostError | None = None

    @property
    def total(self) -> int | None:
        """How many orders it has; None until its lease is taken."""
        return None if self._positions is None else self._total

    @property
    def is_exhausted(self) -> bool:
        """Whether every order was yielded."""
        return self._positions is not None and self._yielded.count(1) == self._total

    async def begin(self, tasks: Tasks) -> None:
        """Check a collection whole, then start the task that conducts the job."""
        if self._input is not None:
            await self._input.check_all()
        tasks.start(self._conduct(), f"{self._operation} job {self._job.name}")

    def add_unsent(self) -> None:
        """Add what is left of a collection as unknown: an earlier process may have sent it."""
        orders = self._collection
        if orders is None or (self._positions is None and self._run.tasks.failure is not None):
            return
        if self._positions is None:
            self._begin_positions(range(len(orders)), len(orders))
        error = OutcomeUnknownError(_NOT_READ)
        for first, last in self._gaps():
            indices = [index for index in range(first, last + 1) if not self._has(index)]
            chunk = Chunk(indices, [orders[index] for index in indices])
            self._add_final(chunk.failed(error))

    async def aclose(self) -> None:
        """Close the input, if it was not taken to its end."""
        if self._input is not None:
            await self._input.aclose()

    def end_unsent(self) -> None:
        """End what sends nothing: requests that were not written, waits, look-ups."""
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(0)
        elif self._limit is not None:  # cancel once more, uncounted: it still ends by its limit
            for conductor in self._run.tasks:
                conductor.cancel()
                conductor.uncancel()
        if self._pool is not None:
            self._pool.end_unsent()

    def abandon(self) -> None:
        """End what is still on its way; the journal still records it."""
        self.end_unsent()
        if self._pool is not None:
            self._pool.abandon()

    # The job, from its first step to its last

    async def _conduct(self) -> None:
        if self._input is not None:
            given = (self._session, self._operation, self._job, self._input, self._policy)
            if await self._patiently(lambda: _submit(*given)) is None:
                return
        take = functools.partial(
            self._job.take,
            f"{socket.gethostname()}:{os.getpid()}",
            self._slice_number,
            whose=_whose(self._session),
        )
        lease = await self._patiently(take)
        if lease is None:
            return
        self._lease, self._taken_at = lease, time.time()
        lease.on_lost = self._lose
        keeper = asyncio.get_running_loop().create_task(self._keep_lease())
        is_through = False
        try:
            await self._work_through()
            is_through = self._slice_number > 0
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
            with contextlib.suppress(JournalError):  # it runs out by itself
                await lease.release(is_through=is_through)
        if self._lost is not None:
            raise self._lost

    async def _patiently(self, attempt: "Callable[[], Coroutine[Any, Any, T]]") -> T | None:
        """Wait for the lease of a process that may have died; a living one renews it."""
        try:
            return await self._aside(attempt())
        except JobBusyError as error:
            if self._slice_number:
                raise  # others are to be had meanwhile
            busy = error
        seconds = min(busy.seconds_left, _LONGEST_WAIT_SECONDS) + _CLOCKS_DIFFER_SECONDS
        said = "job %r waits %.1f s: another process has its lease, and may have died"
        _log.info(said, self._job.name, seconds)
        await self._aside(asyncio.sleep(seconds))
        made = await self._aside(attempt())
        if made is None and not self._run.is_leaving:
            raise busy  # the time of the batch was over before that of the other's lease
        return made

    async def _work_through(self) -> None:
        job = self._lease.job
        self._begin_positions(self._lease.span, self._lease.total)
        # Duplicates are refused at submission only, perhaps by another rule: send them in turn.
        is_open = self._policy.duplicates == "allow"
        policy = self._policy if is_open else attrs.evolve(self._policy, duplicates="serialize")
        # The same payout may have been let in twice while the dialect said that this is harmless.
        is_keyed = self._operation.kind is OperationClass.KEYED
        is_once = is_keyed and not self._session.dialect.payout_deduplicates
        states = _PAY_NO_MORE if is_once else () if is_open else (JobState.UNKNOWN, JobState.HELD)
        recorder = IntentRecorder(self._lease, self._operation, once=is_once and not is_open)
        # The same in every process that runs the job.
        named = f"{job.name} {job.created.isoformat()}"
        marker = hashlib.sha256(named.encode()).hexdigest()[:12]
        try:
            await self._recover(hold=False)
            async for rows in self._rows(_SETTLED):  # by earlier processes
                await self._yield(StoredChunk(rows), again=True)
            for _ in range(self._session.retry.attempts):
                if self._run.is_leaving or self._lost is not None:
                    break
                pool = self._pool = WorkerPool(
                    self._run,
                    NewOrders(self._lease, self._collection),
                    policy,
                    add=self._show,
                    marker=marker,
                    began_at=job.created_at,
                    recorder=recorder,
                )
                await self._send_new(pool, states)
                if not await self._recover(hold=True):
                    break
        finally:
            await self._yield_left()

    async def _send_new(self, pool: WorkerPool, states: "Sequence[JobState]") -> None:
        """Send the orders of a pool; none may follow one like it that is in these states."""
        if states:
            async for rows in self._rows(states):
                unlike = [row.order for row in rows if row.known.proof != ALIKE]
                pool.refuse_like(unlike)
        senders = Tasks(self._run)
        try:
            await pool.begin(senders)
            await senders.wait()
        finally:  # also if a signal handler raised: what is yielded must stay true
            if not senders.are_over:
                self._gate.stop("the job was interrupted, or its journal or a collaborator failed")
                self.end_unsent()
                await senders.wait_out()
            failure = senders.failure
            pool.add_unsent()
        failure = failure or self._lease.failure
        if failure is not None:
            raise failure

    # What is unknown

    async def _recover(self, *, hold: bool) -> int:
        """Ask the gateway about what is unknown, and return how many orders are new again.

        Args:
            hold: Whether what stays unclear is held for a person; else it stays unknown.
        """
        again = 0
        async for rows in self._rows((JobState.UNKNOWN,)):
            if not self._operation.recovered_by:
                found = {row.index: {row.index: _for_a_person(row)} for row in rows}
                await self._keep(found, {at: {at: JobState.UNKNOWN} for at in found})
                continue
            if self._run.is_leaving or self._gate.is_too_late or self._lost:
                break
            looked_up = await self._aside(self._look(rows))
            if looked_up is None:
                break
            result, seen = looked_up
            self._run.results.requests += result.requests
            wanted, found = {row.index for row in rows}, defaultdict(dict)
            for outcome in result:
                name, index = outcome.order.transaction_id, outcome.index
                if index in wanted and seen[name].get(index) is JobState.UNKNOWN:
                    known = _found(outcome, hold=hold, resend=self._session.recovery.resend_absent)
                    found[name] |= {} if known is None else {index: known}
            again += await self._keep(found, seen)
        return again

    async def _look(self, rows: "Sequence[Row]") -> "tuple[BatchResult[Any, Any], States]":
        """Look some unknown orders up.

        Returns:
            What is known of them now, and of those that must be known besides: a witness, and the
            other orders of their transactions, which may claim a refund. And the states, before, of
            all orders of their transactions: an operator may decide on one of them meanwhile, and
            then another claims what was found.
        """
        names = {row.order.transaction_id for row in rows}
        seen: States = defaultdict(dict)
        known = {row.index: row for row in rows}
        for row in await self._lease.read(lambda orders: orders.of(names)):
            known[row.index] = row
            seen[row.order.transaction_id][row.index] = row.state
        if (witness := await self._lease.read(Orders.witness)) is not None:
            known[witness.index] = witness
        rows_by_index = (known[index] for index in sorted(known))
        block = ListedOutcomes(tuple(row.outcome(taken_at=self._taken_at) for row in rows_by_index))
        given = BatchResult[Any, Any](counts=count_statuses(block.statuses), chunks=(block,))
        # The run resends by itself: it records an intent first.
        recovery = attrs.evolve(self._session.recovery, resend_absent=False)
        session = attrs.evolve(self._session, recovery=recovery)
        return await Recovery(session, self._policy).recover(given), seen

    async def _keep(self, found: "Found", seen: "States") -> int:
        """Record what was found out of orders that are as they were seen; return how many are new.

        What was found out of one transaction is kept as a whole, or not at all.
        """

        def keep(orders: Orders) -> int:
            kept = [known for name, known in found.items() if orders.recover(known, seen[name])]
            return sum(one.state is JobState.NEW for known in kept for one in known.values())

        return await self._lease.change("keep what was found out", keep)

    async def _rows(
        self, states: "Sequence[JobState]", first: int = 0, last: int = ANYWHERE
    ) -> "AsyncIterator[list[Row]]":
        """Yield the rows in some states, page by page."""
        is_over = False
        while not is_over:
            read = functools.partial(
                Orders.rows, states=states, after=first - 1, last=last, limit=_ROWS_AT_ONCE
            )
            if rows := await self._lease.read(read):
                yield rows
                first = rows[-1].index + 1
            is_over = len(rows) < _ROWS_AT_ONCE

    # What is yielded: at once what succeeded or was declined, the rest at the end

    def _begin_positions(self, span: range, total: int) -> None:
        self._positions, self._total, self._yielded = span, total, bytearray(len(span))

    def _has(self, index: int) -> bool:
        """Say whether an order was yielded."""
        return self._positions is not None and bool(self._yielded[index - self._positions.start])

    def _gaps(self) -> "Iterator[tuple[int, int]]":
        """Yield first and last position of stretches that hold orders not yielded yet."""
        start = 0 if self._positions is None else self._positions.start
        first = -1 if self.is_exhausted else self._yielded.find(0)
        while first >= 0:
            last = min(first + _ROWS_AT_ONCE, len(self._yielded)) - 1
            yield start + first, start + last
            first = self._yielded.find(0, last + 1)

    def _show(self, chunk: "ChunkResult") -> None:
        if (
            isinstance(chunk, FailedChunk)
            and chunk.status is OutcomeStatus.NOT_SENT
            # What is held has its reason in the journal: one here would stay for each order.
            and not isinstance(chunk.error, AlikeRefundError | DuplicateOrderError)
        ):
            self._reasons |= dict.fromkeys(chunk.indices, chunk.error)
        final = chunk
        if not {*chunk.statuses} <= _FINAL_CODES:
            final = ListedOutcomes(tuple(one for one in chunk.outcomes() if one.status in _FINAL))
        self._add_final(final)

    def _add_final(self, block: "ChunkResult", *, again: bool = False) -> None:
        """Add outcomes that do not change any more."""
        if block.indices and self._positions is not None:
            for index in block.indices:
                self._yielded[index - self._positions.start] = 1
            self._run.results.add(block, known=again)
        self._run.changed.set()

    async def _yield(self, block: "ChunkResult", *, again: bool = False) -> None:
        self._add_final(block, again=again)
        most = self._policy.concurrency
        while (
            self._run.streamed
            and len(self._run.results.finished) >= most
            and not self._run.is_leaving
        ):
            if is_cancelled():
                raise asyncio.CancelledError  # perhaps no caller is left to take what is settled
            await self._run.change()

    async def _yield_left(self) -> None:
        """Yield what was not yielded so far, as it stands in the journal."""
        if self.is_exhausted:
            return  # all of it was recorded while the lease was ours
        with contextlib.suppress(LeaseLostError):  # `_lose` was called
            await self._renew()
        reason = self._gate.stop_reason or "the job ended before"
        default = NotSentError(f"nothing was sent: {reason}")
        # What a stream still held is not yielded once it is left.
        is_whole = self._collection is not None or not self._run.is_leaving

        def why_unsent(row: "Row") -> GatewayError | None:
            return self._reasons.get(row.index, default) if row.state is JobState.NEW else None

        for first, last in self._gaps():
            rows = [row async for page in self._rows(tuple(JobState), first, last) for row in page]
            left = [row for row in rows if not self._has(row.index)]
            for error, grouped in groupby(left, key=why_unsent):
                group = list(grouped)
                block: ChunkResult = StoredChunk(group)
                if error is not None:
                    chunk = Chunk([row.index for row in group], [row.order for row in group])
                    block = chunk.failed(error)
                if self._lost is not None:  # asked anew each time: a caller may take its time
                    block = ListedOutcomes(tuple(map(_not_ours, block.outcomes())))
                if is_whole or error is None:
                    await self._yield(block)

    # The lease

    async def _keep_lease(self) -> None:
        lease, seconds = self._lease, self._job.journal.lease_seconds
        with contextlib.suppress(LeaseLostError):  # `_lose` was called
            while self._lost is None:
                # However long the renewal before took: it runs from when that was asked for.
                pause = seconds / _RENEWALS_A_LEASE
                await asyncio.sleep(max(lease.expires_in() - (seconds - pause), pause / 4))
                await self._renew()

    async def _renew(self) -> None:
        """Renew the lease; what fails is no loss as long as some of it is left."""
        try:
            await self._lease.renew()
        except LeaseLostError:
            raise
        except JournalError as error:
            if self._lease.expires_in() <= 0:  # until then the next renewal may be in time
                text = f"the lease could not be renewed: {error}"
                self._lose(LeaseLostError(text, job=self._job.name))

    def _lose(self, error: LeaseLostError) -> None:
        """Send nothing more: the job is another process's."""
        if self._lost is None:
            self._lost = error
            self._gate.stop("the lease of the job was lost")
            self.end_unsent()
            self._run.changed.set()

    async def _aside(self, work: "Coroutine[Any, Any, T]") -> T | None:
        """Do what sends nothing, until the job is left or its time is over; then return None."""
        if self._run.is_leaving:
            work.close()
            return None
        deadline = None if math.isinf(self._gate.deadline) else self._gate.deadline
        limit = self._limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                return await work
        except TimeoutError:
            if limit.expired():
                return None
            raise
        finally:
            self._limit = None


# The orders that are new


class NewOrders:
    """The orders of a job that are new, read page by page.

    Whole chunks are handed over together, as far as they fit: what is written of a chunk as a whole
    is one row.

    Args:
        lease: Under which they are read.
        given: All orders of the job, as they were handed in; None where only the journal has them.
    """

    collection: "tuple[object, ...] | None" = None
    waits = False
    is_stored = True

    def __init__(self, lease: "Lease", given: "Sequence[object] | None") -> None:
        self.ended: bool = False
        self._lease = lease
        self._given = given
        self._last = -1
        self._page: deque[Group] = deque()

    async def pull(self, orders: list[Any], most: int) -> "Sequence[int]":
        """Add the next orders, as many chunks as are at hand and fit; return their positions."""
        if not self._page:
            self._page.extend(await self._lease.read(self._read))
            if not self._page:
                self.ended = True
                return ()
            self._last = self._page[-1][-1][0]
        pulled: Group = []
        while self._page and len(pulled) + len(self._page[0]) <= most:
            pulled += self._page.popleft()
        if not pulled:  # a smaller `chunk_size` than the job was submitted with
            pulled, self._page[0] = self._page[0][:most], self._page[0][most:]
        orders += [order for _, order in pulled]
        return [index for index, _ in pulled]

    def _read(self, orders: Orders) -> "list[Group]":
        given, page = self._given, orders.new(after=self._last, limit=_NEW_AT_ONCE)
        if given is not None:
            return [[(index, given[index]) for index in found] for found in page]
        return [list(zip(found, orders.at(found), strict=True)) for found in page]

    async def aclose(self) -> None:
        """Do nothing: the lease is ended elsewhere."""


# Recovery


def _for_a_person(row: "Row") -> Known:
    """Hold an unknown order that no look-up shows: a payout, or a review."""
    operation = row.operation
    name = getattr(row.order, operation.identity_field)
    return Known(
        JobState.HELD,
        code=row.known.code,
        text=f"ask the gateway about {operation.identity_field} {name!r}, since a {operation} "
        f"cannot be looked up, and decide (`resolve`); {row.known.text}",
        said=row.known.said,
    )


def _found(outcome: "Outcome[Any, Any]", *, hold: bool, resend: bool) -> Known | None:
    """Return what the journal keeps of an order that was looked up; None where it stays as it is.

    Args:
        outcome: What the look-up says of it.
        hold: Whether what stays unclear is held for a person.
        resend: Whether what was proved not to be done is new again.
    """
    if outcome.status is OutcomeStatus.SUCCEEDED:
        reference = getattr(outcome.record, "refund_reference_id", None) or ""
        return Known(JobState.SUCCEEDED, reference=reference.strip())
    is_absent = outcome.status is OutcomeStatus.NOT_SENT
    if is_absent and resend:
        return known_of(JobState.NEW, outcome.error)
    held = known_of(JobState.HELD, outcome.error)
    return held._replace(proof=NOT_DONE if is_absent else "") if hold else None


def _not_ours(outcome: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Call what is not settled unknown: another process may be at it now."""
    if outcome.status in _FINAL:
        return outcome
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=LeaseLostError(_NOT_OURS))

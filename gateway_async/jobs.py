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
import uuid
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.batching.batch import Batch, check_batch, check_size
from gateway_async.batching.feed import Chunk, OrderFeed, Source
from gateway_async.batching.recorder import IntentRecorder
from gateway_async.batching.results import BatchResult, FailedChunk, ListedOutcomes
from gateway_async.batching.runner import BatchRunner
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    JobBusyError,
    JobConflictError,
    JournalError,
    LeaseLostError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.journal import Job, JobState
from gateway_async.journal.chunks import ANYWHERE, Orders
from gateway_async.journal.rows import (
    ALIKE,
    NOT_DONE,
    Known,
    StoredChunk,
    codec_of,
)
from gateway_async.models.orders import OutcomeStatus, count_statuses, status_codes
from gateway_async.operations import OPERATIONS, REFUND, OperationClass
from gateway_async.recovery.recover import Recovery
from gateway_async.session import is_cancelled

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Awaitable,
        Callable,
        Collection,
        Coroutine,
        Iterator,
        Sequence,
    )

    from gateway_async.batching.results import ChunkResult, Outcome, Progress
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.rows import Row
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

    # The states of orders, by transaction and position.
    Beside = dict[str, dict[int, JobState]]
    # The orders of one chunk that are new, with their positions.
    Group = tuple[Sequence[int], Sequence[Any]]

T = TypeVar("T")

_log = logging.getLogger("gateway_async.jobs")

_ROWS_AT_ONCE = 1000
_READ_AHEAD = 500
_PATIENCE_SECONDS = 0.01
_MAY_BE_PAID = (JobState.UNKNOWN, JobState.HELD, JobState.SUCCEEDED)
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
_NOT_READ = "the journal was not read to its end; resume the job, or read journal.outcomes()"


def job_batch(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    operation: "Operation",
    orders: object,
    job: object,
    *,
    policy: "BatchPolicy",
    recovery: "RecoveryPolicy",
) -> Batch[Any, Any]:
    """Make a batch whose orders are stored in a journal; see `check_batch`.

    Raises:
        ConfigurationError: If `job` is none, or the operation is none of a job.
    """
    known = _checked(job)
    codec_of(operation.name)
    check_batch(operation, orders, policy)

    async def open_run() -> JobRunner:
        return JobRunner(session, operation, known, orders, policy=policy, recovery=recovery)

    return Batch(f"{operation.name} job {known.name!r}", open_run)


def resumed_batch(
    session: "Session",
    job: object,
    *,
    policy: "BatchPolicy",
    recovery: "RecoveryPolicy",
    slice_number: int = 0,
) -> Batch[Any, Any]:
    """Make a batch of a job whose orders are in the journal, or of one of its slices.

    Raises:
        ConfigurationError: If `job` is none.
    """
    known = _checked(job)

    async def open_run() -> JobRunner:
        head = await known.head()
        who = session.credentials
        if (head.merchant_id, head.account_id) != (who.merchant_id, who.account_id):
            raise JobConflictError(
                f"job {known.name!r} is of merchant_id {head.merchant_id!r}, account_id "
                f"{head.account_id!r}; this client speaks for {who.merchant_id!r}, "
                f"{who.account_id!r}",
                job=known.name,
            )
        operation = OPERATIONS[head.operation]
        check_size(operation, policy)
        given = (session, operation, known, None)
        return JobRunner(*given, policy=policy, recovery=recovery, slice_number=slice_number)

    part = f", slice {slice_number}" if slice_number else ""
    return Batch(f"job {known.name!r}{part}", open_run)


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
    feed = OrderFeed(operation, session.dialect, policy, orders)
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
    who = session.credentials
    return await job.submit(
        operation.name,
        who.merchant_id,
        who.account_id,
        _pages(feed),
        gateway=session.gateway,
        chunk_size=feed.chunk_size,
        slice_size=slice_size,
        repeats=session.dialect.payout_deduplicates or policy.duplicates == "allow",
    )


async def _pages(feed: "OrderFeed") -> "AsyncIterator[Sequence[Any]]":
    """Yield the orders of an input; those of a collection were checked before."""
    source, position = feed.source, 0
    while not source.ended:
        _, orders = await source.pull(_ROWS_AT_ONCE)
        problems = feed.check_page(position, orders) if source.collection is None else {}
        for index, error in problems.items():
            raise type(error)(f"order {index}: {error}; this run sent nothing")
        source.raise_again()
        yield orders
        position += len(orders)
        await asyncio.sleep(0)


# A run


class JobRunner(BatchRunner):
    """A job under way in this process; `_conduct` does all of it, in order."""

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
        given = () if orders is None else orders
        super().__init__(session, operation, given, policy=policy, recovery=recovery)
        self.reported(session.observer.batch(operation.name, orders, policy, job=job.name))
        self._needs_baseline |= operation is REFUND and not self._is_marked
        self._job = job
        self._slice_number = slice_number
        self._input = None if orders is None else self._feed
        # The orders as they were handed in, where that is a collection.
        self._collection = None if orders is None else self._feed.source.collection
        self._senders = []
        self._lease: Lease
        self._taken_at = 0.0
        self._total = 0
        self._yielded = Yielded(range(0), 0)
        self._has_span = False
        self._aside_task: asyncio.Task[Any] | None = None
        self._lost: LeaseLostError | None = None

    @property
    def progress(self) -> "Progress":
        """How far it has come."""
        return self.results.progress(self._total if self._has_span else None)

    def _begin(self) -> None:
        """Start the task that conducts the job; it begins the others."""
        self._start_worker(
            self._conduct(), f"{self._operation} job {self._job.name}", self._workers
        )

    def add_unsent(self) -> None:
        """Add what is left of a collection as unknown: an earlier process may have sent it."""
        collection = self._collection
        if collection is None or (not self._has_span and self.failure is not None):
            return
        if not self._has_span:
            self._note_span(range(len(collection)), len(collection))
        for block in self._yielded.unread(collection, _ROWS_AT_ONCE):
            self._yielded.note(block)
            self.results.add(block)

    def _note_span(self, span: range, total: int) -> None:
        self._has_span = True
        self._total = total
        self._yielded = Yielded(span, total)

    @property
    def _is_exhausted(self) -> bool:
        return self._has_span and self._yielded.is_whole

    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""
        if self._input is not None:
            await self._input.aclose()

    def _end_unsent(self) -> None:
        if self._aside_task is not None:
            self._aside_task.cancel()
        super()._end_unsent()

    def abandon(self) -> None:
        """End what is still on its way; the journal still records it."""
        self._end_unsent()
        for sender in self._senders:
            sender.cancel()

    # The job, from its first step to its last

    async def _conduct(self) -> None:
        if self._input is not None:
            given = (self._session, self._operation, self._job, self._input, self._policy)
            if await self._patiently(lambda: _submit(*given)) is None:
                return
        owner = f"{socket.gethostname()}:{os.getpid()} {uuid.uuid4()}"
        take = functools.partial(self._job.take, owner, self._slice_number)
        lease = await self._patiently(lambda: take(gateway=self._session.gateway))
        if lease is None:
            return
        self._lease, self._taken_at = lease, time.time()
        lease.on_lost = self._lose
        keeper = asyncio.get_running_loop().create_task(self._keep_lease())
        try:
            await self._work_through()
        finally:
            keeper.cancel()
            await asyncio.wait({keeper})
            with contextlib.suppress(JournalError):  # it runs out by itself
                await lease.release()
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

    async def _work_through(self) -> None:
        head, key = await self._job.head(), self._lease.key
        self._note_span(key.span, key.total)
        # Duplicates are refused at submission only, perhaps by another rule: send them in turn.
        is_open = self._policy.duplicates == "allow"
        policy = self._policy if is_open else attrs.evolve(self._policy, duplicates="serialize")
        # The same payout may have been let in twice while the dialect said that this is harmless.
        is_keyed = self._operation.kind is OperationClass.KEYED
        is_once = is_keyed and not self._session.dialect.payout_deduplicates
        states = _MAY_BE_PAID if is_once else () if is_open else (JobState.UNKNOWN, JobState.HELD)
        recorder = IntentRecorder(self._lease, self._operation, once=is_once and not is_open)
        # The same in every process that runs the job.
        named = f"{head.name} {head.created_at.isoformat()}"
        marker = hashlib.sha256(named.encode()).hexdigest()[:12]
        try:
            await self._recover(hold=False)
            async for rows in self._rows(_SETTLED):  # by earlier processes
                await self._yield(StoredChunk(tuple(rows)), again=True)
            for _ in range(self._session.retry.attempts):
                if self._is_leaving or self._lost is not None:
                    break
                self._open_feed(
                    NewOrders(self._lease, self._collection, self._yielded.has),
                    policy,
                    marker=marker,
                    began_at=head.created_at.timestamp(),
                    recorder=recorder,
                )
                await self._send_new(states)
                if not await self._recover(hold=True):
                    break
            if self._slice_number:
                await self._lease.finish()
        finally:
            await self._yield_left()

    async def _send_new(self, states: "Collection[JobState]") -> None:
        """Send what the feed holds; no order may follow one like it that is in these states."""
        if states:
            async for rows in self._rows(states):
                unlike = [row.order for row in rows if row.known.proof != ALIKE]
                self._feed.note_unknown(unlike)
        self._senders = []
        try:
            super()._begin()
            await self._wait_for(self._senders)
        finally:  # also if a signal handler raised: what is yielded must stay true
            if not all(sender.done() for sender in self._senders):
                self.gate.stop("the job was interrupted, or its journal or a collaborator failed")
                self._end_unsent()
                await self._wait_out(self._senders)
            failure = self._failure_of(self._senders)
            super().add_unsent()
            await self._feed.aclose()
        failure = failure or self._lease.failure or self._feed.source.raised
        if failure is not None:
            raise failure

    async def _recover(self, *, hold: bool) -> int:
        """Ask the gateway about what is unknown, and return how many orders are new again.

        Args:
            hold: Whether what stays unclear is held for a person; else it stays unknown.
        """
        again = 0
        async for rows in self._rows((JobState.UNKNOWN,)):
            if not self._operation.recovered_by:
                held = {row.index: _for_a_person(self._operation, row) for row in rows}
                await self._keep(held)
                continue
            if not self._may_look:
                break
            found = await self._aside(self._look(rows))
            if found is None:
                break
            result, beside = found
            self.results.requests += result.requests
            again += await self._keep_found(result, beside, {row.index for row in rows}, hold=hold)
        return again

    async def _look(self, rows: "Sequence[Row]") -> "tuple[BatchResult[Any, Any], Beside]":
        """Look some unknown orders up.

        Returns:
            What is known of them now, and of those that must be known besides: a witness, and the
            other orders of their transactions, which may claim a refund. And the states, before, of
            all orders of their transactions: an operator may decide on one of them meanwhile, and
            then another claims what was found.
        """
        names = {row.order.transaction_id for row in rows}
        beside: Beside = defaultdict(dict)
        known = {row.index: row for row in rows}
        for row in await self._lease.read(lambda orders: orders.of(names, tuple(JobState))):
            known[row.index] = row
            beside[row.order.transaction_id][row.index] = row.state
        if (witness := await self._lease.read(Orders.witness)) is not None:
            known[witness.index] = witness
        # Each request ended no earlier than this process took the job over: what an earlier process
        # noted is of a clock that may have been behind.
        outcomes = [known[index].outcome(ended_by=self._taken_at) for index in sorted(known)]
        block = ListedOutcomes(tuple(_ended_at(self._taken_at, outcome) for outcome in outcomes))
        counts = count_statuses(block.statuses)
        given: BatchResult[Any, Any] = BatchResult(counts=counts, chunks=(block,))
        # The run resends by itself: it records an intent first.
        policy = attrs.evolve(self._recovery, resend_absent=False)
        return await Recovery(self._session, policy, self._policy).recover(given), beside

    async def _keep_found(
        self, found: "BatchResult[Any, Any]", beside: "Beside", wanted: "set[int]", *, hold: bool
    ) -> int:
        """Record what was found out of those that were looked up; see `_recover`."""
        together: dict[str, dict[int, Known]] = defaultdict(dict)
        for outcome in found:
            name, index = outcome.order.transaction_id, outcome.index
            if index in wanted and beside[name].get(index) is JobState.UNKNOWN:
                known = _found(outcome, hold=hold, resend=self._recovery.resend_absent)
                together[name] |= {} if known is None else {index: known}
        names = list(together)
        kept = await asyncio.gather(*(self._keep(together[name], beside[name]) for name in names))
        again = [name for name, is_kept in zip(names, kept, strict=True) if is_kept]
        return sum(one.state is JobState.NEW for name in again for one in together[name].values())

    def _keep(
        self, found: dict[int, Known], beside: "dict[int, JobState] | None" = None
    ) -> "asyncio.Future[bool]":
        what = "keep what was found out"
        return self._lease.change(what, lambda orders: orders.recover(found, beside=beside))

    async def _rows(
        self, states: "Collection[JobState]", first: int = 0, last: int = ANYWHERE
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

    @property
    def _may_look(self) -> bool:
        return not (self._is_leaving or self.gate.is_too_late or self._lost)

    # Yielded

    def _show(self, chunk: "ChunkResult") -> None:
        """Add what of a chunk is yielded at once."""
        if (final := self._yielded.pick(chunk)) is not None:
            self.results.add(final)
        self.changed.set()

    async def _yield_left(self) -> None:
        """Yield what was not yielded so far, as it stands in the journal."""
        with contextlib.suppress(LeaseLostError):  # `_lose` was called
            await self._renewed(self._lease.confirm)
        for first, last in self._yielded.gaps(_ROWS_AT_ONCE):
            rows = [row async for page in self._rows(tuple(JobState), first, last) for row in page]
            for block in self._yielded.left(
                rows,
                ours=lambda: self._lost is None,
                # What a stream still held is not yielded once it is left.
                unsent=self._collection is not None or not self._is_leaving,
                reason=self.gate.stop_reason,
            ):
                await self._yield(block)

    async def _yield(self, block: "ChunkResult", *, again: bool = False) -> None:
        if not block.indices:
            return
        self._yielded.note(block)
        self.results.add(block, known=again)
        self.changed.set()
        while self._is_piled_up:
            if is_cancelled():
                raise asyncio.CancelledError  # perhaps no caller is left to take what is settled
            await self.change()

    @property
    def _is_piled_up(self) -> bool:
        full = len(self.results.finished) >= self._policy.concurrency
        return self.streamed and full and not self._is_leaving

    # The lease

    async def _keep_lease(self) -> None:
        with contextlib.suppress(LeaseLostError):  # `_lose` was called
            while self._lost is None:
                await asyncio.sleep(self._job.journal.lease_seconds / _RENEWALS_A_LEASE)
                await self._renewed(self._lease.renew)

    async def _renewed(self, ask: "Callable[[], Awaitable[None]]") -> None:
        """Ask for the lease; what fails is no loss as long as some of it is left."""
        try:
            await ask()
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
            self.gate.stop("the lease of the job was lost")
            self._end_unsent()
            self.changed.set()

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


# The orders that are new


class NewOrders(Source):
    """The orders of a job that are new and were not yielded yet, read a page ahead.

    Whole chunks are handed over together, as far as they fit: what is written of a chunk as a whole
    is one row.

    Args:
        lease: Under which they are read.
        given: All orders of the job, as they were handed in; None where only the journal has them.
        has: Says which orders were yielded.
    """

    is_stored = True

    def __init__(
        self,
        lease: "Lease",
        given: "Sequence[object] | None",
        has: "Callable[[int], bool]",
    ) -> None:
        self.raised: BaseException | None = None
        self._lease = lease
        self._given = given
        self._has = has
        self._last = -1
        self._timer: asyncio.TimerHandle | None = None
        self._page: deque[Group] = deque()
        self._ahead: asyncio.Task[list[Group]] | None = None

    async def pull(self, most: int) -> "Group":
        """Return the next orders, as many chunks as are at hand and fit."""
        indices: list[int] = []
        orders: list[Any] = []
        while not self._page:
            if not await self._turn():
                return indices, orders
        room = most
        while self._page and room:
            positions, found = self._page.popleft()
            if len(positions) > room:
                if room == most:  # a smaller `chunk_size` than the job was submitted with
                    indices += positions[:room]
                    orders += found[:room]
                    positions, found = positions[room:], found[room:]
                self._page.appendleft((positions, found))
                break
            indices += positions
            orders += found
            room -= len(positions)
        return indices, orders

    async def _turn(self) -> bool:
        """Take the next page, and return whether there was one.

        The one behind it is read once what was taken has been recorded and sent.
        """
        page = await self._reading()
        self._ahead = None
        if not page:
            self.ended = True
            return False
        self._last = page[-1][0][-1]
        self._timer = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._reading)
        self._page.extend(filter(None, map(self._left, page)))
        return True

    def _left(self, group: "Group") -> "Group | None":
        """Return what of a chunk was not yielded yet."""
        positions, orders = group
        if not any(map(self._has, positions)):
            return group
        left = [(p, o) for p, o in zip(positions, orders, strict=True) if not self._has(p)]
        return ([p for p, _ in left], [o for _, o in left]) if left else None

    def _reading(self) -> "asyncio.Task[list[Group]]":
        """Begin to read the next page, if that was not begun."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._read())
        return self._ahead

    async def _read(self) -> "list[Group]":
        given, after = self._given, self._last
        page = await self._lease.read(
            lambda orders: orders.new(after=after, limit=_READ_AHEAD, orders=given is None)
        )
        return (
            page if given is None else [(found, [given[at] for at in found]) for found, _ in page]
        )

    async def aclose(self) -> None:
        """End what is being read; the lease is ended elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ahead is not None:
            self._ahead.cancel()
            (page,) = await asyncio.gather(self._ahead, return_exceptions=True)
            if isinstance(page, JournalError):
                self.raised = page


# Recovery


def _for_a_person(operation: "Operation", row: "Row") -> Known:
    """Hold an unknown order that no look-up shows: a payout, or a review."""
    name = getattr(row.order, operation.identity_field)
    return Known(
        JobState.HELD,
        code=row.known.code,
        text=f"ask the gateway about {operation.identity_field} {name!r}, since a {operation} "
        f"cannot be looked up, and decide (`resolve`); {row.known.text}",
        said=row.known.said,
    )


def _ended_at(moment: float, outcome: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Return an outcome whose request ended no earlier than that, in seconds since the epoch."""
    if outcome.sending is None or outcome.sending.ended_at >= moment:
        return outcome
    sending = attrs.evolve(outcome.sending, ended_at=moment)
    return attrs.evolve(outcome, exchange=attrs.evolve(outcome.exchange, sending=sending))


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
    error, is_absent = outcome.error, outcome.status is OutcomeStatus.NOT_SENT
    again = is_absent and resend
    if not (again or hold):
        return None
    return Known(
        JobState.NEW if again else JobState.HELD,
        code=getattr(error, "code", ""),
        text=str(error or ""),
        said=getattr(error, "text", ""),
        proof=NOT_DONE if is_absent and not again else "",
    )


# What is yielded


class Yielded:
    """Which orders of a job were yielded.

    Args:
        span: From the first position to the last.
        total: How many of the orders there are ours.
    """

    def __init__(self, span: range, total: int) -> None:
        self._flags = bytearray(len(span))
        self._first = span.start
        self._total = total
        self._unsent: list[tuple[Sequence[int], GatewayError]] = []

    @property
    def is_whole(self) -> bool:
        """Whether every order was yielded."""
        return self._flags.count(1) == self._total

    def has(self, index: int) -> bool:
        """Say whether an order was yielded."""
        return bool(self._flags[index - self._first])

    def note(self, block: "ChunkResult") -> None:
        """Note that a block is yielded."""
        for index in block.indices:
            self._flags[index - self._first] = 1

    def pick(self, block: "ChunkResult") -> "ChunkResult | None":
        """Return what of a block is yielded at once, and remember why the rest was not sent."""
        if isinstance(block, FailedChunk) and block.status is OutcomeStatus.NOT_SENT:
            self._unsent.append((block.indices, block.error))
        final: ChunkResult = block
        if not {*block.statuses} <= _FINAL_CODES:
            final = ListedOutcomes(tuple(o for o in block.outcomes() if o.status in _FINAL))
        self.note(final)
        return final if final.indices else None

    def gaps(self, most: int) -> "Iterator[tuple[int, int]]":
        """Yield first and last position of stretches that hold orders not yielded yet."""
        first = -1 if self.is_whole else self._flags.find(0)
        while first >= 0:
            last = min(first + most, len(self._flags)) - 1
            yield self._first + first, self._first + last
            first = self._flags.find(0, last + 1)

    def left(
        self,
        rows: "Sequence[Row]",
        *,
        ours: "Callable[[], bool]",
        unsent: bool,
        reason: str | None,
    ) -> "Iterator[ChunkResult]":
        """Yield what is yielded at the end of orders that were not yielded yet.

        Args:
            rows: The orders, as they stand in the journal.
            ours: Says whether the lease is ours still; asked anew before each block, since a
                caller may take its time with them.
            unsent: Whether those that were not sent are yielded, too.
            reason: Why nothing more was sent, if something was the reason.
        """
        rows = [row for row in rows if not self.has(row.index)]
        default = NotSentError(f"nothing was sent: {reason or 'the job ended before'}")
        reasons = {
            index: error
            for indices, error in self._unsent
            if rows and indices[0] <= rows[-1].index and indices[-1] >= rows[0].index
            for index in indices
        }
        alike: dict[GatewayError | None, list[Row]] = {None: []}
        for row in rows:
            if row.state is not JobState.NEW:
                alike[None].append(row)
            elif unsent:
                alike.setdefault(reasons.get(row.index, default), []).append(row)
        for error, group in alike.items():
            block: ChunkResult = StoredChunk(group)
            if error is not None:
                block = Chunk([row.index for row in group], [row.order for row in group]).failed(
                    error, OutcomeStatus.NOT_SENT
                )
            yield block if ours() else ListedOutcomes(tuple(map(_not_ours, block.outcomes())))

    def unread(self, orders: "Sequence[Any]", most: int) -> "Iterator[ChunkResult]":
        """Yield the orders that were not yielded, as unknown: the journal could not be read."""
        error = OutcomeUnknownError(_NOT_READ)
        for first, last in self.gaps(most):
            indices = [index for index in range(first, last + 1) if not self.has(index)]
            chunk = Chunk(indices, [orders[index] for index in indices])
            yield chunk.failed(error, OutcomeStatus.UNKNOWN)


def _not_ours(outcome: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Call what is not settled unknown: another process may be at it now."""
    if outcome.status in _FINAL:
        return outcome
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=LeaseLostError(_NOT_OURS))

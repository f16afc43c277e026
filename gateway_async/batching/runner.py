"""A batch under way: `concurrency` workers take chunks from the feed and send them.

However the batch ends, each order that was pulled gets exactly one outcome. A request that may have
been sent is waited for until the drain time is over.
"""

import asyncio
import logging
import math
import time
import uuid
from typing import TYPE_CHECKING, Any, Self

from gateway_async.batching.alike import SECONDS_AN_HOUR
from gateway_async.batching.baseline import Baseline
from gateway_async.batching.feed import GivenOrders, OrderFeed
from gateway_async.batching.results import Results
from gateway_async.batching.sender import Sender
from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    DuplicateOrderError,
    EvidenceError,
    GatewayError,
    NotSentError,
    RejectedError,
)
from gateway_async.operations import REFUND
from gateway_async.session import CALL_CANCELLED, DEADLINE_PASSED, Gate, is_cancelled
from gateway_async.settings import BatchPolicy

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from gateway_async.batching.alike import References
    from gateway_async.batching.feed import Chunk, Source
    from gateway_async.batching.recorder import IntentRecorder
    from gateway_async.batching.results import BatchResult, ChunkResult, Progress
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy
    from gateway_async.telemetry import BatchSpan

_log = logging.getLogger("gateway_async.batches")

_ENCODED_AT_ONCE = 8
"""So many chunks are encoded in one turn of the loop: then it sends them, and serves others."""
_STOP_AT_ONCE = (CertificateError, EvidenceError, ConfigurationError)
_CUT_SHORT = (
    "other code cancelled a task of the batch: if the orders come from a generator that yields "
    "inside `asyncio.timeout` or a `TaskGroup`, yield outside of it"
)


class BatchRunner:
    """A batch under way, awaited or streamed; a job is one, too, whose feed reads a journal.

    It ends in two steps. If workers still run, `drain`: take no more orders, end requests of which
    nothing was sent (`_end_unsent`), wait for the others, and cancel those that are left after the
    drain time (`abandon`). Then `finish`: add the orders that were never sent (`add_unsent`), make
    the result, and close the input.

    Args:
        session: The way to the gateway.
        operation: The operation.
        orders: The input.
        policy: Concurrency, chunk size, duplicates, time limits.
        recovery: Whether refunds carry a marker, or their earlier refunds are looked up first.

    Attributes:
        results: The outcomes so far.
        gate: Whether requests may leave.
        result: The outcome of every order, once it is over.
        streamed: Whether the caller takes outcomes as they come; workers wait when they pile up.
        span: The telemetry of the batch; None for the look-ups of a recovery.
    """

    def __init__(
        self,
        session: "Session",
        operation: "Operation",
        orders: object,
        *,
        policy: BatchPolicy,
        recovery: "RecoveryPolicy",
    ) -> None:
        self.results: Results = Results(operation.record_class)
        self.gate: Gate = Gate(
            deadline=asyncio.get_running_loop().time() + (policy.deadline_seconds or math.inf),
            drain_seconds=policy.drain_seconds,
        )
        self.changed: asyncio.Event = asyncio.Event()
        self.result: BatchResult[Any, Any] | None = None
        self.streamed: bool = False
        self.span: BatchSpan | None = None
        self._policy = policy
        self._workers: list[asyncio.Task[None]] = []
        self._is_leaving = False
        self._session = session
        self._operation = operation
        self._recovery = recovery
        self._is_marked = operation is REFUND and recovery.refund_evidence == "marker"
        self._needs_baseline = operation is REFUND and recovery.record_baseline
        self._sending_tasks = self._workers  # in a job, a worker starts them
        self._no_references: References = {}  # shared: one a chunk would stay with its result
        self._turns = asyncio.Semaphore(_ENCODED_AT_ONCE)
        self._failed_in_a_row = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._open_feed(
            GivenOrders(orders), policy, marker=uuid.uuid4().hex[:12], began_at=time.time()
        )

    def _open_feed(
        self,
        orders: "Source",
        policy: BatchPolicy,
        *,
        marker: str,
        began_at: float,
        recorder: "IntentRecorder | None" = None,
    ) -> None:
        """Prepare to send some orders.

        Args:
            orders: The orders.
            policy: Chunk size, concurrency, duplicates.
            marker: What tells the refunds' markers, where they are sent, from those of others.
            began_at: When the orders were handed in, in seconds since the epoch: the guard against
                alike refunds looks back `hold_alike_hours` from here.
            recorder: Records each chunk in a job's journal; the job has checked its orders.
        """
        begins = f"ga-{marker}" if self._is_marked else None
        session, operation, is_job = self._session, self._operation, recorder is not None
        self._recorder = recorder
        self._feed = OrderFeed(
            operation, session.dialect, policy, orders, marker=begins, checked=is_job
        )
        self._sender = Sender(
            session,
            operation,
            gate=self.gate,
            results=self.results,
            add=self._add,
            recorder=recorder,
            marker=begins,
            alone=policy.duplicates == "reject",
        )
        hours = self._recovery.hold_alike_hours
        self._baseline = Baseline(
            session,
            self.gate,
            self.results,
            recorder=recorder,
            since=None if hours is None else began_at - hours * SECONDS_AN_HOUR,
            counts_made=not is_job and policy.duplicates != "reject",
        )

    @property
    def progress(self) -> "Progress":
        """How far it has come."""
        collection = self._feed.source.collection
        return self.results.progress(None if collection is None else len(collection))

    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start the workers.

        Args:
            streamed: Whether outcomes are taken as they come.

        Raises:
            InvalidOrderError: If any order of a collection is wrong; nothing is sent.
            asyncio.CancelledError: The cancellation, once `result` is there; nothing is sent.
        """
        self.streamed = streamed
        try:
            await self._feed.check_all()
        except asyncio.CancelledError as cancelled:
            self.gate.stop(CALL_CANCELLED)
            await self.finish(cancelled)
        self._begin()

    def _begin(self) -> None:
        """Start the workers that take chunks from the feed and send them."""
        have_begun = False
        try:
            for number in range(self._policy.concurrency):
                name = f"{self._operation} worker {number}"
                self._start_worker(self._work(), name, self._sending_tasks)
            have_begun = True
        finally:
            if not have_begun:  # nothing waits for the tasks that were made
                self.gate.stop("the batch could not begin")
                self.abandon()
        if self.gate.deadline < math.inf:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self.gate.deadline, self._end_waiting)

    def add_unsent(self) -> None:
        """Add, once the workers have ended, what was never sent."""
        if self._alarm is not None:
            self._alarm.cancel()
        reason = self.gate.stop_reason or "the batch ended before"
        for chunk in self._feed.give_up(NotSentError(f"nothing was sent: {reason}")):
            self._show(chunk)

    @property
    def _is_exhausted(self) -> bool:
        return self._feed.is_exhausted

    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""
        await self._feed.aclose()

    def _end_unsent(self) -> None:
        self._withdraw_unsent()
        self._cancel_idle()

    def _end_waiting(self) -> None:
        """At the deadline, end what waits for its turn or for the input."""
        self.gate.stop(DEADLINE_PASSED)
        self._withdraw_unsent()
        if self._feed.source.waits:
            self._cancel_idle()

    def _withdraw_unsent(self) -> None:
        for sender in (self._sender, *self._baseline.senders):
            sender.withdraw_unsent()

    def _cancel_idle(self) -> None:
        for worker in self._sending_tasks:
            if not self._sender.is_busy(worker):
                worker.cancel()

    # Its life: awaited or streamed, drained, finished

    def reported(self, span: "BatchSpan") -> Self:
        """Report to a span until the `with` block around the runner is left."""
        self.span = span
        self.results.on_counts = span.settled
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.span is not None:
            raised = self.failure if error is None else error
            made = self.progress
            self.span.end(
                made.counts,
                made.requests,
                retries=made.retries,
                stopped=self.gate.stopped_because,
                error=raised,
            )

    def abandon(self) -> None:
        """Cancel the workers."""
        for worker in self._workers:
            worker.cancel()

    @property
    def is_over(self) -> bool:
        """Whether every worker has ended."""
        return all(worker.done() for worker in self._workers)

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended a worker: of the input, a collaborator, or a cancellation."""
        return self._failure_of(self._workers)

    def _failure_of(self, workers: "Sequence[asyncio.Task[None]]") -> BaseException | None:
        ended = [worker for worker in workers if worker.done()]
        errors = [worker.exception() for worker in ended if not worker.cancelled()]
        error = next((error for error in errors if error is not None), None)
        is_cut = self._may_be_cut and any(worker.cancelled() for worker in ended)
        return RuntimeError(_CUT_SHORT) if is_cut and error is None else error

    @property
    def _may_be_cut(self) -> bool:
        """Whether foreign code cancelled a worker, so that orders were left."""
        if self.gate.stopped_because == CALL_CANCELLED:
            return self.is_over and not (self._is_leaving or self._is_exhausted)
        return self.gate.stop_reason is None

    async def change(self) -> None:
        """Wait until outcomes are added or taken, or a worker ends."""
        self.changed.clear()
        await self.changed.wait()

    def take(self) -> "ChunkResult":
        """Take the outcomes of the next finished chunk."""
        self.changed.set()
        return self.results.finished.popleft()

    async def drain(self, reason: str) -> asyncio.CancelledError | None:
        """Take and send no more, and wait up to the drain time for what may have been sent.

        Returns:
            The cancellation that cut the waiting short, if one did.
        """
        self._is_leaving = True
        self.gate.stop(reason)
        self.changed.set()
        self._end_unsent()
        return await self._wait_out(self._workers)

    async def _wait_out(
        self, workers: "Sequence[asyncio.Task[None]]"
    ) -> asyncio.CancelledError | None:
        """Wait for workers up to the drain time, then cancel them."""
        interruption: asyncio.CancelledError | None = None
        seconds: float | None = self._policy.drain_seconds
        while pending := [worker for worker in workers if not worker.done()]:
            if seconds is None:
                self.abandon()
            try:
                await asyncio.wait(pending, timeout=seconds)
            except asyncio.CancelledError as cancelled:
                interruption = cancelled
            seconds = None
        return interruption

    async def _wait_for(self, workers: "Sequence[asyncio.Task[None]]") -> None:
        """Wait until every worker has ended, or one has failed."""
        if not all(worker.done() for worker in workers):
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)

    async def complete(self) -> "BatchResult[Any, Any]":
        """Start, wait for the end, and return the result; a cancellation drains first.

        Raises:
            asyncio.CancelledError: The cancellation, once `result` is there.
            Exception: What the input or a collaborator raised, once `result` is there.
        """
        await self.start()
        interruption = None
        try:
            await self._wait_for(self._workers)
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        if interruption is not None or not self.is_over:
            reason = CALL_CANCELLED if interruption else "the input or a collaborator failed"
            cut_short = await self.drain(reason)
            interruption = interruption or cut_short
        return await self.finish(interruption)

    async def finish(
        self, interruption: BaseException | None = None, *, quiet: bool = False
    ) -> "BatchResult[Any, Any]":
        """Add what was never sent, make the result, and close the input.

        Args:
            interruption: A cancellation to raise at the end.
            quiet: Do not raise `failure`, since the caller raises another exception.

        Raises:
            BaseException: The interruption, or else `failure`, once `result` is there.
        """
        self.add_unsent()
        self.result = self.results.result(exhausted=self._is_exhausted)
        if isinstance(interruption, asyncio.CancelledError):
            interruption.outcome = self.result  # type: ignore[attr-defined]  # as for a single call
        failure = self.failure  # read in any case: asyncio logs what is never retrieved
        await self.close_input()
        if error := interruption or (None if quiet else failure):
            raise error
        return self.result

    def _start_worker(
        self, work: "Coroutine[Any, Any, None]", name: str, workers: "list[asyncio.Task[None]]"
    ) -> None:
        create = asyncio.get_running_loop().create_task
        worker = self.span.run(create, work, name=name) if self.span else create(work, name=name)
        worker.add_done_callback(lambda _: self.changed.set())
        workers.append(worker)

    # A worker: take a chunk, send it, add its outcomes

    async def _work(self) -> None:
        try:
            while (chunk := await self._next_chunk()) is not None:
                if not self.gate.is_open and (reason := self.gate.stop_reason) is not None:
                    self._sender.fail(chunk, NotSentError(f"nothing was sent: {reason}"))
                    await asyncio.sleep(0)  # let other tasks run, however long the input is
                    continue
                references = self._no_references
                rest: Chunk | None = chunk
                if self._needs_baseline:
                    rest, references = await self._take_baseline(chunk)
                if rest is not None:
                    error = await self._sender.send(rest, references)
                    if error is not None or self._failed_in_a_row:
                        self._note_result(error)
        finally:
            if self._recorder is not None:
                await self._recorder.recorded()

    async def _next_chunk(self) -> "Chunk | None":
        """Take the next chunk from the feed; None at the end, or after a stop."""
        feed = self._feed
        if self._policy.concurrency > _ENCODED_AT_ONCE:
            await self._turns.acquire()
            asyncio.get_running_loop().call_soon(self._turns.release)  # in the loop's next turn
        while self._may_take:
            if self.streamed:
                if is_cancelled():
                    raise asyncio.CancelledError  # perhaps no caller is left to take outcomes
                if len(self.results.finished) >= self._policy.concurrency:
                    await self.change()
                    continue
            try:
                await feed.fill()
            finally:
                if feed.is_broken:
                    self._stop("the input failed")
            if refused := feed.take_refused():
                for each in refused:
                    self._show(each)
                await asyncio.sleep(0)  # let other tasks run, however many orders are wrong
                continue
            chunk = feed.take()
            if chunk is not None or feed.is_done:
                return chunk
            await self.change()
        return None

    @property
    def _may_take(self) -> bool:
        """Whether to go on taking orders, be it only to call them `not_sent`.

        An input that may wait for the caller's code is not waited for beyond the deadline.
        """
        source, gate = self._feed.source, self.gate
        is_too_late = source.waits and gate.is_too_late
        is_kept = source.is_stored and gate.stop_reason is not None
        return not (self._is_leaving or self._feed.is_broken or is_too_late or is_kept)

    def _note_result(self, error: GatewayError | None) -> None:
        """Stop after too many chunks in a row without a readable reply."""
        is_answered = error is None or isinstance(error, RejectedError | DuplicateOrderError)
        self._failed_in_a_row = 0 if is_answered else self._failed_in_a_row + 1
        if isinstance(error, _STOP_AT_ONCE):
            self._stop(f"the batch was stopped: {error}")
        elif self._failed_in_a_row >= self._policy.stop_after_unknown:
            self._stop(
                f"{self._failed_in_a_row} requests in a row had no readable reply "
                f"(stop_after_unknown), the last: {error}"
            )

    def _stop(self, reason: str) -> None:
        """Send no more, not even a request that is about to be written."""
        if self.gate.stop_reason is None:
            _log.warning("%s sends nothing more: %s", self._operation, reason)
        self.gate.stop(reason)
        self._withdraw_unsent()

    def _add(self, chunk: "ChunkResult") -> None:
        """Add the outcomes of a chunk, and let orders that waited for it follow."""
        self._show(chunk)
        if self._feed.is_serial:
            self._feed.release(chunk)

    def _show(self, chunk: "ChunkResult") -> None:
        self.results.add(chunk)
        self.changed.set()

    async def _take_baseline(self, chunk: "Chunk") -> "tuple[Chunk | None, References]":
        """Look up the earlier refunds of a chunk.

        Returns:
            The orders that may be sent, None if there are none, and the references of their earlier
            refunds. The others have their outcome.
        """
        references: References = self._no_references
        error: GatewayError = NotSentError("nothing was sent: the batch ended before")
        barred = dict.fromkeys(range(len(chunk)), error)
        try:
            references, barred, problem = await self._baseline.look_up(chunk)
        finally:
            places_of: dict[GatewayError, list[int]] = {}
            for place, why in barred.items():
                places_of.setdefault(why, []).append(place)
            for why, places in places_of.items():
                self._add(chunk.part(places).failed(why))
        if not barred:
            return chunk, references
        if len(barred) == len(chunk):
            self._note_result(problem)
            return None, references
        return chunk.part([n for n in range(len(chunk)) if n not in barred]), references

"""A batch under way: its life, from the check of its input to its result, and its workers.

However the batch ends, each order that was pulled gets exactly one outcome; only a job that could
not be taken raises without outcomes. A request that may have been sent is waited for until the
drain time is over.
"""

import asyncio
import math
from typing import TYPE_CHECKING, Any, Protocol, Self

from gateway_async.batching.earlier import look_up_earlier
from gateway_async.batching.feed import OrderChecker, OrderFeed, is_cancelled
from gateway_async.batching.results import Results
from gateway_async.batching.sender import Recorder, Sender
from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    NotSentError,
    RejectedError,
)
from gateway_async.session import CALL_CANCELLED, DEADLINE_PASSED, Gate, wait_out
from gateway_async.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.feed import GivenOrders, Source
    from gateway_async.batching.results import BatchResult, Progress
    from gateway_async.operations import Operation
    from gateway_async.outcomes import ChunkResult
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy
    from gateway_async.telemetry import BatchSpan

_log = Log("batches")

_ENCODED_AT_ONCE = 8
"""So many chunks are encoded in one turn of the loop: then it sends them, and serves others."""
_STOP_AT_ONCE = (CertificateError, EvidenceError, ConfigurationError)
_CUT_SHORT = (
    "other code cancelled a task of the batch: if the orders come from a generator that yields "
    "inside `asyncio.timeout` or a `TaskGroup`, yield outside of it"
)


class Work(Protocol):
    """What a batch does: a `WorkerPool` sends its orders; a job makes a pool for each round.

    A `BatchRunner` makes a task of `run`. To end early, it calls `end_unsent`, and after the drain
    time `abandon`; once the task has ended, `add_remaining`, of which a second call adds nothing.

    Attributes:
        is_exhausted: Whether every order of the input was taken.
    """

    @property
    def is_exhausted(self) -> bool: ...  # noqa: D102  # above

    async def run(self) -> None:
        """Do all of it."""
        ...

    def end_unsent(self) -> None:
        """Take no more orders, and end what sends nothing; the gate ends unsent requests."""
        ...

    def abandon(self) -> None:
        """End the others, too: the drain time is over."""
        ...

    def add_remaining(self) -> None:
        """Add, once `run` has ended, the orders that have no outcome yet."""
        ...


class BatchRunner:
    """A batch under way, awaited or streamed.

    It ends in two steps. If its task still runs, `drain`: take no more orders, end requests of
    which nothing was sent, wait for the others, and end those that are left after the drain time.
    Then `finish`: add the orders without an outcome, make the result, and close the input. The work
    and the input are gone then.

    Args:
        session: The way to the gateway.
        operation: The operation.
        policy: Concurrency, chunk size, duplicates, time limits.
        span: Reports it to the telemetry, until the `with` block around the runner is left.
        given: The orders as the caller gives them; None where a journal has them.

    Attributes:
        collection: The orders, where the caller gives a collection; else None.
        checker: Checks the orders.
        total: How many orders there are; None where that is not known.
        work: What it does, to be set before it is started.
        results: The outcomes so far.
        gate: Whether requests may leave.
        changed: Set when outcomes are added or taken, or the task ends.
        result: The outcome of every order, once it is over.
        streamed: Whether the caller takes outcomes as they come; workers wait when they pile up.
        is_leaving: Whether it takes no more orders, not even to call them `not_sent`.
        task: What does the work, once it is started.
        failed_in_a_row: How many chunks had no readable reply about their orders since one had.
    """

    def __init__(
        self,
        session: "Session",
        operation: "Operation",
        policy: "BatchPolicy",
        span: "BatchSpan",
        given: "GivenOrders | None",
    ) -> None:
        self.session = session
        self.operation = operation
        self.policy = policy
        self.span = span
        self.given = given
        self.collection: tuple[object, ...] | None = None if given is None else given.collection
        self.checker: OrderChecker = OrderChecker(operation, session.dialect, policy)
        self.total: int | None = None if self.collection is None else len(self.collection)
        self.results: Results = Results(operation.record_class, span.settled)
        self.gate: Gate = Gate(
            deadline=asyncio.get_running_loop().time() + (policy.deadline_seconds or math.inf),
            drain_seconds=policy.drain_seconds,
        )
        self.changed: asyncio.Event = asyncio.Event()
        self.result: BatchResult[Any, Any] | None = None
        self.streamed: bool = False
        self.is_leaving: bool = False
        self.task: asyncio.Task[None]
        self.failed_in_a_row: int = 0
        self.work: Work

    @property
    def progress(self) -> "Progress":
        """How far it has come."""
        return self.results.progress(self.total)

    @property
    def failure(self) -> BaseException | None:
        """The exception that ended the work: of the input, a collaborator, or a cancellation."""
        task: asyncio.Task[None] | None = getattr(self, "task", None)  # none before the start
        if task is None or not task.done():
            return None
        if task.cancelled():  # by other code, unless the batch is being left
            return None if self.is_leaving else RuntimeError(_CUT_SHORT)
        return task.exception()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        made, raised = self.progress, self.failure if error is None else error
        self.span.end(made.counts, made.requests, retries=made.retries, error=raised)

    def add(self, chunk: "ChunkResult") -> None:
        """Add the outcomes of a chunk."""
        self.results.add(chunk)
        self.changed.set()

    async def change(self) -> None:
        """Wait until outcomes are added or taken, or the task ends."""
        self.changed.clear()
        await self.changed.wait()

    async def wait_for_room(self) -> bool:
        """Return whether the caller of a stream keeps up; if not, wait for a change first."""
        if not self.streamed:
            return True
        if is_cancelled():
            raise asyncio.CancelledError  # perhaps no caller is left to take outcomes
        if len(self.results.finished) < self.policy.concurrency:
            return True
        await self.change()
        return False

    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start the work.

        Args:
            streamed: Whether outcomes are taken as they come.

        Raises:
            InvalidOrderError: If any order of a collection is wrong; nothing is sent.
            asyncio.CancelledError: The cancellation, once `result` is there; nothing is sent.
        """
        self.streamed = streamed
        try:
            await self.checker.check_all(self.collection)
        except asyncio.CancelledError as cancelled:
            self.gate.stop(CALL_CANCELLED)
            await self.finish(cancelled)
        name = f"{self.operation} batch"
        self.task = self.span.run(asyncio.create_task, self.work.run(), name=name)
        self.task.add_done_callback(lambda _: self.changed.set())

    async def complete(self) -> "BatchResult[Any, Any]":
        """Start, wait for the end, and return the result; a cancellation drains first.

        Raises:
            asyncio.CancelledError: The cancellation, once `result` is there.
            Exception: What the input or a collaborator raised, once `result` is there.
        """
        await self.start()
        interruption = None
        try:
            await asyncio.wait({self.task})
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
            await self.drain(CALL_CANCELLED)
        except GeneratorExit:  # it is closed: no caller is left who could wait
            self._leave("the call was closed")
            raise
        return await self.finish(interruption)

    async def drain(self, reason: str) -> asyncio.CancelledError | None:
        """Take and send no more, and wait up to the drain time for what may have been sent.

        Returns:
            The cancellation that cut the waiting short, if one did.
        """
        self._leave(reason)
        return await wait_out([self.task], self.policy.drain_seconds, self.work.abandon)

    def _leave(self, reason: str) -> None:
        self.is_leaving = True
        self.gate.stop(reason)
        self.changed.set()
        self.work.end_unsent()

    async def finish(
        self, interruption: BaseException | None = None, *, quiet: bool = False
    ) -> "BatchResult[Any, Any]":
        """Add the orders without an outcome, make the result, and close the input.

        Args:
            interruption: A cancellation to raise at the end.
            quiet: Do not raise the failure of the work, since the caller raises another exception.

        Raises:
            BaseException: The interruption, or else the failure, once `result` is there.
        """
        self.work.add_remaining()
        self.result = self.results.result(exhausted=self.work.is_exhausted)
        if isinstance(interruption, asyncio.CancelledError):
            interruption.outcome = self.result  # type: ignore[attr-defined]  # as for a single call
        failure = self.failure  # read in any case: asyncio logs what is never retrieved
        if self.given is not None:
            await self.given.aclose()
        # The result alone is left, to be freed when its caller drops it: the work refers to this.
        del self.work, self.given, self.collection, self.checker
        if error := interruption or (None if quiet else failure):
            raise error
        return self.result


class WorkerPool:
    """Up to `concurrency` workers, each of which takes a chunk from the feed, sends it, and so on.

    Args:
        run: The batch.
        orders: Where its orders come from.
        policy: How they are sent.
        recorder: What the batch remembers of what it sends.
        add: Called with the outcomes of each chunk.
    """

    def __init__(
        self,
        run: BatchRunner,
        orders: "Source",
        policy: "BatchPolicy",
        recorder: Recorder,
        add: "Callable[[ChunkResult], None]",
    ) -> None:
        self._run = run
        self._policy = policy
        self._add = add
        self._recorder = recorder
        self._feed = OrderFeed(orders, run.checker, policy, marker_prefix=recorder.marker_prefix)
        self._turns = asyncio.Semaphore(_ENCODED_AT_ONCE)
        self._workers: list[asyncio.Task[None]] = []
        self._is_ended = False

    @property
    def is_exhausted(self) -> bool:
        """Whether every order of the input was taken."""
        return self._feed.is_exhausted

    def note_unknown(self, orders: "Sequence[Any]") -> None:
        """With "serialize": refuse orders of the identity of these."""
        self._feed.note_unknown(orders)

    async def run(self) -> None:
        """Start the workers, and wait for their end; if one of them fails, drain.

        Raises:
            Exception: What the input or a collaborator raised.
            RuntimeError: If other code cancelled a worker, so that orders were left.
        """
        run, loop = self._run, asyncio.get_running_loop()
        gate, policy = run.gate, self._policy
        alarm = loop.call_at(gate.deadline, self._end_waiting) if gate.deadline < math.inf else None
        # A batch of one order, as of a web request, needs no more than one of them.
        most = policy.concurrency if run.total is None else max(run.total, 1)
        sender = Sender(
            run.session, run.operation, gate, run.results, self._add_and_release, self._recorder
        )
        workers = self._workers = [
            loop.create_task(self._work(sender), name=f"{run.operation} worker {number}")
            for number in range(min(most, policy.concurrency))
        ]
        for worker in workers:  # one that ends may have pulled what others wait for
            worker.add_done_callback(lambda _: run.changed.set())
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:  # also if this task is cancelled
            if not all(worker.done() for worker in workers):
                gate.stop("the input or a collaborator failed, or the batch was interrupted")
                self.end_unsent()
                await wait_out(workers, policy.drain_seconds, self.abandon)
            if alarm is not None:
                alarm.cancel()
            self._workers = []  # what cancelled one refers to its frames, and those to this
        errors = [worker.exception() for worker in workers if not worker.cancelled()]
        if error := next(filter(None, errors), None):
            raise error
        # If orders are left though the batch was not stopped, other code cancelled a worker: in
        # between, during a request, or while the input was pulled.
        is_stopped = self._is_ended or gate.stop_reason not in (None, CALL_CANCELLED)
        if not is_stopped and not self._feed.is_done:
            raise RuntimeError(_CUT_SHORT)

    def end_unsent(self) -> None:
        """End the workers without a request; the gate, once stopped, ends what was not sent."""
        self._is_ended = True
        self._cancel_idle()

    def abandon(self) -> None:
        """Cancel the workers."""
        for worker in self._workers:
            worker.cancel()

    def add_remaining(self) -> None:
        """Add, once the workers have ended, what was never sent."""
        reason = self._run.gate.stop_reason or "the batch ended before"
        for chunk in self._feed.give_up(NotSentError(f"nothing was sent: {reason}")):
            self._add(chunk)

    def _end_waiting(self) -> None:
        """At the deadline, end what waits for its turn or for the input."""
        self._run.gate.stop(DEADLINE_PASSED)
        if self._feed.source.waits:
            self._cancel_idle()

    def _cancel_idle(self) -> None:
        for worker in self._workers:
            if worker not in self._run.gate.running:
                worker.cancel()

    # A worker: take a chunk, send it, add its outcomes

    async def _work(self, sender: Sender) -> None:
        gate = self._run.gate
        while (chunk := await self._next_chunk()) is not None:
            if (reason := gate.stop_reason) is not None:
                self._add_and_release(chunk.failed(NotSentError(f"nothing was sent: {reason}")))
                await asyncio.sleep(0)  # let other tasks run, however long the input is
                continue
            error = None
            if self._recorder.looks_up:
                chunk, error = await look_up_earlier(sender, chunk)
            if len(chunk):
                error = await sender.send(chunk)
            if error is not None or self._run.failed_in_a_row:
                self._note_result(error)

    async def _next_chunk(self) -> "Chunk | None":
        """Take the next chunk from the feed; None at the end, or after a stop."""
        run, feed = self._run, self._feed
        if self._policy.concurrency > _ENCODED_AT_ONCE:
            await self._turns.acquire()
            asyncio.get_running_loop().call_soon(self._turns.release)  # in the loop's next turn
        while self._may_take:
            if run.streamed and not await run.wait_for_room():
                continue
            await feed.fill()
            if feed.refused:
                for each in feed.take_refused():
                    self._add(each)
                await asyncio.sleep(0)  # let other tasks run, however many orders are wrong
                continue
            chunk = feed.take()
            if chunk is not None or feed.is_done:
                return chunk
            await run.change()
        return None

    @property
    def _may_take(self) -> bool:
        """Whether to take more orders; after a stop, they are taken only to be `not_sent`.

        An input that may wait for the caller's code is not waited for beyond the deadline.
        """
        source, gate = self._feed.source, self._run.gate
        is_too_late = source.waits and gate.is_too_late
        stays_in_journal = source.is_stored and gate.stop_reason is not None
        return not (self._is_ended or self._feed.is_broken or is_too_late or stays_in_journal)

    def _note_result(self, error: GatewayError | None) -> None:
        """Stop after some errors at once, and after too many chunks without a readable reply."""
        is_answered = error is None or isinstance(error, RejectedError)
        failed = self._run.failed_in_a_row = 0 if is_answered else self._run.failed_in_a_row + 1
        if isinstance(error, _STOP_AT_ONCE):
            self._stop(f"an earlier request ended the batch: {error}")
        elif failed >= self._policy.stop_after_unknown:
            self._stop(
                f"{failed} earlier requests in a row had no reply about their orders "
                "(stop_after_unknown), and the batch stopped"
            )

    def _stop(self, reason: str) -> None:
        """Send no more, not even a request that is about to be written."""
        gate = self._run.gate
        if gate.stop_reason is None and not self._feed.is_done:
            _log.warning("%s sends nothing more: %s", self._run.operation, reason)
        gate.stop(reason)

    def _add_and_release(self, chunk: "ChunkResult") -> None:
        """Add the outcomes of a chunk, and let orders that waited for it follow."""
        try:
            self._add(chunk)
        finally:
            self._feed.release(chunk)

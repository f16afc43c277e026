"""A batch under way: workers that take chunks and send them, until the end or a stop.

Law: what was taken in is recorded exactly once, whatever happens; what may have been sent is not
given up before the drain time is over; there are as many workers as `concurrency` says, however
many orders there are.
"""

import asyncio
import math
import uuid
from typing import TYPE_CHECKING, Any

from gateway_async.batching.intake import Intake
from gateway_async.batching.outcomes import Block, RepliedBlock, UniformBlock
from gateway_async.batching.plans import PLANS, Plan
from gateway_async.batching.results import BatchResult, Progress
from gateway_async.batching.sending import Sender
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.batching.tally import Tally
from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    NotSentError,
    RejectedError,
)
from gateway_async.models.orders import OrderRef
from gateway_async.operations import REFUND, SEARCH_REFUNDS
from gateway_async.session import DEADLINE_PASSED, Gate
from gateway_async.settings import BatchPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.batching.chunks import Chunk
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy

_STOP_AT_ONCE = (CertificateError, EvidenceError, ConfigurationError)


class Run:
    """The state of one batch that is under way.

    Attributes:
        tally: What is settled.
        result: What became of every order, once it is over.
        streamed: Whether somebody takes what is settled, so that workers wait when it piles up.
    """

    def __init__(
        self,
        session: "Session",
        plan: Plan,
        orders: object,
        *,
        policy: BatchPolicy,
        recovery: "RecoveryPolicy",
    ) -> None:
        now = asyncio.get_running_loop().time()
        self.tally = Tally(plan.record_class)
        self.result: BatchResult[Any, Any] | None = None
        self.streamed = False
        self._session = session
        self._plan = plan
        self._policy = policy
        self._recovery = recovery
        self._gate = Gate(
            deadline=now + (policy.deadline_seconds or math.inf),
            drain_seconds=policy.drain_seconds,
        )
        self._intake = Intake(plan, session.dialect, policy, orders)
        is_marked = plan.operation is REFUND and recovery.refund_evidence == "marker"
        self._sender = Sender(
            session=session,
            plan=plan,
            gate=self._gate,
            marker=f"ga-{uuid.uuid4().hex[:12]}" if is_marked else None,
            alone=policy.duplicates == "reject",
            tally=self.tally,
            record=self._record,
        )
        self._taking = asyncio.Lock()
        self._changed = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._alarm: asyncio.TimerHandle | None = None
        self._leaving = False
        self._failed_in_a_row = 0

    def leave_through(self, gate: Gate) -> None:
        """Let requests leave through the gate of another run: its pauses, deadline and stop."""
        self._gate = self._sender.gate = gate

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        taken = self._intake.source.taken
        return self.tally.progress(None if taken is None else len(taken))

    @property
    def is_over(self) -> bool:
        """Whether every worker has ended."""
        return all(worker.done() for worker in self._workers)

    @property
    def failure(self) -> BaseException | None:
        """The first exception that ended a worker: the input's own, or a collaborator's."""
        ended = [worker for worker in self._workers if worker.done() and not worker.cancelled()]
        errors = [worker.exception() for worker in ended]
        return next((error for error in errors if error is not None), None)

    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start the workers.

        Args:
            streamed: Whether somebody takes what is settled as it comes.

        Raises:
            InvalidOrderError: If any order of a collection is wrong; nothing is sent.
            asyncio.CancelledError: The cancellation, once `result` is there; nothing is sent.
        """
        self.streamed = self._sender.streamed = streamed
        try:
            await self._intake.check_all()
        except asyncio.CancelledError as cancelled:
            self._gate.stop("the call was cancelled")
            await self.finish(cancelled)
        loop = asyncio.get_running_loop()
        for number in range(self._policy.concurrency):
            worker = loop.create_task(self._work(), name=f"{self._plan.operation} worker {number}")
            worker.add_done_callback(lambda _: self._changed.set())
            self._workers.append(worker)
        if self._gate.deadline < math.inf:
            self._alarm = loop.call_at(self._gate.deadline, self._end_waiting)

    async def change(self) -> None:
        """Wait until something is settled or taken, or a worker ends."""
        self._changed.clear()
        await self._changed.wait()

    def take(self) -> Block | None:
        """Take something that is settled."""
        if not self.tally.finished:
            return None
        self._changed.set()
        return self.tally.finished.popleft()

    async def drain(self, reason: str) -> asyncio.CancelledError | None:
        """Send nothing more, and wait for what may have been sent, within the drain time.

        Returns:
            The cancellation that cut the waiting short, if one did.
        """
        self._leaving = True
        self._gate.stop(reason)
        self._withdraw_calls()
        self._cancel_idle()
        interruption = await self._wait(self._policy.drain_seconds)
        while not self.is_over:
            for worker in self._workers:
                worker.cancel()
            interruption = await self._wait(None) or interruption
        return interruption

    async def complete(self) -> BatchResult[Any, Any]:
        """Start, wait for the end, and return the result; a cancellation drains first.

        Raises:
            asyncio.CancelledError: The cancellation, once `result` is there.
            Exception: What the input or a collaborator raised, once `result` is there.
        """
        await self.start()
        interruption = await self._wait(None, asyncio.FIRST_EXCEPTION)
        if interruption is not None or not self.is_over:
            reason = (
                "the call was cancelled" if interruption else "the input or a collaborator failed"
            )
            cut_short = await self.drain(reason)
            interruption = interruption or cut_short
        return await self.finish(interruption)

    async def finish(
        self, interruption: BaseException | None = None, *, quiet: bool = False
    ) -> BatchResult[Any, Any]:
        """Record what was never sent, make the result, and close the input.

        Args:
            interruption: A cancellation to raise at the end.
            quiet: Whether what ended a worker is not raised, since something else will be.

        Raises:
            BaseException: The interruption, or else what ended a worker, once `result` is there.
        """
        if self._alarm is not None:
            self._alarm.cancel()
        self.give_up()
        self.result = self.tally.result(exhausted=self._intake.is_exhausted)
        if isinstance(interruption, asyncio.CancelledError):
            interruption.outcome = self.result  # type: ignore[attr-defined]  # as for a single call
        await self._intake.aclose()
        failure = self.failure  # looked at in any case, else asyncio says that nobody did
        if error := interruption or (None if quiet else failure):
            raise error
        return self.result

    def give_up(self) -> None:
        """Record, once the workers have ended, what was never sent."""
        reason = self._gate.closed_because or "the batch ended before"
        for block in self._intake.give_up(NotSentError(f"nothing was sent: {reason}")):
            self.tally.record(block)

    async def _wait(
        self, seconds: float | None, until: str = asyncio.ALL_COMPLETED
    ) -> asyncio.CancelledError | None:
        try:
            if not self.is_over:
                await asyncio.wait(self._workers, timeout=seconds, return_when=until)
        except asyncio.CancelledError as cancelled:
            return cancelled
        return None

    def _end_waiting(self) -> None:
        """Wake, at the deadline, what would wait beyond it: for its turn, or for the input."""
        self._gate.stop(DEADLINE_PASSED)
        self._withdraw_calls()
        if self._intake.source.waits:
            self._cancel_idle()

    def _withdraw_calls(self) -> None:
        for task, call in list(self._sender.calls.items()):
            if task is not None and call.withdraw():
                task.cancel()

    def _cancel_idle(self) -> None:
        for worker in self._workers:
            if worker not in self._sender.calls:
                worker.cancel()

    # What a worker does

    async def _work(self) -> None:
        while (chunk := await self._next_chunk()) is not None:
            await self._settle(chunk)

    async def _next_chunk(self) -> "Chunk | None":
        async with self._taking:
            while self._may_take:
                if self.streamed and len(self.tally.finished) >= self._policy.concurrency:
                    await self.change()
                    continue
                try:
                    await self._intake.fill()
                finally:
                    if self._intake.is_broken:
                        self._stop("the input failed")
                for block in self._intake.take_refused():
                    self._note(block)
                chunk = self._intake.take()
                if chunk is not None or self._intake.is_done:
                    return chunk
                if not self._intake.can_fill:
                    await self.change()
                await asyncio.sleep(0)  # nor must one of which every order is wrong
        return None

    @property
    def _may_take(self) -> bool:
        """Whether to go on taking orders in, be it only to say that they were not sent.

        An input that may keep us waiting is not waited for beyond the deadline.
        """
        is_too_late = self._intake.source.waits and self._gate.is_too_late
        return not (self._leaving or self._intake.is_broken or is_too_late)

    async def _settle(self, chunk: "Chunk") -> None:
        reason = self._gate.closed_because
        if reason is not None:
            self._sender.fail(chunk, NotSentError(f"nothing was sent: {reason}"))
            await asyncio.sleep(0)  # a long input must not keep everybody else from running
            return
        references: Mapping[str, frozenset[str]] | None = {}
        if self._plan.operation is REFUND and self._recovery.record_baseline:
            references = await self._references_before(chunk)
        if references is not None:
            self._mind(await self._sender.send(chunk, references))

    async def _references_before(self, chunk: "Chunk") -> "Mapping[str, frozenset[str]] | None":
        """Look up the baseline of a chunk; where that fails, record the chunk as not sent."""
        result = None
        cause: GatewayError | None = NotSentError("nothing was sent: the batch ended before")
        try:
            result = await self._find_refunds(chunk)
            cause = failure_of(result)
        finally:
            if cause is not None:
                text = f"nothing was sent: its earlier refunds could not be looked up ({cause})"
                self._sender.fail(chunk, NotSentError(text))
                self._mind(cause)
        return None if cause is not None else known_references(result)

    async def _find_refunds(self, chunk: "Chunk") -> BatchResult[Any, Any]:
        plan = PLANS[SEARCH_REFUNDS.name]
        refs = [OrderRef(transaction_id=order.transaction_id) for order in chunk.orders]
        look_up = Run(
            self._session,
            plan,
            [ref for ref in refs if plan.check(ref, self._session.dialect) is None],
            policy=BatchPolicy(concurrency=1, drain_seconds=0),
            recovery=self._recovery,
        )
        look_up.leave_through(self._gate)
        try:
            return await look_up.complete()
        finally:
            self.tally.requests += look_up.tally.requests
            self.tally.retries += look_up.tally.retries

    def _mind(self, error: GatewayError | None) -> None:
        """Stop after too many chunks in a row without a readable reply."""
        is_answered = error is None or isinstance(error, RejectedError)
        self._failed_in_a_row = 0 if is_answered else self._failed_in_a_row + 1
        if isinstance(error, _STOP_AT_ONCE):
            self._stop(f"the batch was stopped: {error}")
        elif self._failed_in_a_row >= self._policy.stop_after_unknown:
            self._stop(
                f"{self._failed_in_a_row} requests in a row had no readable reply "
                "(stop_after_unknown)"
            )

    def _stop(self, reason: str) -> None:
        """Send nothing more, not even what was about to be written."""
        self._gate.stop(reason)
        self._withdraw_calls()

    def _record(self, chunk: "Chunk", block: Block) -> None:
        self._intake.release(chunk, block)
        self._note(block)

    def _note(self, block: Block) -> None:
        self.tally.record(block)
        self._changed.set()


def failure_of(result: BatchResult[OrderRef, Any]) -> GatewayError | None:
    """Return why a request of a look-up had no readable reply; None where each had one."""
    return next((block.error for block in result.blocks if isinstance(block, UniformBlock)), None)


def known_references(result: BatchResult[OrderRef, Any]) -> "Mapping[str, frozenset[str]]":
    """Return the refund references of each transaction that a look-up tells about.

    A transaction of which it does not tell is left out: nothing is known about it. Where it also
    lists what nobody asked for, or was not accepted, it may leave out what was asked for, and
    nothing is known at all.
    """
    replies = [block for block in result.blocks if isinstance(block, RepliedBlock)]
    if result.unexpected or not all(block.is_accepted for block in replies):
        return {}
    return {
        outcome.order.value: frozenset(
            record.refund_reference_id
            for record in outcome.record or ()
            if record.refund_reference_id
        )
        for outcome in result
        if outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
    }

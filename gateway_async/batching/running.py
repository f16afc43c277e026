"""A batch under way: workers that take chunks and send them, until the end or a stop.

Law: what was taken in is recorded exactly once, whatever happens; what may have been sent is not
given up before the drain time is over; there are as many workers as `concurrency` says, however
many orders there are.
"""

import asyncio
import logging
import math
import uuid
from typing import TYPE_CHECKING, Any

from gateway_async.batching.intake import Intake
from gateway_async.batching.lifecycle import Lifecycle
from gateway_async.batching.log import ALONE, Within
from gateway_async.batching.markers import reference_of
from gateway_async.batching.outcomes import NO_REFERENCES, Block, RepliedBlock, UniformBlock
from gateway_async.batching.plans import PLANS, Plan
from gateway_async.batching.results import BatchResult, Progress
from gateway_async.batching.sending import Sender
from gateway_async.batching.sheets import SheetWriter
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    NotSentError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.gate import DEADLINE_PASSED, is_cancelled
from gateway_async.models.orders import OrderRef
from gateway_async.operations import REFUND, SEARCH_REFUNDS
from gateway_async.settings import BatchPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.sheets import Sheet
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy

_log = logging.getLogger("gateway_async.batches")

_WRITTEN_AT_ONCE = 8
"""So many chunks are written in one turn of the loop: then it sends them, and serves others."""
_STOP_AT_ONCE = (CertificateError, EvidenceError, ConfigurationError)


class Run(Lifecycle):
    """A batch under way whose orders come from an input, or a part of one."""

    def __init__(  # noqa: PLR0913  # one keyword a setting
        self,
        session: "Session",
        plan: Plan,
        orders: object,
        *,
        policy: BatchPolicy,
        recovery: "RecoveryPolicy",
        within: Within = ALONE,
    ) -> None:
        super().__init__(plan.record_class, policy, within.gate)
        log = within.log
        self._session = session
        self._plan = plan
        self._recovery = recovery
        is_refund = plan.operation is REFUND
        is_marked = is_refund and recovery.refund_evidence == "marker"
        writer = SheetWriter(
            plan=plan,
            dialect=session.dialect,
            marker=(within.marker or f"ga-{uuid.uuid4().hex[:12]}") if is_marked else None,
        )
        self._intake = Intake(writer, policy, orders, checked=log is not None)
        self._sender = Sender(
            session=session,
            writer=writer,
            gate=self.gate,
            alone=policy.duplicates == "reject",
            tally=self.tally,
            record=self._record,
            log=log,
        )
        wants_references = recovery.record_baseline or (log is not None and not is_marked)
        self._looks_before = is_refund and wants_references
        self._taking = asyncio.Lock()
        self._turns = asyncio.Semaphore(_WRITTEN_AT_ONCE)
        self._alarm: asyncio.TimerHandle | None = None
        self._failed_in_a_row = 0

    @property
    def progress(self) -> Progress:
        """How far it has come."""
        collection = self._intake.source.collection
        return self.tally.progress(None if collection is None else len(collection))

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
            self.gate.stop("the call was cancelled")
            await self.finish(cancelled)
        self._begin_workers()
        if self.gate.deadline < math.inf:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_at(self.gate.deadline, self._end_waiting)

    def _begin_workers(self) -> None:
        have_begun = False
        try:
            for number in range(self._policy.concurrency):
                self._begin(self._work(), f"{self._plan.operation} worker {number}")
            have_begun = True
        finally:
            if not have_begun:  # those made took no step yet, and must not: nobody waits for them
                self.gate.stop("the batch could not begin")
                self.abandon()

    def note_unknown(self, orders: "Sequence[object]") -> None:
        """Note orders of the same job whose outcome is unknown: none like them may follow."""
        self._intake.note_unknown(orders)

    def record_rest(self) -> None:
        """Record, once the workers have ended, what was never sent."""
        if self._alarm is not None:
            self._alarm.cancel()
        reason = self.gate.closed_because or "the batch ended before"
        for block in self._intake.give_up(NotSentError(f"nothing was sent: {reason}")):
            self.tally.record(block)

    @property
    def _is_exhausted(self) -> bool:
        return self._intake.is_exhausted

    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""
        await self._intake.aclose()

    def _let_go(self) -> None:
        self._withdraw_calls()
        self._cancel_idle()

    def abandon(self) -> None:
        """Give up what is on its way."""
        for worker in self._workers:
            worker.cancel()

    def _end_waiting(self) -> None:
        """Wake, at the deadline, what would wait beyond it: for its turn, or for the input."""
        self.gate.stop(DEADLINE_PASSED)
        self._withdraw_calls()
        if self._intake.source.waits:
            self._cancel_idle()

    def _withdraw_calls(self) -> None:
        for task, call in list(self._sender.calls.items()):
            if task is not None and call.withdraw():
                task.cancel()

    def _cancel_idle(self) -> None:
        for worker in self._workers:
            if not self._sender.is_busy(worker):
                worker.cancel()

    # What a worker does

    async def _work(self) -> None:
        try:
            while (taken := await self._next_chunk()) is not None:
                await self._settle(*taken)
        finally:
            await self._sender.kept()

    async def _next_chunk(self) -> "tuple[Chunk, Sheet | None] | None":
        await self._turns.acquire()
        asyncio.get_running_loop().call_soon(self._turns.release)  # in the loop's next turn
        async with self._taking:
            while self._may_take:
                if self.streamed and is_cancelled():
                    raise asyncio.CancelledError  # perhaps nobody is left to take what is settled
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
                taken = self._intake.take()
                if taken is not None or self._intake.is_done:
                    return taken
                if not self._intake.can_fill:
                    await self.change()
                await asyncio.sleep(0)  # however many orders are wrong, others are to run
        return None

    @property
    def _may_take(self) -> bool:
        """Whether to go on taking orders in, be it only to say that they were not sent.

        An input that may keep us waiting is not waited for beyond the deadline.
        """
        is_too_late = self._intake.source.waits and self.gate.is_too_late
        return not (self._leaving or self._intake.is_broken or is_too_late)

    async def _settle(self, chunk: "Chunk", sheet: "Sheet | None") -> None:
        reason = self.gate.closed_because
        if reason is not None:
            self._sender.fail(chunk, NotSentError(f"nothing was sent: {reason}"))
            await asyncio.sleep(0)  # a long input must not keep everybody else from running
            return
        references: Mapping[str, frozenset[str]] | None = NO_REFERENCES
        if self._looks_before:
            references = await self._references_before(chunk)
        if references is not None:
            self._mind(await self._sender.send(chunk, references, sheet))

    async def _references_before(self, chunk: "Chunk") -> "Mapping[str, frozenset[str]] | None":
        """Look up the baseline of a chunk; where that fails, record the chunk as not sent."""
        result = None
        cause: GatewayError | None = NotSentError("nothing was sent: the batch ended before")
        try:
            result = await self._find_refunds(chunk)
            cause = failure_of(result) or refusal_of(result)
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
            within=Within(self.gate),
        )
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
                f"(stop_after_unknown), the last: {error}"
            )

    def _stop(self, reason: str) -> None:
        """Send nothing more, not even what was about to be written."""
        if self.gate.closed_because is None:
            _log.warning("%s sends nothing more: %s", self._plan.operation, reason)
        self.gate.stop(reason)
        self._withdraw_calls()

    def _record(self, block: Block) -> None:
        self._intake.release(block)
        self._note(block)

    def _note(self, block: Block) -> None:
        self.tally.record(block)
        self._changed.set()


def failure_of(result: BatchResult[OrderRef, Any]) -> GatewayError | None:
    """Return why a request of a look-up had no readable reply; None where each had one."""
    return next((block.error for block in result.blocks if isinstance(block, UniformBlock)), None)


def refusal_of(result: BatchResult[OrderRef, Any]) -> GatewayError | None:
    """Return why the gateway refused a look-up as a whole; None where it refused none."""
    for block in result.blocks:
        if isinstance(block, RepliedBlock) and not block.is_accepted:
            errors = [outcome.error for outcome in block.outcomes() if outcome.error is not None]
            return errors[0] if errors else ReplyUnreadableError("the gateway refused the look-up")
    return None


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
        outcome.order.value: frozenset(filter(None, map(reference_of, outcome.record or ())))
        for outcome in result
        if outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
    }

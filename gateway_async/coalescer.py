"""Many single awaits, sent as few requests.

Law: every awaiter gets the outcome of its own order and no error of another's. One that is
cancelled disturbs nobody: its order is withdrawn if it has not left, and else what became of its
money is kept in `unclaimed`. How a request is made and judged is not known here: the orders that
leave together are a `Batch`.
"""

import asyncio
import contextvars
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import attrs

from gateway_async.batching.batch import Batch, check_size, plain_batch
from gateway_async.batching.chunks import name_of
from gateway_async.batching.outcomes import Outcome
from gateway_async.batching.plans import PLANS
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import (
    ConfigurationError,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.lanes import Entry, Lane
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.batching.plans import Plan
    from gateway_async.lanes import Waiter
    from gateway_async.models.orders import (
        CancelOrder,
        CaptureOrder,
        OrderRef,
        RefundOrder,
        ReviewOrder,
    )
    from gateway_async.models.records import (
        CancelRecord,
        CaptureRecord,
        RefundRecord,
        ReviewRecord,
        TransactionRecord,
    )
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

UNCLAIMED_KEPT = 1000

_ABANDON_SECONDS = 0.05
_log = logging.getLogger("gateway_async.coalescer")


class Coalescer:
    """Sends single orders of many tasks together; made by `GatewayClient.coalesced`.

    ::

        async with gateway.coalesced() as single:
            outcome = await single.query(OrderRef(order_no="A-1"))  # in each of many tasks

    Orders leave together once there are as many as one request may have, or the first of them has
    waited for the linger time. `BatchPolicy.concurrency` requests at most are on their way; the
    others fill up while they wait. Every request is a `Batch` of its own, under the policy of the
    coalescer; its deadline counts from when the request leaves. An outcome's `index` is its
    position in its request.

    Equal look-ups that wait share one answer. One that is on its way is not shared: its answer
    may be older than the question. An order that moves money, of a transaction of which one of
    the same operation waits or is on its way, is a `DuplicateOrderError`.

    An awaiter may be cancelled. Its order is withdrawn if it has not left. If it has, and moves
    money, its outcome goes to `unclaimed`.

    When the block ends, what waits is sent, unless it ended with an exception: then it is
    `not_sent`. What is on its way is awaited for `BatchPolicy.drain_seconds`; whatever is left
    then, or at a cancellation, is given up, as a `Batch` does. Every awaiter gets its outcome.

    Attributes:
        unclaimed: Outcomes of orders that had left when their awaiters were cancelled: their
            money may have moved. Take them out when you have seen to them: 1,000 are kept, and
            the oldest leave first. Each is also logged in full, as a warning.
    """

    def __init__(
        self,
        session: "Session",
        *,
        linger_seconds: float,
        policy: "BatchPolicy",
        recovery: "RecoveryPolicy",
    ) -> None:
        self.unclaimed: list[Outcome[Any, Any]] = []
        self._session = session
        self._linger_seconds = linger_seconds
        # One chunk has one request at a time; equal orders never meet in it.
        self._policy = attrs.evolve(policy, concurrency=1, duplicates="reject")
        self._concurrency = policy.concurrency
        self._recovery = recovery
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._requests: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.Context()
        self._is_open = False

    def __repr__(self) -> str:
        waiting = sum(len(lane.waiting) for lane in self._lanes.values())
        state = "open" if self._is_open else "closed" if self._loop else "new"
        return f"<Coalescer {state}: {waiting} orders wait, {len(self._requests)} requests>"

    # Single orders

    async def capture(self, order: "CaptureOrder") -> "Outcome[CaptureOrder, CaptureRecord]":
        """Capture one order (section 4, row 5).

        Returns:
            What became of it, as in a batch; it never raises what became of it.

        Raises:
            InvalidOrderError: If the order is wrong; nothing of it is sent.
            DuplicateOrderError: If the same operation waits, or is on its way, for its
                transaction; this order is not sent.
            ConfigurationError: If the coalescer is not open, or was entered on another event loop.
        """
        return await self._ask("capture", order)

    async def cancel(self, order: "CancelOrder") -> "Outcome[CancelOrder, CancelRecord]":
        """Cancel one order (section 4, row 7); see `capture`."""
        return await self._ask("cancel", order)

    async def review(self, order: "ReviewOrder") -> "Outcome[ReviewOrder, ReviewRecord]":
        """Review one order (section 4, row 6); see `capture`."""
        return await self._ask("review", order)

    async def refund(self, order: "RefundOrder") -> "Outcome[RefundOrder, RefundRecord]":
        """Refund one order, in whole or in part (section 4, row 8); see `capture`."""
        return await self._ask("refund", order)

    async def query(self, order: "OrderRef") -> "Outcome[OrderRef, tuple[TransactionRecord, ...]]":
        """Look up the transactions of one order (section 4, row 4); see `capture`."""
        return await self._ask("query", order)

    async def search_refunds(
        self, order: "OrderRef"
    ) -> "Outcome[OrderRef, tuple[RefundRecord, ...]]":
        """Look up the refunds of one order (section 4, row 9); see `capture`."""
        return await self._ask("search_refunds", order)

    # Waiting

    async def _ask(self, operation: str, order: object) -> Outcome[Any, Any]:
        loop = self._checked_loop()
        lane, entry = self._join(PLANS[operation], order, loop.time())
        waiter: Waiter = loop.create_future()
        entry.waiters.add(waiter)
        is_told = False
        try:
            outcome = await waiter
            is_told = True
        finally:
            if not is_told:
                self._forsake(lane, entry, waiter)
        return outcome

    def _join(self, plan: "Plan", order: Any, now: float) -> tuple[Lane, Entry]:  # noqa: ANN401  # anything may come in
        """Let an order wait in its lane, or beside an equal one that waits to be looked up."""
        error = plan.check(order, self._session.dialect)
        if error is not None:
            raise error
        identity = plan.identity(order)
        kind, value = name_of(identity)
        lane = self._lane(plan, kind)
        entry = lane.waiting.get(identity)
        if entry is not None and not entry.is_wanted:
            del lane.waiting[identity]
            entry = None
        if entry is not None and plan.is_look_up:
            return lane, entry
        if entry is not None or identity in lane.in_flight:
            raise DuplicateOrderError(
                f"{describe(order)}: a {plan.operation} of {kind} {value!r} is under "
                "way in this coalescer; await its outcome first"
            )
        entry = lane.waiting[identity] = Entry(order, now + self._linger_seconds)
        if len(lane.waiting) in (1, lane.size):
            self._set_alarm(lane, now)
        return lane, entry

    def _lane(self, plan: "Plan", kind: str) -> Lane:
        name = (plan.operation.name, kind)
        if name not in self._lanes:
            check_size(plan, self._policy)
            self._lanes[name] = Lane(plan, self._policy.chunk_size or plan.limit)
        return self._lanes[name]

    def _forsake(self, lane: Lane, entry: Entry, waiter: "Waiter") -> None:
        """Note that an awaiter went without its outcome."""
        entry.waiters.discard(waiter)
        identity = lane.plan.identity(entry.order)
        if not entry.waiters and lane.waiting.get(identity) is entry:
            del lane.waiting[identity]
        is_told = waiter.done() and not waiter.cancelled()
        if is_told and entry.has_left and not lane.plan.is_look_up:
            self._keep(waiter.result())  # told in the very moment in which it was cancelled

    def _keep(self, *outcomes: Outcome[Any, Any]) -> None:
        self.unclaimed += outcomes  # all of them, before anything may go wrong with the log
        forgotten = self.unclaimed[:-UNCLAIMED_KEPT]
        del self.unclaimed[:-UNCLAIMED_KEPT]
        for outcome in outcomes:
            order, amounts = outcome.order, ("amount", "refund_amount")
            told = [f"{n}={getattr(order, n)}" for n in amounts if hasattr(order, n)]
            _log.warning(
                "unclaimed, since whoever asked for it was cancelled: %s (%s %s) is %s%s",
                describe(order),
                ", ".join(told),
                order.currency,
                outcome.status,
                f": {outcome.error}" if outcome.error else "",
            )
        for one in forgotten:
            _log.error("unclaimed is full: %s is in the log alone", describe(one.order))

    # Sending

    def _set_alarm(self, lane: Lane, now: float) -> None:
        """Look again when a lane is due; a full one after those that come in the same moment."""
        if lane.alarm is not None:
            lane.alarm.cancel()
        at = now if lane.is_due(now) else lane.due_at
        lane.alarm = asyncio.get_running_loop().call_at(at, self._send_due)

    def _send_due(self) -> None:
        """Send what is due, the longest waiting first, as far as requests may be on their way."""
        now = asyncio.get_running_loop().time()
        while len(self._requests) < self._concurrency:
            due = [lane for lane in self._lanes.values() if lane.is_due(now)]
            if not due:
                break
            lane = min(due, key=lambda one: one.due_at)
            if entries := lane.cut():
                self._send(lane, entries)
        for lane in self._lanes.values():
            if lane.waiting and not lane.is_due(now):
                self._set_alarm(lane, now)

    def _send(self, lane: Lane, entries: list[Entry]) -> None:
        batch = plain_batch(
            self._session,
            lane.plan,
            [entry.order for entry in entries],
            policy=self._policy,
            recovery=self._recovery,
        )
        # In a context of its own: a request belongs to no single awaiter, and to no other request.
        request = asyncio.get_running_loop().create_task(
            batch,
            name=f"gateway_async coalesced {lane.plan.operation}",
            context=self._context.copy(),
        )
        self._requests.add(request)
        request.add_done_callback(partial(self._settle, lane, entries, batch))

    def _settle(
        self,
        lane: Lane,
        entries: list[Entry],
        batch: Batch[Any, Any],
        request: asyncio.Task[Any],
    ) -> None:
        self._requests.discard(request)
        lane.in_flight.difference_update(lane.plan.identity(entry.order) for entry in entries)
        failure = None if request.cancelled() else request.exception()
        outcomes = _alike(entries, OutcomeUnknownError("its outcome could not be read"))
        try:
            outcomes = _read(batch, entries, failure)
        finally:  # no defect may leave anybody waiting, nor one of the program's own logging
            told = [entry.tell(one) for entry, one in zip(entries, outcomes, strict=True)]
            self._send_due()
            if not lane.plan.is_look_up:
                self._keep(
                    *(one for one, is_told in zip(outcomes, told, strict=True) if not is_told)
                )
        _report(lane.plan, batch, failure)

    # Life

    async def __aenter__(self) -> Self:
        if self._loop is not None:
            raise ConfigurationError("a coalescer is entered once; call `coalesced` again")
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._is_open = True
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        self._is_open = False
        for lane in self._lanes.values():
            if lane.alarm is not None:
                lane.alarm.cancel()
            for entry in lane.waiting.values():
                entry.due_at = 0.0
        if error is not None:
            self._give_up("the coalescer was left by an exception")
        self._send_due()
        interruption = await self._wait(self._policy.drain_seconds)
        self._give_up("the coalescer was closed")
        while self._requests:
            for request in self._requests:
                request.cancel()
            interruption = await self._wait(_ABANDON_SECONDS) or interruption
        if interruption is not None:
            raise interruption

    async def _wait(self, seconds: float) -> asyncio.CancelledError | None:
        """Wait for all requests, those that leave meanwhile too; a cancellation ends it."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        try:
            while self._requests and (left := ends - loop.time()) > 0:
                await asyncio.wait(
                    self._requests, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
        except asyncio.CancelledError as cancelled:
            return cancelled
        return None

    def _give_up(self, reason: str) -> None:
        """Tell those who still wait that nothing was sent."""
        for lane in self._lanes.values():
            entries = list(lane.waiting.values())
            lane.waiting.clear()
            told = _alike(entries, NotSentError(f"nothing was sent: {reason}"))
            for entry, outcome in zip(entries, told, strict=True):
                entry.tell(outcome)

    def _checked_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if self._loop is None or not self._is_open:
            raise ConfigurationError(
                "this coalescer is not open: use `async with gateway.coalesced() as single:`"
            )
        if loop is not self._loop:
            raise ConfigurationError(
                "this coalescer was entered on another event loop; enter one on each"
            )
        return loop


def _alike(
    entries: "Sequence[Entry]", error: NotSentError | OutcomeUnknownError
) -> list[Outcome[Any, Any]]:
    is_sent = isinstance(error, OutcomeUnknownError)
    status = OutcomeStatus.UNKNOWN if is_sent else OutcomeStatus.NOT_SENT
    return [
        Outcome(order=entry.order, index=index, status=status, error=error)
        for index, entry in enumerate(entries)
    ]


def _read(
    batch: Batch[Any, Any], entries: "Sequence[Entry]", failure: BaseException | None
) -> list[Outcome[Any, Any]]:
    """Return the outcomes of a batch that is over; one that was refused whole has no result."""
    if isinstance(failure, InvalidOrderError):
        return _alike(entries, NotSentError(f"nothing was sent: {failure}"))
    return list(batch.result)


def _report(plan: "Plan", batch: Batch[Any, Any], failure: BaseException | None) -> None:
    """Write down what concerns no order in particular."""
    if failure is not None:
        _log.error("a %s was cut short by a collaborator", plan.operation, exc_info=failure)
        return
    if batch.result.unexpected:
        _log.warning(
            "the reply to a %s listed %d records of orders that nobody asked for",
            plan.operation,
            len(batch.result.unexpected),
        )

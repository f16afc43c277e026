"""Many single awaits, sent as few requests.

Every awaiter gets the outcome of its own order and no error of another's. A cancelled awaiter
disturbs no other: its order is withdrawn if it has not left, and else its outcome is kept in
`unclaimed`. The orders that leave together are a `Batch`, which makes and judges the request.
"""

import asyncio
import contextvars
import logging
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import attrs

from gateway_async.batching.batch import Batch, check_size, plain_batch
from gateway_async.batching.feed import check_order, name_of
from gateway_async.batching.results import Outcome
from gateway_async.errors import (
    ConfigurationError,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import describe
from gateway_async.operations import OPERATIONS, Operation, identity_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.batching.feed import Identity
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
_Waiter: TypeAlias = asyncio.Future[Outcome[Any, Any]]
_log = logging.getLogger("gateway_async.coalescer")


@attrs.define(eq=False)
class _Pending:
    """One order, and the awaiters of its outcome.

    Attributes:
        order: The order.
        due_at: Loop time at which it has lingered long enough.
        waiters: The awaiters; several, where they look up the same.
        has_left: Whether its request is on its way, or over.
    """

    order: Any
    due_at: float
    waiters: set[_Waiter] = attrs.field(factory=set)
    has_left: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether any awaiter is left: a cancelled one learns of it only in its next step."""
        return not all(waiter.done() for waiter in self.waiters)

    def deliver(self, outcome: Outcome[Any, Any]) -> bool:
        """Hand the outcome to the awaiters, and return whether there were any."""
        waiting = [waiter for waiter in self.waiters if not waiter.done()]
        for waiter in waiting:
            waiter.set_result(outcome)
        return bool(waiting)


@attrs.define(eq=False)
class _Queue:
    """The orders that may share a request: of one operation, and named in the same way.

    Attributes:
        operation: The operation.
        size: Orders in one request at most.
        waiting: The orders that wait, the first to leave first.
        in_flight: The identities of orders that move money and are on their way.
        alarm: What wakes the coalescer when the first of them has lingered long enough.
    """

    operation: Operation
    size: int
    waiting: "dict[Identity, _Pending]" = attrs.field(factory=dict)
    in_flight: "set[Identity]" = attrs.field(factory=set)
    alarm: asyncio.TimerHandle | None = None

    @property
    def due_at(self) -> float:
        """When its first order has lingered long enough."""
        return next(iter(self.waiting.values())).due_at

    def is_due(self, now: float) -> bool:
        """Return whether a request may leave: full, or its first order has lingered."""
        return len(self.waiting) >= self.size or (bool(self.waiting) and self.due_at <= now)

    def cut(self) -> list[_Pending]:
        """Take the orders of one request; they have left."""
        self.waiting = {name: one for name, one in self.waiting.items() if one.is_wanted}
        identities = list(islice(self.waiting, self.size))
        entries = [self.waiting.pop(identity) for identity in identities]
        for entry in entries:
            entry.has_left = True
        if not self.operation.is_look_up:
            self.in_flight.update(identities)
        return entries


class Coalescer:
    """Sends single orders of many tasks together; made by `GatewayClient.coalesced`.

    .. code-block:: python

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
        self._queues: dict[tuple[str, str], _Queue] = {}
        self._requests: set[asyncio.Task[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.Context()
        self._is_open = False

    def __repr__(self) -> str:
        waiting = sum(len(queue.waiting) for queue in self._queues.values())
        state = "open" if self._is_open else "closed" if self._loop else "new"
        return f"<Coalescer {state}: {waiting} orders wait, {len(self._requests)} requests>"

    # Single orders

    async def capture(self, order: "CaptureOrder") -> "Outcome[CaptureOrder, CaptureRecord]":
        """Capture one order (section 4, row 5).

        Returns:
            Its outcome, as in a batch; an outcome is never raised.

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
        queue, pending = self._join(OPERATIONS[operation], order, loop.time())
        waiter: _Waiter = loop.create_future()
        pending.waiters.add(waiter)
        is_told = False
        try:
            outcome = await waiter
            is_told = True
        finally:
            if not is_told:
                self._forsake(queue, pending, waiter)
        return outcome

    def _join(self, operation: "Operation", order: Any, now: float) -> tuple[_Queue, _Pending]:  # noqa: ANN401  # anything may come in
        """Let an order wait in its queue, or beside an equal one that waits to be looked up."""
        error = check_order(operation, order, self._session.dialect)
        if error is not None:
            raise error
        identity = identity_of(operation)(order)
        kind, value = name_of(operation, identity)
        queue = self._queue(operation, kind)
        pending = queue.waiting.get(identity)
        if pending is not None and not pending.is_wanted:
            del queue.waiting[identity]
            pending = None
        if pending is not None and operation.is_look_up:
            return queue, pending
        if pending is not None or identity in queue.in_flight:
            raise DuplicateOrderError(
                f"{describe(order)}: a {operation} of {kind} {value!r} is under "
                "way in this coalescer; await its outcome first"
            )
        pending = queue.waiting[identity] = _Pending(order, now + self._linger_seconds)
        if len(queue.waiting) in (1, queue.size):
            self._set_alarm(queue, now)
        return queue, pending

    def _queue(self, operation: "Operation", kind: str) -> _Queue:
        name = (operation.name, kind)
        if name not in self._queues:
            check_size(operation, self._policy)
            self._queues[name] = _Queue(operation, self._policy.chunk_size or operation.limit or 1)
        return self._queues[name]

    def _forsake(self, queue: _Queue, pending: _Pending, waiter: _Waiter) -> None:
        """Note that an awaiter went without its outcome."""
        pending.waiters.discard(waiter)
        identity = identity_of(queue.operation)(pending.order)
        if not pending.waiters and queue.waiting.get(identity) is pending:
            del queue.waiting[identity]
        is_told = waiter.done() and not waiter.cancelled()
        if is_told and pending.has_left and not queue.operation.is_look_up:
            self._keep(waiter.result())  # it came in the very moment of the cancellation

    def _keep(self, *outcomes: Outcome[Any, Any]) -> None:
        self.unclaimed += outcomes  # all of them, before anything may go wrong with the log
        forgotten = self.unclaimed[:-UNCLAIMED_KEPT]
        del self.unclaimed[:-UNCLAIMED_KEPT]
        for outcome in outcomes:
            order, amounts = outcome.order, ("amount", "refund_amount")
            told = [f"{n}={getattr(order, n)}" for n in amounts if hasattr(order, n)]
            _log.warning(
                "unclaimed, since the caller was cancelled: %s (%s %s) is %s%s",
                describe(order),
                ", ".join(told),
                order.currency,
                outcome.status,
                f": {outcome.error}" if outcome.error else "",
            )
        for one in forgotten:
            _log.error("unclaimed is full: %s is in the log alone", describe(one.order))

    # Sending

    def _set_alarm(self, queue: _Queue, now: float) -> None:
        """Look again when a queue is due; a full one after those that come in the same moment."""
        if queue.alarm is not None:
            queue.alarm.cancel()
        at = now if queue.is_due(now) else queue.due_at
        queue.alarm = asyncio.get_running_loop().call_at(at, self._send_due)

    def _send_due(self) -> None:
        """Send what is due, the longest waiting first, as far as requests may be on their way."""
        now = asyncio.get_running_loop().time()
        while len(self._requests) < self._concurrency:
            due = [queue for queue in self._queues.values() if queue.is_due(now)]
            if not due:
                break
            queue = min(due, key=lambda one: one.due_at)
            if leaving := queue.cut():
                self._send(queue, leaving)
        for queue in self._queues.values():
            if queue.waiting and not queue.is_due(now):
                self._set_alarm(queue, now)

    def _send(self, queue: _Queue, leaving: list[_Pending]) -> None:
        batch = plain_batch(
            self._session,
            queue.operation,
            [pending.order for pending in leaving],
            policy=self._policy,
            recovery=self._recovery,
        )
        # In a context of its own: a request belongs to no single awaiter, and to no other request.
        request = asyncio.get_running_loop().create_task(
            batch,
            name=f"gateway_async coalesced {queue.operation}",
            context=self._context.copy(),
        )
        self._requests.add(request)
        request.add_done_callback(partial(self._settle, queue, leaving, batch))

    def _settle(
        self,
        queue: _Queue,
        leaving: list[_Pending],
        batch: Batch[Any, Any],
        request: asyncio.Task[Any],
    ) -> None:
        self._requests.discard(request)
        queue.in_flight.difference_update(
            identity_of(queue.operation)(pending.order) for pending in leaving
        )
        failure = None if request.cancelled() else request.exception()
        outcomes = _alike(leaving, OutcomeUnknownError("its outcome could not be read"))
        try:
            outcomes = _read(batch, leaving, failure)
        finally:  # no defect may leave anybody waiting, nor one of the program's own logging
            told = [pending.deliver(one) for pending, one in zip(leaving, outcomes, strict=True)]
            self._send_due()
            if not queue.operation.is_look_up:
                self._keep(
                    *(one for one, is_told in zip(outcomes, told, strict=True) if not is_told)
                )
        _report(queue.operation, batch, failure)

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
        for queue in self._queues.values():
            if queue.alarm is not None:
                queue.alarm.cancel()
            for pending in queue.waiting.values():
                pending.due_at = 0.0
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
        for queue in self._queues.values():
            leaving = list(queue.waiting.values())
            queue.waiting.clear()
            told = _alike(leaving, NotSentError(f"nothing was sent: {reason}"))
            for pending, outcome in zip(leaving, told, strict=True):
                pending.deliver(outcome)

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
    leaving: "Sequence[_Pending]", error: NotSentError | OutcomeUnknownError
) -> list[Outcome[Any, Any]]:
    is_sent = isinstance(error, OutcomeUnknownError)
    status = OutcomeStatus.UNKNOWN if is_sent else OutcomeStatus.NOT_SENT
    return [
        Outcome(order=pending.order, index=index, status=status, error=error)
        for index, pending in enumerate(leaving)
    ]


def _read(
    batch: Batch[Any, Any], leaving: "Sequence[_Pending]", failure: BaseException | None
) -> list[Outcome[Any, Any]]:
    """Return the outcomes of a batch that is over; one that was refused whole has no result."""
    if isinstance(failure, InvalidOrderError):
        return _alike(leaving, NotSentError(f"nothing was sent: {failure}"))
    return list(batch.result)


def _report(operation: "Operation", batch: Batch[Any, Any], failure: BaseException | None) -> None:
    """Write down what concerns no order in particular."""
    if failure is not None:
        _log.error("a %s was cut short by a collaborator", operation, exc_info=failure)
        return
    if batch.result.unexpected:
        _log.warning(
            "the reply to a %s listed %d records of orders that were not asked for",
            operation,
            len(batch.result.unexpected),
        )

"""Many single awaits, sent as few requests.

Every awaiter gets the outcome of its own order and no error of another's. A cancelled awaiter
disturbs no other: its order is withdrawn if it has not left, and else its outcome is kept in
`unclaimed`. The orders that leave together are a `Batch`, which makes and judges the request.
"""

import asyncio
import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any, Self

import attrs

from gateway_async.batching.batch import Batch, check_size, plain_batch
from gateway_async.batching.chunks import FailedChunk
from gateway_async.batching.feed import check_order, chunk_size_of, name_of
from gateway_async.errors import (
    ConfigurationError,
    DuplicateOrderError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import describe
from gateway_async.operations import OPERATIONS, Operation, identity_of
from gateway_async.outcomes import Outcome
from gateway_async.session import wait_out
from gateway_async.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    from gateway_async.settings import BatchPolicy

UNCLAIMED_KEPT = 1000

_ABANDON_SECONDS = 0.05
_log = Log("coalescer")


@attrs.define(eq=False)
class _Pending:
    """One order, and the awaiters of its outcome.

    Attributes:
        identity: What names it.
        order: The order.
        waiters: The awaiters; several, where they look up the same.
    """

    identity: "Identity"
    order: Any
    waiters: set[asyncio.Future[Outcome[Any, Any]]] = attrs.field(factory=set)

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

    Each request that forms takes as many of those that wait as it may have, the first to come
    first; there are always requests enough for all that wait.

    Attributes:
        operation: The operation.
        size: Orders in one request at most.
        waiting: The orders that wait, by identity.
        on_their_way: What names the orders of which a request is on its way.
        due: Set to send the request that forms now, as once it is full; None if none forms.
    """

    operation: Operation
    size: int
    waiting: "dict[Identity, _Pending]" = attrs.field(factory=dict)
    on_their_way: "set[Identity]" = attrs.field(factory=set)
    due: asyncio.Event | None = None

    def cut(self, due: asyncio.Event) -> list[_Pending]:
        """Take the orders of the request that this event woke, if they are still wanted."""
        if self.due is due:
            self.due = None
        first = [self.waiting.pop(identity) for identity in [*islice(self.waiting, self.size)]]
        leaving = [pending for pending in first if pending.is_wanted]
        self.on_their_way.update(pending.identity for pending in leaving)
        return leaving


@attrs.define(eq=False, repr=False, kw_only=True)
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

    An awaiter may be cancelled. Its order is withdrawn if it has not left. If it has, and may have
    moved money, its outcome goes to `unclaimed`.

    When the block ends, what waits is sent, unless it ended with an exception: then it is
    `not_sent`. What is on its way is awaited for `BatchPolicy.drain_seconds`; whatever is left
    then, or at a cancellation, is given up, as a `Batch` does. Every awaiter gets its outcome.

    Attributes:
        unclaimed: Outcomes of orders that had left when their awaiters were cancelled: their
            money may have moved. Take them out when you have seen to them: 1,000 are kept, and
            the oldest leave first. Each is also logged in full, as a warning.
    """

    unclaimed: list[Outcome[Any, Any]] = attrs.field(factory=list, init=False)
    _session: "Session"
    _linger_seconds: float
    _policy: "BatchPolicy"
    _places: asyncio.Semaphore = attrs.field(init=False)
    _queues: dict[tuple[str, str], _Queue] = attrs.field(factory=dict, init=False)
    _requests: set[asyncio.Task[None]] = attrs.field(factory=set, init=False)
    _is_open: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._places = asyncio.Semaphore(self._policy.concurrency)
        # One chunk has one request at a time; equal orders never meet in it.
        self._policy = attrs.evolve(self._policy, concurrency=1, duplicates="reject")

    # Single orders

    async def capture(self, order: "CaptureOrder") -> "Outcome[CaptureOrder, CaptureRecord]":
        """Capture one order (section 4, row 5).

        Returns:
            Its outcome, as in a batch; an outcome is never raised.

        Raises:
            InvalidOrderError: If the order is wrong; nothing of it is sent.
            DuplicateOrderError: If the same operation waits, or is on its way, for its
                transaction; this order is not sent.
            ConfigurationError: If the coalescer is not open.
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
        if not self._is_open:
            raise ConfigurationError(
                "this coalescer is not open: use `async with gateway.coalesced() as single:`"
            )
        queue, pending = self._join(OPERATIONS[operation], order)
        waiter: asyncio.Future[Outcome[Any, Any]] = asyncio.get_running_loop().create_future()
        pending.waiters.add(waiter)
        try:
            return await waiter
        except (asyncio.CancelledError, GeneratorExit):  # the latter, of a coroutine that is closed
            pending.waiters.discard(waiter)
            if queue.waiting.get(pending.identity) is pending:
                if not pending.is_wanted:
                    del queue.waiting[pending.identity]  # it is withdrawn
            elif waiter.done() and not waiter.cancelled():
                self._note_unclaimed(queue, [waiter.result()])  # it came in the very moment
            raise

    def _join(self, operation: "Operation", order: Any) -> tuple[_Queue, _Pending]:  # noqa: ANN401  # anything may come in
        """Let an order wait in its queue, or beside an equal one that waits to be looked up."""
        error = check_order(operation, order, self._session.dialect)
        if error is not None:
            raise error
        identity = identity_of(operation)(order)
        kind, value = name_of(operation, identity)
        queue = self._queues.get((operation.name, kind))
        if queue is None:
            check_size(operation, self._policy)
            queue = _Queue(operation, chunk_size_of(operation, self._policy))
            self._queues[operation.name, kind] = queue
        pending = queue.waiting.get(identity)
        if pending is not None and not pending.is_wanted:
            pending = None
        if not operation.is_look_up and (pending is not None or identity in queue.on_their_way):
            raise DuplicateOrderError(
                f"{describe(order)}: a {operation} of {kind} {value!r} is under "
                "way in this coalescer; await its outcome first"
            )
        if pending is None:
            pending = queue.waiting[identity] = _Pending(identity, order)
            due = queue.due or self._begin(queue)
            if len(queue.waiting) % queue.size == 0:
                queue.due = None
                due.set()
        return queue, pending

    def _note_unclaimed(self, queue: _Queue, outcomes: "Iterable[Outcome[Any, Any]]") -> None:
        """Keep what may have moved money, and log it: its awaiter was cancelled."""
        if queue.operation.is_look_up:
            return
        kept = [one for one in outcomes if one.status is not OutcomeStatus.NOT_SENT]
        self.unclaimed += kept  # all of them, before anything may go wrong with the log
        forgotten = self.unclaimed[:-UNCLAIMED_KEPT]
        del self.unclaimed[:-UNCLAIMED_KEPT]
        for one in kept:
            currency, amount = queue.operation.moved_by(one.order) or ("", None)
            _log.warning(
                "unclaimed, since the caller was cancelled: %s of %s %s is %s%s",
                describe(one.order),
                amount,
                currency,
                one.status,
                f": {one.error}" if one.error else "",
            )
        for one in forgotten:
            _log.error("unclaimed is full: %s is in the log alone", describe(one.order))

    # Sending

    def _begin(self, queue: _Queue) -> asyncio.Event:
        """Let a request form, and leave once it is full or its first order has lingered."""
        due = queue.due = asyncio.Event()
        name = f"gateway_async coalesced {queue.operation}"
        task = asyncio.get_running_loop().create_task(self._run(queue, due), name=name)
        self._requests.add(task)
        task.add_done_callback(self._note_end)
        return due

    async def _run(self, queue: _Queue, due: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._linger_seconds):
                await due.wait()
        async with self._places:
            if leaving := queue.cut(due):
                await self._send(queue, leaving)

    async def _send(self, queue: _Queue, leaving: list[_Pending]) -> None:
        operation, orders = queue.operation, [pending.order for pending in leaving]
        batch: Batch[Any, Any] = plain_batch(self._session, operation, orders, self._policy)
        error = OutcomeUnknownError("it could not be read")
        outcomes = FailedChunk(range(len(orders)), orders, error).outcomes()
        try:
            await batch
        finally:  # no defect may leave an awaiter hanging, nor one of the program's own logging
            try:
                outcomes = list(batch.result)
            finally:
                queue.on_their_way.difference_update(pending.identity for pending in leaving)
                each = zip(leaving, outcomes, strict=True)
                unclaimed = [outcome for one, outcome in each if not one.deliver(outcome)]
                self._note_unclaimed(queue, unclaimed)
        if batch.result.unexpected:
            _log.warning(
                "the reply to a %s listed %d records of orders that were not asked for",
                operation,
                len(batch.result.unexpected),
            )

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        if task.cancelled():  # by other code: no request may be left for the orders that wait
            for queue in self._queues.values():
                queue.due = None
            self._give_up("other code cancelled its request")

    # Life

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        self._is_open = False
        if error is not None:
            self._give_up("the coalescer was left by an exception")
        for queue in self._queues.values():
            if queue.due is not None:
                queue.due.set()
        drain_seconds = self._policy.drain_seconds
        if interruption := await wait_out(
            [*self._requests], drain_seconds, self._abandon, again_seconds=_ABANDON_SECONDS
        ):
            raise interruption

    def _abandon(self) -> None:
        self._give_up("the coalescer was closed")
        for request in self._requests:
            request.cancel()

    def _give_up(self, reason: str) -> None:
        """End the orders that still wait as `not_sent`."""
        status = OutcomeStatus.NOT_SENT
        for queue in self._queues.values():
            while queue.waiting:
                _, one = queue.waiting.popitem()
                error = NotSentError(f"nothing was sent: {reason}")
                one.deliver(Outcome(order=one.order, index=0, status=status, error=error))

"""The orders that wait to leave together, and who waits for them.

Law: an order is in one place: it waits, or it has left. When it leaves is known to the coalescer.
"""

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from gateway_async.batching.outcomes import Outcome
from gateway_async.batching.plans import Plan

if TYPE_CHECKING:
    from gateway_async.batching.chunks import Identity

    Waiter: TypeAlias = asyncio.Future[Outcome[Any, Any]]


@attrs.define(eq=False)
class Entry:
    """One order, and who waits for its outcome.

    Attributes:
        order: The order.
        due_at: Loop time at which it has lingered long enough.
        waiters: Who waits; several, where they look up the same.
        has_left: Whether its request is on its way, or over.
    """

    order: Any
    due_at: float
    waiters: "set[Waiter]" = attrs.field(factory=set)
    has_left: bool = False

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits: a cancelled awaiter is told only in its next step."""
        return not all(waiter.done() for waiter in self.waiters)

    def tell(self, outcome: Outcome[Any, Any]) -> bool:
        """Hand the outcome to those who wait, and say whether anybody did."""
        waiting = [waiter for waiter in self.waiters if not waiter.done()]
        for waiter in waiting:
            waiter.set_result(outcome)
        return bool(waiting)


@attrs.define(eq=False)
class Lane:
    """The orders that may share a request: of one operation, and named in the same way.

    Attributes:
        plan: The operation.
        size: Orders in one request at most.
        waiting: The orders that wait, the first to leave first.
        in_flight: The identities of orders that move money and are on their way.
        alarm: What wakes the coalescer when the first of them has lingered long enough.
    """

    plan: Plan
    size: int
    waiting: "dict[Identity, Entry]" = attrs.field(factory=dict)
    in_flight: "set[Identity]" = attrs.field(factory=set)
    alarm: asyncio.TimerHandle | None = None

    @property
    def due_at(self) -> float:
        """When its first order has lingered long enough."""
        return next(iter(self.waiting.values())).due_at

    def is_due(self, now: float) -> bool:
        """Say whether a request may leave: full, or its first order has lingered."""
        return len(self.waiting) >= self.size or (bool(self.waiting) and self.due_at <= now)

    def cut(self) -> list[Entry]:
        """Take the orders of one request; they have left."""
        self.waiting = {name: one for name, one in self.waiting.items() if one.is_wanted}
        identities = list(islice(self.waiting, self.size))
        entries = [self.waiting.pop(identity) for identity in identities]
        for entry in entries:
            entry.has_left = True
        if not self.plan.is_look_up:
            self.in_flight.update(identities)
        return entries

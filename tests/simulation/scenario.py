"""What one seed stands for: orders, settings, the gateway's manners, and what the caller does."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from tests.orders import LOOK_UPS
from tests.simulation.gateway import LIMITS, Item, key
from tests.simulation.network import LONGEST_LATENCY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async import BatchPolicy, Dialect, RecoveryPolicy, RetryPolicy, Timeouts
    from tests.simulation.replies import Manners


@attrs.frozen(kw_only=True)
class Interruption:
    """When the caller is disturbed.

    Attributes:
        kind: `"cancel"`, `"timeout"`, or `""`.
        at: Virtual time of it.
        steps: How many steps of the loop later, at the same time.
        again_after: How long after the first a second cancellation comes; None for none.
    """

    kind: str = ""
    at: float = 0.0
    steps: int = 0
    again_after: float | None = None


@attrs.frozen(kw_only=True)
class Consumption:
    """How the caller takes the outcomes.

    Attributes:
        streamed: Whether by `async with`.
        leave_after: Leave after so many outcomes; None for never.
        raises: Whether by an exception.
        pause: How long it takes over each outcome.
    """

    streamed: bool = False
    leave_after: int | None = None
    raises: bool = False
    pause: float = 0.0


@attrs.frozen(kw_only=True)
class Input:
    """How the orders are handed in.

    Attributes:
        kind: `"list"`, `"generator"` or `"async"`.
        fails_after: The iterator raises after so many orders; None for never.
        pause: How long an asynchronous one takes over each order.
        bad: Positions at which something that is no order stands.
    """

    kind: str = "list"
    fails_after: int | None = None
    pause: float = 0.0
    bad: frozenset[int] = frozenset()


@attrs.frozen(kw_only=True)
class Scenario:
    """One run."""

    seed: int
    operation: str
    orders: "Sequence[Any]"
    source: Input
    consumption: Consumption
    interruption: Interruption
    policy: "BatchPolicy"
    retry: "RetryPolicy"
    timeouts: "Timeouts"
    dialect: "Dialect"
    manners: "Manners"
    trouble: float
    is_dead: bool
    grid: float
    limit: int | None
    limiter_fails_at: int | None
    signer_fails_at: int | None
    recovery: "RecoveryPolicy"
    recovers: bool
    calms_down: bool

    @property
    def asks_for(self) -> str:
        """What its requests ask for."""
        return "payout" if self.operation == "payouts" else self.operation

    @property
    def is_batch(self) -> bool:
        """Whether it is about a batch, not about a single payment."""
        return self.operation in LIMITS

    @property
    def is_read(self) -> bool:
        """Whether nothing moves."""
        return self.operation in LOOK_UPS

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong and nobody interrupts."""
        return (
            self.trouble == 0
            and not self.is_dead
            and self.manners.sloppiness == 0
            and self.timeouts_are_long
            and not self.interruption.kind
            and self.consumption.leave_after is None
            and self.source.fails_after is None
            and self.policy.deadline_seconds is None
            and self.limiter_fails_at is None
            and self.signer_fails_at is None
        )

    @property
    def timeouts_are_long(self) -> bool:
        """Whether no reply comes too late by itself."""
        return (
            self.timeouts.reply_seconds > 2 * LONGEST_LATENCY
            and self.timeouts.total_seconds > 3 * LONGEST_LATENCY
        )

    def name(self, order: Any) -> str:
        """Name whatever stands in the input."""
        return order if isinstance(order, str) else self.key(order)

    def key(self, order: Any) -> str:
        """Name an order as the gateway's books do."""
        if self.is_read:
            return f"{order.kind}/{order.value}"
        fields: Item = {
            name: f"{value:.2f}" if isinstance(value, Decimal) else value
            for name, value in attrs.asdict(order, recurse=False).items()
        }
        return key(self.operation, fields)

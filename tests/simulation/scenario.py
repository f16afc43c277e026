"""What one seed stands for: orders, settings, the gateway's manners, and what the caller does."""

from decimal import Decimal
from random import Random
from typing import Any
from uuid import UUID

import attrs

from gateway_async import (
    BatchPolicy,
    Dialect,
    OrderRef,
    PaymentState,
    PayoutRequest,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from tests.orders import LOOK_UPS, MONEY_OPERATIONS, ORDER_CLASSES
from tests.simulation.gateway import (
    ABSENT_RESULT,
    BY_HAND,
    DECLINED,
    FAILED,
    LIMITS,
    NOTHING_DONE,
    NOTHING_DONE_HTTP,
    PENDING,
    Gateway,
    key,
)

EPOCH = 1_700_000_000.0
LONGEST_LATENCY = 3.0
SETTLE_SECONDS = 60.0
"""How long after its request ended something may still happen, at most."""

OPERATIONS = (*MONEY_OPERATIONS, *LOOK_UPS, "refund", "refund", "payouts")
_SIZES = (1, 2, 3, 5, 8, 13, 21, 34)
_LARGE = (101, 230)
_DATES = (
    *("20231113221320", "20230516120000", "20231113221319"),
    *("20231113221321", "20231114210000", "", "soon"),
)
"""Dates of refunds: more than a day before the start, then less, then such as cannot be read."""


@attrs.frozen(kw_only=True)
class Scenario:
    """One run; times are virtual, and None is never."""

    seed: int
    operation: str
    orders: list[Any]
    # How the orders are handed in; no order stands at the bad positions.
    kind: str = "list"
    bad: frozenset[int] = frozenset()
    fails_after: int | None = None
    input_pause: float = 0.0
    # How the caller takes the outcomes.
    streamed: bool = False
    leave_after: int | None = None
    raises: bool = False
    pause: float = 0.0
    # When the caller is disturbed: by a cancellation some steps of the loop later, or a time-out.
    interruption: str = ""
    interrupted_at: float = 0.0
    steps: int = 0
    again_after: float | None = None
    # The client.
    policy: BatchPolicy
    retry: RetryPolicy
    timeouts: Timeouts
    dialect: Dialect
    recovery: RecoveryPolicy
    limit: int | None
    limiter_fails_at: int | None
    signer_fails_at: int | None
    recovers: bool
    calms_down: bool
    # The network and the gateway: how probable trouble and oddities are, whom it declines, whether
    # the dialect knows its codes, and on which grid latencies lie.
    trouble: float
    is_dead: bool
    grid: float
    lists_codes: bool
    sloppiness: float
    declined: tuple[str, ...] = ()

    @property
    def asks_for(self) -> str:
        """What its requests ask for."""
        return "payout" if self.operation == "payouts" else self.operation

    @property
    def is_read(self) -> bool:
        """Whether nothing moves."""
        return self.operation in LOOK_UPS

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong and nobody interrupts."""
        ends = (self.leave_after, self.fails_after, self.policy.deadline_seconds)
        breaks = (self.limiter_fails_at, self.signer_fails_at)
        return (
            not (self.trouble or self.is_dead or self.sloppiness or self.interruption)
            and self.timeouts_are_long
            and all(one is None for one in (*ends, *breaks))
        )

    @property
    def timeouts_are_long(self) -> bool:
        """Whether no reply comes too late by itself."""
        return (
            self.timeouts.reply_seconds > 2 * LONGEST_LATENCY
            and self.timeouts.total_seconds > 3 * LONGEST_LATENCY
        )

    @property
    def chunk_limit(self) -> int:
        """How many orders a request has at most."""
        return min(self.policy.chunk_size or 1000, LIMITS[self.operation])

    def key(self, order: Any) -> str:
        """Name an order as the gateway's books do, and whatever else stands in the input."""
        if isinstance(order, str):
            return order
        if self.is_read:
            return f"{order.kind}/{order.value}"
        fields = {
            name: f"{value:.2f}" if isinstance(value, Decimal) else value
            for name, value in attrs.asdict(order, recurse=False).items()
        }
        return key(self.operation, fields)


def draw(seed: int) -> Scenario:
    """Draw a scenario."""
    random = Random(seed)
    operation = random.choice(OPERATIONS)
    duplicates = random.choice(("reject", "reject", "serialize", "allow"))
    orders = _orders(random, operation, duplicates)
    grid = random.choice((0.001, 0.25, 1.0))
    lists_codes = random.random() < 0.5

    def codes(*found: Any) -> frozenset[Any]:
        return frozenset(found if lists_codes else ())

    scenario = Scenario(
        seed=seed,
        operation=operation,
        orders=orders,
        **_input(random, len(orders)),
        **_consumption(random, len(orders)),
        **_interruption(random, grid),
        policy=_policy(random, operation, duplicates, grid),
        retry=RetryPolicy(
            attempts=random.randint(1, 5), max_pause_seconds=random.choice((5.0, 30.0))
        ),
        timeouts=Timeouts(
            connect_seconds=5,
            reply_seconds=random.choice((2.0, 10.0, 60.0)),
            total_seconds=random.choice((5, 30, 120)),
        ),
        dialect=Dialect(
            declined_statuses=codes(DECLINED),
            pending_statuses=codes(PENDING),
            nothing_done_return_statuses=codes(NOTHING_DONE),
            nothing_done_http_statuses=codes(NOTHING_DONE_HTTP),
            absent_query_results=codes(ABSENT_RESULT),
            payout_declined_statuses=codes(FAILED),
            payout_deduplicates=random.random() < 0.5,
            payment_states={
                "3000": PaymentState.AUTHORISED,
                "4100": PaymentState.CAPTURED,
                "5000": PaymentState.CANCELLED,
            },
        ),
        recovery=RecoveryPolicy(
            settle_seconds=SETTLE_SECONDS,
            refund_evidence=random.choice(("references", "marker")),
            record_baseline=random.random() < 0.5,
            resend_absent=random.random() < 0.3,
            hold_alike_hours=random.choice((24.0, None)),
        ),
        limit=random.choice((None, None, None, 1, 3)),
        limiter_fails_at=random.randint(1, 8) if random.random() < 0.03 else None,
        signer_fails_at=random.randint(1, 8) if random.random() < 0.03 else None,
        recovers=operation in MONEY_OPERATIONS and random.random() < 0.7,
        calms_down=random.random() < 0.7,
        trouble=random.choice((0.0, 0.0, 0.05, 0.2, 0.5)),
        is_dead=random.random() < 0.05,
        grid=grid,
        lists_codes=lists_codes,
        sloppiness=random.choice((0.0, 0.0, 0.1, 0.4)),
    )
    declined = (scenario.key(order) for order in orders if random.random() < 0.1)
    return attrs.evolve(scenario, declined=() if scenario.is_read else tuple(declined))


def _orders(random: Random, operation: str, duplicates: str) -> list[Any]:
    size = random.choice(_LARGE if random.random() < 0.04 else _SIZES)
    doubling = 0.25 if duplicates != "reject" else 0.02 * (random.random() < 0.2)
    if operation == "payouts":
        return [_payout(random) for _ in range(size)]
    numbers = [random.randrange(n + 1) if random.random() < doubling else n for n in range(size)]
    if operation in LOOK_UPS:
        return _refs(random, numbers)
    shared = random.choice((1, 1, 2))
    return [_order(random, operation, n, of, shared) for n, of in enumerate(numbers)]


def _payout(random: Random) -> PayoutRequest:
    request_id = UUID(int=random.getrandbits(128), version=4)
    return PayoutRequest(request_id=request_id, payment_amount="12.50", payment_currency="EUR")


def _order(random: Random, operation: str, n: int, of: int, shared: int) -> Any:
    more: dict[str, dict[str, Any]] = {
        "refund": {"refund_amount": random.choice(("1.00", "2.50"))},
        "review": {"review_flag": "1"},
    }
    return ORDER_CLASSES[operation](
        transaction_id=f"2023051612{of:08d}",
        order_no=f"N{of // shared}",
        currency="EUR",
        amount=Decimal(100 + n),
        **more.get(operation, {}),
    )


def _refs(random: Random, numbers: list[int]) -> list[OrderRef]:
    mixed = random.random() < 0.3
    by_number = random.random() < 0.5
    refs = []
    for of in numbers:
        by_number = by_number is not (mixed and random.random() < 0.3)
        name = {"order_no": f"N{of}"} if by_number else {"transaction_id": f"2023051612{of:08d}"}
        refs.append(OrderRef(**name))
    return refs


def _input(random: Random, size: int) -> dict[str, Any]:
    kind = random.choice(("list", "generator", "async"))
    is_bad = random.random() < 0.06
    bad = frozenset(n for n in range(size) if is_bad and random.random() < 0.2)
    if kind == "list":
        return {"bad": bad}
    return {
        "kind": kind,
        "bad": bad,
        "fails_after": random.randint(0, size) if random.random() < 0.1 else None,
        "input_pause": random.choice((0.0, 0.0, 0.25, 2.0)) if kind == "async" else 0.0,
    }


def _consumption(random: Random, size: int) -> dict[str, Any]:
    if random.random() < 0.5:
        return {}
    leaves = random.random() < 0.3
    return {
        "streamed": True,
        "leave_after": random.randint(0, size) if leaves else None,
        "raises": leaves and random.random() < 0.3,
        "pause": random.choice((0.0, 0.0, 0.0, 0.5)),
    }


def _interruption(random: Random, grid: float) -> dict[str, Any]:
    if random.random() < 0.6:
        return {}
    at = random.choice((0.0, round(random.uniform(0, 8) / grid) * grid))
    if random.random() < 0.3:
        return {"interruption": "timeout", "interrupted_at": at}
    return {
        "interruption": "cancel",
        "interrupted_at": at,
        "steps": random.randint(0, 12),
        "again_after": random.choice((None, None, 0.0, 1.0, 10.0)),
    }


def _policy(random: Random, operation: str, duplicates: str, grid: float) -> BatchPolicy:
    chunk_size = random.choice((1, 2, 3, 5, 7, None))
    has_deadline = random.random() < 0.2
    deadline = max(grid, round(random.uniform(0, 12) / grid) * grid)
    return BatchPolicy(
        concurrency=random.randint(1, 5),
        chunk_size=chunk_size and min(chunk_size, LIMITS[operation]),
        deadline_seconds=deadline if has_deadline else None,
        drain_seconds=random.choice((0, 1, 5, 30)),
        stop_after_unknown=random.choice((1, 2, 3, 3, 1000)),
        duplicates=duplicates,
    )


# What the gateway knows beforehand


def open_gateway(scenario: Scenario, random: Random) -> Gateway:
    """Make the gateway that belongs to a scenario."""
    gateway = Gateway(deduplicates=scenario.dialect.payout_deduplicates)
    gateway.sorted_by_time = random.random() < 0.3
    if scenario.is_read:
        _fill(random, gateway, len(scenario.orders))
    elif scenario.operation in MONEY_OPERATIONS:
        _know(random, gateway, scenario.orders)
    if scenario.operation == "refund":
        gateway.lists_refunds = random.random() < 0.8
        gateway.keeps_reasons = random.random() < 0.9
        gateway.is_flaky = (
            scenario.recovery.refund_evidence == "marker"
            and not scenario.recovery.record_baseline
            and random.random() < 0.6
        )
    return gateway


def _fill(random: Random, gateway: Gateway, size: int) -> None:
    """Let the gateway know transactions and refunds: of most orders one, of some none or many."""
    crowd = random.choice((3, 3, 20, 120))
    for n in range(size):
        names = {"transaction_id": f"2023051612{n:08d}", "order_no": f"N{n}"}
        refund = {**names, "currency": "EUR", "amount": "10.00", "refund_amount": "1.00"}
        count = random.choices((1, 0, 2, random.randint(3, crowd)), (85, 7, 5, 3))[0]
        for _ in range(count):
            gateway.add_transaction(**names)
            gateway.add_refund({**refund, "refund_reason": ""}, "20230516120000")


def _know(random: Random, gateway: Gateway, orders: list[Any]) -> None:
    """Let the gateway know the transactions, and refunds made of some of them in the portal."""
    several = random.choice((2, 2, 2, 120))
    for order in {order.transaction_id: order for order in orders}.values():
        gateway.add_transaction(order.transaction_id, order.order_no)
        refund = {
            "transaction_id": order.transaction_id,
            "order_no": order.order_no,
            "currency": order.currency,
            "amount": f"{order.amount:.2f}",
            "refund_reason": BY_HAND,
        }
        count = random.choices((0, 1, several), (70, 22, 8))[0]
        for amount in random.choices(("1.00", "2.50"), k=count):
            gateway.add_refund({**refund, "refund_amount": amount}, random.choice(_DATES))

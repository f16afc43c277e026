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
from tests.support.orders import LOOK_UPS, MONEY_OPERATIONS, ORDER_CLASSES, as_sent

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
_STATES = {
    "3000": PaymentState.AUTHORISED,
    "4100": PaymentState.CAPTURED,
    "5000": PaymentState.CANCELLED,
}


class Scenario:
    """One run, drawn from its seed; times are virtual, and None is never.

    Attributes:
        kind: How the orders are handed in: a list, a generator, or an asynchronous one.
        fails_after: After how many orders the input raises.
        input_pause: How long an asynchronous input waits behind each order.
        leave_after: After how many outcomes a stream is left, by an error if it `raises`.
        pause: How long the caller of a stream waits behind each outcome.
        interruption: How the caller is disturbed: by a cancellation some `steps` of the loop after
            a time, and perhaps by a second one, or by a time-out.
        recovers: Whether the outcomes are recovered, by a gateway that then perhaps `calms_down`.
        trouble: How probable trouble of the network is.
        is_dead: Whether no reply ever comes.
        grid: On which grid latencies lie.
        knows_codes: Whether the dialect knows the gateway's codes.
        sloppiness: How probable oddities of a reply are.
        declined: What the gateway does not do, by key.
        limiter_fails_at: At which attempt the limiter raises when it is left, behind the reply.
    """

    def __init__(self, seed: int) -> None:
        random = Random(seed)

        def seldom(probability: float, value: Any, otherwise: Any = None) -> Any:
            return value if random.random() < probability else otherwise

        self.seed = seed
        self.operation = random.choice(OPERATIONS)
        duplicates = random.choice(("reject", "reject", "serialize", "allow"))
        self.orders = _draw_orders(random, self.operation, duplicates)
        declined = {key(as_sent(order)) for order in self.orders if random.random() < 0.1}
        self.declined = declined if self.operation not in LOOK_UPS else set()
        self.kind = random.choice(("list", "generator", "async"))
        self.streamed = random.random() < 0.5
        size = len(self.orders)
        self.leave_after = seldom(0.3, random.randint(0, size)) if self.streamed else None
        self.interruption = random.choice((*[""] * 6, "cancel", "cancel", "cancel", "timeout"))
        self.grid = grid = random.choice((0.001, 0.25, 1.0))
        chunk_size = random.choice((1, 2, 3, 5, 7, None))
        self.knows_codes = random.random() < 0.5
        self.fails_after = seldom(0.1, random.randint(0, size)) if self.kind != "list" else None
        self.input_pause = random.choice((0.0, 0.0, 0.25, 2.0)) if self.kind == "async" else 0.0
        self.raises = self.leave_after is not None and random.random() < 0.3
        self.pause = random.choice((0.0, 0.0, 0.0, 0.5)) if self.streamed else 0.0
        self.interrupted_at = random.choice((0.0, round(random.uniform(0, 8) / grid) * grid))
        self.steps = random.randint(0, 12)
        self.again_after = random.choice((None, None, 0.0, 1.0, 10.0))
        self.policy = BatchPolicy(
            concurrency=random.randint(1, 5),
            chunk_size=chunk_size and min(chunk_size, LIMITS[self.operation]),
            deadline_seconds=seldom(0.2, max(grid, round(random.uniform(0, 12) / grid) * grid)),
            drain_seconds=random.choice((0, 1, 5, 30)),
            stop_after_unknown=random.choice((1, 2, 3, 3, 1000)),
            duplicates=duplicates,
        )
        self.retry = RetryPolicy(
            attempts=random.randint(1, 5), max_pause_seconds=random.choice((5.0, 30.0))
        )
        self.timeouts = Timeouts(
            connect_seconds=5,
            reply_seconds=random.choice((2.0, 10.0, 60.0)),
            total_seconds=random.choice((5, 30, 120)),
        )
        self.dialect = _draw_dialect(random, knows_codes=self.knows_codes)
        self.recovery = RecoveryPolicy(
            settle_seconds=SETTLE_SECONDS,
            refund_evidence=random.choice(("references", "marker")),
            record_baseline=random.random() < 0.5,
            resend_absent=random.random() < 0.3,
            hold_alike_hours=random.choice((24.0, None)),
        )
        self.recovers = self.operation in MONEY_OPERATIONS and random.random() < 0.7
        self.calms_down = random.random() < 0.7
        self.trouble = random.choice((0.0, 0.0, 0.05, 0.2, 0.5))
        self.is_dead = random.random() < 0.05
        self.sloppiness = random.choice((0.0, 0.0, 0.1, 0.4))
        self.limiter_fails_at = seldom(0.1, random.randint(1, 12))

    def __repr__(self) -> str:
        return f"Scenario({vars(self)})"

    @property
    def asks_for(self) -> str:
        return "payout" if self.operation == "payouts" else self.operation

    @property
    def is_read(self) -> bool:
        return self.operation in LOOK_UPS

    @property
    def is_calm(self) -> bool:
        """Whether nothing goes wrong, no reply comes too late by itself, and nobody interrupts."""
        fails_at = self.fails_after, self.limiter_fails_at
        ends = (self.leave_after, *fails_at, self.policy.deadline_seconds)
        return (
            not (self.trouble or self.is_dead or self.sloppiness or self.interruption)
            and self.timeouts.reply_seconds > 2 * LONGEST_LATENCY
            and self.timeouts.total_seconds > 3 * LONGEST_LATENCY
            and all(one is None for one in ends)
        )

    @property
    def chunk_limit(self) -> int:
        return min(self.policy.chunk_size or 1000, LIMITS[self.operation])


def _draw_dialect(random: Random, *, knows_codes: bool) -> Dialect:
    codes = Dialect(
        declined_statuses={DECLINED},
        pending_statuses={PENDING},
        nothing_done_return_statuses={NOTHING_DONE},
        nothing_done_http_statuses={NOTHING_DONE_HTTP},
        absent_query_results={ABSENT_RESULT},
        payout_declined_statuses={FAILED},
    )
    return attrs.evolve(
        codes if knows_codes else Dialect(),
        payout_deduplicates=random.random() < 0.5,
        payment_states=_STATES,
    )


def _draw_orders(random: Random, operation: str, duplicates: str) -> list[Any]:
    size = random.choice(_LARGE if random.random() < 0.04 else _SIZES)
    doubling = 0.25 if duplicates != "reject" else 0.02 * (random.random() < 0.2)
    numbers = [random.randrange(n + 1) if random.random() < doubling else n for n in range(size)]
    shared, mixed = random.choice((1, 1, 2)), random.random() < 0.15
    by_number = random.random() < 0.5

    def reference(of: int) -> OrderRef:
        nonlocal by_number
        by_number = by_number is not (mixed and random.random() < 0.6)
        name = {"order_no": f"N{of}"} if by_number else {"transaction_id": f"2023051612{of:08d}"}
        return OrderRef(**name)

    def order(n: int, of: int) -> Any:
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

    if operation == "payouts":
        ids = [UUID(int=random.getrandbits(128), version=4) for _ in numbers]
        return [
            PayoutRequest(request_id=one, payment_amount="12.50", payment_currency="EUR")
            for one in ids
        ]
    if operation in LOOK_UPS:
        return [reference(of) for of in numbers]
    return [order(n, of) for n, of in enumerate(numbers)]


# What the gateway knows beforehand


def open_gateway(scenario: Scenario, random: Random) -> Gateway:
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
        refund = {**as_sent(order), "refund_reason": BY_HAND}
        count = random.choices((0, 1, several), (70, 22, 8))[0]
        for amount in random.choices(("1.00", "2.50"), k=count):
            gateway.add_refund({**refund, "refund_amount": amount}, random.choice(_DATES))

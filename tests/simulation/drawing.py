"""How a seed becomes a scenario, and the gateway that belongs to it."""

from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

import attrs

from gateway_async import (
    BatchPolicy,
    Dialect,
    DirectPayment,
    OrderRef,
    PaymentState,
    PayoutRequest,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from tests.orders import LOOK_UPS, MONEY_OPERATIONS, ORDER_CLASSES
from tests.simulation.gateway import BY_HAND, LIMITS, Gateway
from tests.simulation.network import SETTLE_SECONDS, Network
from tests.simulation.replies import (
    ABSENT_RESULT,
    DECLINED,
    FAILED,
    NOTHING_DONE,
    NOTHING_DONE_HTTP,
    PENDING,
    Manners,
)
from tests.simulation.scenario import Consumption, Input, Interruption, Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

OPERATIONS = (*MONEY_OPERATIONS, *LOOK_UPS, "refund", "refund", "pay_direct", "payout", "payouts")
_SIZES = (1, 2, 3, 5, 8, 13, 21, 34)
_LARGE = (101, 230)
_OLD = ("20231113221320", "20230516120000", "20231113221319")
_RECENT = ("20231113221321", "20231114210000", "", "soon")
"""Dates of refunds: from a day and less before the start, or such as cannot be read."""


def draw(seed: int) -> Scenario:
    """Draw a scenario."""
    random = Random(seed)
    operation = random.choice(OPERATIONS)
    is_codes = random.random() < 0.5
    duplicates = random.choice(("reject", "reject", "serialize", "allow"))
    orders = _orders(random, operation, duplicates)
    is_dead = random.random() < 0.05
    grid = random.choice((0.001, 0.25, 1.0))
    source = _source(random, len(orders))
    reply_seconds = random.choice((2.0, 10.0, 60.0))
    scenario = Scenario(
        seed=seed,
        operation=operation,
        orders=orders,
        source=source,
        consumption=_consumption(random, len(orders)),
        interruption=_interruption(random, grid),
        policy=_policy(random, operation, duplicates, grid),
        retry=RetryPolicy(
            attempts=random.randint(1, 5), max_pause_seconds=random.choice((5.0, 30.0))
        ),
        timeouts=Timeouts(
            connect_seconds=5,
            reply_seconds=reply_seconds,
            total_seconds=random.choice((5, 30, 120)),
        ),
        dialect=Dialect(
            declined_statuses=frozenset({DECLINED} if is_codes else ()),
            pending_statuses=frozenset({PENDING} if is_codes else ()),
            nothing_done_return_statuses=frozenset({NOTHING_DONE} if is_codes else ()),
            nothing_done_http_statuses=frozenset({NOTHING_DONE_HTTP} if is_codes else ()),
            absent_query_results=frozenset({ABSENT_RESULT} if is_codes else ()),
            payout_declined_statuses=frozenset({FAILED} if is_codes else ()),
            payout_deduplicates=random.random() < 0.5,
            payment_states={
                "3000": PaymentState.AUTHORISED,
                "4100": PaymentState.CAPTURED,
                "5000": PaymentState.CANCELLED,
            },
        ),
        manners=Manners(sloppiness=0, declined=(), is_listing_codes=is_codes),
        trouble=random.choice((0.0, 0.0, 0.05, 0.2, 0.5)),
        is_dead=is_dead,
        grid=grid,
        limit=random.choice((None, None, None, 1, 3)),
        limiter_fails_at=random.randint(1, 8) if random.random() < 0.03 else None,
        signer_fails_at=random.randint(1, 8) if random.random() < 0.03 else None,
        recovery=RecoveryPolicy(
            settle_seconds=SETTLE_SECONDS,
            refund_evidence=random.choice(("references", "marker")),
            record_baseline=random.random() < 0.5,
            resend_absent=random.random() < 0.3,
            hold_alike_hours=random.choice((24.0, None)),
        ),
        recovers=operation in MONEY_OPERATIONS and random.random() < 0.7,
        calms_down=random.random() < 0.7,
    )
    names = [] if scenario.is_read else [scenario.key(order) for order in orders]
    declined = tuple(name for name in names if random.random() < 0.1)
    sloppiness = random.choice((0.0, 0.0, 0.1, 0.4))
    return attrs.evolve(
        scenario, manners=attrs.evolve(scenario.manners, declined=declined, sloppiness=sloppiness)
    )


def open_network(scenario: Scenario, random: Random) -> Network:
    """Make the network and the gateway behind it, with what it knows beforehand."""
    gateway = Gateway(deduplicates=scenario.dialect.payout_deduplicates)
    gateway.sorted_by_time = random.random() < 0.3
    if scenario.is_read:
        _fill(random, gateway, scenario.orders)
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
    return Network(
        random,
        gateway,
        scenario.manners,
        trouble=scenario.trouble,
        is_dead=scenario.is_dead,
        reply_seconds=scenario.timeouts.reply_seconds,
        grid=scenario.grid,
    )


def _orders(random: Random, operation: str, duplicates: str) -> "list[Any]":
    if operation == "pay_direct":
        return [
            DirectPayment(
                order_no="P1",
                currency="EUR",
                amount=Decimal("12.50"),
                card="4111111111111111",
                expiration_month="12",
                expiration_year="2030",
                security_code="737",
            )
        ]
    if operation == "payout":
        return [_payout(random)]
    size = random.choice(_LARGE if random.random() < 0.04 else _SIZES)
    doubling = 0.25 if duplicates != "reject" else 0.02 * (random.random() < 0.2)
    if operation in LOOK_UPS:
        return _refs(random, size, doubling)
    if operation == "payouts":
        return [_payout(random) for _ in range(size)]
    shared = random.choice((1, 1, 2))
    return [_order(random, operation, n, shared, doubling) for n in range(size)]


def _payout(random: Random) -> PayoutRequest:
    request_id = UUID(int=random.getrandbits(128), version=4)
    return PayoutRequest(
        request_id=request_id, payment_amount=Decimal("12.50"), payment_currency="EUR"
    )


def _order(random: Random, operation: str, n: int, shared: int, doubling: float) -> Any:
    of = random.randrange(n + 1) if random.random() < doubling else n
    more: dict[str, Any] = {}
    if operation == "refund":
        more["refund_amount"] = random.choice(("1.00", "2.50"))
    elif operation == "review":
        more["review_flag"] = "1"
    return ORDER_CLASSES[operation](
        transaction_id=f"2023051612{of:08d}",
        order_no=f"N{of // shared}",
        currency="EUR",
        amount=Decimal(100 + n),
        **more,
    )


def _refs(random: Random, size: int, doubling: float) -> "list[OrderRef]":
    mixed = random.random() < 0.3
    by_number = random.random() < 0.5
    refs = []
    for n in range(size):
        of = random.randrange(n + 1) if random.random() < doubling else n
        if mixed and random.random() < 0.3:
            by_number = not by_number
        refs.append(
            OrderRef(order_no=f"N{of}")
            if by_number
            else OrderRef(transaction_id=f"2023051612{of:08d}")
        )
    return refs


def _fill(random: Random, gateway: Gateway, refs: "Sequence[OrderRef]") -> None:
    """Let the gateway know transactions and refunds: of most orders one, of some none or many."""
    crowd = random.choice((3, 3, 20, 120))
    for n in range(len(refs)):
        count = random.choices((1, 0, 2, random.randint(3, crowd)), (85, 7, 5, 3))[0]
        for _ in range(count):
            gateway.add_transaction(f"2023051612{n:08d}", f"N{n}")
            gateway.add_refund(
                {
                    "transaction_id": f"2023051612{n:08d}",
                    "order_no": f"N{n}",
                    "currency": "EUR",
                    "amount": "10.00",
                    "refund_amount": "1.00",
                    "refund_reason": "",
                },
                "20230516120000",
            )


def _know(random: Random, gateway: Gateway, orders: "Sequence[Any]") -> None:
    """Let the gateway know the transactions, and refunds made of some of them in the portal."""
    several = random.choice((2, 2, 2, 120))
    for order in {order.transaction_id: order for order in orders}.values():
        gateway.add_transaction(order.transaction_id, order.order_no)
        count = random.choices((0, 1, several), (70, 22, 8))[0]
        for amount in random.choices(("1.00", "2.50"), k=count):
            gateway.add_refund(
                {
                    "transaction_id": order.transaction_id,
                    "order_no": order.order_no,
                    "currency": order.currency,
                    "amount": f"{order.amount:.2f}",
                    "refund_amount": amount,
                    "refund_reason": BY_HAND,
                },
                random.choice((*_OLD, *_RECENT)),
            )


def _source(random: Random, size: int) -> Input:
    kind = random.choice(("list", "generator", "async"))
    bad: frozenset[int] = frozenset()
    if random.random() < 0.06:
        bad = frozenset(n for n in range(size) if random.random() < 0.2)
    if kind == "list":
        return Input(bad=bad)
    return Input(
        kind=kind,
        bad=bad,
        fails_after=random.randint(0, size) if random.random() < 0.1 else None,
        pause=random.choice((0.0, 0.0, 0.25, 2.0)) if kind == "async" else 0.0,
    )


def _consumption(random: Random, size: int) -> Consumption:
    if random.random() < 0.5:
        return Consumption()
    leaves = random.random() < 0.3
    return Consumption(
        streamed=True,
        leave_after=random.randint(0, size) if leaves else None,
        raises=leaves and random.random() < 0.3,
        pause=random.choice((0.0, 0.0, 0.0, 0.5)),
    )


def _interruption(random: Random, grid: float) -> Interruption:
    if random.random() < 0.6:
        return Interruption()
    at = random.choice((0.0, round(random.uniform(0, 8) / grid) * grid))
    if random.random() < 0.3:
        return Interruption(kind="timeout", at=at)
    return Interruption(
        kind="cancel",
        at=at,
        steps=random.randint(0, 12),
        again_after=random.choice((None, None, 0.0, 1.0, 10.0)),
    )


def _policy(random: Random, operation: str, duplicates: str, grid: float) -> BatchPolicy:
    chunk_size = random.choice((1, 2, 3, 5, 7, None))
    deadline = None
    if random.random() < 0.2:
        deadline = max(grid, round(random.uniform(0, 12) / grid) * grid)
    return BatchPolicy(
        concurrency=random.randint(1, 5),
        chunk_size=min(chunk_size or 1000, LIMITS.get(operation, 1000)) if chunk_size else None,
        deadline_seconds=deadline,
        drain_seconds=random.choice((0, 1, 5, 30)),
        stop_after_unknown=random.choice((1, 2, 3, 3, 1000)),
        duplicates=duplicates,
    )

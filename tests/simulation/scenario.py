"""What one seed stands for: orders, settings, the gateway and its manners, what the caller does.

The gateway does what a request says, keeps its books, and lists what it has. It shares no code with
the library or the sandbox, and never lies by itself: what a reply may do to the truth is known to
`network`.
"""

from collections import Counter
from datetime import UTC, datetime
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
from gateway_async.operations import OPERATIONS
from tests.support.orders import LIST_FIELDS, LOOK_UPS, MONEY_OPERATIONS, ORDER_CLASSES, as_sent

Item = dict[str, Any]

PATHS = {one.path: one.name for one in OPERATIONS.values()}
LIMITS = {
    **dict.fromkeys(("capture", "cancel", "refund"), 50),
    **dict.fromkeys(("review", *LOOK_UPS), 100),
    "payouts": 1,
}
REPLY_LIMIT = 100
BY_HAND = "by hand"
"""The reason of refunds that were made in the portal, before the run."""
DECLINED, PENDING, NOTHING_DONE, ABSENT_RESULT = "2", "3", "99", "0"
NOTHING_DONE_HTTP = 403
FAILED = "FAILED"
_STATE_AFTER = {"capture": "4100", "cancel": "5000"}
_NAMES = ("transaction_id", "order_no", "request_id")

EPOCH = 1_700_000_000.0
LONGEST_LATENCY = 3.0
SETTLE_SECONDS = 60.0
"""How long after its request ended something may still happen, at most."""

_DRAWN = (*MONEY_OPERATIONS, *LOOK_UPS, "refund", "refund", "payouts")
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

        def seldom(probability: float, value: Any) -> Any:
            return value if random.random() < probability else None

        self.seed = seed
        self.operation = random.choice(_DRAWN)
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


def _draw_dialect(random: Random, *, knows_codes: bool) -> Dialect:
    codes: dict[str, Any] = {
        "declined_statuses": {DECLINED},
        "pending_statuses": {PENDING},
        "nothing_done_return_statuses": {NOTHING_DONE},
        "nothing_done_http_statuses": {NOTHING_DONE_HTTP},
        "absent_query_results": {ABSENT_RESULT},
        "payout_declined_statuses": {FAILED},
    }
    deduplicates = random.random() < 0.5
    known = codes if knows_codes else {}
    return Dialect(payout_deduplicates=deduplicates, payment_states=_STATES, **known)


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


# The gateway


def wanted(operation: str, fields: Item) -> list[Item]:
    if operation in MONEY_OPERATIONS:
        return list(fields[LIST_FIELDS[operation]])
    if operation in LOOK_UPS:
        kind = "order_no" if "order_no" in fields else "transaction_id"
        return [{kind: value} for value in fields[kind].split(",")]
    return [fields]


def identity(order: Item) -> str:
    name = next(name for name in _NAMES if name in order)
    return f"{name}/{order[name]}"


def key(order: Item) -> str:
    """Name an order so that no other that moves money has this name in its run."""
    return str(order["amount"]) if "amount" in order else identity(order)


@attrs.define(eq=False)
class Gateway:
    deduplicates: bool  # whether a payout of the same `request_id` is done once
    sorted_by_time: bool = False  # whether records are listed by time, not by what was asked for
    lists_refunds: bool = True  # whether a refund search finds anything at all
    keeps_reasons: bool = True  # whether a refund record shows the reason it was made with
    # whether each new refund is left out of one of the searches that ask for it
    is_flaky: bool = False
    now: float = 0.0  # what its clock shows, in seconds
    # how often each order was done, by its key
    effects: Counter[str] = attrs.field(factory=Counter)
    # the refund records of each transaction, as they landed
    refunds: dict[str, list[Item]] = attrs.field(factory=dict)
    # the transaction records that a query lists
    transactions: list[Item] = attrs.field(factory=list)
    _landed: int = 0
    _left_out_in: dict[str, int] = attrs.field(factory=dict)

    def execute(self, operation: str, order: Item) -> None:
        name = key(order)
        if operation == "payout" and self.deduplicates and self.effects[name]:
            return
        self.effects[name] += 1
        if operation == "refund":
            date = datetime.fromtimestamp(self.now, UTC)
            reference = self.add_refund(order, f"{date:%Y%m%d%H%M%S}")
            if self.is_flaky:
                self._left_out_in[reference] = self._landed % 3 + 1
        for record in self.transactions:
            if record["transaction_id"] == order.get("transaction_id"):
                record["payment_status"] = _STATE_AFTER.get(operation, record["payment_status"])

    def add_refund(self, order: Item, date: str) -> str:
        """Note a refund as a search lists it; it may be one made in the portal."""
        self._landed += 1
        of_transaction = self.refunds.setdefault(order["transaction_id"], [])
        reference = f"{order['transaction_id']}-{len(of_transaction) + 1:02d}"
        record = {"refund_status": "1", "refund_reference_id": reference, "refund_date": date}
        of_transaction.append({**order, **record, "payment_status": "4100"})
        return reference

    def add_transaction(self, transaction_id: str, order_no: str) -> None:
        """Note a transaction as a query lists it."""
        self._landed += 1
        self.transactions.append(
            {
                "transaction_id": transaction_id,
                "order_no": order_no,
                "amount": "10.00",
                "currency": "EUR",
                "payment_status": "3000",
                "query_result": "1",
                "transaction_date": f"20240501{self._landed:06d}",
            }
        )

    def item(self, operation: str, order: Item) -> Item:
        item = {**order, f"{operation}_status": "1"}
        if operation != "refund":
            return {**item, "error_message": ""}
        landed = self.refunds.get(order["transaction_id"]) or [{}]
        reference = landed[-1].get("refund_reference_id", "")
        return {**item, "refund_reference_id": reference, "refund_message": "V0000:Success"}

    def records(self, operation: str, ref: Item) -> list[Item]:
        ((kind, value),) = ref.items()
        of_all = self.refunds.values() if self.lists_refunds else ()
        refunds = [record for of_transaction in of_all for record in of_transaction]
        held = self.transactions if operation == "query" else refunds
        return [record for record in held if record[kind] == value]

    def listed(self, operation: str, refs: list[Item]) -> list[Item]:
        """Return what a look-up lists: at most a hundred records."""
        found = [record for ref in refs for record in self.records(operation, ref)]
        found = [record for record in found if not self._leaves_out(record)]
        if not self.keeps_reasons:
            found = [{**record, "refund_reason": ""} for record in found]
        if self.sorted_by_time:
            date = "transaction_date" if operation == "query" else "refund_date"
            found.sort(key=lambda record: str(record[date]))
        return found[:REPLY_LIMIT]

    def _leaves_out(self, record: Item) -> bool:
        """Count down to the one search that does not list a refund."""
        name = str(record.get("refund_reference_id"))
        if name not in self._left_out_in:
            return False
        self._left_out_in[name] -= 1
        return self._left_out_in[name] == 0


def open_gateway(scenario: Scenario, random: Random) -> Gateway:
    """Return a gateway with what it knows beforehand."""
    gateway = Gateway(deduplicates=scenario.dialect.payout_deduplicates)
    gateway.sorted_by_time = random.random() < 0.3
    if scenario.is_read:  # of most orders it has one transaction and refund, of some none or many
        crowd = random.choice((3, 3, 20, 120))
        for n in range(len(scenario.orders)):
            names = {"transaction_id": f"2023051612{n:08d}", "order_no": f"N{n}"}
            refund = {**names, "currency": "EUR", "amount": "10.00", "refund_amount": "1.00"}
            count = random.choices((1, 0, 2, random.randint(3, crowd)), (85, 7, 5, 3))[0]
            for _ in range(count):
                gateway.add_transaction(**names)
                gateway.add_refund({**refund, "refund_reason": ""}, "20230516120000")
    elif scenario.operation in MONEY_OPERATIONS:  # some refunds were made in the portal
        several = random.choice((2, 2, 2, 120))
        for order in {order.transaction_id: order for order in scenario.orders}.values():
            gateway.add_transaction(order.transaction_id, order.order_no)
            refund = {**as_sent(order), "refund_reason": BY_HAND}
            count = random.choices((0, 1, several), (70, 22, 8))[0]
            for amount in random.choices(("1.00", "2.50"), k=count):
                gateway.add_refund({**refund, "refund_amount": amount}, random.choice(_DATES))
    if scenario.operation == "refund":
        gateway.lists_refunds = random.random() < 0.8
        gateway.keeps_reasons = random.random() < 0.9
        gateway.is_flaky = (
            scenario.recovery.refund_evidence == "marker"
            and not scenario.recovery.record_baseline
            and random.random() < 0.6
        )
    return gateway

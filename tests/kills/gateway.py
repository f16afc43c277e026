"""The gateway of one run: a sandbox whose requests meet faults, and what its books say."""

import random
import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from gateway_async.sandbox import Faults, PaymentStatus, Sandbox, Transaction, faults
from gateway_async.sandbox.records import CLOSED_ACCOUNT
from tests.kills.plans import Plan
from tests.kills.verdict import Books

LATEST_SECONDS = 0.12
"""No effect lands later than this after its request was read."""

NOTHING_DONE_CODE, NOTHING_DONE_STATUS = "9", 429
"""By which this gateway vouches that nothing was done."""

_TAG = re.compile(r"o([0-9]+)$")
_CYCLE = 5
_LOOK_FAULTS_SHARE = 0.25

_Draw = Callable[[random.Random], faults.Fault]

_MONEY: Sequence[_Draw] = (
    lambda _: faults.DropReply(),
    lambda _: faults.DropReply(),
    lambda _: faults.ResetBeforeEffect(),
    lambda _: faults.ResetAfterEffect(),
    lambda rng: faults.LateEffect(rng.uniform(0.01, LATEST_SECONDS)),
    lambda rng: faults.LateEffect(rng.uniform(0.01, LATEST_SECONDS)),
    lambda rng: faults.Status(503, after_effect=rng.random() < 0.5),
    lambda rng: faults.HtmlErrorPage(after_effect=rng.random() < 0.5),
    lambda rng: faults.CutReply(rng.random() * 0.9),
    lambda _: faults.InvalidBody(),
    lambda rng: faults.MissingItems(rng.randint(1, 3)),
    lambda rng: faults.MissingItems(rng.randint(1, 3)),
    lambda rng: faults.UnknownItemStatus(count=rng.randint(1, 3)),
    lambda _: faults.ChangedAmount(),
    lambda _: faults.ChangedIdentity(),
    lambda _: faults.DoubledItems(status="7"),
    lambda rng: faults.Latency(rng.uniform(0.01, LATEST_SECONDS)),
    lambda rng: faults.Latency(rng.uniform(0.01, LATEST_SECONDS)),
    lambda rng: faults.ReturnStatus(after_effect=rng.random() < 0.5),
    lambda _: faults.ReturnStatus(NOTHING_DONE_CODE, after_effect=False),
    lambda _: faults.Status(NOTHING_DONE_STATUS),
)
_OF_LISTS = ("MissingItems", "DoubledItems", "ChangedIdentity", "ChangedAmount")
_PAYOUTS = [draw for draw in _MONEY if type(draw(random.Random(0))).__name__ not in _OF_LISTS]
_LOOKS: Sequence[_Draw] = (
    lambda _: faults.DropReply(),
    lambda _: faults.ResetAfterEffect(),
    lambda _: faults.Status(503),
    lambda _: faults.InvalidBody(),
    lambda rng: faults.CutReply(rng.random() * 0.9),
    lambda rng: faults.Latency(rng.uniform(0.01, LATEST_SECONDS)),
    lambda rng: faults.MissingItems(rng.randint(1, 3)),
    lambda _: faults.EmptyLookUp(),
    lambda _: faults.DoubledItems(),
    lambda _: faults.ReorderedItems(),
    lambda _: faults.IgnoreSelection(),
    lambda _: faults.GzipReply(),
)


class DrawnFaults(Faults):
    """Faults drawn request by request: four of every five that move money meet one."""

    def __init__(self, seed: int, operation: str) -> None:
        super().__init__(random_seed=seed)
        self._rng = random.Random(f"faults {seed}")
        self._operation = operation
        self._draws = _PAYOUTS if operation == "payout" else _MONEY
        self._spared: list[bool] = []
        self.requests = 0
        self.faulty = 0

    def plan(self, operation: str, *, notifications: bool = False) -> faults.Plan:
        """Decide what strikes the next request."""
        if notifications:
            return super().plan(operation, notifications=True)
        if operation != self._operation:
            return self._struck(_LOOKS, self._rng.random() < _LOOK_FAULTS_SHARE)
        if not self._spared:  # never the first two, so that the share is met from the start
            spared = self._rng.randrange(2, _CYCLE)
            self._spared = [number == spared for number in reversed(range(_CYCLE))]
        is_struck = not self._spared.pop()
        self.requests += 1
        self.faulty += is_struck
        return self._struck(self._draws, is_struck)

    def _struck(self, draws: Sequence[_Draw], is_struck: bool) -> faults.Plan:
        fault = self._rng.choice(draws)(self._rng) if is_struck else None
        if fault is None:
            return faults.Plan()
        delay = fault.seconds if isinstance(fault, faults.Latency) else 0.0
        self.struck[type(fault).__name__] += 1
        return faults.Plan(faults=(fault,), delay_seconds=delay)


@attrs.frozen
class Gateway:
    """A sandbox, and the orders of the run that it serves."""

    sandbox: Sandbox
    faults: DrawnFaults
    plan: Plan
    orders: list[dict[str, Any]]

    def books(self) -> Books:
        """Read the books: what was done of each order, and how often."""
        if self.plan.operation == "refund":
            return self._refund_books()
        if self.plan.operation == "payout":
            return self._payout_books()
        ledger, operation = self.sandbox.ledger, self.plan.operation
        done = [ledger.effects(operation, order["transaction_id"]) for order in self.orders]
        refused = [ledger.refusals(operation, order["transaction_id"]) for order in self.orders]
        again = (n for n, times in enumerate(done) if times and refused[n])
        return Books(done=tuple(done), again=frozenset(again))

    def _refund_books(self) -> Books:
        references: dict[int, list[str]] = {number: [] for number in range(len(self.orders))}
        for transaction in self.sandbox.ledger:
            for refund in transaction.refunds:
                found = _TAG.search(refund.reason)
                references[int(found[1]) if found else -1].append(refund.refund_reference_id)
        done = tuple(len(made) for made in references.values())
        return Books(done=done, references={n: tuple(made) for n, made in references.items()})

    def _payout_books(self) -> Books:
        found = [self.sandbox.ledger.payouts_of(order["request_id"]) for order in self.orders]
        names = {n: [each.transaction_id for each in made] for n, made in enumerate(found)}
        return Books(done=tuple(map(len, found)), references=names)


def make_gateway(plan: Plan) -> Gateway:
    """Make a sandbox that holds what the orders of a run are about; it is not started."""
    sandbox = Sandbox(random_seed=plan.seed)
    drawn = sandbox.faults = DrawnFaults(plan.seed, plan.operation)
    if plan.operation == "payout":
        return Gateway(sandbox, drawn, plan, _payouts(plan))
    status = "captured" if plan.operation == "refund" else "authorised"
    seeded = sandbox.seed(plan.orders, status=status)
    for order in seeded[: plan.refused]:
        sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.DECLINED
    # Those of one transaction are equal but for their reason, and apart or side by side.
    for number in range(1, plan.shared + 1):
        seeded[-number] = seeded[plan.refused + number % 3]
    orders = [_fields(plan, number, order) for number, order in enumerate(seeded)]
    return Gateway(sandbox, drawn, plan, orders)


def _payouts(plan: Plan) -> list[dict[str, Any]]:
    """Return payouts; to an account that is closed, none is made."""
    return [
        {
            "request_id": str(uuid.UUID(int=number)),
            "payment_amount": "2.00",
            "payment_currency": "EUR",
            "account_number": CLOSED_ACCOUNT if number < plan.refused else "1",
        }
        for number in range(plan.orders)
    ]


def _fields(plan: Plan, number: int, order: Transaction) -> dict[str, Any]:
    fields = {
        "transaction_id": order.transaction_id,
        "order_no": order.order_no,
        "currency": order.currency,
        "amount": str(order.amount),
    }
    if plan.operation == "refund":
        fields |= {"refund_amount": "2.00", "refund_reason": f"o{number}"}
    return fields

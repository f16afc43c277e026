"""The gateway of one run: a sandbox whose requests meet faults, and what its books say."""

import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    Dialect,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.dialect import PaymentState
from gateway_async.sandbox import Faults, PaymentStatus, Sandbox, faults
from gateway_async.sandbox.records import CLOSED_ACCOUNT
from tests.kills.plans import Plan
from tests.orders import NEEDS, orders_for, payout_request
from tests.support.books import Books, effects

LATEST_SECONDS = 0.12
"""No effect lands later than this after its request was read."""

_NOTHING_DONE_CODE, _NOTHING_DONE_STATUS = "9", 429
"""By which this gateway vouches that nothing was done."""

_DIALECT = Dialect(
    declined_statuses={"0"},
    payout_declined_statuses={"FAILED"},
    payment_states={
        "3000": PaymentState.CAPTURED,
        "4100": PaymentState.AUTHORISED,
        "4200": PaymentState.CANCELLED,
    },
    nothing_done_return_statuses={_NOTHING_DONE_CODE},
    nothing_done_http_statuses=frozenset({_NOTHING_DONE_STATUS}),
)
_CLOSED = Beneficiary(bank_details=BankDetails(account_number=CLOSED_ACCOUNT))
"""To this account no payout is made."""

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
    lambda _: faults.ReturnStatus(_NOTHING_DONE_CODE, after_effect=False),
    lambda _: faults.Status(_NOTHING_DONE_STATUS),
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
        self.struck[type(fault).__name__] += 1
        return faults.Plan(faults=(fault,))


@attrs.frozen
class Gateway:
    """A sandbox, and the orders of the run that it serves."""

    sandbox: Sandbox
    faults: DrawnFaults
    plan: Plan
    orders: list[Any]

    @property
    def client(self) -> dict[str, Any]:
        """The settings of its clients."""
        plan = self.plan
        return {
            "timeouts": Timeouts(connect_seconds=20, reply_seconds=20, total_seconds=30),
            "retry": RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.02),
            "policy": BatchPolicy(
                concurrency=4,
                chunk_size=plan.chunk_size,
                stop_after_unknown=1000,
                duplicates="serialize" if plan.shared else "reject",
            ),
            "recovery": RecoveryPolicy(
                settle_seconds=2 * LATEST_SECONDS,
                resend_absent=plan.resent,
                refund_evidence="marker" if plan.marked else "references",
            ),
            "dialect": _DIALECT,
        }

    def books(self) -> Books:
        """Read the books: what was done of each order, and how often."""
        ledger, operation = self.sandbox.ledger, self.plan.operation
        references: dict[int, list[str]] = {number: [] for number in range(len(self.orders))}
        if operation == "refund":
            for transaction in ledger:
                for refund in transaction.refunds:
                    found = _TAG.search(refund.reason)
                    references[int(found[1]) if found else -1].append(refund.refund_reference_id)
        elif operation == "payout":
            for number, order in enumerate(self.orders):
                paid = ledger.payouts_of(order.request_id)
                references[number] += [each.transaction_id for each in paid]
        else:
            done = effects(self.sandbox, self.orders, operation)
            asked = [ledger.transaction(order.transaction_id) for order in self.orders]
            again = (n for n, times in enumerate(done) if times and asked[n].refusals[operation])
            return Books(done=done, again=frozenset(again))
        return Books(done=[*map(len, references.values())], references=references)


def make_gateway(plan: Plan) -> Gateway:
    """Make a sandbox that holds what the orders of a run are about; it is not started."""
    sandbox = Sandbox(random_seed=plan.seed)
    drawn = sandbox.faults = DrawnFaults(plan.seed, plan.operation)
    if plan.operation == "payout":
        orders: list[Any] = [payout_request(number) for number in range(plan.orders)]
        for number in range(plan.refused):
            orders[number] = attrs.evolve(orders[number], beneficiary=_CLOSED)
        return Gateway(sandbox, drawn, plan, orders)
    held = sandbox.seed(plan.orders, status=NEEDS.get(plan.operation, "captured"))
    for order in held[: plan.refused]:
        sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.DECLINED
    # Those of one transaction are equal but for their reason, and apart or side by side.
    for number in range(1, plan.shared + 1):
        held[-number] = held[plan.refused + number % 3]
    orders = orders_for(plan.operation, held)
    if plan.operation == "refund":
        orders = [
            attrs.evolve(order, refund_amount="2.00", refund_reason=f"o{number}")
            for number, order in enumerate(orders)
        ]
    return Gateway(sandbox, drawn, plan, orders)

"""The gateway of one run: a sandbox whose requests meet faults, and what its books say."""

import itertools
import re
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
from gateway_async.sandbox import PaymentStatus, Sandbox, faults
from gateway_async.sandbox.records import CLOSED_ACCOUNT
from tests.kills.plans import Plan
from tests.support.books import Books, effects
from tests.support.orders import LOOK_UPS, NEEDS, orders_for, payout_request

LATEST_SECONDS = 0.12
"""No effect lands later than this after its request was read, whatever strikes that together."""

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
_MONEY_LIKELY, _LOOK_LIKELY = 0.07, 0.02
"""How likely each fault strikes a request: four of five that move money meet one or more."""

_MONEY: tuple[faults.Fault, ...] = (
    *(faults.DropReply(), faults.DropReply(), faults.ResetBeforeEffect()),
    *(faults.ResetAfterEffect(), faults.LateEffect(0.02), faults.LateEffect(0.06)),
    *(faults.Latency(0.02), faults.Latency(0.04)),
    *(faults.Status(503), faults.Status(503, after_effect=True), faults.HtmlErrorPage()),
    *(faults.Status(_NOTHING_DONE_STATUS), faults.CutReply(0.1), faults.CutReply(0.8)),
    *(faults.InvalidBody(), faults.ReturnStatus(), faults.ReturnStatus(after_effect=False)),
    faults.ReturnStatus(_NOTHING_DONE_CODE, after_effect=False),
)
_MONEY_IN_LISTS: tuple[faults.Fault, ...] = (
    *(faults.MissingItems(1), faults.MissingItems(3), faults.UnknownItemStatus(count=2)),
    *(faults.ChangedAmount(), faults.ChangedIdentity(), faults.DoubledItems(status="7")),
)
_LOOKS: tuple[faults.Fault, ...] = (
    *(faults.DropReply(), faults.ResetAfterEffect(), faults.Status(503), faults.InvalidBody()),
    *(faults.CutReply(0.5), faults.Latency(0.1), faults.MissingItems(2)),
    *(faults.EmptyLookUp(), faults.DoubledItems(), faults.ReorderedItems()),
    *(faults.IgnoreSelection(), faults.GzipReply()),
)


@attrs.frozen
class Gateway:
    """A sandbox, and the orders of the run that it serves."""

    sandbox: Sandbox
    plan: Plan
    orders: list[Any]

    @property
    def client(self) -> dict[str, Any]:
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
    for fault in (*_MONEY, *(() if plan.operation == "payout" else _MONEY_IN_LISTS)):
        sandbox.faults.add(plan.operation, attrs.evolve(fault, probability=_MONEY_LIKELY))
    for operation, fault in itertools.product(LOOK_UPS, _LOOKS):
        sandbox.faults.add(operation, attrs.evolve(fault, probability=_LOOK_LIKELY))
    if plan.operation == "payout":
        # Runs share a PostgreSQL, and a port may come back: no two have the same payouts.
        first = 100 * plan.seed
        orders: list[Any] = [payout_request(first + number) for number in range(plan.orders)]
        for number in range(plan.refused):
            orders[number] = attrs.evolve(orders[number], beneficiary=_CLOSED)
        return Gateway(sandbox, plan, orders)
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
    return Gateway(sandbox, plan, orders)

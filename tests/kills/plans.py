"""What one run is, drawn from its seed: orders, settings, gateway, and where its processes die."""

import itertools
import random
import re
import signal
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
from tests.support.books import Books, effects
from tests.support.orders import LOOK_UPS, NEEDS, orders_for, payout_request

_COMMIT, _REQUEST = ("before commit", "after commit"), ("first byte", "sent", "reply")
_KILLED_AT = (
    ("submit it", _COMMIT, 1),
    ("take it", _COMMIT, 1),
    ("keep what is about to be sent", _COMMIT, 3),
    ("keep the outcomes", _COMMIT, 3),
    ("keep what was found out", _COMMIT, 2),
    ("keep the lease", _COMMIT, 1),
    ("money", _REQUEST, 0),
    ("look", _REQUEST, 0),
)
STEPS = {f"{step} {what}": most for what, steps, most in _KILLED_AT for step in steps}
"""Steps at which a process is killed on purpose; others are hit by their number.

What is done, as the journal says of a transaction, or which request is made; and how often it is
done at most, 0 for once a chunk. Where one is never reached, what the journal says of itself was
changed.
"""

_FROZEN_AT = ("check money", "reply money")
"""Steps at which a process is frozen: at neither is a request between its check and first byte."""

_OPERATIONS = ("refund", "refund", "refund", "refund", "capture", "cancel", "payout")
_STEPS_AT_LEAST, _STEPS_A_CHUNK = 20, 10
_FROZEN = 4
"""What is left of the seeds, divided by five, of runs whose process is frozen."""


@attrs.frozen(kw_only=True)
class Kill:
    """When a process dies: at the nth step, from 1, of a kind; of any where it is empty."""

    kind: str = ""
    nth: int
    by: signal.Signals = signal.SIGKILL  # or SIGSTOP, by which it is frozen


class Plan:
    """One run, drawn from its seed; what its sandbox does is drawn from that, too.

    Attributes:
        kills: Where each process dies, in turn; the one after the last lives. Of five runs, one is
            of refunds, sent again if need be, whose process is frozen and goes on too late; of
            the others, as many as there are steps aim at each of them.
        resumes: Whether each later process uses `resume`, not the same line.
        pulled: Whether orders come from an asynchronous generator rather than a list.
        marked: Whether refunds are told apart by markers rather than references.
        shared: How many orders are of a transaction that another order has too.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"kills {seed}")
        self.seed = seed
        is_frozen = seed % 5 == _FROZEN
        self.operation = "refund" if is_frozen else rng.choice(_OPERATIONS)
        is_payout, is_refund = self.operation == "payout", self.operation == "refund"
        self.orders = 30 if is_frozen else rng.randint(30, 120) // (4 if is_payout else 1)
        self.chunk_size = 1 if is_payout else 5 if is_frozen else rng.choice((5, 8, 10, 20))
        self.kills = self._draw_freeze(rng) if is_frozen else self._draw_kills(rng)
        self.resumes = tuple(rng.random() < 0.4 for _ in range(len(self.kills) + 8))
        self.streamed = rng.random() < 0.4
        self.pulled = rng.random() < 0.3
        self.marked = is_refund and rng.random() < 0.25
        self.resent = is_frozen or rng.random() < 0.4
        self.shared = rng.randint(2, 8) if is_refund and rng.random() < 0.25 else 0
        self.refused = rng.choice((0, 0, 3))
        self.again = rng.random() < 0.25
        self.lease_seconds = rng.choice((0.6, 0.7, 0.8))

    def __repr__(self) -> str:
        return f"Plan({vars(self)})"

    def _draw_freeze(self, rng: random.Random) -> tuple[Kill, ...]:
        step = _FROZEN_AT[self.seed // 10 % len(_FROZEN_AT)]  # each on either database
        return (Kill(kind=step, nth=rng.randint(1, 4), by=signal.SIGSTOP),)

    def _draw_kills(self, rng: random.Random) -> tuple[Kill, ...]:
        """Draw steps; rather early ones, since a process has few if others went before."""
        chunks, kinds = -(-self.orders // self.chunk_size), ("", *STEPS)
        aimed = kinds[(self.seed - self.seed // 5) % len(kinds)]
        kills = []
        for kind in (aimed, "", *rng.choices(kinds, k=2))[: rng.choice((1, 2, 4))]:
            most = (STEPS[kind] or chunks) if kind else _STEPS_AT_LEAST + _STEPS_A_CHUNK * chunks
            kills.append(Kill(kind=kind, nth=1 + int(most * rng.random() ** 2)))
        return tuple(kills)


# The gateway of one run: a sandbox whose requests meet faults, and what its books say

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


class Gateway:
    """A sandbox, not started, with the orders of a run, and what its clients are set to."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sandbox = Sandbox(random_seed=plan.seed)
        for fault in (*_MONEY, *(() if plan.operation == "payout" else _MONEY_IN_LISTS)):
            self._strike(plan.operation, fault, _MONEY_LIKELY)
        for operation, fault in itertools.product(LOOK_UPS, _LOOKS):
            self._strike(operation, fault, _LOOK_LIKELY)
        self.orders = self._payouts() if plan.operation == "payout" else self._orders()
        self.client: dict[str, Any] = {
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

    def _strike(self, operation: str, fault: faults.Fault, likely: float) -> None:
        self.sandbox.faults.add(operation, attrs.evolve(fault, probability=likely))

    def _payouts(self) -> list[Any]:
        # Runs share a PostgreSQL, and a port may come back: no two have the same payouts.
        first, refused = 100 * self.plan.seed, self.plan.refused
        orders = [payout_request(first + number) for number in range(self.plan.orders)]
        closed = [attrs.evolve(order, beneficiary=_CLOSED) for order in orders[:refused]]
        return closed + orders[refused:]

    def _orders(self) -> list[Any]:
        plan = self.plan
        held = self.sandbox.seed(plan.orders, status=NEEDS.get(plan.operation, "captured"))
        for order in held[: plan.refused]:
            self.sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.DECLINED
        # Those of one transaction are equal but for their reason, and apart or side by side.
        for number in range(1, plan.shared + 1):
            held[-number] = held[plan.refused + number % 3]
        orders = orders_for(plan.operation, held)
        if plan.operation == "refund":
            return [
                attrs.evolve(order, refund_amount="2.00", refund_reason=f"o{number}")
                for number, order in enumerate(orders)
            ]
        return orders

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

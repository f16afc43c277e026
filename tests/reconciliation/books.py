"""Books of a gateway in memory and of a sandbox, and ledgers that fit them or differ."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import attrs

from gateway_async import RetryPolicy
from gateway_async.reconciliation import Difference, LedgerEntry, Reconciliation, reconcile
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.ledger import Transaction
from tests.support.memory import Asked, client_over
from tests.support.orders import COLUMNS, reply_to


@attrs.define
class Books:
    """What the gateway lists, by transaction; a record is what it changes of one that fits."""

    # the records of a transaction; one that fits the entry of its number if nothing else is said
    transactions: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict)
    # the refunds of a transaction
    refunds: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict)
    requests: int = 0  # requests that came

    def __call__(self, asked: Asked) -> dict[str, Any]:
        self.requests += 1
        names = str(asked.fields.get("transaction_id") or asked.fields["order_no"]).split(",")
        listed = self._query if asked.operation.name == "query" else self._search
        items = [item for name in names for item in listed(f"T{name[1:]}")]
        return reply_to(asked.operation.name, items)

    def _query(self, name: str) -> Iterator[dict[str, Any]]:
        for changes in self.transactions.get(name, [{}]):
            record = {"order_no": f"N{name[1:]}", "amount": "10.00", "currency": "EUR"}
            shown = {"payment_status": "3000", "query_result": "1", **record, **changes}
            yield {"transaction_id": name, **shown}

    def _search(self, name: str) -> Iterator[dict[str, Any]]:
        for number, changes in enumerate(self.refunds.get(name, ())):
            usual = {"currency": "EUR", "refund_amount": "1.00", "refund_status": "1"}
            reference = {"refund_reference_id": f"{name}-{number:02d}", "order_no": f"N{name[1:]}"}
            yield {"transaction_id": name, **usual, **reference, **changes}


def entry(number: int, **changes: Any) -> LedgerEntry:
    """Return the entry that fits what the books list by themselves."""
    fields = {"order_no": f"N{number:06d}", "transaction_id": f"T{number:06d}", "currency": "EUR"}
    return LedgerEntry(**{**fields, "amount": Decimal("10.00"), **changes})


def entries(count: int) -> Iterator[LedgerEntry]:
    """Return entries that fit, made when they are taken."""
    return (entry(number) for number in range(count))


def begin(ledger: Any, answers: Any, **options: Any) -> Reconciliation:
    """Compare a ledger with what a gateway answers, whose look-ups are not repeated."""
    gateway = client_over(answers, retry=RetryPolicy(attempts=1))
    return reconcile(gateway, ledger, **options)


NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
STATES = {"3000": ("paid", "refunded"), "4100": "reserved"}


def pay(sandbox: Sandbox, order_no: str, *, refunds: Iterable[str] = ()) -> Transaction:
    """Enter a payment of 10 EUR, captured, and its refunds."""
    paid: dict[str, Any] = {"currency": "EUR", "order_no": order_no}
    transaction = sandbox.ledger.open(
        **paid, amount=Decimal("10.00"), now=NOW, status=PaymentStatus.CAPTURED
    )
    for refund in refunds:
        order = {**paid, "transaction_id": transaction.transaction_id, "amount": "10.00"}
        assert sandbox.ledger.carry_out("refund", {**order, "refund_amount": refund}, NOW).done
    return transaction


def entry_of(transaction: Transaction, **changes: Any) -> LedgerEntry:
    """Return the entry that fits a payment."""
    fitting = {name: getattr(transaction, name) for name in COLUMNS}
    fitting |= {"refunded": transaction.refunded_amount, "state": "paid"}
    return LedgerEntry(**{**fitting, **changes})


PLANTS: dict[str, tuple[Sequence[str], dict[str, Any]]] = {
    "absent_at_gateway": ((), {"transaction_id": "gone", "refunded": "3.00"}),
    "several_transactions": ((), {"transaction_id": None}),
    "order_no": ((), {"order_no": "another"}),
    "amount": ((), {"amount": "10.01"}),
    "currency": ((), {"currency": "USD"}),
    "refunded_total": (("1.00", "2.00"), {"refunded": "2.99"}),
    "refund_unknown_to_ledger": (("4.00",), {"refunded": 0}),
    "refund_absent_at_gateway": ((), {"refunded": "4.00"}),
    "state": ((), {"state": "reserved"}),
    "unreadable": ((), {}),
}
"""By kind, the refunds of a payment, and in what an entry of it has that difference alone."""


def plant(sandbox: Sandbox, kind: str, order_no: str) -> LedgerEntry:
    """Enter a payment, and return an entry with exactly one difference."""
    refunds, changes = PLANTS[kind]
    transaction = pay(sandbox, order_no, refunds=refunds)
    if kind == "several_transactions":
        pay(sandbox, order_no)
    if kind == "unreadable":
        transaction.status = PaymentStatus.DECLINED
    return entry_of(transaction, **changes)


def found(differences: Iterable[Difference]) -> list[tuple[int, str]]:
    return [(difference.index, difference.kind) for difference in differences]

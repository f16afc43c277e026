"""Payments in a sandbox's books, the ledger that fits them, and differences planted between."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gateway_async.reconciliation import Difference, LedgerEntry
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.ledger import Transaction
from tests.support.orders import COLUMNS

NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
STATES = {"3000": ("paid", "refunded"), "4100": "reserved"}


def pay(
    sandbox: Sandbox,
    order_no: str,
    *,
    refunds: Iterable[str] = (),
    currency: str = "EUR",
    amount: str = "10.00",
    status: PaymentStatus = PaymentStatus.CAPTURED,
) -> Transaction:
    """Enter a payment, captured if nothing else is said, and its refunds."""
    money: dict[str, Any] = {"currency": currency, "order_no": order_no}
    transaction = sandbox.ledger.open(amount=Decimal(amount), now=NOW, status=status, **money)
    for refund in refunds:
        order = {"transaction_id": transaction.transaction_id, "amount": amount, **money}
        assert sandbox.ledger.carry_out("refund", {**order, "refund_amount": refund}, NOW).done
    return transaction


def entry_of(transaction: Transaction, **changes: Any) -> LedgerEntry:
    """Return the entry that fits a payment."""
    fitting = {name: getattr(transaction, name) for name in COLUMNS}
    fitting |= {"refunded": transaction.refunded_amount, "state": "paid"}
    return LedgerEntry(**{**fitting, **changes})


def _several(sandbox: Sandbox, order_no: str) -> LedgerEntry:
    pay(sandbox, order_no)
    return entry_of(pay(sandbox, order_no), transaction_id=None)


PLANTS: dict[str, Callable[[Sandbox, str], LedgerEntry]] = {
    "absent_at_gateway": lambda sandbox, no: entry_of(
        pay(sandbox, no), transaction_id=f"gone-{no}", refunded="3.00"
    ),
    "several_transactions": _several,
    "order_no": lambda sandbox, no: entry_of(pay(sandbox, no), order_no=f"other-{no}"),
    "amount": lambda sandbox, no: entry_of(pay(sandbox, no), amount="10.01"),
    "currency": lambda sandbox, no: entry_of(pay(sandbox, no), currency="USD"),
    "refunded_total": lambda sandbox, no: entry_of(
        pay(sandbox, no, refunds=["1.00", "2.00"]), refunded="2.99"
    ),
    "refund_unknown_to_ledger": lambda sandbox, no: entry_of(
        pay(sandbox, no, refunds=["4.00"]), refunded=0
    ),
    "refund_absent_at_gateway": lambda sandbox, no: entry_of(pay(sandbox, no), refunded="4.00"),
    "state": lambda sandbox, no: entry_of(pay(sandbox, no), state="reserved"),
    "unreadable": lambda sandbox, no: entry_of(pay(sandbox, no, status=PaymentStatus.DECLINED)),
}
"""By kind, how to plant an entry with exactly one difference of it."""


def found(differences: Iterable[Difference]) -> list[tuple[int, str]]:
    return [(difference.index, difference.kind) for difference in differences]

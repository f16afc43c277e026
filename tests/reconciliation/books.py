"""A gateway in memory that answers look-ups from books that a test writes."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import attrs

from gateway_async import RetryPolicy
from gateway_async.reconciliation import LedgerEntry, Reconciliation, reconcile
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import reply_to


@attrs.define
class Books:
    """What the gateway lists, by transaction; what is not there fits the entry of its number."""

    # changes to the record of a transaction; None leaves it out
    transactions: dict[str, dict[str, Any] | None] = attrs.field(factory=dict)
    # the refunds of a transaction
    refunds: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict)
    requests: int = 0  # requests that came

    def __call__(self, asked: Asked) -> dict[str, Any]:
        self.requests += 1
        name = asked.operation.name
        listed = self._query if name == "query" else self._search
        return reply_to(name, [item for one in asked.transactions for item in listed(one)])

    def _query(self, name: str) -> Iterator[dict[str, Any]]:
        changes = self.transactions.get(name, {})
        if changes is not None:
            record = {"order_no": f"N{name[1:]}", "amount": "10.00", "currency": "EUR"}
            shown = {"payment_status": "3000", "query_result": "1", **record, **changes}
            yield {"transaction_id": name, **shown}

    def _search(self, name: str) -> Iterator[dict[str, Any]]:
        for number, changes in enumerate(self.refunds.get(name, ())):
            usual = {"currency": "EUR", "refund_amount": "1.00", "refund_status": "1"}
            reference = {"refund_reference_id": f"{name}-{number:02d}"}
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
    gateway = client_over(MemoryTransport(answers), retry=RetryPolicy(attempts=1))
    return reconcile(gateway, ledger, **options)

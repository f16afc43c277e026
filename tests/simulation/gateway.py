"""A gateway in memory: it does what a request says, keeps its books, and lists what it has.

It shares no code with the library or the sandbox, and never lies by itself: what a reply may do to
the truth is known to `network`.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import attrs

from gateway_async.operations import OPERATIONS
from tests.support.orders import LIST_FIELDS, LOOK_UPS, MONEY_OPERATIONS

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
_STATES = {"capture": "4100", "cancel": "5000"}
_NAMES = ("transaction_id", "order_no", "request_id")


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
                record["payment_status"] = _STATES.get(operation, record["payment_status"])

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

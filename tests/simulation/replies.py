"""What a reply says, and what may be wrong with it.

Wherever a reply misleads (`_MISLEADING`), whether the order was really done is drawn by lot: a
reader who believes such a reply is wrong half of the time. A plain item is always the truth, and a
decline always means that nothing was done.
"""

from collections import Counter
from random import Random

import attrs
import orjson

from tests.orders import LIST_FIELDS, LOOK_UPS
from tests.simulation.gateway import (
    ABSENT_RESULT,
    DECLINED,
    FAILED,
    NOTHING_DONE,
    PENDING,
    REPLY_LIMIT,
    Gateway,
    Item,
    key,
)
from tests.simulation.scenario import Scenario

_MISLEADING = (
    *("complaint", "confused", "contradicting", "doubled_differently", "missing"),
    *("pending", "silent", "two_names", "unclear"),
)
_SLOPPY = ("doubled", "floating", "nameless", "numeric", "sparse")
_ODD = tuple(kind for kind in (*_MISLEADING, *_SLOPPY) if kind != "confused")
_DROPPED = ("plain", "missing", "complaint", "silent", "unclear")
_ENVELOPES = ("failed", "nothing_done", "null", "single", "strangers", "unlisted")
_LISTS = ("failed", "ignored", "null", "reordered", "strange", "unlisted")
_STRANGER = {"transaction_id": "777", "order_no": "S7", "currency": "EUR", "amount": "1.00"}


@attrs.define
class Writer:
    """Does what requests ask for, as far as it is done, and writes the replies."""

    random: Random
    gateway: Gateway
    scenario: Scenario

    def write(self, operation: str, asked: list[Item]) -> bytes:
        """Do what a request asks for, and write the reply."""
        if operation in LOOK_UPS:
            return self._look_up(operation, asked)
        if operation == "payout":
            return self._payout(asked[0])
        return self._batch(operation, asked)

    def _is_odd(self) -> bool:
        return self.random.random() < self.scenario.sloppiness

    def _coin(self) -> bool:
        return self.random.random() < 0.5

    def _batch(self, operation: str, orders: list[Item]) -> bytes:
        envelope = self.random.choice(_ENVELOPES) if self._is_odd() else "plain"
        if envelope == "nothing_done":
            if self.scenario.lists_codes:
                return _envelope(operation, [], status=NOTHING_DONE)
            envelope = "failed"
        is_silent = envelope in ("null", "unlisted")
        items: list[Item] = []
        for position, kind in enumerate(self._draw_kinds(operation, orders)):
            order = orders[position]
            is_dropped = envelope == "failed" and kind in _DROPPED and self._coin()
            kept = "missing" if is_dropped else kind
            misleads = is_silent or kept in _MISLEADING
            if kind != "declined" and not (misleads and self._coin()):
                self.gateway.execute(operation, order)
            other = orders[(position + 1) % len(orders)]["order_no"]
            items += self._items(kept, operation, self.gateway.item(operation, order), other)
        if envelope == "strangers":
            items += [{**_STRANGER, f"{operation}_status": "1"}] * self.random.randint(1, 3)
        if self._is_odd():
            self.random.shuffle(items)
        if is_silent:
            return _envelope(operation, None, without=envelope == "unlisted")
        if envelope == "single" and len(items) == 1:
            return _envelope(operation, items[0])
        return _envelope(operation, items, status="0" if envelope == "failed" else "1")

    def _draw_kinds(self, operation: str, orders: list[Item]) -> list[str]:
        kinds = []
        for order in orders:
            kind = self.random.choice(_ODD) if self._is_odd() else "plain"
            if kind == "pending" and not self.scenario.lists_codes:
                kind = "unclear"
            kinds.append("declined" if key(operation, order) in self.scenario.declined else kind)
        names = Counter(order["order_no"] for order in orders)
        for position, kind in enumerate(kinds):
            if kind == "two_names":
                other = (position + 1) % len(orders)
                is_clear = names[orders[other]["order_no"]] == 1 and other != position
                if is_clear and kinds[other] == "plain":
                    kinds[other] = "confused"
                else:
                    kinds[position] = "contradicting"
        return kinds

    def _items(self, kind: str, operation: str, item: Item, other: str) -> list[Item]:
        """Make of the right item of an order what the reply says, for a kind of oddity."""
        choice, status = self.random.choice, f"{operation}_status"
        text = "refund_message" if operation == "refund" else "error_message"
        wrong = {"amount": "9.99", "currency": "XXX", "order_no": "ANOTHER"}
        if operation == "refund":
            wrong["refund_amount"] = "9.99"
        field = choice(list(wrong))
        says = choice(["", "P0001:Request accepted, in process", "pending approval"])
        changes: dict[str, Item] = {
            "complaint": {text: "E05:it did not work"},
            "contradicting": {field: wrong[field]},
            "declined": {
                status: DECLINED,
                text: choice(["E12:insufficient funds", "not possible"]),
            },
            "floating": {"transaction_id": float(item["transaction_id"])},
            "numeric": {
                "transaction_id": int(item["transaction_id"]),
                "amount": float(item["amount"]),
                status: 1,
            },
            "pending": {status: PENDING, text: "P1:under way"},
            "two_names": {"order_no": other},
            "unclear": {status: choice(["0", "7"]), text: says},
        }
        gone = {
            "nameless": {"transaction_id"},
            "silent": {status},
            "sparse": item.keys() - {"transaction_id", status},
        }
        said = {**item, **changes.get(kind, {})}
        said = {name: value for name, value in said.items() if name not in gone.get(kind, ())}
        twice = [item, {**item, **changes["declined"]}]
        several = {"missing": [], "doubled": [item, dict(item)], "doubled_differently": twice}
        return several.get(kind, [said])

    def _look_up(self, operation: str, refs: list[Item]) -> bytes:
        gateway, random = self.gateway, self.random
        listed = gateway.listed(operation, refs)
        if self.scenario.lists_codes and operation == "query":
            names = [ref for ref in refs if not gateway.records(operation, ref)]
            listed += [{**ref, "query_result": ABSENT_RESULT} for ref in names]
        kind = random.choice(_LISTS) if self._is_odd() else "plain"
        if kind == "failed":
            return _envelope(operation, [], status="0")
        if kind == "unlisted" or (kind == "null" and not listed):
            return _envelope(operation, None, without=kind == "unlisted")
        if kind == "strange" and operation == "query":
            listed = [{**item, "query_result": "5"} for item in listed]
        if kind == "ignored":
            some = random.sample(refs, random.randint(0, len(refs)))
            strangers = [{**_STRANGER, "query_result": "1"}] * random.randint(1, 30)
            listed = [*gateway.listed(operation, some), *strangers]
        listed = listed[:REPLY_LIMIT]
        if kind in ("ignored", "reordered"):
            random.shuffle(listed)
        return _envelope(operation, listed)

    def _payout(self, order: Item) -> bytes:
        said = {**order, "transaction_id": "5", "status": "COMPLETED"}
        kind = self.random.choice(("contradicting", "silent")) if self._is_odd() else "plain"
        if key("payout", order) in self.scenario.declined:
            return orjson.dumps({**said, "status": FAILED, "failure_reason": "closed account"})
        if kind == "plain" or self._coin():
            self.gateway.execute("payout", order)
        if kind == "contradicting":
            said["payment_amount"] = 9.99
        elif kind == "silent":
            said = {"return_status": "0", "return_message": "no"}
        return orjson.dumps(said)


def _envelope(operation: str, listed: object, *, status: str = "1", without: bool = False) -> bytes:
    fields = {
        "merchant_id": "M",
        "account_id": "A",
        "return_status": status,
        "return_message": "OK" if status == "1" else "not OK",
        "encryption_data": "signature",
    }
    return orjson.dumps(fields if without else {**fields, LIST_FIELDS[operation]: listed})

"""What a reply says, and what may be wrong with it.

Wherever a reply misleads, whether the order was really done is drawn by lot: a reader who believes
such a reply is wrong half of the time. A plain item is always the truth, and a decline always means
that nothing was done.
"""

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import attrs
import orjson

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
from tests.support.orders import LIST_FIELDS, LOOK_UPS, reply_to

_MISLEADING = (
    *("complaint", "contradicting", "doubled", "missing", "pending", "silent"),
    *("two_names", "unclear"),
)
_ENVELOPES = ("failed", "nothing_done", "null", "strangers", "unlisted")
_LISTS = ("failed", "ignored", "null", "reordered", "strange", "unlisted")
_STRANGER = {"transaction_id": "777", "order_no": "S7", "currency": "EUR", "amount": "1.00"}


@attrs.define
class Writer:
    """Does what requests ask for, as far as it is done, and writes the replies."""

    _random: Random
    _gateway: Gateway
    _scenario: Scenario

    def write(self, operation: str, asked: list[Item]) -> bytes:
        """Do what a request asks for, as far as it is done, and write the reply."""
        if operation in LOOK_UPS:
            return self._look_up(operation, asked, self._odd(_LISTS))
        if operation == "payout":
            return self._payout(asked[0], self._odd(("contradicting", "silent")))
        return self._batch(operation, asked, self._odd(_ENVELOPES))

    def _odd(self, kinds: Sequence[str]) -> str:
        is_odd = self._random.random() < self._scenario.sloppiness
        return self._random.choice(kinds) if is_odd else "plain"

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _batch(self, operation: str, orders: list[Item], envelope: str) -> bytes:
        if envelope == "nothing_done":
            if self._scenario.knows_codes:
                return _envelope(operation, [], status=NOTHING_DONE)
            envelope = "failed"
        is_silent = envelope in ("null", "unlisted")
        items: list[Item] = []
        for position, kind in enumerate(self._draw_kinds(orders)):
            order = orders[position]
            is_left_out = envelope == "failed" and kind == "plain" and self._coin()
            said = "missing" if is_left_out else kind
            misleads = is_silent or said in (*_MISLEADING, "confused")
            if said != "declined" and not (misleads and self._coin()):
                self._gateway.execute(operation, order)
            other = orders[(position + 1) % len(orders)]["order_no"]
            items += self._items(said, operation, self._gateway.item(operation, order), other)
        if envelope == "strangers":
            items += [{**_STRANGER, f"{operation}_status": "1"}] * self._random.randint(1, 3)
        if self._random.random() < self._scenario.sloppiness:
            self._random.shuffle(items)
        if is_silent:
            return _envelope(operation, None, without=envelope == "unlisted")
        return _envelope(operation, items, status="0" if envelope == "failed" else "1")

    def _draw_kinds(self, orders: list[Item]) -> list[str]:
        kinds = []
        for order in orders:
            kind = self._odd(_MISLEADING)
            if kind == "pending" and not self._scenario.knows_codes:
                kind = "unclear"
            kinds.append("declined" if key(order) in self._scenario.declined else kind)
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
        status = f"{operation}_status"
        text = "refund_message" if operation == "refund" else "error_message"
        wrong = {"amount": "9.99", "currency": "XXX", "order_no": "ANOTHER"}
        if operation == "refund":
            wrong["refund_amount"] = "9.99"
        field = self._random.choice(list(wrong))
        said = self._random.choice(["", "P0001:Request accepted, in process", "pending approval"])
        reason = self._random.choice(["E12:insufficient funds", "not possible"])
        declined = {**item, status: DECLINED, text: reason}
        made: dict[str, list[Item]] = {
            "complaint": [{**item, text: "E05:it did not work"}],
            "contradicting": [{**item, field: wrong[field]}],
            "declined": [declined],
            "doubled": [item, declined],
            "missing": [],
            "pending": [{**item, status: PENDING, text: "P1:under way"}],
            "silent": [{name: value for name, value in item.items() if name != status}],
            "two_names": [{**item, "order_no": other}],
            "unclear": [{**item, status: self._random.choice(["0", "7"]), text: said}],
        }
        return made.get(kind, [item])

    def _look_up(self, operation: str, refs: list[Item], kind: str) -> bytes:
        listed = self._gateway.listed(operation, refs)
        if self._scenario.knows_codes and operation == "query":
            names = [ref for ref in refs if not self._gateway.records(operation, ref)]
            listed += [{**ref, "query_result": ABSENT_RESULT} for ref in names]
        if kind == "failed":
            return _envelope(operation, [], status="0")
        if kind == "unlisted" or (kind == "null" and not listed):
            return _envelope(operation, None, without=kind == "unlisted")
        if kind == "strange" and operation == "query":
            listed = [{**item, "query_result": "5"} for item in listed]
        if kind == "ignored":
            some = self._random.sample(refs, self._random.randint(0, len(refs)))
            strangers = [{**_STRANGER, "query_result": "1"}] * self._random.randint(1, 30)
            listed = [*self._gateway.listed(operation, some), *strangers]
        listed = listed[:REPLY_LIMIT]
        if kind in ("ignored", "reordered"):
            self._random.shuffle(listed)
        return _envelope(operation, listed)

    def _payout(self, order: Item, kind: str) -> bytes:
        said = {**order, "transaction_id": "5", "status": "COMPLETED"}
        if key(order) in self._scenario.declined:
            return orjson.dumps({**said, "status": FAILED, "failure_reason": "closed account"})
        if kind == "plain" or self._coin():
            self._gateway.execute("payout", order)
        if kind == "contradicting":
            said["payment_amount"] = 9.99
        elif kind == "silent":
            said = {"return_status": "0", "return_message": "no"}
        return orjson.dumps(said)


def _envelope(operation: str, listed: Any, *, status: str = "1", without: bool = False) -> bytes:
    said = "OK" if status == "1" else "not OK"
    fields = reply_to(operation, listed, return_status=status, return_message=said)
    if without:
        del fields[LIST_FIELDS[operation]]
    return orjson.dumps({**fields, "encryption_data": "signature"})

"""What a reply says, and what may be wrong with it.

Wherever a reply misleads (`_MISLEADING`), whether the order was really done is drawn by lot: a
reader who believes such a reply is wrong half of the time. A plain item is always the truth, and a
decline always means that nothing was done.
"""

from collections import Counter
from typing import TYPE_CHECKING

import attrs
import orjson

from tests.orders import LIST_FIELDS, LOOK_UPS
from tests.simulation.gateway import REPLY_LIMIT, key

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.simulation.gateway import Gateway, Item

DECLINED, PENDING, NOTHING_DONE, ABSENT_RESULT = "2", "3", "99", "0"
NOTHING_DONE_HTTP = 403
FAILED = "FAILED"

_MISLEADING = (
    "complaint",
    "confused",
    "contradicting",
    "doubled_differently",
    "missing",
    "pending",
    "silent",
    "two_names",
    "unclear",
)
_DROPPED = ("plain", "missing", "complaint", "silent", "unclear")
_SLOPPY = ("doubled", "floating", "nameless", "numeric", "sparse")
_ODD = tuple(kind for kind in (*_MISLEADING, *_SLOPPY) if kind != "confused")
_STRANGER = {"transaction_id": "777", "order_no": "S7", "currency": "EUR", "amount": "1.00"}


@attrs.frozen(kw_only=True)
class Manners:
    """How the gateway behaves in one run.

    Attributes:
        sloppiness: How probable it is that something is odd about an item or a reply.
        declined: Keys of the orders that it declines.
        is_listing_codes: Whether the dialect knows its codes for "declined", "pending" and
            "nothing done".
    """

    sloppiness: float
    declined: tuple[str, ...]
    is_listing_codes: bool


def write_batch(
    random: "Random", gateway: "Gateway", manners: Manners, operation: str, orders: "list[Item]"
) -> bytes:
    """Do the orders of a batch, as far as they are done, and write the reply."""
    odd = random.random() < manners.sloppiness
    envelope = random.choice(_ENVELOPES) if odd else "plain"
    if envelope == "nothing_done":
        if manners.is_listing_codes:
            return _envelope(operation, [], status=NOTHING_DONE)
        envelope = "failed"
    kinds = _draw_kinds(random, manners, operation, orders)
    is_silent = envelope in ("null", "unlisted")
    misleading = _ITEMS if is_silent else _MISLEADING
    items: list[Item] = []

    def coin() -> bool:
        return random.random() < 0.5

    for order, kind in zip(orders, kinds, strict=True):
        kept = "missing" if kind in _DROPPED and envelope == "failed" and coin() else kind
        if kind != "declined" and (kept not in misleading or coin()):
            gateway.execute(operation, order)
        items += _ITEMS[kept](random, operation, gateway.item(operation, order), orders)
    if envelope == "strangers":
        items += [{**_STRANGER, f"{operation}_status": "1"}] * random.randint(1, 3)
    if random.random() < manners.sloppiness:
        random.shuffle(items)
    if is_silent:
        return _envelope(operation, None, without=envelope == "unlisted")
    if envelope == "single" and len(items) == 1:
        return _envelope(operation, items[0])
    return _envelope(operation, items, status="0" if envelope == "failed" else "1")


_ENVELOPES = ("failed", "nothing_done", "null", "single", "strangers", "unlisted")


def _draw_kinds(
    random: "Random", manners: Manners, operation: str, orders: "list[Item]"
) -> list[str]:
    kinds = []
    for order in orders:
        kind = "plain"
        if random.random() < manners.sloppiness:
            kind = random.choice(_ODD)
        if kind == "pending" and not manners.is_listing_codes:
            kind = "unclear"
        kinds.append("declined" if key(operation, order) in manners.declined else kind)
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


def _status(operation: str) -> str:
    return f"{operation}_status"


def _message(operation: str) -> str:
    return "refund_message" if operation == "refund" else "error_message"


def _declined(random: "Random", operation: str, item: "Item") -> "Item":
    text = random.choice(["E12:insufficient funds", "not possible"])
    return {**item, _status(operation): DECLINED, _message(operation): text}


def _contradicting(random: "Random", operation: str, item: "Item") -> "Item":
    other = {"amount": "9.99", "currency": "XXX", "order_no": "ANOTHER"}
    if operation == "refund":
        other["refund_amount"] = "9.99"
    field = random.choice(list(other))
    return {**item, field: other[field]}


def _numeric(_: "Random", operation: str, item: "Item") -> "Item":
    numbers = {"transaction_id": int(item["transaction_id"]), "amount": float(item["amount"])}
    return {**item, **numbers, _status(operation): 1}


def _two_names(item: "Item", orders: "list[Item]") -> "Item":
    position = next(n for n, order in enumerate(orders) if order["amount"] == item["amount"])
    return {**item, "order_no": orders[(position + 1) % len(orders)]["order_no"]}


def _unclear(random: "Random", operation: str, item: "Item") -> "Item":
    text = random.choice(["", "P0001:Request accepted, in process", "pending approval"])
    status = random.choice(["0", "7"])
    return {**item, _status(operation): status, _message(operation): text}


def _without(item: "Item", name: str) -> "Item":
    return {field: value for field, value in item.items() if field != name}


_ITEMS: "dict[str, Callable[[Random, str, Item, list[Item]], list[Item]]]" = {
    "complaint": lambda _, op, item, __: [{**item, _message(op): "E05:it did not work"}],
    "confused": lambda _, __, item, ___: [item],
    "contradicting": lambda random, op, item, _: [_contradicting(random, op, item)],
    "declined": lambda random, op, item, _: [_declined(random, op, item)],
    "doubled": lambda _, __, item, ___: [item, dict(item)],
    "doubled_differently": lambda random, op, item, _: [item, _declined(random, op, item)],
    "floating": lambda _, __, item, ___: [
        {**item, "transaction_id": float(item["transaction_id"])}
    ],
    "missing": lambda *_: [],
    "nameless": lambda _, __, item, ___: [_without(item, "transaction_id")],
    "numeric": lambda random, op, item, _: [_numeric(random, op, item)],
    "pending": lambda _, op, item, __: [
        {**item, _status(op): PENDING, _message(op): "P1:under way"}
    ],
    "plain": lambda _, __, item, ___: [item],
    "silent": lambda _, op, item, __: [_without(item, _status(op))],
    "sparse": lambda _, op, item, __: [
        {name: item[name] for name in ("transaction_id", _status(op))}
    ],
    "two_names": lambda _, __, item, orders: [_two_names(item, orders)],
    "unclear": lambda random, op, item, _: [_unclear(random, op, item)],
}
"""What a gateway makes of the right item of an order, for each kind of oddity."""


def write_look_up(
    random: "Random", gateway: "Gateway", manners: Manners, operation: str, refs: "list[Item]"
) -> bytes:
    """List the records of a look-up."""
    listed = gateway.listed(operation, refs)
    if manners.is_listing_codes and operation == "query":
        names = [ref for ref in refs if not gateway.records(operation, ref)]
        listed += [{**ref, "query_result": ABSENT_RESULT} for ref in names]
        listed = listed[:REPLY_LIMIT]
    if random.random() >= manners.sloppiness:
        return _envelope(operation, listed)
    kind = random.choice(("failed", "ignored", "null", "reordered", "strange", "unlisted"))
    if kind == "failed":
        return _envelope(operation, [], status="0")
    if kind == "null":
        return _envelope(operation, None) if not listed else _envelope(operation, listed)
    if kind == "unlisted":
        return _envelope(operation, None, without=True)
    if kind == "strange" and operation == "query":
        return _envelope(operation, [{**item, "query_result": "5"} for item in listed])
    if kind == "ignored":
        some = random.sample(refs, random.randint(0, len(refs)))
        listed = gateway.listed(operation, some)
        listed += [{**_STRANGER, "query_result": "1"}] * random.randint(1, 30)
        listed = listed[:REPLY_LIMIT]
    random.shuffle(listed)
    return _envelope(operation, listed)


def _envelope(operation: str, listed: object, *, status: str = "1", without: bool = False) -> bytes:
    fields = {
        "merchant_id": "M",
        "account_id": "A",
        "return_status": status,
        "return_message": "OK" if status == "1" else "not OK",
        "encryption_data": "signature",
        LIST_FIELDS[operation]: listed,
    }
    if without:
        del fields[LIST_FIELDS[operation]]
    return orjson.dumps(fields)


def write_payment(
    random: "Random", gateway: "Gateway", manners: Manners, operation: str, order: "Item"
) -> bytes:
    """Make a payment by card, as far as it is made, and write the reply."""
    fields = {name: order[name] for name in ("order_no", "currency", "amount")}
    fields |= {"transaction_id": "5", "order_status": "1", "result_info": "V0000:Success"}
    prolog = ""
    if key(operation, order) in manners.declined:
        fields |= {"order_status": "0", "result_info": "E12:insufficient funds"}
    elif random.random() >= manners.sloppiness:
        gateway.execute(operation, order)
    else:
        if random.random() < 0.5:
            gateway.execute(operation, order)
        kind = random.choice(("contradicting", "entity", "root", "silent"))
        if kind == "contradicting":
            fields["amount"] = "9.99"
        elif kind == "silent":
            fields = {"return_status": "0", "return_message": "no"}
        prolog = {"entity": "<!DOCTYPE respon [<!ENTITY a 'b'>]>", "root": "<other/>"}.get(kind, "")
    inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
    return f"{prolog}<respon>{inner}</respon>".encode()


def write_payout(
    random: "Random", gateway: "Gateway", manners: Manners, operation: str, order: "Item"
) -> bytes:
    """Make a payout, as far as it is made, and write the reply."""
    fields = {**order, "transaction_id": "5", "status": "COMPLETED"}
    if key(operation, order) in manners.declined:
        fields |= {"status": FAILED, "failure_reason": "closed account"}
    elif random.random() >= manners.sloppiness:
        gateway.execute(operation, order)
    else:
        if random.random() < 0.5:
            gateway.execute(operation, order)
        if random.random() < 0.5:
            fields["payment_amount"] = 9.99
        else:
            fields = {"return_status": "0", "return_message": "no"}
    return orjson.dumps(fields)


def write_reply(
    random: "Random", gateway: "Gateway", manners: Manners, operation: str, asked: "list[Item]"
) -> bytes:
    """Do what a request asks for, and write the reply."""
    if operation in LOOK_UPS:
        return write_look_up(random, gateway, manners, operation, asked)
    if operation == "pay_direct":
        return write_payment(random, gateway, manners, operation, asked[0])
    if operation == "payout":
        return write_payout(random, gateway, manners, operation, asked[0])
    return write_batch(random, gateway, manners, operation, asked)

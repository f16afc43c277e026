"""Mutated replies: what a glance proves, `judge` must find as well.

Run ``python -m tests.fuzz.glance --mutations 100000 --seed 7``. Each round draws a gateway and an
operation, lets a `Glance` learn from one right reply, and mutates later ones.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import attrs
import orjson

from gateway_async import Dialect, OutcomeStatus, ReplyUnreadableError
from gateway_async.batching.glance import Glance
from gateway_async.batching.judge import judge
from gateway_async.batching.results import overall_of
from gateway_async.operations import OPERATIONS, Operation
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.decode import decode_surely, without_signatures
from gateway_async.wire.encode import EncodedChunk, encode_chunk
from tests.orders import MONEY_OPERATIONS, ORDER_CLASSES

DIALECT = Dialect()
COMPACT, PYTHON = (",", ":"), (", ", ": ")
_CHUNKS_A_ROUND, _MUTATIONS_A_CHUNK = 5, 10
_JUDGED_ANYWAY = 10
_PLAIN_REASONS = ("", "customer request", "size: M, red", "a,b;c:d", "Größe", ",", ":", "注文")
_ODD_REASONS = (
    'so "called"',
    "back\\slash",
    "}",
    "{}",
    "}]",
    '"}, {"',
    '","refund_status":"1"}',
    "\u2028\x7f",
    "tab\t",
    "\\u0022",
)
_SELDOM = (
    *(("number", 7), ("nested", {"refund_status": "1"}), ("café", None), ("text", "é")),
    *(("note", "{all} [done]"), ("blank", "")),
)
_SNIPPETS = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b"}]", b",", b":", b" ", b"\x00", b"\xff", b"\n", b"{}"),
    *(b'","', b'":"', b"},{", b"}, {", b'\\"', b"\\u0031", b"null", b"1", b'"1"', b"\xc3\xa9"),
    *(b',"refund_status":"0"', b',"error_message":"2001:no"', b'"encryption_data":"left"'),
)
_STRANGE: tuple[Any, ...] = (
    *("0", "", " ", "1 ", "2001:no", "eur"),
    *(1, True, 1.0, None, [], {}, ["1"]),
)


class WronglyProvedError(Exception):
    """A glance proved a reply in which not every order succeeded, or kept its signature."""


@attrs.frozen
class Gateway:
    """How one gateway writes its replies.

    Attributes:
        operation: What its replies are to.
        separators: What stands between two fields, and between a name and its value.
        ascii_only: Whether it escapes all but ASCII.
        signed: Where the signature stands: `"before"` the list, `"after"` it, or `""` for nowhere.
        added: What it adds to the items, in its order; None for an identifier of its own.
        around: Further fields of the reply; None is where the list stands.
    """

    operation: Operation
    separators: tuple[str, str]
    ascii_only: bool
    signed: str
    added: dict[str, Any]
    around: dict[str, Any]

    def reply(self, random: Random, listed: bytes) -> bytes:
        """Return the reply that says that all of it was done."""
        items = [{**item, **self._added(random)} for item in orjson.loads(listed)]
        fields: dict[str, Any] = {}
        for name, value in self.around.items():
            fields[name] = items if value is None else value
            if name == SIGNATURE_FIELD:
                fields[name] = f"{random.getrandbits(128):032x}"
        return self.write(fields)

    def write(self, payload: Any) -> bytes:
        """Write anything as it does."""
        written = json.dumps(payload, separators=self.separators, ensure_ascii=self.ascii_only)
        return written.encode()

    def _added(self, random: Random) -> dict[str, Any]:
        return {
            name: f"R{random.randrange(10**9)}" if value is None else value
            for name, value in self.added.items()
        }


def draw_gateway(random: Random) -> Gateway:
    """Draw a gateway; most of them write what can be proved."""
    operation = OPERATIONS[random.choice(MONEY_OPERATIONS)]
    added: list[tuple[str, Any]] = [(str(operation.status_field), "1")]
    if operation.name == "refund":
        added += [("refund_message", "V0000:success"), ("refund_reference_id", None)]
    else:
        added += [("error_message", "")]
    added += [("trace", None)] * random.randrange(2)
    if random.random() < 0.2:  # with most of these, nothing is ever proved
        added += [random.choice(_SELDOM)]
    random.shuffle(added)
    signed = random.choice(("before", "after", ""))
    around: list[tuple[str, Any]] = [
        ("merchant_id", "M1"),
        ("return_status", "1"),
        ("return_message", random.choice(("OK", "fertig: größer", 'all "done" [1]'))),
    ]
    around += [("batch", {"size": 1, "tags": ["a", "b"]})] * (random.random() < 0.2)
    random.shuffle(around)
    place = random.randrange(len(around) + 1)
    around[place:place] = [(SIGNATURE_FIELD, "")] * (signed == "before")
    place += signed == "before"
    around[place:place] = [(str(operation.list_field), None)]
    around[place + 1 : place + 1] = [(SIGNATURE_FIELD, "")] * (signed == "after")
    return Gateway(
        operation=operation,
        separators=random.choice((COMPACT, PYTHON)),
        ascii_only=random.random() < 0.1,
        signed=signed,
        added=dict(added),
        around=dict(around),
    )


def draw_orders(random: Random, operation: Operation, *, is_odd: bool) -> list[Any]:
    """Draw the orders of a chunk; the names of two of them differ in little."""
    order_class, start = ORDER_CLASSES[operation.name], random.randrange(1000)
    count = random.choice((1, 2, 3, random.randint(1, 60)))
    made = []
    for number in range(start, start + count):
        values: dict[str, Any] = {
            "transaction_id": f"T{number:04}",
            "order_no": f"N{number % random.choice((7, 5000)):04}",
            "currency": random.choice(("EUR", "USD")),
            "amount": Decimal(random.randrange(100, 99999)).scaleb(-2),
        }
        if operation.name == "refund":
            values["refund_amount"] = values["amount"].min(Decimal("1.00"))
            reasons = _ODD_REASONS if is_odd and random.random() < 0.2 else _PLAIN_REASONS
            values["refund_reason"] = random.choice(reasons)
        if operation.name == "review":
            values["review_flag"] = random.choice(("1", "2"))
        made.append(order_class(**values))
    return made


@attrs.frozen
class Chunk:
    """A chunk that was sent, and the right reply to it."""

    gateway: Gateway
    orders: list[Any]
    encoded: EncodedChunk
    reply: bytes

    @property
    def listed(self) -> bytes:
        """The orders as they were sent."""
        return self.encoded.fields[str(self.gateway.operation.list_field)].encode()

    @property
    def items(self) -> list[bytes]:
        """The items of the right reply, as text."""
        found = decode_surely(self.reply)[str(self.gateway.operation.list_field)]
        return [self.gateway.write(item) for item in found]

    def tail(self, item: bytes, place: int) -> bytes:
        """Return what the reply adds to an item, with the brace that ends it."""
        sent = orjson.loads(self.listed)[place]
        return item[len(self.gateway.write(sent)) - 1 :]

    def says_done(self, reply: bytes) -> bool:
        """Say whether the judge finds that all orders succeeded, in our order."""
        try:
            payload = decode_surely(reply)
        except ReplyUnreadableError:
            return False
        judgement = judge(self.gateway.operation, self.orders, payload, DIALECT)
        statuses = {status for status, _ in judgement.verdicts}
        return (
            judgement.all_echoed
            and statuses == {OutcomeStatus.SUCCEEDED}
            and not judgement.unexpected
        )


def draw_chunk(random: Random, gateway: Gateway, *, is_odd: bool) -> Chunk:
    """Draw a chunk and the right reply to it."""
    orders = draw_orders(random, gateway.operation, is_odd=is_odd)
    marked = gateway.operation.name == "refund" and random.random() < 0.2
    markers = [f"[ga-0123456789ab-{n:010}]" for n in range(len(orders))] if marked else ()
    encoded = encode_chunk(gateway.operation, orders, DIALECT, markers)
    listed = encoded.fields[str(gateway.operation.list_field)].encode()
    return Chunk(gateway, orders, encoded, gateway.reply(random, listed))


# Mutations of the text


def _place(random: Random, reply: bytes) -> int:
    """Return a place in a reply, often one where something begins or ends."""
    if random.random() < 0.5:
        return random.randrange(len(reply) + 1)
    mark = random.choice((b"{", b"}", b'"', b",", b"]", b'_status"', b'"encryption'))
    return max(0, reply.find(mark, random.randrange(len(reply) + 1))) + random.randint(0, 1)


def _found(random: Random, reply: bytes, pattern: bytes) -> int:
    """Return a place where a pattern stands; 0 where there is none behind the one drawn."""
    found = re.compile(pattern).search(reply, random.randrange(len(reply) + 1))
    return found.start() if found else 0


def _slice(random: Random, reply: bytes) -> tuple[int, int]:
    start = _place(random, reply)
    if random.random() < 0.3:
        return min(start, end := _place(random, reply)), max(start, end)
    return start, min(len(reply), start + random.randint(1, 12))


def _text(random: Random, reply: bytes) -> bytes:
    if random.random() < 0.3:
        return random.choice(_SNIPPETS)
    if random.random() < 0.3:
        return random.randbytes(random.randint(1, 4))
    start, end = _slice(random, reply)
    return reply[start:end]


def _insert(random: Random, reply: bytes, _: Chunk) -> bytes:
    place = _place(random, reply)
    return reply[:place] + _text(random, reply) + reply[place:]


def _delete(random: Random, reply: bytes, _: Chunk) -> bytes:
    start, end = _slice(random, reply)
    return reply[:start] + reply[end:]


def _replace(random: Random, reply: bytes, _: Chunk) -> bytes:
    start, end = _slice(random, reply)
    return reply[:start] + _text(random, reply) + reply[end:]


def _double(random: Random, reply: bytes, _: Chunk) -> bytes:
    start, end = _slice(random, reply)
    return reply[:end] + reply[start:]


def _change_digit(random: Random, reply: bytes, _: Chunk) -> bytes:
    place = _found(random, reply, rb"[0-9]")
    return reply[:place] + random.choice((b"0", b"1", b"2", b"9", b"\\u0031")) + reply[place + 1 :]


def _change_letter(random: Random, reply: bytes, _: Chunk) -> bytes:
    """Change one character of a text, often of an identifier of the gateway's or the signature."""
    place = _found(random, reply, random.choice((rb"[0-9A-Za-z]", rb'"R[0-9]+"', rb"[0-9a-f]{32}")))
    place += 2
    return (
        reply[:place] + random.choice((b"A", b"}", b",", b"[", b"~", b"\x7f")) + reply[place + 1 :]
    )


# Mutations of items and tails


def _rewritten(random: Random, reply: bytes, chunk: Chunk) -> bytes:
    """Swap, repeat, drop or exchange items and tails."""
    items = chunk.items
    one, other = random.randrange(len(items)), random.randrange(len(items))
    tail, before = chunk.tail(items[one], one), items[one]
    head = before[: len(before) - len(tail)]
    stranger = draw_chunk(random, chunk.gateway, is_odd=False).items[0]
    match random.randrange(9):
        case 0:
            items[one], items[other] = items[other], items[one]
        case 1:
            items[one] = items[other]
        case 2:
            items[one] = stranger
        case 3:
            items.insert(other, random.choice((before, stranger)))
        case 4:
            items[one] = head + tail[:-1] + tail
        case 5:
            items[one] = head + b"}"
        case 6:  # a tail moves to another item
            items[one] = head + b"}"
            items[other] = items[other][:-1] + tail
        case 7:
            items[one] = head + chunk.tail(items[other], other)
        case _:
            items.pop(one)
    written = b"[" + chunk.gateway.separators[0].encode().join(items) + b"]"
    opening = _opening(chunk)
    start, end = reply.find(opening) + len(opening) - 1, reply.rfind(b"}]") + 2
    return reply[:start] + written + reply[end:]


def _opening(chunk: Chunk) -> bytes:
    name = str(chunk.gateway.operation.list_field)
    return f'"{name}"{chunk.gateway.separators[1]}['.encode()


def _nested_list(random: Random, reply: bytes, chunk: Chunk) -> bytes:
    """Put a list of the same name somewhere: beside the right one, around it, or in an item."""
    opening, comma = _opening(chunk), chunk.gateway.separators[0].encode()
    inner = random.choice((b"", *chunk.items[:1]))
    again = opening + inner + b"]"
    match random.randrange(4):
        case 0:
            return reply.replace(b"{", b"{" + again + comma, 1)
        case 1:
            return reply[:-1] + comma + again + b"}"
        case 2:
            return b'{"x":' + reply + comma + again + b"}"
        case _:
            place = reply.rfind(b"}]")
            return reply[:place] + comma + again + reply[place:]


def _named_twice(random: Random, reply: bytes, chunk: Chunk) -> bytes:
    """Name a field of an item twice."""
    item = random.choice(orjson.loads(chunk.listed))
    name = random.choice([*item, *chunk.gateway.added])
    value = random.choice((item.get(name, "1"), "0", "T0001"))
    pair = chunk.gateway.write({name: value})[1:-1]
    comma = chunk.gateway.separators[0].encode()
    place = _found(random, reply, rb'"}') + 1
    return reply[:place] + comma + pair + reply[place:]


def _swap_fields(random: Random, reply: bytes, chunk: Chunk) -> bytes:
    """Swap two neighbouring fields, wherever they stand."""
    comma = chunk.gateway.separators[0].encode()
    parts = reply.split(comma)
    if len(parts) > 1:
        place = random.randrange(len(parts) - 1)
        parts[place : place + 2] = parts[place : place + 2][::-1]
    return comma.join(parts)


def _values(random: Random, reply: bytes, chunk: Chunk) -> bytes:
    """Change values, and write the reply as the gateway does."""
    try:
        payload = decode_surely(reply)
    except ReplyUnreadableError:
        return reply
    listed = payload.get(str(chunk.gateway.operation.list_field))
    items = [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
    item = random.choice([*items, payload])
    name = random.choice([*item, "transaction_id", "amount"])
    match random.randrange(6):
        case 0:
            item.pop(name, None)
        case 1:
            item[name] = random.choice(_STRANGE)
        case 2 if isinstance(item.get(name), str):
            item[name] = random.choice((str.lower, str.swapcase, " {} ".format))(item[name])
        case 3:
            item[random.choice(("error_message", "extra", SIGNATURE_FIELD))] = random.choice(
                _STRANGE
            )
        case 4 if items:
            item[name] = random.choice(items).get(name)
        case _ if isinstance(listed, list):
            random.shuffle(listed)
    return chunk.gateway.write(payload)


MUTATIONS: tuple[Callable[[Random, bytes, Chunk], bytes], ...] = (
    *(_insert, _delete, _replace, _double, _change_digit, _change_letter),
    *(_rewritten, _rewritten, _nested_list, _named_twice, _swap_fields, _values, _values),
)


def mutated(random: Random, chunk: Chunk) -> bytes:
    """Return a reply to a chunk that is nearly right."""
    reply = chunk.reply
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        reply = random.choice(MUTATIONS)(random, reply, chunk)
    return reply


# The law


def learnt(glance: Glance, chunk: Chunk) -> None:
    """Let a glance learn from a right reply, as a batch does."""
    reply, payload = without_signatures(chunk.reply, decode_surely(chunk.reply))
    glance.learn(reply, payload, chunk.encoded.listed, overall_of(payload))


def check(chunk: Chunk, reply: bytes, kept: bytes) -> None:
    """Check what a glance has proved.

    Raises:
        WronglyProvedError: If it is not so.
    """
    if not chunk.says_done(reply):
        raise WronglyProvedError(f"not every order succeeded: {chunk.listed!r} {reply!r}")
    payload = decode_surely(reply)
    sent = orjson.loads(chunk.listed)
    items = payload[str(chunk.gateway.operation.list_field)]
    if [{name: item[name] for name in sent[0]} for item in items] != sent:
        raise WronglyProvedError(f"an item repeats something else: {chunk.listed!r} {reply!r}")
    signature = payload.get(SIGNATURE_FIELD)
    expected = payload if signature is None else {**payload, SIGNATURE_FIELD: ""}
    if decode_surely(kept) != expected or kept != without_signatures(reply, payload)[0]:
        raise WronglyProvedError(f"another reply is kept: {reply!r} {kept!r}")
    if signature and reply.count(signature.encode()) == 1 and signature.encode() in kept:
        raise WronglyProvedError(f"the signature is kept: {reply!r}")


def run(mutations: int, seed: int) -> Counter[str]:
    """Mutate so many replies.

    Returns:
        How many right and mutated replies there were and how many of them were proved; and of
        those that were not, every tenth judged, how many were right nevertheless.

    Raises:
        WronglyProvedError: For the first reply that was wrongly proved.
    """
    random, counts = Random(seed), Counter[str]()
    while counts["mutated"] < mutations:
        gateway = draw_gateway(random)
        operation = gateway.operation
        glance = Glance(operation)
        learnt(glance, draw_chunk(random, gateway, is_odd=False))
        for _ in range(_CHUNKS_A_ROUND):
            chunk = draw_chunk(random, gateway, is_odd=random.random() < 0.3)
            if not chunk.says_done(chunk.reply):
                raise AssertionError(f"this reply is not right: {chunk.reply!r}")
            kept = glance.prove(chunk.reply, chunk.encoded.listed, len(chunk.orders))
            counts["right"] += 1
            if kept is not None:
                counts["right, proved"] += 1
                check(chunk, chunk.reply, kept)
            for _ in range(_MUTATIONS_A_CHUNK if counts["mutated"] < mutations else 0):
                reply = mutated(random, chunk)
                kept = glance.prove(reply, chunk.encoded.listed, len(chunk.orders))
                counts["mutated"] += 1
                if kept is not None:
                    counts["mutated, proved"] += reply != chunk.reply
                    check(chunk, reply, kept)
                elif counts["mutated"] % _JUDGED_ANYWAY == 0:
                    counts["judged"] += 1
                    counts["judged, wrong"] += not chunk.says_done(reply)
    return counts


def main() -> int:
    """Run the command; exit code 1 where a reply was wrongly proved."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.glance", description=__doc__)
    parser.add_argument("--mutations", type=int, default=100_000, help="how many replies")
    parser.add_argument("--seed", type=int, default=0, help="where the draw begins")
    options = parser.parse_args()
    try:
        counts = run(options.mutations, options.seed)
    except WronglyProvedError as error:
        sys.stdout.write(f"wrongly proved: {error}\n")
        return 1
    for name, count in counts.items():
        sys.stdout.write(f"{count:>9,} {name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

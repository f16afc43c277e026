"""Replies that no gateway should send, made from those that one would.

A client reads the usual reply at a glance, once it has seen one of that layout. What it learnt
changes no outcome: each reply is given behind a right one, and to a client that has seen none.
"""

import asyncio
import gc
import itertools
import json
import logging
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import attrs
import pytest
from hypothesis import settings

from gateway_async import (
    BatchPolicy,
    BatchResult,
    CheckoutPage,
    Dialect,
    GatewayError,
    Outcome,
    RecoveryPolicy,
    Reply,
)
from tests.support.books import DECLINED, SUCCEEDED, UNKNOWN, statuses
from tests.support.examples import SINGLES
from tests.support.memory import (
    QUICK,
    Asked,
    HttpResponse,
    MemoryTransport,
    client_over,
    listing,
    rewritten,
)
from tests.support.orders import (
    LIST_FIELDS,
    LOOK_UPS,
    MONEY_OPERATIONS,
    made_up,
    orders_for,
    refunds,
)

NEAR = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b"}]", b",", b":", b" ", b"\x00", b"\xff", b"\n", b"{}"),
    *(b'\\"', b"\\u0031", b"null", b"1", b'"1"', b'"0"', b"true", b"1.0", b'"2001:no"', b"\x7f"),
    *(b'"refund_status":"0"', b'"error_message":"2001:no"', b'"encryption_data":"left"', b'" 1 "'),
]
"""What a reply may have here or there and be nearly right."""
FAR = [
    *(b"\xff\xfe", b"NaN", b"1e999", b"9" * 400, b'"\\ud800"', b'"\xed\xa0\x80"', b'{"a": 1}'),
    *(b'"transaction_id": {},', b'{"a":' * 40, b"[" * 100_000, b"<a>" * 5_000, b"</respon>"),
    *(b"<![CDATA[", b"<!--", b"<?php", b"&", b"&#0;", b"&nonsense;", b"<amount>1</amount>" * 3),
    *(b'<!DOCTYPE r [<!ENTITY e "x">]>', b'<?xml version="1.0" encoding="nonsense"?>'),
    *(b"<order_no><order_no>x</order_no></order_no>", b'<x:order_no xmlns:x="y">1</x:order_no>'),
    *(b"<title>" * 3, b"<form method=post action='a&#x110000;b'>", b"<form method=post action"),
    *(b'<meta charset="utf-16">', b'""'),
]
"""What no reply should have anywhere."""
SPANS = [
    re.compile(rb'"[^"]*": ?"[^"]*"'),
    re.compile(rb'(?<=: )"[^"]*"|(?<=:)"[^"]*"'),
    re.compile(rb"\{[^{}]*\}"),
    re.compile(rb',? ?"(?:\w+_(?:status|message)|reference)".*?(?=\})'),
    re.compile(rb'"\w+_orders": ?\[.*\]'),
    re.compile(rb"[^,]+"),
    re.compile(rb"<(\w+)>[^<]*</\1>|(?<=>)[^<]*(?=<)"),
    re.compile(rb"."),
]
"""What is moved about: fields, values, items, what is added to them, lists, elements, anything."""
ENCODINGS = ["utf-16", "utf-16-le", "utf-32", "latin-1", "cp037", "utf-7", "utf-8-sig"]
CONTENT_TYPES = ["text/html; charset=utf-16", 'text/html; charset="gbk', "text/xml;;;charset", ""]
RETRY_AFTERS = ["0", "-1", "9" * 5000, "soon", "Wed, 31 Feb 99999 25:61:61 -9999", "\u0663", ""]


def mutated(random: Random, reply: bytes, snippets: list[bytes]) -> bytes:
    """Return a reply in which something is moved, doubled, dropped or put in."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(random.choice(SPANS).finditer(reply)) or list(re.finditer(b"(?s).|$", reply))
        one, other = sorted(random.choices(found, k=2), key=lambda match: match.start())
        start, end = one.span()
        snippet = random.choice(snippets)
        match random.randrange(8):
            case 0 if end <= other.start():
                between, after = reply[end : other.start()], reply[other.end() :]
                reply = reply[:start] + other[0] + between + one[0] + after
            case 1:
                reply = reply[:start] + other[0] + reply[end:]
            case 2:
                comma = random.choice((b",", b", ", b""))
                reply = reply[:start] + other[0] + comma + reply[start:]
            case 3:
                reply = reply[:start] + reply[end:].removeprefix(b",").removeprefix(b" ")
            case 4:
                reply = reply[:start] + snippet + reply[end:]
            case 5:
                reply = reply[:start] + snippet + b"," + reply[start:]
            case 6:
                reply += snippet
            case _:
                place = random.randint(start, max(start, end - 1))
                reply = reply[:place] + snippet + reply[place + 1 :]
    return reply


def wild(random: Random, right: HttpResponse) -> HttpResponse:
    """Return a reply in the place of a right one; the body is right at times, or the status."""
    body = mutated(random, right.body, NEAR + FAR)
    match random.randrange(12):
        case 0:
            body = body[: random.randint(0, len(body))]
        case 1:
            encoding = random.choice(ENCODINGS)
            body = body.decode(errors="replace").encode(encoding, errors="replace")
        case 2:
            body = random.choice([random.choice(FAR), random.randbytes(random.randint(0, 200))])
        case 3 | 4:
            body = right.body
    content_type = random.choice([right.headers["Content-Type"], *CONTENT_TYPES])
    headers = {"Content-Type": content_type, "Retry-After": random.choice(RETRY_AFTERS)}
    status = random.choice((200, 200, random.randint(0, 999)))
    return attrs.evolve(right, status=status, headers=headers, body=body)


IS_LONG = settings.get_current_profile_name() == "long"
MUTATIONS = 25_000 if IS_LONG else 1250
"""How many mutated replies there are of each seed."""
IN_A_BATCH = 16
"""How many requests a batch has; every fourth one has the usual reply, the others a mutated one."""
SIGNATURE, WITHIN = "51gna7ure", "the list once more"
DIALECTS = [
    *[Dialect()] * 3,
    Dialect(pending_statuses={"0"}, nothing_done_return_statuses={"0"}),
    Dialect(declined_statuses={"0"}),
    Dialect(echo_fields={"capture": (), "refund": ("amount",)}, done_statuses={"1", "0"}),
]
REASONS = [
    *("", "customer request", "size: M, red", "Größe 注文", ",", ":"),
    *('so "called"', "back\\slash", "}", "{}", "}]", '"}, {"', '","refund_status":"1"}', "tab\t"),
]
SELDOM: list[tuple[str, Any]] = [
    *(("number", 7), ("nested", {"refund_status": "1"}), ("list", ["refund_status"]), ("é", "é")),
    *(("note", "{all} [done]"), ("blank", ""), ("encryption_data", "")),
]


@attrs.frozen
class Writer:
    """How one gateway writes its replies."""

    # what it adds to each item, beside the status; None for an identifier of its own
    added: dict[str, Any]
    # what stands around the list, in order; the list is where the value is None, and in an object
    # of its own where it is `WITHIN`
    around: dict[str, Any]
    again: Sequence[str] = ()  # fields of the order that it names again at the end of each item
    # what stands between fields, and between a name and its value
    spacing: tuple[str, str] = (",", ":")
    ascii_only: bool = False  # whether it escapes all but ASCII

    @classmethod
    def draw(cls, random: Random, operation: str) -> "Writer":
        is_refund = operation == "refund"
        text = ("refund_message", "V0000:success") if is_refund else ("error_message", "")
        added: list[tuple[str, Any]] = [(f"{operation}_status", "1"), text, ("reference", None)]
        added += [random.choice(SELDOM)] * (random.random() < 0.2)
        around: list[tuple[str, Any]] = [("return_status", "1"), ("return_message", "OK: [1]")]
        around += [("more", {"tags": ["a"]})] * (random.random() < 0.1)
        around += [("within", WITHIN)] * (random.random() < 0.2)
        around += [("signed", {"encryption_data": SIGNATURE})] * (random.random() < 0.2)
        around += [(LIST_FIELDS[operation], None)]
        around += [("encryption_data", SIGNATURE)] * (random.random() < 0.7)
        random.shuffle(added)
        random.shuffle(around)
        again = ["amount"] * (random.random() < 0.1)
        spacing = random.choice([(",", ":"), (",", ":"), (", ", ": ")])
        return cls(dict(added), dict(around), again, spacing, random.random() < 0.1)

    def write(self, asked: Asked) -> bytes:
        list_field = str(asked.operation.list_field)
        items = [
            {
                **one,
                **{name: f"R{n}" if v is None else v for name, v in self.added.items()},
                **{f"@{name}": one[name] for name in self.again},
            }
            for n, one in enumerate(asked.fields[list_field])
        ]
        lists = {None: items, WITHIN: {list_field: items}}
        fields = {
            name: lists[value] if value in (None, WITHIN) else value
            for name, value in self.around.items()
        }
        text = json.dumps(fields, separators=self.spacing, ensure_ascii=self.ascii_only)
        return text.replace('"@', '"').encode()


def draw_orders(random: Random, operation: str, count: int) -> list[Any]:
    """Draw orders; the names of two of them differ in little."""
    return [
        attrs.evolve(
            order,
            order_no=f"N{random.randrange(7)}{number % random.choice((7, 5000))}",
            currency=random.choice(("EUR", "USD")),
            amount=Decimal(random.randrange(100, 99999)).scaleb(-2),
            **({"refund_reason": random.choice(REASONS)} if operation == "refund" else {}),
        )
        for number, order in enumerate(orders_for(operation, made_up(count)))
    ]


def seen(outcomes: Iterable[Outcome[Any, Any]], first: int = 0) -> list[Any]:
    return [
        (outcome.index - first, outcome.status, str(outcome.error), outcome.items, outcome.record)
        for outcome in outcomes
    ]


def check(result: BatchResult[Any, Any], reply: bytes, operation: str) -> None:
    for outcome in result:
        is_done = outcome.status is SUCCEEDED
        assert is_done == (outcome.error is None)
        assert is_done or outcome.status in (UNKNOWN, DECLINED)
        ids = [item.get(n) for item in outcome.items for n in ("transaction_id", "order_no")]
        named = {outcome.order.transaction_id, outcome.order.order_no}
        assert not is_done or named.intersection(str(one).strip() for one in ids)
    placed = sum(len(outcome.items) for outcome in result) + result.unexpected.count
    names = re.findall(rb'"(\w+_orders)":', reply)
    if placed and len(names) == 1:
        listed = json.loads(reply)[LIST_FIELDS[operation]]
        assert placed == (len(listed) if isinstance(listed, list) else 1), reply


def keeps_signature(result: object) -> bool:
    """Say whether any text that can be reached from a result holds the signature."""
    seen, left = set[int](), [result]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | FunctionType | ModuleType):
            continue
        seen.add(id(one))
        if isinstance(one, bytes | str) and SIGNATURE in str(one):
            return True
        left += gc.get_referents(one)
    return False


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
async def test_learning_changes_no_outcome(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "gateway_async")
    random, counts = Random(seed), Counter[str]()
    while counts["mutated"] < MUTATIONS:
        await compare(random, counts)
    assert 0.1 * MUTATIONS < counts["right"] < 0.5 * MUTATIONS  # both are met often


async def compare(random: Random, counts: Counter[str]) -> None:
    """Mutate most replies of a batch, and give each of these to a client of its own too."""
    operation = random.choice(MONEY_OPERATIONS)
    writer, dialect = Writer.draw(random, operation), random.choice(DIALECTS)
    size = random.choice((1, 2, 2, 3, 3, 4, 5, random.randint(1, 30)))
    orders = draw_orders(random, operation, IN_A_BATCH * size)
    policy = BatchPolicy(concurrency=1, chunk_size=size, stop_after_unknown=1000)
    replies: list[bytes] = []

    def answer(asked: Asked) -> bytes:
        usual = writer.write(asked)
        replies.append(mutated(random, usual, NEAR) if len(replies) % 4 else usual)
        return replies[-1]

    client = client_over(answer, dialect=dialect, policy=policy)
    learnt = await client.batch(operation, orders)
    left = iter([reply for number, reply in enumerate(replies) if number % 4])
    all_fresh: list[BatchResult[Any, Any]] = []
    for number, reply in enumerate(replies):
        of_request = slice(number * size, (number + 1) * size)
        if number % 4 == 0:
            assert all(outcome.error is None for outcome in learnt[of_request])
            continue
        client = client_over(lambda _: next(left), dialect=dialect)
        fresh = await client.batch(operation, orders[of_request])
        assert seen(learnt[of_request], of_request.start) == seen(fresh), reply
        check(fresh, reply, operation)
        all_fresh.append(fresh)
        counts["mutated"] += 1
        counts["right"] += fresh.ok
    assert list(learnt.unexpected) == [one for fresh in all_fresh for one in fresh.unexpected]
    counts["batches"] += 1
    if counts["batches"] % 5 == 0:  # it takes longer than the batches
        assert keeps_signature(learnt) is keeps_signature(all_fresh), replies


def tail_in_a_reason(reply: bytes, top: bytes) -> bytes:
    """Move what says that an order is done to the brace of its reason."""
    if reply == top:
        return reply
    item, brace, rest = reply.partition(b'}","')
    tail, _, rest = (b',"' + rest).partition(b"}")
    return item + tail + brace[:1] + b'"}' + rest


def list_within(reply: bytes, top: bytes) -> bytes:
    """Put the list into an object of its own, and these items where the judge looks."""
    spelt = top[:-1].replace(b'"refund_orders":', b'"refund_orders" : ')
    return spelt + b',"within":' + reply + b"}"


def amount_again(reply: bytes, top: bytes) -> bytes:
    return reply.replace(
        b'"R0"', b'"R0","amount":"10.00"' if reply == top else b'"R0","amount":"9"'
    )


def earlier_reference(reply: bytes, top: bytes) -> bytes:
    return reply if reply == top else reply.replace(b'"R0"', b'"R9"')


def no_success(reply: bytes, top: bytes) -> bytes:
    return reply if reply == top else reply.replace(b"V0000:success", b"2001:no funds")


BASELINE = RecoveryPolicy(record_baseline=True, hold_alike_hours=None)
ATTACKS: dict[Callable[[bytes, bytes], bytes], dict[str, Any]] = {
    tail_in_a_reason: {},
    list_within: {},
    amount_again: {},
    earlier_reference: {"recovery": BASELINE},
    no_success: {},
}


@pytest.mark.parametrize("change", ATTACKS)
async def test_a_reply_that_looks_usual_is_judged(change: Callable[[bytes, bytes], bytes]) -> None:
    """The first reply is right, and so is what is learnt from it; the second is not."""
    first, second = orders_for("refund", made_up(2))
    reason = "x}" if change is tail_in_a_reason else ""
    replies: list[bytes] = []

    def answer(asked: Asked) -> Any:
        usual = writer.write(asked)
        replies.append(usual)
        return change(usual, replies[0])

    added = {"refund_status": "1", "refund_message": "V0000:success", "refund_reference_id": None}
    writer = Writer(added, {"return_status": "1", "refund_orders": None})
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    known = [{"transaction_id": second.transaction_id, "refund_reference_id": "R9"}]
    gateway = client_over(listing(known, answer), policy=policy, **ATTACKS[change])
    result = await gateway.refund([first, attrs.evolve(second, refund_reason=reason)])
    assert statuses(result) == [SUCCEEDED, UNKNOWN]


async def test_the_signature_of_an_item_is_not_kept() -> None:
    writer = Writer({"refund_status": "1", "encryption_data": SIGNATURE}, {"refund_orders": None})
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    result = await client_over(writer.write, policy=policy).refund(refunds(3))
    assert result.ok
    assert not keeps_signature(result)


async def test_a_gateway_whose_layout_is_never_the_same_is_still_read() -> None:
    number = itertools.count()
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    client = client_over(lambda asked: asked.done(**{f"field {next(number)}": 1}), policy=policy)
    assert (await client.refund(refunds(200))).ok


# Whatever a gateway answers comes to outcomes, or to an error of ours


@pytest.mark.parametrize("name", [*MONEY_OPERATIONS, *LOOK_UPS, *SINGLES])
async def test_a_call_gives_an_outcome_an_order_a_result_or_an_error_of_ours(name: str) -> None:
    random, is_batch = Random(name), name not in SINGLES
    orders = orders_for(name, made_up(5)) if is_batch else []
    for _ in range(4000 if IS_LONG else 25):
        transport = MemoryTransport(rewritten(lambda _, right: wild(random, right)))
        client = client_over(transport, retry=QUICK)
        call = client.batch(name, orders) if is_batch else SINGLES[name](client)
        made: Any = (await asyncio.gather(call, return_exceptions=True))[0]
        outcomes = list(made) if isinstance(made, BatchResult) else []
        assert [outcome.order for outcome in outcomes] == orders or not is_batch
        for one in outcomes:
            assert (one.error is None) == (one.status in ("succeeded", "absent"))
        errors = [made] if isinstance(made, BaseException) else [one.error for one in outcomes]
        for error in errors:
            assert error is None or isinstance(error, GatewayError)
            assert len(str(error)) < 10_000
            assert made is not error or error.__context__ is None
        assert repr((made, outcomes))
        if not isinstance(made, CheckoutPage | Reply):  # these may repeat the signature, and refuse
            assert type(pickle.loads(pickle.dumps(made))) is type(made)  # noqa: S301  # our own
        assert name in LOOK_UPS or not is_batch or set(transport.effects.values()) <= {1}

"""What is proved at a glance, and what is left to the judge."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from gateway_async import BatchPolicy, Dialect, OutcomeStatus, RecoveryPolicy
from gateway_async.batching import judge as judging
from gateway_async.batching.glance import MOST_LAYOUTS, Glance
from gateway_async.batching.results import overall_of
from gateway_async.operations import OPERATIONS
from gateway_async.transport import HttpResponse
from gateway_async.wire.decode import decode_surely, without_signatures
from gateway_async.wire.encode import encode_chunk
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import MONEY_OPERATIONS, item_of, made_up, orders_for, refunds, reply_to

COMPACT, PYTHON = (",", ":"), (", ", ": ")
SPACINGS = pytest.mark.parametrize("spacing", [COMPACT, PYTHON], ids=["compact", "as Python"])
SIGNED = {"encryption_data": "51gnature"}


def _written(payload: Any, spacing: tuple[str, str] = COMPACT) -> bytes:
    return json.dumps(payload, separators=spacing, ensure_ascii=False).encode()


def _items(operation: str, orders: Sequence[Any], **added: Any) -> list[dict[str, Any]]:
    """Return the orders as they were sent, each with what says that it was done."""
    encoded = encode_chunk(OPERATIONS[operation], orders, Dialect())
    sent = json.loads(encoded.fields[str(OPERATIONS[operation].list_field)])
    return [
        row
        | {name: value for name, value in item_of(operation, order).items() if name not in row}
        | added
        for row, order in zip(sent, orders, strict=True)
    ]


def _listed(operation: str, orders: Sequence[Any]) -> bytes:
    return encode_chunk(OPERATIONS[operation], orders, Dialect()).listed


class _Reader:
    """A glance at the replies to one operation."""

    def __init__(self, operation: str = "refund") -> None:
        self.operation = operation
        row = OPERATIONS[operation]
        self.glance = Glance(row)

    def learn(self, reply: bytes, orders: Sequence[Any]) -> None:
        kept, payload = without_signatures(reply, decode_surely(reply))
        listed = _listed(self.operation, orders)
        self.glance.learn(kept, payload, listed, overall_of(payload))

    def prove(self, reply: bytes, orders: Sequence[Any]) -> bytes | None:
        return self.glance.prove(reply, _listed(self.operation, orders), len(orders))


def _taught(spacing: tuple[str, str] = COMPACT, **envelope: Any) -> _Reader:
    """Return a reader that has learnt from a refund of one order."""
    reader, first = _Reader(), refunds(1)
    reader.learn(_written(_refunded(first, **envelope), spacing), first)
    return reader


def _refunded(orders: Sequence[Any], **envelope: Any) -> dict[str, Any]:
    items = _items("refund", orders)
    for number, item in enumerate(items):
        item["refund_reference_id"] = f"R{number}"
    return reply_to("refund", items, **envelope)


# What is proved


@SPACINGS
@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
def test_the_usual_reply_is_proved_once_the_layout_is_known(
    operation: str, spacing: tuple[str, str]
) -> None:
    reader, orders = _Reader(operation), orders_for(operation, made_up(60))
    first, later = orders[:10], orders[10:]
    reply = _written(reply_to(operation, _items(operation, later)), spacing)
    assert reader.prove(reply, later) is None
    reader.learn(_written(reply_to(operation, _items(operation, first)), spacing), first)
    assert reader.prove(reply, later) == reply


@SPACINGS
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("signature", ["51gnature", "", "}],[{ab+/=", "x" * 5000])
def test_the_signature_is_emptied(spacing: tuple[str, str], place: str, signature: str) -> None:
    orders = refunds(3)

    def reply(count: int, text: str) -> bytes:
        right = _refunded(orders[:count])
        signed = {"encryption_data": text}
        return _written({**signed, **right} if place == "before" else {**right, **signed}, spacing)

    reader = _Reader()
    reader.learn(reply(1, "51gnature"), orders[:1])
    kept = reader.prove(reply(3, signature), orders)
    assert (kept == reply(3, "")) or (kept is None and "}]" in signature and place == "after")


def test_what_the_gateway_adds_of_its_own_may_differ() -> None:
    orders, right = refunds(3), _refunded(refunds(3))
    for item, own in zip(right["refund_orders"], ["", "R }],{ 9", "x" * 500], strict=True):
        item["refund_reference_id"] = own
    assert _taught().prove(_written(right), orders)


@pytest.mark.parametrize("reason", ['so "called"', "back\\slash", "tab\t", "Größe 注文", ",", ":"])
def test_odd_reasons_are_proved_where_they_come_back_as_they_were_sent(reason: str) -> None:
    orders = orders_for("refund", made_up(3), refund_reason=reason)
    assert _taught().prove(_written(_refunded(orders)), orders)


# What is left to the judge


def _changed(field: str, value: Any) -> Any:
    def change(reply: dict[str, Any]) -> None:
        reply["refund_orders"][1][field] = value

    return change


def _reordered(reply: dict[str, Any]) -> None:
    reply["refund_orders"].reverse()


def _repeated(reply: dict[str, Any]) -> None:
    reply["refund_orders"].append(reply["refund_orders"][0])


def _replaced(reply: dict[str, Any]) -> None:
    reply["refund_orders"][1] = reply["refund_orders"][0]


def _dropped(reply: dict[str, Any]) -> None:
    reply["refund_orders"].pop()


def _without_status(reply: dict[str, Any]) -> None:
    del reply["refund_orders"][1]["refund_status"]


def _turned(reply: dict[str, Any]) -> None:
    reply["refund_orders"][1] = dict(reversed(reply["refund_orders"][1].items()))


CHANGES = {
    "another status": _changed("refund_status", "0"),
    "a status that is a number": _changed("refund_status", 1),
    "a complaint": _changed("refund_message", "2001:no"),
    "another message of success": _changed("refund_message", "0000:ok"),
    "another transaction": _changed("transaction_id", "T000007"),
    "another order number": _changed("order_no", "N000007"),
    "another currency": _changed("currency", "USD"),
    "another amount": _changed("amount", "10.01"),
    "the same amount, written otherwise": _changed("amount", "10.0"),
    "another refund amount": _changed("refund_amount", "2.00"),
    "one field more": _changed("error_message", "2001:no"),
    "a reference with a quote": _changed("refund_reference_id", 'R"1'),
    "a reference with a backslash": _changed("refund_reference_id", "R\\1"),
    "a reference that is none": _changed("refund_reference_id", None),
    "another order of the items": _reordered,
    "one item more": _repeated,
    "the item of another order": _replaced,
    "one item less": _dropped,
    "no status": _without_status,
    "another order of the fields": _turned,
    "another return_status": lambda reply: reply.update(return_status="0"),
    "one field more beside the list": lambda reply: reply.update(more="1"),
    "a signature where there was none": lambda reply: reply.update(SIGNED),
}


@SPACINGS
@pytest.mark.parametrize("change", CHANGES)
def test_any_other_reply_is_left_to_the_judge(change: str, spacing: tuple[str, str]) -> None:
    reader, orders, reply = _taught(spacing), refunds(3), _refunded(refunds(3))
    assert reader.prove(_written(reply, spacing), orders)
    CHANGES[change](reply)
    assert reader.prove(_written(reply, spacing), orders) is None


TAIL = b',"refund_status":"1","refund_message":"V0000:success","refund_reference_id":"R1"}'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (TAIL, b"}"),
        (TAIL, TAIL[:-1] + TAIL),
        (TAIL, TAIL + TAIL),
        (TAIL, TAIL[:-1] + b',"refund_status":"0"}'),
        (TAIL, TAIL[:-1] + b',"amount":"10.00"}'),
        (TAIL, b',"amount":"10.00"' + TAIL),
        (b"},{", b"}, {"),
        (b"},{", b"},{},{"),
        (b'"refund_status":"1"', b'"refund_status":"\\u0031"'),
        (b"T000001", b"T00000\\u0031"),
        (b'"refund_orders":[', b'"refund_orders":[],"refund_orders":['),
        (b'"refund_orders":[', b'"x":"y","refund_orders":['),
        (b'{"merchant_id"', b'{"refund_orders":[],"merchant_id"'),
        (b"}]}", b'}],"refund_orders":[]}'),
        (b"}]}", b"}]}}"),
        (b"}]}", b"}]} "),
        (b"}]}", b"}]"),
        (b"R1", b"R\x7f"),
        (b"R1", b"R\xc3\xa9"),
        (b"R1", b"R\n"),
    ],
)  # fmt: skip
def test_any_other_text_is_left_to_the_judge(old: bytes, new: bytes) -> None:
    orders, right = refunds(3), _written(_refunded(refunds(3)))
    assert right.count(old)
    assert _taught().prove(right, orders)
    assert _taught().prove(right.replace(old, new, 1), orders) is None


def test_a_tail_that_moves_to_another_order_proves_nothing() -> None:
    orders, right = refunds(3), _written(_refunded(refunds(3)))
    moved = right.replace(TAIL, b"}").replace(b'"R2"}', b'"R2"' + TAIL)
    assert moved.count(b'"refund_status":"1"') == 3
    assert _taught().prove(moved, orders) is None


@pytest.mark.parametrize("reason", ["}", "{}", '"},{"', "}]"])
def test_where_a_reason_has_a_brace_nothing_is_proved(reason: str) -> None:
    orders = orders_for("refund", made_up(2), refund_reason=reason)
    reader, reply = _taught(), _written(_refunded(orders))
    assert reader.prove(reply, orders) is None
    reader.learn(reply, orders)
    assert reader.prove(_written(_refunded(refunds(2))), refunds(2))


def test_a_reason_in_which_an_order_stands_is_no_order() -> None:
    first, second = refunds(2)
    inner = _written(_refunded([second]))[:-2].decode().partition("[{")[2][:-2]
    orders = orders_for("refund", made_up(1), refund_reason=inner)
    reply = _written(_refunded([first, second]))
    assert _taught().prove(reply, orders) is None


@pytest.mark.parametrize("reason", ['so "called"', "back\\slash", "tab\t"])
def test_where_a_reason_is_escaped_nothing_is_proved_of_another_spacing(reason: str) -> None:
    orders = orders_for("refund", made_up(2), refund_reason=reason)
    assert _taught(PYTHON).prove(_written(_refunded(orders), PYTHON), orders) is None


# What is learnt


LAYOUTS = {
    "a status that is a number": _changed("refund_status", 1),
    "a field that is a number": _changed("more", 7),
    "a field that is a list": _changed("more", ["refund_status"]),
    "a field that is an object": _changed("more", {"refund_status": "0"}),
    "a signature in the items": _changed("encryption_data", ""),
    "a brace in what it adds": _changed("more", "}"),
    "a signature within": lambda reply: reply.update(more=SIGNED),
    "a list behind the list": lambda reply: reply.update(more=[{"a": "b"}]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_that_is_not_plain_is_not_learnt(layout: str) -> None:
    reader, orders, reply = _Reader(), refunds(2), _refunded(refunds(2))
    reply["refund_orders"].reverse()  # so that what is changed is the first item
    LAYOUTS[layout](reply)
    reply["refund_orders"].reverse()
    reader.learn(_written(reply), orders)
    assert reader.prove(_written(reply), orders) is None


def test_a_list_of_the_same_name_within_is_not_the_one() -> None:
    """Where the judge looks, the same items stand in every reply."""
    reader, orders = _Reader(), refunds(2)
    right = _written(_refunded(orders))[:-1].replace(b'"refund_orders":[', b'"refund_orders" : [')
    first = right + b',"within":{"refund_orders":' + _written(_refunded(orders)["refund_orders"])
    reader.learn(first + b"}}", orders)
    assert reader.prove(first + b"}}", orders) is None


@pytest.mark.parametrize("spacing", [(",", ": "), (" , ", " : "), (", ", ":")])
def test_another_spacing_is_not_learnt(spacing: tuple[str, str]) -> None:
    reader, orders = _Reader(), refunds(2)
    reply = _written(_refunded(orders), spacing)
    reader.learn(reply, orders)
    assert reader.prove(reply, orders) is None


def test_items_in_another_order_of_fields_are_not_learnt() -> None:
    reader, orders, reply = _Reader(), refunds(2), _refunded(refunds(2))
    reply["refund_orders"] = [dict(sorted(item.items())) for item in reply["refund_orders"]]
    reader.learn(_written(reply), orders)
    assert reader.prove(_written(reply), orders) is None


def test_a_field_of_the_request_that_the_reply_adds_again_is_not_learnt() -> None:
    reader, orders = _Reader(), refunds(1)
    reply = _written(_refunded(orders)).replace(b'"R0"}', b'"R0","amount":"10.00"}')
    reader.learn(reply, orders)
    assert reader.prove(reply, orders) is None


def test_a_new_layout_replaces_the_one_before() -> None:
    reader, orders = _taught(), refunds(2)
    other = _refunded(orders, more="1")
    reader.learn(_written(other), orders)
    assert reader.prove(_written(other), orders)
    assert reader.prove(_written(_refunded(orders)), orders) is None


def test_a_gateway_whose_layout_is_never_the_same_is_not_learnt_for_ever() -> None:
    reader, orders = _Reader(), refunds(2)
    for number in range(MOST_LAYOUTS):
        reader.learn(_written(_refunded(orders, number=str(number))), orders)
        assert reader.prove(_written(_refunded(orders, number=str(number))), orders)
    reader.learn(_written(_refunded(orders, number="last")), orders)
    assert reader.prove(_written(_refunded(orders, number="last")), orders) is None


# In a batch

ONE_BY_ONE = BatchPolicy(concurrency=1, chunk_size=10)


def _count_judged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many orders of money the judge is asked about."""
    judged: list[int] = []
    judge_money = judging._judge_money

    def counted(operation: Any, orders: Any, *rest: Any) -> judging.Judgement:
        judged.append(len(orders))
        return judge_money(operation, orders, *rest)

    monkeypatch.setattr(judging, "_judge_money", counted)
    return judged


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_a_batch_judges_its_first_reply_and_sees_the_others_at_a_glance(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    judged = _count_judged(monkeypatch)
    transport = MemoryTransport(lambda asked: asked.done(**SIGNED))
    gateway = client_over(transport, policy=ONE_BY_ONE)
    orders = orders_for(operation, made_up(40))
    result = await getattr(gateway, operation)(orders)
    assert judged == [10]
    assert result.ok
    assert [outcome.order for outcome in result] == orders
    assert [outcome.record.transaction_id for outcome in result] == [
        order.transaction_id for order in orders
    ]
    assert all(b"51gnature" not in chunk.reply for chunk in result.chunks)
    assert {outcome.reply.return_message for outcome in result} == {"OK"}


async def test_a_reply_that_differs_is_judged_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = _count_judged(monkeypatch)

    def answer(asked: Asked) -> dict[str, Any]:
        reply = asked.done(**SIGNED)
        if "T000025" in asked.transactions:
            reply["refund_orders"][5]["refund_status"] = "0"
            reply["refund_orders"].append({"transaction_id": "stranger"})
        return reply

    result = await client_over(MemoryTransport(answer), policy=ONE_BY_ONE).refund(refunds(40))
    assert judged == [10, 10]
    assert [outcome.index for outcome in result.unknown] == [25]
    assert [record.transaction_id for record in result.unexpected] == ["stranger"]


async def test_where_earlier_refunds_are_known_every_reply_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = _count_judged(monkeypatch)
    gateway = client_over(
        MemoryTransport(lambda asked: asked.done()),
        policy=ONE_BY_ONE,
        recovery=RecoveryPolicy(record_baseline=True, hold_alike_hours=None),
    )
    assert (await gateway.refund(refunds(30))).ok
    assert judged == [10] * 3


async def test_a_field_that_is_sent_under_another_name_is_still_compared() -> None:
    """The reply repeats the number under the name on the wire, and under its own beside it."""

    def answer(asked: Asked) -> dict[str, Any]:
        reply = asked.done()
        for item in reply["capture_orders"]:
            is_wrong = item["transaction_id"] == "T000015"
            item["order_no"] = "another" if is_wrong else item["merchant_order"]
        return reply

    dialect = Dialect(wire_names={"order_no": "merchant_order"})
    gateway = client_over(MemoryTransport(answer), policy=ONE_BY_ONE, dialect=dialect)
    result = await gateway.capture(orders_for("capture", made_up(30)))
    assert [outcome.index for outcome in result.unknown] == [15]
    assert result.counts[OutcomeStatus.SUCCEEDED] == 29


@pytest.mark.parametrize(
    ("names", "field", "values"),
    [
        ({"refund_reason": "error_message"}, "refund_reason", ("", "2001:no")),
        ({"amount": "refund_amount", "refund_amount": "amount"}, "refund_amount", ("10", "1")),
    ],
)
async def test_a_name_on_the_wire_that_the_reply_reads_otherwise_proves_nothing(
    names: dict[str, str], field: str, values: tuple[str, str]
) -> None:
    first, later = (
        [orders_for("refund", [one], **{field: value})[0] for one in made_up(20)[place]]
        for place, value in zip((slice(10), slice(10, 20)), values, strict=True)
    )
    gateway = client_over(
        MemoryTransport(lambda asked: asked.done()),
        policy=ONE_BY_ONE,
        dialect=Dialect(wire_names=names),
    )
    result = await gateway.refund([*first, *later])
    assert [outcome.index for outcome in result.succeeded] == list(range(10))
    assert [outcome.index for outcome in result.unknown] == list(range(10, 20))


async def test_a_status_of_http_is_looked_at_before_the_reply() -> None:
    def answer(asked: Asked) -> HttpResponse:
        status = 500 if "T000015" in asked.transactions else 200
        return HttpResponse(status, {}, _written(asked.done()))

    gateway = client_over(MemoryTransport(answer), policy=ONE_BY_ONE)
    result = await gateway.refund(refunds(30))
    assert [outcome.index for outcome in result.unknown] == list(range(10, 20))

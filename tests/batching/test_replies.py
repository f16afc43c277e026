"""What a reply says of each order, row by row, through a client."""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import orjson
import pytest

import gateway_async
from gateway_async import (
    BatchPolicy,
    BatchResult,
    Dialect,
    GatewayError,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
    RejectedError,
    ReplyEnvelope,
    ReplyUnreadableError,
)
from tests.support.books import ABSENT, DECLINED, SUCCEEDED, UNKNOWN, statuses, streamed
from tests.support.collaborators import Limiter, raising
from tests.support.memory import Asked, HttpResponse, client_over, listing
from tests.support.orders import (
    LIST_FIELDS,
    LOOK_UPS,
    MONEY_OPERATIONS,
    item_of,
    made_up,
    orders_for,
    references,
    refunds,
    reply_to,
)

DECLINES = Dialect(declined_statuses={"0"}, pending_statuses={"3"})
PACKAGE = str(Path(gateway_async.__file__).parent)
FULL = 100
"""The most records of a reply to a look-up."""


async def judged(
    operation: str, orders: list[Any], items: Any, dialect: Dialect | None = None, **envelope: Any
) -> BatchResult[Any, Any]:
    """Return the result where every request is answered by these items."""
    gateway = client_over(lambda _: reply_to(operation, items, **envelope), dialect=dialect)
    return await gateway.batch(operation, orders)


# Items of an operation that moves money

UNREADABLE = ReplyUnreadableError
STATUSES: dict[type[GatewayError] | None, OutcomeStatus] = {
    None: SUCCEEDED,
    RejectedError: DECLINED,
}
"""The status of an order by the kind of its error; of any other kind, unknown."""
Row = tuple[dict[str, Any], type[GatewayError] | None, *tuple[str, ...]]
# Each row: how an item differs from that of success, the kind of error, and words of its text.
ITEMS: dict[str, Row] = {
    "done as a number": ({"status": 1}, None),
    "done without a text": ({"text": None}, None),
    "done and a complaint": ({"text": "2001:no funds"}, UNREADABLE, "no funds"),
    "done and a nested text": ({"text": {"a": 1}}, UNREADABLE),
    "declined, with a reason": ({"status": "0", "text": "2001:no"}, RejectedError),
    "declined as a number": ({"status": 0, "text": "2001:no"}, RejectedError),
    "declined in two lines": (
        *({"status": "0", "text": "2001:no\r\ngo on with"}, RejectedError),
        "code 2001: no go on with",
    ),
    "pending": (
        *({"status": "3", "text": "P1:wait"}, OutcomeUnknownError),
        *("the gateway is not done", "_status '3'", "wait"),
    ),
    "pending, another amount": (
        *({"status": "3", "amount": "0.00"}, OutcomeUnknownError),
        "the gateway is not done",
    ),
    "no meaning names what gives it one": (
        *({"status": "2", "text": "P1:in process"}, UNREADABLE),
        *("_status", "'2'", "in process", "done_statuses", "declined_statuses"),
    ),
    "no meaning, no reason": ({"status": "2", "text": ""}, UNREADABLE),
    "no status": ({"status": None, "text": "2001:no"}, UNREADABLE, "no readable"),
    "a float for a status": ({"status": 1.0}, UNREADABLE),
    "true for a status": ({"status": True}, UNREADABLE),
    "another amount": ({"amount": "10.01"}, UNREADABLE, "amount was", "says 10.01"),
    "the amount as a float": ({"amount": 10.0}, None),
    "a blank amount": ({"amount": " "}, None),
    "no currency, another amount": ({"currency": "", "amount": "9"}, UNREADABLE, "amount was"),
    **{
        f"{amount!r} for an amount": ({"amount": amount}, UNREADABLE)
        for amount in ("ten", "sNaN", "1_0.00", True, {"value": "10.00"})
    },
    "the currency in lower case": ({"currency": "eur"}, None),
    "another currency": ({"currency": "USD"}, UNREADABLE, "currency was"),
    "another order number": ({"order_no": "N999999"}, UNREADABLE),
    "declined, another amount": ({"status": "0", "amount": "9"}, UNREADABLE),
}
OWN: dict[str, dict[str, Row]] = {
    "refund": {
        "a message of success is no complaint": ({"text": "0000:ok"}, None),
        "another sum": ({"refund_amount": "7"}, UNREADABLE, "refund_amount was", "says 7"),
        "refused with a text of success": (
            *({"status": "0", "text": "V0000:success"}, UNREADABLE),
            "contradict each other: refund_status '0', 'V0000:success'",
        ),
        "refused with a text of success and a reason": (
            *({"status": "0", "text": "V0000:success", "error_message": "2001:no"}, UNREADABLE),
            "code 2001: no",
        ),
    },
    "review": {"another flag": ({"review_flag": "7"}, UNREADABLE, "review_flag was")},
}
"""What only one operation sends, or has a text for."""


def changed(operation: str, order: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Return an item in which `status` and `text` stand for the operation's own fields."""
    text = "refund_message" if operation == "refund" else "error_message"
    names = {"status": f"{operation}_status", "text": text}
    return item_of(operation, order, **{names.get(n, n): value for n, value in changes.items()})


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_each_item_is_judged_by_itself(operation: str) -> None:
    rows = ITEMS | OWN.get(operation, {})
    orders = orders_for(operation, made_up(len(rows)))
    pairs = zip(orders, rows.values(), strict=True)
    items = [changed(operation, order, row[0]) for order, row in pairs]
    result = await judged(operation, orders, items, DECLINES)
    for outcome, item, (name, row) in zip(result, items, rows.items(), strict=True):
        _, kind, *words = row
        assert outcome.status is STATUSES.get(kind, UNKNOWN), name
        assert type(outcome.error) is (kind or type(None)), name
        assert outcome.items == (item,)
        assert all(word in str(outcome.error) for word in words), name
    error: Any = result[[*rows].index("pending")].error
    assert (error.code, error.text) == ("P1", "wait")
    assert result.unexpected.count == 0


async def test_a_pending_item_that_names_two_orders_leaves_both_pending() -> None:
    first, second = orders = orders_for("refund", made_up(2))
    item = item_of("refund", first, order_no=second.order_no, refund_status="3")
    result = await judged("refund", orders, [item], DECLINES)
    assert [getattr(outcome.error, "is_pending", False) for outcome in result] == [True, True]


# Which item is about which order: the table of faults has more

NO_LISTS: list[Any] = [[], None, "", "text", 7, False]


def matching(orders: list[Any]) -> dict[str, tuple[Any, list[OutcomeStatus], int]]:
    """Name items, what they make of three orders, and how many belong to none."""
    first, second, third = (item_of("refund", order) for order in orders)
    rest, fine, without = [second, third], [SUCCEEDED] * 3, [UNKNOWN, SUCCEEDED, SUCCEEDED]
    crossed = {**first, "order_no": second["order_no"]}
    no_id = {"transaction_id": ""}
    rows: dict[str, tuple[Any, list[OutcomeStatus], int]] = {
        "by order number": ([{**item, **no_id} for item in (third, second, first)], fine, 0),
        "two ids of two orders": ([crossed, *rest], [UNKNOWN, UNKNOWN, SUCCEEDED], 0),
        "twice, another field": ([first, *rest, {**first, "more": 1}], without, 0),
        "an object for a list": ({}, [UNKNOWN] * 3, 1),
        **{f"{listed!r} for a list": (listed, [UNKNOWN] * 3, 0) for listed in NO_LISTS},
    }
    for named in (2.0230516123012346e19, True, {}, {"a": 1}):
        unreadable = {**first, "transaction_id": named}
        rows[f"transaction {named}"] = ([unreadable, *rest], without, 1)
    strangers: list[Any] = ["text", 7, None, [], {}, {"transaction_id": "T999999"}]
    for stranger in strangers:
        rows[f"stranger {stranger}"] = ([stranger, first, *rest], fine, 1)
    return rows


@pytest.mark.parametrize("name", matching(refunds(3)))
async def test_an_item_is_matched_by_identity(name: str) -> None:
    listed, expected, strangers = matching(refunds(3))[name]
    result = await judged("refund", refunds(3), [], refund_orders=listed)
    assert (statuses(result), result.unexpected.count) == (expected, strangers)


async def test_an_object_stands_for_a_list_of_one() -> None:
    (order,) = refunds(1)
    item = item_of("refund", order)
    (outcome,) = await judged("refund", [order], [], refund_orders=item)
    assert (outcome.status, outcome.items) == (SUCCEEDED, (item,))


async def test_an_order_is_pending_if_one_of_its_items_is() -> None:
    (order,) = refunds(1)
    items = [item_of("refund", order), item_of("refund", order, refund_status="3")]
    for listed in (items, items[::-1]):
        (outcome,) = await judged("refund", [order], listed, DECLINES)
        assert getattr(outcome.error, "is_pending", False)


async def test_an_order_number_that_two_orders_share_names_neither() -> None:
    orders = orders_for("refund", made_up(2), order_no="same")
    items = [item_of("refund", order, transaction_id=None) for order in orders]
    result = await judged("refund", orders, items)
    assert (statuses(result), result.unexpected.count) == ([UNKNOWN] * 2, 2)


# What the reply says as a whole

BUSY = {"return_status": "77", "return_message": "busy"}


@pytest.mark.parametrize(
    ("operation", "reply", "expected", "said"),
    [
        ("refund", {}, SUCCEEDED, ("1", "OK", 200)),
        ("query", {}, SUCCEEDED, ("1", "OK", 200)),
        ("refund", BUSY, SUCCEEDED, ("77", "busy", 200)),
        ("refund", HttpResponse(503, {}, b""), UNKNOWN, None),
        ("refund", HttpResponse(429, {}, b""), DECLINED, None),
        ("query", HttpResponse(429, {}, b""), UNKNOWN, None),
    ],
)
async def test_each_outcome_has_the_status_and_the_envelope_of_its_request(
    operation: str, reply: Any, expected: OutcomeStatus, said: tuple[str, str, int] | None
) -> None:
    """The envelope is one object for all orders of a request."""

    def answer(asked: Asked) -> Any:
        return reply if said is None else asked.done(**reply)

    policy = BatchPolicy(chunk_size=2, concurrency=1)
    dialect = Dialect(nothing_done_http_statuses={429})
    gateway = client_over(answer, policy=policy, dialect=dialect)
    began, orders = datetime.now(UTC), orders_for(operation, made_up(4))
    result = await gateway.batch(operation, orders)
    for outcomes in (result, await streamed(gateway.batch(operation, orders))):
        assert statuses(outcomes) == [expected] * 4
        assert expected is not DECLINED or getattr(outcomes[0].error, "code", None) == "429"
        first, second, third, fourth = (outcome.reply for outcome in outcomes)
        assert (first is second, third is fourth, first is third) == (True, True, said is None)
        for envelope in (first, third) if said else ():
            assert isinstance(envelope, ReplyEnvelope)
            shown = (envelope.return_status, envelope.return_message, envelope.http_status)
            assert shown == said
            assert began <= envelope.received_at <= datetime.now(UTC)
            assert envelope.received_at.utcoffset() == timedelta(0)


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
@pytest.mark.parametrize("return_status", ["1", "0", None, "E9"])
async def test_the_return_status_judges_the_unlisted(operation: str, return_status: object) -> None:
    """What is listed is judged by itself, unless the reply denies that anything was done."""
    orders = orders_for(operation, made_up(3))
    refused = {"status": "0", "text": "1:no"}
    items = [changed(operation, orders[0], {}), changed(operation, orders[1], refused)]
    dialect = Dialect(declined_statuses={"0"}, nothing_done_return_statuses={"E9"})
    result = await judged(operation, orders, items, dialect, return_status=return_status)
    if return_status != "E9":
        assert statuses(result) == [SUCCEEDED, DECLINED, UNKNOWN]
        return
    assert statuses(result) == [UNKNOWN, DECLINED, DECLINED]
    words = ("the reply contradicts itself", f"{operation}_status '1'", "return_status 'E9'")
    assert all(word in str(result[0].error) for word in words)


TEN = BatchPolicy(concurrency=1, chunk_size=10)


async def test_a_field_that_is_sent_under_another_name_is_still_compared() -> None:
    """The reply repeats the number under the name on the wire, and under its own beside it."""

    def answer(asked: Asked) -> dict[str, Any]:
        reply = asked.done()
        for item in reply["capture_orders"]:
            is_wrong = item["transaction_id"] == "T000015"
            item["order_no"] = "another" if is_wrong else item["merchant_order"]
        return reply

    dialect = Dialect(wire_names={"order_no": "merchant_order"})
    gateway = client_over(answer, policy=TEN, dialect=dialect)
    result = await gateway.capture(orders_for("capture", made_up(30)))
    assert [outcome.index for outcome in result.unknown] == [15]


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
    orders = [
        order
        for first, value in zip((0, 10), values, strict=True)
        for order in orders_for("refund", made_up(10, first), **{field: value})
    ]
    dialect = Dialect(wire_names=names)
    result = await client_over(policy=TEN, dialect=dialect).refund(orders)
    assert statuses(result) == [SUCCEEDED] * 10 + [UNKNOWN] * 10


async def test_a_reply_that_names_a_field_twice_and_differently_proves_nothing() -> None:
    def answer(asked: Asked) -> bytes:
        status = '"refund_status": "1"'
        twice = f"{status.replace('1', '2')}, {status}"
        return json.dumps(asked.done()).replace(status, twice).encode()

    result = await client_over(answer, policy=TEN).refund(refunds(20))
    assert statuses(result) == [UNKNOWN] * 20
    assert "names a field twice" in str(result[0].error)


# Look-ups

STRANGER = {"transaction_id": "T999999", "query_result": "1"}


def look_ups(operation: str) -> "dict[str, tuple[Any, dict[str, Any], list[OutcomeStatus], int]]":
    """Name what a reply lists of two orders, its envelope, their statuses, and the strangers."""
    first, second, other = (
        item_of(operation, references(2)[n], amount=f"{amount}")
        for n, amount in ((0, 1), (1, 2), (1, 3))
    )
    full = [first, second, other, *[STRANGER] * (FULL - 3)]
    both, absent, unknown = [SUCCEEDED] * 2, [SUCCEEDED, ABSENT], [SUCCEEDED, UNKNOWN]
    return {
        "missing, and a number for the status": ([first], {"return_status": 1}, absent, 0),
        "missing in a reply without a status": ([first], {"return_status": None}, unknown, 0),
        "missing, and another is listed": ([first, STRANGER], {}, unknown, 1),
        "missing, and a text is listed": ([first, "text"], {}, unknown, 1),
        "a full reply with others may lack records": (full, {}, unknown, FULL - 3),
        "a reply that is not quite full": (full[:-1], {}, both, FULL - 4),
        "an empty text": ("", {}, [ABSENT] * 2, 0),
        "a text": ("text", {}, [UNKNOWN] * 2, 0),
    }


@pytest.mark.parametrize("operation", LOOK_UPS)
@pytest.mark.parametrize("name", look_ups("query"))
async def test_what_a_look_up_lists(operation: str, name: str) -> None:
    listed, envelope, expected, strangers = look_ups(operation)[name]
    envelope = {**envelope, LIST_FIELDS[operation]: listed}
    result = await judged(operation, references(2), [], **envelope)
    assert (statuses(result), result.unexpected.count, result.requests) == (expected, strangers, 1)
    assert len(result.absent) == expected.count(ABSENT)


@pytest.mark.parametrize("operation", LOOK_UPS)
async def test_a_look_up_without_a_list_finds_nothing_absent(operation: str) -> None:
    gateway = client_over(lambda _: {"return_status": "1", "return_message": "OK"})
    assert statuses(await gateway.batch(operation, references(2))) == [UNKNOWN] * 2


async def test_a_full_reply_is_asked_again_in_halves_until_one_order_alone_fills_it() -> None:
    one, few, many = references(3)
    records = [*map(partial(item_of, "query"), [one, *[many] * FULL, few, few])]

    def answer(asked: Asked) -> Any:
        found = [item for item in records if item["transaction_id"] in asked.transactions]
        return reply_to("query", found[:FULL])

    result = await client_over(answer).query([one, few, many])
    assert (statuses(result), result.requests) == ([SUCCEEDED, SUCCEEDED, UNKNOWN], 5)
    assert [len(outcome.items) for outcome in result] == [1, 2, FULL]


async def test_a_full_reply_of_which_the_rest_is_never_asked_for_loses_no_order() -> None:
    many, few, missing = references(3)
    records = [item_of("query", many)] * (FULL - 1) + [item_of("query", few)]
    limiter = Limiter(leave=raising(LookupError("broke")))
    gateway = client_over(lambda _: reply_to("query", records), limiter=limiter)
    query = gateway.query([many, few, missing])
    with pytest.raises(LookupError, match="broke"):
        await query
    assert statuses(query.result) == [UNKNOWN, SUCCEEDED, UNKNOWN]


NO_MEANING = (
    "query_result is '7', which stands neither in Dialect.found_query_results "
    "nor in absent_query_results"
)


@pytest.mark.parametrize(
    ("results", "status", "text"),
    [
        (["1", "1"], SUCCEEDED, "None"),
        ([1], SUCCEEDED, "None"),
        (["9", "9"], ABSENT, "None"),
        (["0"], UNKNOWN, "query_result is '0'"),
        (["1", "9"], UNKNOWN, "its records contradict each other: query_result is '1', '9'"),
        (["1", "7"], UNKNOWN, NO_MEANING),
        (["9", "7"], UNKNOWN, NO_MEANING),
        ([None], UNKNOWN, "query_result"),
        ([1.0], UNKNOWN, "query_result"),
    ],
)
async def test_query_result(results: list[object], status: OutcomeStatus, text: str) -> None:
    refs = references(1)
    items = [item_of("query", refs[0], query_result=result) for result in results]
    (outcome,) = await judged("query", refs, items, Dialect(absent_query_results={"9"}))
    assert (outcome.status, outcome.items) == (status, tuple(items))
    assert text in str(outcome.error)


async def test_references_of_one_kind_are_matched_by_that_kind_alone() -> None:
    items = [{"order_no": "T000000", "transaction_id": "T000001", "query_result": "1"}]
    assert statuses(await judged("query", references(2), items)) == [ABSENT, SUCCEEDED]


# What it costs to read a reply


async def calls_of_a_second_batch(
    answer: Callable[[Asked], Any], count: int, **settings: Any
) -> int:
    """Count the calls that our code makes for refunds; the first batch compiles, and learns."""
    heard = 0

    def hear(frame: FrameType, event: str, _: object) -> None:
        nonlocal heard
        is_ours = frame.f_code.co_filename.startswith(PACKAGE)
        heard += is_ours and event in ("call", "c_call")

    client, orders = client_over(answer, **settings), refunds(count)
    await client.refund(orders)
    sys.setprofile(hear)
    try:
        await client.refund(orders)
    finally:
        sys.setprofile(None)
    return heard


async def test_a_reply_takes_a_time_in_proportion_to_its_size() -> None:
    """One object of it has many values of one name, all different."""

    async def calls(size: int) -> int:
        body = b"{%s}" % b",".join(b'"a":%d' % number for number in range(size))
        return await calls_of_a_second_batch(lambda _: body, 1)

    assert 0 < await calls(4000) < 3 * await calls(2000)


@pytest.mark.parametrize(
    ("note", "has_baseline", "most"),
    [("as usual", False, 5), ("as usual", True, 50), ("\N{SNOWMAN}", False, 150)],
)
async def test_an_order_takes_few_calls(note: str, has_baseline: bool, most: int) -> None:
    """The usual reply is recognised at a glance; another is judged item by item.

    It is recognised also where earlier refunds are looked up, and there are none.
    """

    def answer(asked: Asked) -> Any:
        reply = asked.done()
        for number, item in enumerate(reply["refund_orders"]):
            item |= {"refund_reference_id": f"R{number}", "note": note}
        return reply

    recovery = RecoveryPolicy(record_baseline=has_baseline)
    calls = await calls_of_a_second_batch(listing([], answer), 300, recovery=recovery)
    assert 0 < calls < most * 300


async def test_no_pattern_grows_with_the_rest_of_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of a megabyte takes a second to compile, in which nothing else runs."""
    sizes, compiled = list[int](), re.compile

    def noted(pattern: Any, *flags: Any) -> Any:
        sizes.append(len(pattern))
        return compiled(pattern, *flags)

    def answer(padding: int, asked: Asked) -> bytes:
        return orjson.dumps(asked.done(note="x" * padding)) + b" " * padding

    monkeypatch.setattr(re, "compile", noted)
    for padding in (10, 1_000_000):
        client = client_over(partial(answer, padding))
        assert (await client.refund(refunds(3))).ok
    assert 0 < max(sizes) < 10_000

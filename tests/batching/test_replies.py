"""What a reply says of each order, row by row, through a client."""

import json
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    BatchResult,
    Dialect,
    GatewayError,
    Operation,
    OutcomeStatus,
    OutcomeUnknownError,
    RecoveryPolicy,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.batching import sender
from gateway_async.batching.judge import Judgement, judge
from tests.support.books import ABSENT, DECLINED, SUCCEEDED, UNKNOWN, statuses
from tests.support.collaborators import Limiter, raising
from tests.support.memory import Asked, HttpResponse, MemoryTransport, client_over, listing
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
FULL = 100
"""The most records of a reply to a look-up."""


@pytest.mark.parametrize(
    ("operation", "status", "found"),
    [("refund", 429, DECLINED), ("refund", 503, UNKNOWN), ("query", 429, UNKNOWN)],
)
async def test_a_listed_http_status_declines_what_moves_money(
    operation: str, status: int, found: OutcomeStatus
) -> None:
    transport = MemoryTransport(lambda _: HttpResponse(status, {}, b""))
    client = client_over(transport, dialect=Dialect(nothing_done_http_statuses={429}))
    result = await client.batch(operation, orders_for(operation, made_up(2)))
    assert statuses(result) == [found] * 2
    assert found is UNKNOWN or {getattr(one.error, "code", None) for one in result} == {"429"}


async def judged(
    operation: str, orders: list[Any], items: Any, dialect: Dialect | None = None, **envelope: Any
) -> BatchResult[Any, Any]:
    """Return the result where every request is answered by these items."""
    transport = MemoryTransport(lambda _: reply_to(operation, items, **envelope))
    gateway = client_over(transport, dialect=dialect or Dialect())
    return await gateway.batch(operation, orders)


async def test_after_one_usual_reply_no_judge_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where earlier refunds are looked up, and there are none."""
    asked_for: list[str] = []

    def count(operation: Operation, *facts: Any, **more: Any) -> Judgement:
        asked_for.append(operation.name)
        return judge(operation, *facts, **more)

    monkeypatch.setattr(sender, "judge", count)
    policy = BatchPolicy(concurrency=1, chunk_size=5)
    recovery = RecoveryPolicy(record_baseline=True)
    gateway = client_over(MemoryTransport(listing([])), policy=policy, recovery=recovery)
    assert (await gateway.refund(refunds(20))).ok
    assert asked_for.count("refund") == 1


# Items of an operation that moves money

UNREADABLE = ReplyUnreadableError
Row = tuple[dict[str, Any], OutcomeStatus, type[GatewayError] | None, tuple[str, ...]]
ITEMS: dict[str, Row] = {
    "done": ({}, SUCCEEDED, None, ()),
    "done as a number": ({"status": 1}, SUCCEEDED, None, ()),
    "done without a text": ({"text": None}, SUCCEEDED, None, ()),
    "done and a complaint": ({"text": "2001:no funds"}, UNKNOWN, UNREADABLE, ("no funds",)),
    "done and a nested text": ({"text": {"a": 1}}, UNKNOWN, UNREADABLE, ()),
    "declined, with a reason": ({"status": "0", "text": "2001:no"}, DECLINED, RejectedError, ()),
    "declined as a number": ({"status": 0, "text": "2001:no"}, DECLINED, RejectedError, ()),
    "declined in two lines": (
        *({"status": "0", "text": "2001:no\r\ngo on with"}, DECLINED, RejectedError),
        ("code 2001: no go on with",),
    ),
    "pending": (
        *({"status": "3", "text": "P1:wait"}, UNKNOWN, OutcomeUnknownError),
        ("the gateway is not done", "_status '3'", "wait"),
    ),
    "no meaning names what gives it one": (
        *({"status": "2", "text": "P1:in process"}, UNKNOWN, UNREADABLE),
        ("_status", "'2'", "in process", "done_statuses", "declined_statuses"),
    ),
    "no meaning, no reason": ({"status": "2", "text": ""}, UNKNOWN, UNREADABLE, ()),
    "no status": ({"status": None, "text": "2001:no"}, UNKNOWN, UNREADABLE, ("no readable",)),
    "a float for a status": ({"status": 1.0}, UNKNOWN, UNREADABLE, ()),
    "true for a status": ({"status": True}, UNKNOWN, UNREADABLE, ()),
    "another amount": ({"amount": "10.01"}, UNKNOWN, UNREADABLE, ("amount was", "says 10.01")),
    "the amount as a float": ({"amount": 10.0}, SUCCEEDED, None, ()),
    "an empty amount": ({"amount": ""}, SUCCEEDED, None, ()),
    **{
        f"{amount!r} for an amount": ({"amount": amount}, UNKNOWN, UNREADABLE, ())
        for amount in ("ten", "sNaN", "1_0.00", True, {"value": "10.00"})
    },
    "the currency in lower case": ({"currency": "eur"}, SUCCEEDED, None, ()),
    "another currency": ({"currency": "USD"}, UNKNOWN, UNREADABLE, ("currency was",)),
    "another order number": ({"order_no": "N999999"}, UNKNOWN, UNREADABLE, ()),
    "declined, another amount": ({"status": "0", "amount": "9"}, UNKNOWN, UNREADABLE, ()),
}
OWN: dict[str, dict[str, Row]] = {
    "refund": {
        "a message of success is no complaint": ({"text": "0000:ok"}, SUCCEEDED, None, ()),
        "another sum": (
            *({"refund_amount": "7"}, UNKNOWN, UNREADABLE),
            ("refund_amount was", "the reply says 7"),
        ),
        "refused with a text of success": (
            *({"status": "0", "text": "V0000:success"}, UNKNOWN, UNREADABLE),
            ("contradict each other: refund_status '0', 'V0000:success'",),
        ),
    },
    "review": {"another flag": ({"review_flag": "7"}, UNKNOWN, UNREADABLE, ("review_flag was",))},
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
        kind = type(outcome.error) if outcome.error else None
        assert (outcome.status, kind) == row[1:3], name
        assert outcome.items == (item,)
        assert all(word in str(outcome.error) for word in row[3]), name
    error: Any = result[[*rows].index("pending")].error
    assert (error.code, error.text) == ("P1", "wait")
    assert result.unexpected.count == 0


# Which item is about which order

NO_LISTS: list[Any] = [[], None, "", "text", 7, False]


def matching(orders: list[Any]) -> dict[str, tuple[Any, list[OutcomeStatus], int]]:
    """Name items, what they make of three orders, and how many belong to none."""
    first, second, third = (item_of("refund", order) for order in orders)
    rest, fine, without = [second, third], [SUCCEEDED] * 3, [UNKNOWN, SUCCEEDED, SUCCEEDED]
    crossed = {**first, "order_no": second["order_no"]}
    no_id = {"transaction_id": ""}
    rows: dict[str, tuple[Any, list[OutcomeStatus], int]] = {
        "in another order": ([third, first, second], fine, 0),
        "by order number": ([{**item, **no_id} for item in (third, second, first)], fine, 0),
        "two ids of two orders": ([crossed, *rest], [UNKNOWN, UNKNOWN, SUCCEEDED], 0),
        "twice, alike": ([first, *rest, first], fine, 0),
        "twice, another status": ([first, *rest, {**first, "refund_status": "0"}], without, 0),
        "twice, another field": ([first, *rest, {**first, "more": 1}], without, 0),
        "missing": (rest, without, 0),
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


async def test_an_order_number_that_two_orders_share_names_neither() -> None:
    orders = orders_for("refund", made_up(2), order_no="same")
    items = [item_of("refund", order, transaction_id=None) for order in orders]
    result = await judged("refund", orders, items)
    assert (statuses(result), result.unexpected.count) == ([UNKNOWN] * 2, 2)


# What the reply says as a whole


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
    gateway = client_over(MemoryTransport(answer), policy=TEN, dialect=dialect)
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
    result = await client_over(MemoryTransport(), policy=TEN, dialect=dialect).refund(orders)
    assert statuses(result) == [SUCCEEDED] * 10 + [UNKNOWN] * 10


@pytest.mark.parametrize("name", ["refund_orders", "refund_status"])
async def test_a_reply_that_names_a_field_twice_and_differently_proves_nothing(name: str) -> None:
    def answer(asked: Asked) -> bytes:
        done = json.dumps(asked.done())
        listed = done[done.index('"refund_orders"') : done.rindex("}]") + 2]
        status = '"refund_status": "1"'
        other = status.replace("1", "2")
        twice = {
            "refund_orders": f"{listed.replace(status, other)}, {listed}",
            "refund_status": listed.replace(status, f"{other}, {status}"),
        }
        return done.replace(listed, twice[name]).encode()

    result = await client_over(MemoryTransport(answer), policy=TEN).refund(refunds(20))
    assert statuses(result) == [UNKNOWN] * 20
    assert "names a field twice" in str(result[0].error)


async def test_a_reply_of_far_more_items_than_orders_proves_nothing() -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        done = asked.done()
        return {**done, "refund_orders": [*done["refund_orders"], *[{}] * 10_000]}

    result = await client_over(MemoryTransport(answer), policy=TEN).refund(refunds(1))
    assert statuses(result) == [UNKNOWN]
    assert "the reply lists 10001 items" in str(result[0].error)


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
        "every record of an order": ([second, first, other], {}, both, 0),
        "a missing order": ([first], {}, absent, 0),
        "missing, and a number for the status": ([first], {"return_status": 1}, absent, 0),
        "missing in a reply of failure": ([first], {"return_status": "0"}, unknown, 0),
        "missing in a reply without a status": ([first], {"return_status": None}, unknown, 0),
        "missing, and another is listed": ([first, STRANGER], {}, unknown, 1),
        "missing, and a text is listed": ([first, "text"], {}, unknown, 1),
        "a full reply with others may lack records": (full, {}, unknown, FULL - 3),
        "a reply that is not quite full": (full[:-1], {}, both, FULL - 4),
        "no list": (None, {}, [ABSENT] * 2, 0),
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


async def test_a_full_reply_is_asked_again_in_halves_until_one_order_alone_fills_it() -> None:
    many, few = references(2)
    records = [item_of("query", many)] * FULL + [item_of("query", few)] * 2

    def answer(asked: Asked) -> Any:
        found = [item for item in records if item["transaction_id"] in asked.transactions]
        return reply_to("query", found[:FULL])

    result = await client_over(MemoryTransport(answer)).query([many, few])
    assert (statuses(result), result.requests) == ([UNKNOWN, SUCCEEDED], 3)
    assert [len(outcome.items) for outcome in result] == [FULL, 2]


async def test_a_full_reply_of_which_the_rest_is_never_asked_for_loses_no_order() -> None:
    many, few, missing = references(3)
    records = [item_of("query", many)] * (FULL - 1) + [item_of("query", few)]
    limiter = Limiter(leave=raising(LookupError("broke")))
    gateway = client_over(MemoryTransport(lambda _: reply_to("query", records)), limiter=limiter)
    query = gateway.query([many, few, missing])
    with pytest.raises(LookupError, match="broke"):
        await query
    assert statuses(query.result) == [UNKNOWN, SUCCEEDED, UNKNOWN]


NO_MEANING = "query_result is '7', which has no meaning in the Dialect"


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

"""Any reply at all gives each order exactly one outcome."""

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import Dialect, OutcomeStatus
from gateway_async.batching.judge import judge
from gateway_async.batching.results import AnsweredChunk, Sending, overall_of
from gateway_async.operations import OPERATIONS
from gateway_async.wire.decode import decode_json, decode_surely, without_signatures
from tests.orders import (
    LIST_FIELDS,
    LOOK_UPS,
    MONEY_OPERATIONS,
    item_of,
    made_up,
    orders_for,
    reply_to,
)

OPERATION = st.sampled_from([*MONEY_OPERATIONS, *LOOK_UPS])
_FIELDS = (
    "transaction_id",
    "order_no",
    "currency",
    "amount",
    "refund_amount",
    "refund_status",
    "capture_status",
    "cancel_status",
    "review_status",
    "refund_message",
    "error_message",
    "query_result",
)
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["1", "0", "T000001", "N000001", "EUR", "10.00", "1e999999999", "sNaN"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
_STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        "1",
        1,
        True,
        1.0,
        "",
        None,
        " ",
        "0",
        0,
        False,
        [],
        {},
        "V0000:success",
        "E1:no",
        "EUR",
        "eur",
    ]
)
_DIALECTS = st.sampled_from(
    [
        Dialect(),
        Dialect(pending_statuses={"0"}, nothing_done_return_statuses={"0"}),
        Dialect(declined_statuses={"0"}),
        Dialect(absent_query_results={"0"}, found_query_results={"1", "2"}),
        Dialect(echo_fields={"capture": (), "refund": ("amount",)}, done_statuses={"1", "0"}),
    ]
)


@st.composite
def _mutated(draw: st.DrawFn, operation: str, orders: list[Any]) -> dict[str, Any]:
    """A right reply: shuffled, short, doubled, with strangers, and with fields changed."""
    items: list[Any] = [item_of(operation, order) for order in orders]
    items = draw(st.permutations(items))
    items = items[: draw(st.integers(0, len(items)))]
    items += [dict(item) for item in draw(st.lists(st.sampled_from(items or [{}]), max_size=3))]
    items += draw(st.lists(_JSON, max_size=2))
    for _ in range(draw(st.integers(0, 4))):
        item = draw(st.sampled_from(items)) if items else None
        if isinstance(item, dict):
            item[draw(st.sampled_from(_FIELDS))] = draw(_JSON)
    return reply_to(operation, items, return_status=draw(st.sampled_from(["1", "0", None, 1])))


@st.composite
def _nearly_right(draw: st.DrawFn, operation: str, orders: list[Any]) -> dict[str, Any]:
    """A right reply, in order and whole, but for a field or two."""
    items = [item_of(operation, order) for order in orders]
    for _ in range(draw(st.integers(0, 2))):
        item = draw(st.sampled_from(items))
        field = draw(st.sampled_from(_FIELDS))
        if draw(st.booleans()):
            item[field] = draw(_STRANGE)
        else:
            item.pop(field, None)
    return reply_to(operation, items)


def _allowed(operation: str) -> set[OutcomeStatus]:
    shared = {OutcomeStatus.SUCCEEDED, OutcomeStatus.UNKNOWN}
    return shared | {OutcomeStatus.ABSENT if operation in LOOK_UPS else OutcomeStatus.DECLINED}


@given(data=st.data(), operation=OPERATION, dialect=_DIALECTS, count=st.integers(1, 6))
def test_each_order_has_one_verdict_and_each_item_one_place(
    data: st.DataObject, operation: str, dialect: Dialect, count: int
) -> None:
    orders = orders_for(operation, made_up(count))
    payload = data.draw(_mutated(operation, orders))
    judgement = judge(OPERATIONS[operation], orders, payload, dialect)
    assert len(judgement.verdicts) == len(judgement.items) == count
    assert {status for status, _ in judgement.verdicts} <= _allowed(operation)
    for status, error in judgement.verdicts:
        settled = status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
        assert (error is None) is settled
    placed = [item for items in judgement.items for item in items] + judgement.unexpected
    listed = payload[LIST_FIELDS[operation]]
    assert Counter(map(id, placed)) == Counter(map(id, listed))


@given(
    data=st.data(),
    operation=st.sampled_from(MONEY_OPERATIONS),
    dialect=_DIALECTS,
    count=st.integers(1, 6),
)
def test_all_is_echoed_where_each_item_says_of_its_own_order_that_it_was_done(
    data: st.DataObject, operation: str, dialect: Dialect, count: int
) -> None:
    orders = orders_for(operation, made_up(count))
    payload = data.draw(st.one_of(_mutated(operation, orders), _nearly_right(operation, orders)))
    judgement = judge(OPERATIONS[operation], orders, payload, dialect)
    succeeded = {status for status, _ in judgement.verdicts} == {OutcomeStatus.SUCCEEDED}
    listed = [id(item) for item in payload[LIST_FIELDS[operation]]]
    in_order = [[id(item) for item in items] for items in judgement.items] == [[n] for n in listed]
    assert judgement.all_echoed is (succeeded and in_order)
    assert not (judgement.all_echoed and judgement.unexpected)


@pytest.mark.parametrize("values", [("1", 1), (1, True), (True, 1), (1, 1.0)])
def test_no_value_is_taken_for_another_that_python_calls_equal(values: tuple[Any]) -> None:
    orders = orders_for("capture", made_up(2))
    listed = [
        item_of("capture", order, capture_status=value)
        for order, value in zip(orders, values, strict=True)
    ]
    judgement = judge(OPERATIONS["capture"], orders, reply_to("capture", listed), Dialect())
    assert [status for status, _ in judgement.verdicts] == [
        OutcomeStatus.SUCCEEDED if type(value) in (str, int) else OutcomeStatus.UNKNOWN
        for value in values
    ]


@given(data=st.data(), operation=OPERATION, count=st.integers(1, 4))
def test_no_order_succeeds_without_an_item_that_names_it(
    data: st.DataObject, operation: str, count: int
) -> None:
    orders = orders_for(operation, made_up(count))
    judgement = judge(
        OPERATIONS[operation], orders, data.draw(_mutated(operation, orders)), Dialect()
    )
    for order, (status, _), items in zip(orders, judgement.verdicts, judgement.items, strict=True):
        if status is OutcomeStatus.SUCCEEDED:
            names = {
                str(item.get(n)).strip() for item in items for n in ("transaction_id", "order_no")
            }
            assert names & {order.transaction_id, order.order_no}


@given(payload=st.dictionaries(st.sampled_from([*LIST_FIELDS.values(), "return_status"]), _JSON))
def test_nonsense_proves_nothing(payload: dict[str, Any]) -> None:
    for operation in MONEY_OPERATIONS:
        orders = orders_for(operation, made_up(2))
        judgement = judge(OPERATIONS[operation], orders, payload, Dialect())
        assert [status for status, _ in judgement.verdicts] == [OutcomeStatus.UNKNOWN] * 2


@settings(max_examples=50)
@given(data=st.data(), operation=OPERATION, count=st.integers(1, 4))
def test_a_kept_reply_is_read_again_as_it_was_judged(
    data: st.DataObject, operation: str, count: int
) -> None:
    row = OPERATIONS[operation]
    decode = decode_json if row.is_look_up else decode_surely
    orders = orders_for(operation, made_up(count))
    payload = data.draw(st.one_of(_mutated(operation, orders), _right(operation, orders)))
    reply = (
        json.dumps({**payload, "encryption_data": 'se"cret\\'}, allow_nan=False, default=str)
        if _is_json(payload)
        else "{}"
    )
    body = reply.encode()
    judgement = judge(row, orders, decode(body), Dialect())
    kept, _ = without_signatures(body, decode(body))
    sending = Sending(ended_at=0.0)
    overall = overall_of(decode(body))
    chunk = AnsweredChunk(range(count), orders, row, Dialect(), kept, judgement, sending, overall)
    outcomes = chunk.outcomes()
    assert [outcome.status for outcome in outcomes] == [s for s, _ in judgement.verdicts]
    assert list(map(str, chunk.judgement().verdicts)) == list(map(str, judgement.verdicts))
    assert [tuple(outcome.items) for outcome in outcomes] == list(judgement.items)
    assert b'se\\"cret' not in chunk.reply
    for outcome in outcomes:
        assert (outcome.record is None) is (not outcome.items)


def _right(operation: str, orders: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.just(reply_to(operation, [item_of(operation, order) for order in orders]))


def _is_json(payload: dict[str, Any]) -> bool:
    try:
        decode_json(json.dumps(payload, allow_nan=False).encode())
    except (ValueError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, *LOOK_UPS])
def test_a_right_reply_in_any_order_is_all_success(operation: str) -> None:
    orders = orders_for(operation, made_up(50))
    items = [item_of(operation, order) for order in orders]
    for listed in (items, items[::-1], items[25:] + items[:25]):
        judgement = judge(OPERATIONS[operation], orders, reply_to(operation, listed), Dialect())
        assert {status for status, _ in judgement.verdicts} == {OutcomeStatus.SUCCEEDED}
        assert [items[0][next(iter(items[0]))] for items in judgement.items] == [
            order.transaction_id for order in orders
        ]

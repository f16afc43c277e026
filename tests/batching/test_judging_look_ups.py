"""What a look-up's reply says of an order, row by row."""

from typing import Any

import pytest

from gateway_async import Dialect, OutcomeStatus
from gateway_async.batching.judge import Judgement, judge
from gateway_async.operations import OPERATIONS
from tests.orders import LIST_FIELDS, LOOK_UPS, item_of, references, reply_to

SUCCEEDED, ABSENT, UNKNOWN = OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT, OutcomeStatus.UNKNOWN
STRANGER = {"transaction_id": "T999999", "query_result": "1"}


def _judge(
    operation: str, refs: list[Any], items: Any, dialect: Dialect | None = None, **envelope: Any
) -> Judgement:
    payload = reply_to(operation, items, **envelope)
    return judge(OPERATIONS[operation], refs, payload, dialect or Dialect())


def _statuses(judgement: Judgement) -> list[OutcomeStatus]:
    return [status for status, _ in judgement.verdicts]


@pytest.mark.parametrize("operation", LOOK_UPS)
def test_every_record_of_an_order_is_kept(operation: str) -> None:
    refs = references(2)
    records = [item_of(operation, refs[0], amount=str(n)) for n in range(3)]
    judgement = _judge(operation, refs, [records[0], item_of(operation, refs[1]), *records[1:]])
    assert _statuses(judgement) == [SUCCEEDED, SUCCEEDED]
    assert judgement.items[0] == tuple(records)


@pytest.mark.parametrize("operation", LOOK_UPS)
@pytest.mark.parametrize(
    ("strangers", "envelope", "status"),
    [
        ([], {}, ABSENT),
        ([], {"return_status": 1}, ABSENT),
        ([], {"return_status": "0"}, UNKNOWN),
        ([], {"return_status": None}, UNKNOWN),
        ([STRANGER], {}, UNKNOWN),
        (["text"], {}, UNKNOWN),
    ],
)
def test_a_missing_order(
    operation: str, strangers: list[Any], envelope: dict[str, Any], status: OutcomeStatus
) -> None:
    refs = references(2)
    judgement = _judge(operation, refs, [item_of(operation, refs[0]), *strangers], **envelope)
    assert _statuses(judgement) == [SUCCEEDED, status]
    assert judgement.unexpected == strangers


@pytest.mark.parametrize(
    ("listed", "status"),
    [(None, ABSENT), ("", ABSENT), ([], ABSENT), ("text", UNKNOWN), (7, UNKNOWN)],
)
def test_a_list_that_is_none(listed: object, status: OutcomeStatus) -> None:
    payload = {**reply_to("query", []), "orders_list": listed}
    judgement = judge(OPERATIONS["query"], references(1), payload, Dialect())
    assert _statuses(judgement) == [status]


@pytest.mark.parametrize("operation", LOOK_UPS)
def test_a_reply_without_the_list_proves_no_absence(operation: str) -> None:
    payload = reply_to(operation, [])
    del payload[LIST_FIELDS[operation]]
    statuses = _statuses(judge(OPERATIONS[operation], references(1), payload, Dialect()))
    assert statuses == [UNKNOWN]


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (["1"], SUCCEEDED),
        ([1], SUCCEEDED),
        (["1", "1"], SUCCEEDED),
        (["0"], UNKNOWN),
        (["9"], ABSENT),
        (["9", "9"], ABSENT),
        (["1", "9"], UNKNOWN),
        (["1", "0"], UNKNOWN),
        ([None], UNKNOWN),
        ([""], UNKNOWN),
        ([1.0], UNKNOWN),
    ],
)
def test_query_result(results: list[object], status: OutcomeStatus) -> None:
    refs = references(1)
    items = [item_of("query", refs[0], query_result=result) for result in results]
    dialect = Dialect(absent_query_results={"9"})
    judgement = _judge("query", refs, items, dialect)
    assert _statuses(judgement) == [status]
    assert judgement.items == [tuple(items)]


@pytest.mark.parametrize(
    ("results", "text"),
    [
        (["1", "9"], "its records contradict each other: query_result is '1', '9'"),
        (["1", "7"], "query_result is '7', which has no meaning in the Dialect"),
        (["9", "7"], "query_result is '7', which has no meaning in the Dialect"),
    ],
)
def test_what_is_wrong_with_a_query_result_is_told(results: list[object], text: str) -> None:
    refs = references(1)
    items = [item_of("query", refs[0], query_result=result) for result in results]
    ((_, error),) = _judge("query", refs, items, Dialect(absent_query_results={"9"})).verdicts
    assert str(error) == text


def test_a_refund_record_has_no_result_of_its_own() -> None:
    refs = references(1)
    assert _statuses(_judge("search_refunds", refs, [{"transaction_id": "T000000"}])) == [SUCCEEDED]


@pytest.mark.parametrize("operation", LOOK_UPS)
@pytest.mark.parametrize(("count", "several"), [(100, UNKNOWN), (99, SUCCEEDED)])
def test_a_full_reply_with_strangers_may_lack_records(
    operation: str, count: int, several: OutcomeStatus
) -> None:
    refs = references(2)
    one, *more = (item_of(operation, refs[n], amount="1") for n in (0, 1, 1))
    judgement = _judge(operation, refs, [one, *more, *[STRANGER] * (count - 3)])
    assert _statuses(judgement) == [SUCCEEDED, several]
    assert (judgement.items[1], judgement.truncated) == (tuple(more), False)


@pytest.mark.parametrize("operation", LOOK_UPS)
@pytest.mark.parametrize(
    ("asked", "listed", "cut"),
    [
        (100, [(n, 1) for n in range(100)], False),
        (99, [(n, 1) for n in range(99)], False),
        (99, [(0, 2), *((n, 1) for n in range(1, 99))], True),
        (99, [(0, 3), *((n, 1) for n in range(1, 98))], True),
        (50, [(0, 100)], True),
        (50, [(0, 99)], False),
        (1, [(0, 100)], True),
    ],
)
def test_a_full_reply_may_have_been_cut(
    operation: str, asked: int, listed: list[tuple[int, int]], cut: bool
) -> None:
    refs = references(asked)
    items = [item_of(operation, refs[n]) for n, count in listed for _ in range(count)]
    assert _judge(operation, refs, items).truncated is cut


@pytest.mark.parametrize("operation", LOOK_UPS)
def test_one_order_that_alone_fills_a_reply_is_unknown_with_its_records(operation: str) -> None:
    refs = references(1)
    items = [item_of(operation, refs[0], amount=str(n)) for n in range(100)]
    judgement = _judge(operation, refs, items)
    assert _statuses(judgement) == [UNKNOWN]
    assert judgement.items == [tuple(items)]


def test_references_of_one_kind_are_matched_by_that_kind_alone() -> None:
    refs = references(2)
    items = [{"order_no": "T000000", "transaction_id": "T000001", "query_result": "1"}]
    assert _statuses(_judge("query", refs, items)) == [ABSENT, SUCCEEDED]

"""What a result holds, and how it is read."""

import asyncio
import json
import pickle
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import (
    BatchIncompleteError,
    BatchPolicy,
    BatchResult,
    Dialect,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
    RefundRecord,
    ReplyEnvelope,
    RetryPolicy,
    UnexpectedRecords,
)
from tests.support.memory import Asked, HttpResponse, MemoryTransport, client_over
from tests.support.orders import made_up, orders_for, refunds, reply_to

CHUNK = 5


async def _result_of(statuses: list[OutcomeStatus], *, strangers: int = 0) -> BatchResult[Any, Any]:
    """Return the result of orders that come to these statuses, with chunks of several at once."""
    names = [order.transaction_id for order in refunds(len(statuses))]
    by_name = dict(zip(names, statuses, strict=True))
    marks = {OutcomeStatus.SUCCEEDED: "1", OutcomeStatus.DECLINED: "0", OutcomeStatus.UNKNOWN: "?"}

    async def answer(asked: Asked) -> dict[str, Any]:
        if OutcomeStatus.NOT_SENT in (by_name[one] for one in asked.transactions):
            raise NotSentError("as if the connection were refused")
        for _ in range(int(asked.transactions[0][1:]) % 4):
            await asyncio.sleep(0)
        reply = asked.done()
        for item in reply["refund_orders"]:
            item["refund_status"] = marks[by_name[item["transaction_id"]]]
            item["refund_message"] = "2001:no" if item["refund_status"] == "0" else ""
        reply["refund_orders"] += [{"transaction_id": "T9"}] * strangers
        return reply

    gateway = client_over(
        MemoryTransport(answer),
        policy=BatchPolicy(chunk_size=CHUNK, concurrency=3, stop_after_unknown=100),
        dialect=Dialect(declined_statuses={"0"}),
        retry=RetryPolicy(attempts=1),
    )
    return await gateway.refund(refunds(len(statuses)))


_SENT = [OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED, OutcomeStatus.UNKNOWN]
_CHUNKS = st.lists(
    st.just([OutcomeStatus.NOT_SENT] * CHUNK)
    | st.lists(st.sampled_from(_SENT), min_size=CHUNK, max_size=CHUNK),
    max_size=6,
).map(lambda chunks: [status for chunk in chunks for status in chunk])


def _seen(outcomes: Any) -> list[tuple[object, ...]]:
    return [(repr(o), o.order, o.record, type(o.error), str(o.error), o.reply) for o in outcomes]


@settings(max_examples=30)
@given(statuses=_CHUNKS, strangers=st.integers(0, 1), data=st.data())
async def test_outcomes_are_in_input_order_read_like_a_list_and_survive_pickling(
    statuses: list[OutcomeStatus], strangers: int, data: st.DataObject
) -> None:
    made = await _result_of(statuses, strangers=strangers)
    again, alone = (pickle.loads(pickle.dumps(one)) for one in (made, list(made)))  # noqa: S301  # our own
    assert _seen(again) == _seen(alone) == _seen(made)
    assert list(again.unexpected) == list(made.unexpected)
    result = data.draw(st.sampled_from([made, again]))
    assert "T000001" not in repr(result)
    assert repr(result.succeeded) == f"<{len(result.succeeded)} succeeded>"
    assert [outcome.status for outcome in result] == statuses
    assert [outcome.order for outcome in result] == refunds(len(statuses))
    views = (result, result.succeeded, result.declined, result.unknown, result.not_sent)
    for view in views:
        whole = [outcome.index for outcome in view]
        bounds = st.none() | st.integers(-50, 50)
        steps = st.none() | st.sampled_from([-3, -1, 1, 2])
        part = slice(data.draw(bounds), data.draw(bounds), data.draw(steps))
        assert [outcome.index for outcome in view[part]] == whole[part]
        at = [view[n].index for n in range(-len(whole), len(whole))]
        assert at == [*whole, *whole]
        assert [outcome.index for outcome in reversed(view)] == whole[::-1]
        for beyond in (len(whole), -len(whole) - 1):
            with pytest.raises(IndexError, match="no outcome"):
                _ = view[beyond]
    assert sorted(o.index for view in views[1:] for o in view) == list(range(len(result)))
    assert result.counts == {status: statuses.count(status) for status in OutcomeStatus}
    assert result.ok == (len(result.succeeded) == len(result) and not result.unexpected)


async def test_what_was_not_taken_to_its_end_is_not_ok() -> None:
    async with client_over(MemoryTransport()).refund(iter(refunds(2000))) as batch:
        pass
    with pytest.raises(BatchIncompleteError, match="not taken to its end") as caught:
        batch.result.raise_for_problems()
    assert caught.value.result is batch.result


@pytest.mark.parametrize(("records", "size", "kept"), [(600, 10, 1000), (1, 1_000_000, 32)])
async def test_all_unexpected_are_counted_some_kept(records: int, size: int, kept: int) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        strangers = [{"transaction_id": "T9"}, *["x" * size] * records]
        return reply_to("refund", [*asked.done()["refund_orders"], *strangers])

    policy = BatchPolicy(chunk_size=1)
    result = await client_over(MemoryTransport(answer), policy=policy).refund(refunds(20))
    unexpected: UnexpectedRecords[Any] = result.unexpected
    assert len(unexpected) == unexpected.count == 20 * (records + 1)
    assert f"{unexpected.count} unexpected records" in repr(result)
    assert len(list(unexpected)) == kept
    assert sum(len(str(one)) for one in unexpected) <= 16 * 2**20
    assert unexpected[0].transaction_id == "T9"
    assert unexpected[1] == "x" * size


# What a reply says as a whole: the same object for all orders of a request

BUSY = {"return_status": "77", "return_message": "busy"}


@pytest.mark.parametrize(
    ("operation", "reply", "said"),
    [
        *((name, {}, ("1", "OK", 200)) for name in ("refund", "query")),
        ("refund", BUSY, ("77", "busy", 200)),
        *(("refund", HttpResponse(status, {}, b""), None) for status in (429, 503)),
    ],
)
async def test_each_outcome_has_the_envelope_of_its_request(
    operation: str, reply: Any, said: tuple[str, str, int] | None
) -> None:
    def answer(asked: Asked) -> Any:
        return reply if said is None else asked.done(**reply)

    policy = BatchPolicy(chunk_size=2, concurrency=1)
    dialect = Dialect(nothing_done_http_statuses={429})
    gateway = client_over(MemoryTransport(answer), policy=policy, dialect=dialect)
    began, orders = datetime.now(UTC), orders_for(operation, made_up(4))
    result = await gateway.batch(operation, orders)
    async with gateway.batch(operation, orders) as batch:
        streamed = [outcome async for outcome in batch]
    for outcomes in (result, streamed):
        first, second, third, fourth = (outcome.reply for outcome in outcomes)
        assert (first is second, third is fourth, first is third) == (True, True, said is None)
        for envelope in (first, third) if said else ():
            assert isinstance(envelope, ReplyEnvelope)
            shown = (envelope.return_status, envelope.return_message, envelope.http_status)
            assert shown == said
            assert began <= envelope.received_at <= datetime.now(UTC)
            assert envelope.received_at.utcoffset() == timedelta(0)


# `BatchResult.to_dicts`: flat rows for data frames

PLAIN = {str, int, Decimal, datetime, date, type(None)}
OUTCOME = ["index", "status", "error", "error_type", "error_code", "error_text"]


def names(model: type, prefix: str = "") -> list[str]:
    return [f"{prefix}{field.name}" for field in attrs.fields(model)]


async def looked_up(items: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
    """Return the rows of a look-up of these records, and of more references, 20 a request."""

    def answer(asked: Asked) -> dict[str, Any]:
        names = str(asked.fields["order_no"]).split(",")
        return reply_to("query", [item for item in items if item["order_no"] in names])

    gateway = client_over(MemoryTransport(answer), policy=BatchPolicy(chunk_size=20))
    found = dict.fromkeys([*(item["order_no"] for item in items), *more])
    return (await gateway.query([OrderRef(order_no=name) for name in found])).to_dicts()


async def test_a_row_for_each_order_in_the_order_of_the_input() -> None:
    result = await _result_of([*_SENT[:2], *_SENT, *[OutcomeStatus.NOT_SENT] * 5])
    rows = result.to_dicts()
    columns = [*OUTCOME, *names(RefundOrder), *names(RefundRecord, "record_")]
    assert all(list(row) == columns for row in rows)
    assert {type(value) for row in rows for value in row.values()} <= PLAIN
    for index, (outcome, row) in enumerate(zip(result, rows, strict=True)):
        record, error = outcome.record, outcome.error
        assert (row["index"], row["status"]) == (index, str(outcome.status))
        assert row["transaction_id"] == outcome.order.transaction_id
        assert row["error"] == (str(error) if error else None)
        assert row["error_type"] == (type(error).__name__ if error else None)
        assert row["record_refund_amount"] == (record.refund_amount if record else None)
    assert (rows[1]["error_code"], rows[1]["error_text"]) == ("2001", "no")


async def test_polars_makes_a_frame_of_a_row_for_each_record_and_rounds_no_amount() -> None:
    polars = pytest.importorskip("polars")
    texts = [*["3"] * 150, "2.505", "0.1", "100"]
    items = [
        {"order_no": f"N{number // 3}", "query_result": "1", "amount": text}
        for number, text in enumerate(texts)
    ]
    rows = await looked_up(items, "none")
    assert [row["index"] for row in rows] == [number // 3 for number in range(154)]
    assert (rows[-1]["status"], rows[-1]["record_amount"]) == ("absent", None)
    for frame in (polars.DataFrame(rows, infer_schema_length=None), polars.DataFrame(rows)):
        assert frame["record_amount"].to_list() == [*map(Decimal, texts), None]
        assert frame["order_no"].to_list() == [*(item["order_no"] for item in items), "none"]


async def test_nested_parts_and_what_the_interface_does_not_list() -> None:
    record = {
        "order_no": "A-1",
        "query_result": "1",
        "amount": "9.90",
        "transaction_date": "20260131120000",
        "delivery_information": {"delivery_city": "Köln", "floor": 3},
        "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
        "subscription_result": {"contract_name": "monthly"},
        "card_number": "4111111111111111",
        "risk": {"score": 7, "cvv": "123"},
    }
    wrong = {"order_no": "A-2", "query_result": "1", "amount": "ten"}
    row, unreadable = await looked_up([record, wrong])
    shown = {
        "transaction_date": datetime(2026, 1, 31, 12),  # noqa: DTZ001  # as it came
        "delivery_information_delivery_city": "Köln",
        "delivery_information_extra": '{"floor": 3}',
        "subscription_result_contract_name": "monthly",
        "fraud_check_result": '[{"check_items": "ip", "status": "ACCEPT"}]',
        "extra": '{"card_number": "***", "risk": {"score": 7, "cvv": "***"}}',
        "unreadable": None,
    }
    assert {name: row[f"record_{name}"] for name in shown} == shown
    assert (unreadable["record_amount"], unreadable["record_fraud_check_result"]) == (None, None)
    assert json.loads(unreadable["record_unreadable"]) == {"amount": "ten"}
    assert {type(value) for value in (*row.values(), *unreadable.values())} <= PLAIN

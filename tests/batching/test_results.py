"""What a result holds, and how it is read."""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import (
    BatchIncompleteError,
    BatchPolicy,
    BatchResult,
    Dialect,
    NotSentError,
    OutcomeStatus,
    ReplyEnvelope,
    RetryPolicy,
    UnexpectedRecords,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, Fault, MissingItems, ReturnStatus, Status
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import client_of, orders_for, refunds, reply_to

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
            item["refund_message"] = ""
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


@settings(max_examples=30)
@given(statuses=_CHUNKS, data=st.data())
async def test_outcomes_are_in_input_order_and_read_like_a_list(
    statuses: list[OutcomeStatus], data: st.DataObject
) -> None:
    result = await _result_of(statuses)
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


async def test_what_was_not_taken_to_its_end_is_not_ok() -> None:
    async with client_over(MemoryTransport(all_done)).refund(iter(refunds(2000))) as batch:
        pass
    with pytest.raises(BatchIncompleteError, match="not taken to its end"):
        batch.result.raise_for_problems()


@pytest.mark.parametrize(("records", "size", "kept"), [(600, 10, 1000), (1, 1_000_000, 32)])
async def test_unexpected_records_are_counted_all_and_kept_in_part(
    records: int, size: int, kept: int
) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        strangers = [{"transaction_id": "T9"}, *["x" * size] * records]
        return reply_to("refund", [*asked.done()["refund_orders"], *strangers])

    policy = BatchPolicy(chunk_size=1)
    result = await client_over(MemoryTransport(answer), policy=policy).refund(refunds(20))
    unexpected: UnexpectedRecords[Any] = result.unexpected
    assert len(unexpected) == unexpected.count == 20 * (records + 1)
    assert len(list(unexpected)) == kept
    assert sum(len(str(one)) for one in unexpected) <= 16 * 2**20
    assert unexpected[0].transaction_id == "T9"
    assert unexpected[1] == "x" * size


async def test_a_result_and_each_outcome_of_it_survive_pickling() -> None:
    result = await _result_of([*_SENT[:2], *_SENT] + [OutcomeStatus.NOT_SENT] * 5, strangers=1)

    def seen(outcomes: Any) -> list[tuple[object, ...]]:
        return [
            (o.index, o.order, o.status, o.record, type(o.error), str(o.error)) for o in outcomes
        ]

    again, alone = (pickle.loads(pickle.dumps(one)) for one in (result, list(result)))  # noqa: S301  # our own
    assert seen(again) == seen(alone) == seen(result)
    assert (len(again), again.counts, again.ok) == (10, result.counts, False)
    assert list(again.unexpected) == list(result.unexpected)
    assert [o.index for o in again.declined] == [1, 3]
    assert "T000001" not in repr(result)
    assert repr(result.succeeded) == "<2 succeeded>"


async def test_a_result_of_nothing_is_ok() -> None:
    transport = MemoryTransport(all_done)
    result = await client_over(transport).refund([])
    assert (len(result), result.ok, result.requests, transport.asked) == (0, True, 0, [])
    assert result.counts == dict.fromkeys(OutcomeStatus, 0)


# What a reply says as a whole: the same object for all orders of a request

TWO = BatchPolicy(chunk_size=2, concurrency=1)


def envelopes_of(outcomes: Any) -> list[Any]:
    """Return the envelope of each request of two orders, which both of them have."""
    found = [one.reply for one in sorted(outcomes, key=lambda outcome: outcome.index)]
    assert all(one is other for one, other in zip(found[::2], found[1::2], strict=True))
    assert found[0] is not found[2]
    return found[::2]


@pytest.mark.parametrize("operation", ["refund", "query"])
async def test_each_outcome_has_the_envelope_of_its_request(
    sandbox: Sandbox, operation: str
) -> None:
    orders = [orders_for(operation, sandbox.seed(4, status="captured")) for _ in range(2)]
    began = datetime.now(UTC)
    async with client_of(sandbox, policy=TWO) as gateway:
        result = await getattr(gateway, operation)(orders[0])
        async with getattr(gateway, operation)(orders[1]) as batch:
            streamed = [outcome async for outcome in batch]
    again = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    for outcomes in (result, streamed, again):
        for envelope in envelopes_of(outcomes):
            assert isinstance(envelope, ReplyEnvelope)
            said = (envelope.return_status, envelope.return_message, envelope.http_status)
            assert said == ("1", "OK", 200)
            assert began <= envelope.received_at <= datetime.now(UTC)
            assert envelope.received_at.utcoffset() == timedelta(0)
    assert [outcome.reply for outcome in again] == [outcome.reply for outcome in result]


@pytest.mark.parametrize(
    ("fault", "said", "counts"),
    [
        (ReturnStatus("77", "busy", after_effect=False), ("77", "busy", 200), {"unknown": 4}),
        (MissingItems(1), ("1", "OK", 200), {"unknown": 2, "succeeded": 2}),
        (Status(429, ""), (None, None, 429), {"declined": 4}),
        (Status(503, ""), None, {"unknown": 4}),
        (DropReply(), None, {"unknown": 4}),
    ],
)
async def test_the_envelope_of_a_reply_that_is_not_all_right(
    sandbox: Sandbox, fault: Fault, said: tuple[object, ...] | None, counts: dict[str, int]
) -> None:
    sandbox.faults.add("refund", fault)
    dialect = Dialect(nothing_done_http_statuses={429})
    async with client_of(sandbox, policy=TWO, dialect=dialect) as gateway:
        result = await gateway.refund(orders_for("refund", sandbox.seed(4, status="captured")))
    assert {status: count for status, count in result.counts.items() if count} == counts
    if said is None:
        assert [outcome.reply for outcome in result] == [None] * 4
        return
    for envelope in envelopes_of(result):
        assert (envelope.return_status, envelope.return_message, envelope.http_status) == said

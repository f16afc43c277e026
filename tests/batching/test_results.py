"""What a result holds, and how it is read."""

import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_async import (
    BatchIncompleteError,
    BatchPolicy,
    BatchResult,
    Dialect,
    NotSentError,
    OutcomeStatus,
    RefundRecord,
    ReplyUnreadableError,
    RetryPolicy,
    UnexpectedRecords,
)
from gateway_async.batching.results import (
    UNEXPECTED_BYTES_KEPT,
    UNEXPECTED_KEPT,
    FailedChunk,
    Outcome,
    OutcomeView,
    Results,
)
from gateway_async.wire.decode import decode_json, without_signatures
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import refunds

REASON = NotSentError("nothing was sent")


def _chunk(indices: list[int], status: OutcomeStatus) -> FailedChunk:
    orders = tuple(f"order {index}" for index in indices)
    return FailedChunk(indices=indices, orders=orders, status=status, error=REASON)


@st.composite
def _chunks(draw: st.DrawFn) -> list[FailedChunk]:
    """Chunks over all of 0..n, interleaved, in order of completion."""
    owners = draw(st.lists(st.integers(0, 6), max_size=40))
    statuses = draw(st.lists(st.sampled_from(OutcomeStatus), min_size=7, max_size=7))
    chunks = [
        _chunk([n for n, one in enumerate(owners) if one == owner], statuses[owner])
        for owner in sorted(set(owners))
    ]
    return draw(st.permutations(chunks))


@given(chunks=_chunks())
def test_a_view_is_in_input_order(chunks: list[FailedChunk]) -> None:
    view: OutcomeView[Any, Any] = OutcomeView(chunks)
    outcomes = list(view)
    assert [outcome.index for outcome in outcomes] == list(range(len(view)))
    assert all(outcome.order == f"order {outcome.index}" for outcome in outcomes)


@given(chunks=_chunks(), data=st.data())
def test_a_view_is_read_like_a_list(chunks: list[FailedChunk], data: st.DataObject) -> None:
    view: OutcomeView[Any, Any] = OutcomeView(chunks)
    whole = list(view)
    bounds = st.none() | st.integers(-50, 50)
    part = slice(
        data.draw(bounds), data.draw(bounds), data.draw(st.none() | st.sampled_from([-3, -1, 1, 2]))
    )
    assert view[part] == whole[part]
    assert [view[n] for n in range(-len(whole), len(whole))] == [*whole, *whole]
    assert list(reversed(view)) == whole[::-1]
    for beyond in (len(whole), -len(whole) - 1):
        with pytest.raises(IndexError, match="no outcome"):
            _ = view[beyond]


@given(chunks=_chunks())
def test_the_views_by_status_share_out_the_whole(chunks: list[FailedChunk]) -> None:
    results = Results(RefundRecord)
    for chunk in chunks:
        results.add(chunk)
    result = results.result(exhausted=True)
    views = (result.succeeded, result.declined, result.absent, result.unknown, result.not_sent)
    indices = sorted(outcome.index for view in views for outcome in view)
    assert indices == list(range(len(result)))
    assert {s: len(v) for s, v in zip(OutcomeStatus, views, strict=True)} == result.counts
    assert all(v[-1] == list(v)[-1] for v in views if v)
    assert results.progress(None).done == len(result)


@pytest.mark.parametrize(
    ("status", "unexpected", "exhausted", "ok"),
    [
        (OutcomeStatus.SUCCEEDED, 0, True, True),
        (OutcomeStatus.SUCCEEDED, 1, True, False),
        (OutcomeStatus.SUCCEEDED, 0, False, False),
        (OutcomeStatus.DECLINED, 0, True, False),
        (OutcomeStatus.ABSENT, 0, True, False),
        (OutcomeStatus.UNKNOWN, 0, True, False),
        (OutcomeStatus.NOT_SENT, 0, True, False),
    ],
)
def test_ok_is_all_success_and_nothing_else(
    status: OutcomeStatus, unexpected: int, exhausted: bool, ok: bool
) -> None:
    results = Results(RefundRecord)
    results.add(_chunk([0, 1], status))
    results.add_unexpected([{}] * unexpected, 2)
    result = results.result(exhausted=exhausted)
    assert result.ok is ok
    if ok:
        result.raise_for_problems()
        return
    with pytest.raises(BatchIncompleteError) as caught:
        result.raise_for_problems()
    assert caught.value.result is result
    told = {"unexpected": "unexpected records", "exhausted": "not taken to its end"}
    assert (told["unexpected"] in str(caught.value)) is bool(unexpected)
    assert (told["exhausted"] in str(caught.value)) is not exhausted
    assert f"2 {status}" in str(caught.value)
    assert repr(result) == f"<BatchResult {str(caught.value).partition(': ')[2]}>"


def test_unexpected_records_are_counted_all_and_kept_in_part() -> None:
    results = Results(RefundRecord)
    for _ in range(3):
        results.add_unexpected([{"transaction_id": "T9"}, "text"] * 300, 6000)
    unexpected: UnexpectedRecords[Any] = results.result(exhausted=True).unexpected
    assert len(unexpected) == unexpected.count == 1800
    assert len(list(unexpected)) == UNEXPECTED_KEPT
    assert unexpected[0].transaction_id == "T9"
    assert unexpected[1] == "text"


async def _mixed_result() -> BatchResult[Any, Any]:
    """A result with every kind of chunk, as an application gets it."""

    def handler(asked: Asked) -> dict[str, Any]:
        first = int(asked.transactions[0][1:])
        if first == 10:
            raise NotSentError("as if the connection were refused")
        reply = asked.done(encryption_data="s1gnature")
        if first == 20:
            reply["refund_orders"][0] |= {"refund_status": "0", "refund_message": "2001:no"}
            reply["refund_orders"].append({"transaction_id": "stranger"})
        return reply

    policy = BatchPolicy(chunk_size=10, concurrency=2)
    retry = RetryPolicy(first_pause_seconds=0)
    dialect = Dialect(declined_statuses={"0"})
    transport = MemoryTransport(handler)
    gateway = client_over(transport, policy=policy, retry=retry, dialect=dialect)
    return await gateway.refund(refunds(40))


async def test_a_result_survives_pickling() -> None:
    result = await _mixed_result()
    again = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    assert again.counts == result.counts
    assert len(again) == len(result) == 40
    assert [(o.index, o.order, o.status, o.record) for o in again] == [
        (o.index, o.order, o.status, o.record) for o in result
    ]
    assert [(type(o.error), str(o.error)) for o in again] == [
        (type(o.error), str(o.error)) for o in result
    ]
    assert list(again.unexpected) == list(result.unexpected)
    assert [o.index for o in again.declined] == [20]
    assert again.ok is False


async def test_outcomes_and_errors_survive_pickling_each_alone() -> None:
    result = await _mixed_result()
    for outcome in result:
        one: Outcome[Any, Any] = pickle.loads(pickle.dumps(outcome))  # noqa: S301  # our own
        assert one.record == outcome.record
        assert one.status is outcome.status
    with pytest.raises(BatchIncompleteError) as caught:
        result.raise_for_problems()
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own
    assert again.result.counts == result.counts


async def test_a_repr_shows_counts_and_no_orders() -> None:
    result = await _mixed_result()
    assert "T000001" not in repr(result)
    assert "succeeded" in repr(result)
    assert repr(result.succeeded) == f"<{len(result.succeeded)} succeeded>"


async def test_a_result_of_nothing_is_ok() -> None:
    transport = MemoryTransport(all_done)
    result = await client_over(transport).refund([])
    assert (len(result), result.ok, result.requests, transport.asked) == (0, True, 0, [])
    assert result.counts == dict.fromkeys(OutcomeStatus, 0)


@pytest.mark.parametrize(
    "reply",
    [
        b'{"encryption_data": "s3cret"}',
        rb'{"encryption\u005fdata":"s3cret"}',
        b'{"encryption_data":"s3cret","encryption_data":""}',
        b'{"items":[{"encryption_data":["s3cret"]}],"items":[]}',
        b'{"a":{"encryption_data":"s3cret"},"a":{},"encryption_data":"s3cret"}',
        rb'{"encryption_data":"s3cret","items":[{"\u0065ncryption_data":"s3cret"}]}',
        b'{"items":[{"encryption_data":["s3cret",{"v":"s3cret"}]}],"encryption_data":{"v":"s3cret"}}',
    ],
)
def test_a_signature_is_emptied_however_it_is_written(reply: bytes) -> None:
    kept, payload = without_signatures(reply, decode_json(reply))
    assert b"s3cret" not in kept
    assert "s3cret" not in str(payload.get("items"))
    assert decode_json(kept).keys() == payload.keys()


def test_what_is_nested_too_deep_is_not_kept_with_its_signatures() -> None:
    nested = '{"encryption_data":"s3cret","a":' * 400 + "1" + "}" * 400
    with pytest.raises(ReplyUnreadableError, match="nested too deep") as caught:
        without_signatures(nested.encode(), decode_json(nested.encode()))
    assert "s3cret" not in repr(caught.value)


def test_an_escaped_letter_is_no_reason_to_write_a_reply_again() -> None:
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    for reply in (
        rb'{"text": "r\u00e9ussi", "more": ' + deep + b"}",
        rb'{"x\"encryption_data": "r\u00e9ussi"}',
    ):
        payload = decode_json(reply)
        assert without_signatures(reply, payload) == (reply, payload)
    signed = rb'{"text": "r\u00e9ussi", "encryption_data": "s3cret"}'
    kept, _ = without_signatures(signed, decode_json(signed))
    assert kept == rb'{"text": "r\u00e9ussi", "encryption_data": ""}'


async def test_a_pickled_outcome_holds_no_field_that_is_named_like_a_secret() -> None:
    secrets = {"card": "4111111111111111", "security_code": "98765", "signInfo": "s1gs1gs1g"}

    def answer(asked: Asked) -> Any:
        reply = asked.done()
        reply["refund_orders"][0] |= secrets
        return reply

    (outcome,) = await client_over(MemoryTransport(answer)).refund(refunds(1))
    kept = pickle.dumps(outcome)
    assert [value for value in secrets.values() if value.encode() in kept] == []
    assert pickle.loads(kept).record == outcome.record  # noqa: S301  # our own


def test_unexpected_records_of_large_replies_are_counted_and_not_kept() -> None:
    results = Results(RefundRecord)
    for _ in range(20):
        results.add_unexpected(["x" * 1_000_000], 1_000_000)
    unexpected: UnexpectedRecords[Any] = results.result(exhausted=True).unexpected
    assert unexpected.count == 20
    assert len(list(unexpected)) == UNEXPECTED_BYTES_KEPT // 1_000_000

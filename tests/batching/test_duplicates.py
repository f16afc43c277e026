"""Duplicates: refused, one behind the other, or as they come."""

import asyncio
from collections import Counter
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, BatchResult, DuplicateOrderError, NotSentError, OutcomeStatus
from gateway_async.transport import HttpResponse
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import made_up, orders_for, refunds

BROKEN = HttpResponse(500, {}, b"")


def _policy(duplicates: str, concurrency: int = 4, chunk_size: int = 5) -> BatchPolicy:
    return BatchPolicy(
        duplicates=duplicates,
        concurrency=concurrency,
        chunk_size=chunk_size,
        stop_after_unknown=1000,
    )


def _threefold() -> list[Any]:
    """Twenty orders, three times: near each other and far away."""
    orders = refunds(20)
    return [order for order in orders[:10] for _ in range(3)] + orders[10:] * 3


async def _run(
    transport: MemoryTransport, policy: BatchPolicy, orders: Any
) -> BatchResult[Any, Any]:
    return await client_over(transport, policy=policy).refund(orders)


async def test_duplicates_are_refused_by_default() -> None:
    transport = MemoryTransport(all_done)
    with pytest.raises(DuplicateOrderError, match="40 of 60"):
        await client_over(transport).refund(_threefold())
    assert transport.asked == []


async def test_the_first_of_a_stream_is_sent_and_the_later_ones_are_refused() -> None:
    transport = MemoryTransport(all_done)
    result = await _run(transport, _policy("reject"), iter(_threefold()))
    sent = Counter(one for asked in transport.asked for one in asked.transactions)
    assert set(sent.values()) == {1}
    assert len(sent) == len(result.succeeded) == 20
    assert all(isinstance(outcome.error, DuplicateOrderError) for outcome in result.not_sent)


@pytest.mark.parametrize("duplicates", ["serialize", "allow"])
@pytest.mark.parametrize("chunk_size", [1, 5, 50])
@pytest.mark.parametrize("as_stream", [True, False])
async def test_duplicates_are_all_sent_and_never_share_a_request(
    duplicates: str, chunk_size: int, as_stream: bool
) -> None:
    transport = MemoryTransport(all_done)
    orders = _threefold()
    policy = _policy(duplicates, chunk_size=chunk_size)
    result = await _run(transport, policy, iter(orders) if as_stream else orders)
    assert result.ok
    assert [outcome.order for outcome in result] == orders
    sent = Counter(one for asked in transport.asked for one in asked.transactions)
    assert set(sent.values()) == {3}
    assert all(len(set(a.transactions)) == len(a.transactions) for a in transport.asked)


async def test_after_an_unknown_the_later_ones_of_the_same_identity_are_not_sent() -> None:
    doubtful = {"T000003", "T000012"}

    def handler(asked: Asked) -> Any:
        return BROKEN if doubtful & set(asked.transactions) else asked.done()

    orders = _threefold()
    transport = MemoryTransport(handler)
    result = await _run(transport, _policy("serialize", chunk_size=1), orders)
    sent = Counter(one for asked in transport.asked for one in asked.transactions)
    assert {one for one, count in sent.items() if count == 1} == doubtful
    assert len(result.unknown) == 2
    assert len(result.not_sent) == 4
    assert {outcome.order.transaction_id for outcome in result.not_sent} == doubtful
    for outcome in result.not_sent:
        assert type(outcome.error) is NotSentError
        assert "unknown outcome" in str(outcome.error)
    assert result.counts[OutcomeStatus.SUCCEEDED] == 54


@pytest.mark.parametrize("wrong", ["too precise", "of another class"])
async def test_a_wrong_order_lets_none_like_it_overtake_the_one_in_flight(wrong: str) -> None:
    flying: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def handler(asked: Asked) -> dict[str, Any]:
        flying.update(asked.transactions)
        for name in asked.transactions:
            most[name] = max(most[name], flying[name])
        for _ in range(50):
            await asyncio.sleep(0)
        flying.subtract(asked.transactions)
        return asked.done()

    right = refunds(1)[0]
    bad = (
        attrs.evolve(right, refund_amount="0.001")
        if wrong == "too precise"
        else orders_for("capture", made_up(1))[0]
    )
    orders = [right, bad, right, bad, right]
    result = await _run(MemoryTransport(handler), _policy("serialize", chunk_size=1), iter(orders))
    assert most == {right.transaction_id: 1}
    assert [outcome.index for outcome in result.succeeded] == [0, 2, 4]
    assert [outcome.index for outcome in result.not_sent] == [1, 3]

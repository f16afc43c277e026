"""Limiters that break: no order is lost, and what was sent is not called unsent."""

from typing import Any

import pytest

from gateway_async import BatchPolicy, OutcomeStatus
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import references, refunds, reply_to

POLICY = BatchPolicy(concurrency=1, chunk_size=10)


class _Limiter:
    """Breaks when it is entered, or left, for the second time."""

    def __init__(self, breaks: str) -> None:
        self._breaks = breaks
        self._entered = 0

    async def __aenter__(self) -> None:
        self._entered += 1
        self._break("entered")

    async def __aexit__(self, *_: object) -> None:
        self._break("left")

    def _break(self, what: str) -> None:
        if (what, self._entered) == (self._breaks, 2):
            raise LookupError("the limiter broke")


@pytest.mark.parametrize(
    ("breaks", "status", "requests"),
    [("entered", OutcomeStatus.NOT_SENT, 1), ("left", OutcomeStatus.UNKNOWN, 2)],
)
async def test_a_limiter_that_breaks(breaks: str, status: OutcomeStatus, requests: int) -> None:
    transport = MemoryTransport(all_done)
    gateway = client_over(transport, policy=POLICY, limiter=_Limiter(breaks))
    batch = gateway.refund(refunds(30))
    with pytest.raises(LookupError, match="the limiter broke"):
        await batch
    statuses = [outcome.status for outcome in batch.result]
    assert (
        statuses == [OutcomeStatus.SUCCEEDED] * 10 + [status] * 10 + [OutcomeStatus.NOT_SENT] * 10
    )
    assert batch.result.requests == len(transport.asked) == requests
    noted = [outcome.sending is not None for outcome in batch.result]
    assert noted == [True] * 10 * requests + [False] * 10 * (3 - requests)


async def test_a_limiter_that_breaks_between_two_halves_of_a_look_up() -> None:
    """The first reply may have been cut; the limiter breaks before the first half is asked for."""
    refs = references(64)

    def answer(asked: Asked) -> dict[str, Any]:
        items = [{"transaction_id": one, "query_result": "1"} for one in asked.transactions * 2]
        return reply_to("query", items[:100])

    batch = client_over(MemoryTransport(answer), limiter=_Limiter("entered")).query(refs)
    with pytest.raises(LookupError, match="the limiter broke"):
        await batch
    assert [outcome.index for outcome in batch.result] == list(range(64))
    assert not batch.result.counts[OutcomeStatus.ABSENT]

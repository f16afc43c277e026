"""A fault strikes one request, and the other requests of the batch go on, until there are many."""

import pytest

from gateway_async import BatchPolicy
from tests.faults.deeds import (
    ATTEMPTS,
    SUCCEEDED,
    UNKNOWN,
    BatchDeed,
    Trial,
)
from tests.support.servers import PLACES, OnReply, OnRequest, Proxy, Trouble

batches = pytest.mark.parametrize("trial", ["query", "refund"], indirect=True)
TROUBLES = [OnRequest(PLACES["within its body"]), OnRequest(), OnReply(PLACES["within its body"])]


@batches
@pytest.mark.parametrize("trouble", TROUBLES, ids=["request cut", "no reply", "reply cut"])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_other_requests_of_the_batch_go_on(
    trial: Trial, proxy: Proxy, trouble: Trouble, concurrency: int
) -> None:
    proxy.once(trouble)
    policy = BatchPolicy(concurrency=concurrency, chunk_size=2)
    async with trial.client(proxy.base_url, policy=policy) as gateway:
        told = await trial.run_with(gateway, size=12)
    lost = trial.by_kind(read=0, money=2)
    assert told.statuses.count(UNKNOWN) == lost
    assert told.statuses.count(SUCCEEDED) == 12 - lost
    assert proxy.requests == trial.by_kind(read=7, money=6)


@batches
async def test_a_stream_tells_the_same(trial: Trial, proxy: Proxy) -> None:
    """The second of three requests loses its reply."""
    deed = trial.kind(trial.sandbox, size=6)
    assert isinstance(deed, BatchDeed)
    policy = BatchPolicy(concurrency=1, chunk_size=2)
    statuses = {}
    async with (
        trial.client(proxy.base_url, policy=policy) as gateway,
        deed.batch(gateway) as batch,
    ):
        async for outcome in batch:
            assert outcome.index not in statuses
            statuses[outcome.index] = outcome.status
            if len(statuses) == 1:
                proxy.once(OnReply(PLACES["before its first byte"]), times=ATTEMPTS)
    assert sorted(statuses) == list(range(6))
    assert list(statuses.values()).count(UNKNOWN) == trial.by_kind(read=2, money=4)
    assert max(deed.effects()) == 1

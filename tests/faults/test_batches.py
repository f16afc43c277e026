"""A fault strikes one request, and the other requests of the batch go on, until there are many."""

from typing import TYPE_CHECKING

import pytest

from gateway_async import BatchPolicy, Dialect
from gateway_async.sandbox import Sandbox, faults
from tests.faults.deeds import (
    ATTEMPTS,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    BatchDeed,
    PayOut,
    Trial,
)
from tests.support.servers import PLACES, OnReply, OnRequest, Proxy, Trouble

if TYPE_CHECKING:
    from gateway_async.sandbox.faults import Fault

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
@pytest.mark.parametrize(
    "fault", [faults.DropReply(), faults.Status(500), faults.InvalidBody()], ids=repr
)
async def test_a_batch_stops_after_too_many_lost_replies(trial: Trial, fault: "Fault") -> None:
    trial.sandbox.faults.add(trial.kind.operation, fault)
    policy = BatchPolicy(concurrency=1, chunk_size=1, stop_after_unknown=3)
    async with trial.client(policy=policy) as gateway:
        told = await trial.run_with(gateway, size=8)
    assert told.statuses == [UNKNOWN] * 3 + [NOT_SENT] * 5
    assert trial.requests == trial.by_kind(read=3 * ATTEMPTS, money=3)


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


@pytest.mark.parametrize("deduplicates", [False, True])
async def test_a_payout_is_repeated_only_where_the_gateway_deduplicates(
    *, deduplicates: bool
) -> None:
    async with Sandbox(deduplicate_payouts=deduplicates) as sandbox:
        trial = Trial(sandbox, PayOut)
        sandbox.faults.add("payout", faults.DropReply(times=1))
        told = await trial.run(dialect=Dialect(payout_deduplicates=deduplicates))
    assert told.status is (SUCCEEDED if deduplicates else UNKNOWN)
    assert (trial.requests, trial.effects) == (1 + deduplicates, [1])

"""Refunds, settled over HTTP by the records of a real gateway: what is proved, and nothing else."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gateway_async import RecoveryPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import (
    DropReply,
    EmptyLookUp,
    Fault,
    IgnoreSelection,
    LateEffect,
    ResetBeforeEffect,
    ReturnStatus,
)
from tests.recovery.books import (
    EVIDENCE,
    NO_BASELINE,
    NOT_SENT,
    REFERENCES,
    SUCCEEDED,
    UNKNOWN,
    MakeClient,
    assert_books_agree,
    refunds,
    statuses,
)


class BeforeRequest:
    """A limiter that does something before the n-th request from when it is told to."""

    def __init__(self) -> None:
        self._left = 0

    def act(self, number: int, act: Callable[[], object]) -> None:
        self._left, self._act = number, act

    async def __aenter__(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._act()

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_a_refund_whose_reply_was_lost_is_found(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(recovery)
    sandbox.faults.add("refund", DropReply(times=1))
    result = await gateway.refund(refunds(sandbox))
    assert len(result.unknown) == 2

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert recovered.ok
    assert recovered.counts[UNKNOWN] == 0
    assert [outcome.order for outcome in recovered] == [outcome.order for outcome in result]
    records: list[Any] = [outcome.record for outcome in recovered]
    assert all(record.refund_amount == 1 for record in records)
    assert_books_agree(sandbox, recovered)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_a_refund_that_never_arrived_is_proved_and_not_resent(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(recovery)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))

    recovered = await gateway.recover(result)

    assert recovered.counts[NOT_SENT] == 2
    assert recovered.counts[SUCCEEDED] == 4
    assert sandbox.requests["refund"] == 3
    assert_books_agree(sandbox, recovered)


async def test_without_a_baseline_a_refund_on_record_proves_nothing(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(NO_BASELINE)
    sandbox.faults.add("refund", DropReply(times=1))
    result = await gateway.refund(refunds(sandbox))

    recovered = await gateway.recover(result)

    assert len(recovered.unknown) == 2
    assert all("was not recorded" in str(outcome.error) for outcome in recovered.unknown)
    assert all(outcome.record is not None for outcome in recovered.unknown)


@pytest.mark.parametrize("recovery", EVIDENCE)
@pytest.mark.parametrize(
    "blind",
    [IgnoreSelection(), EmptyLookUp(), ReturnStatus(code="9", message="later")],
    ids=lambda fault: type(fault).__name__,
)
async def test_a_look_up_that_does_not_work_proves_no_absence(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy, blind: Fault
) -> None:
    gateway = client(recovery)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    sandbox.faults.add("search_refunds", blind)

    recovered = await gateway.recover(result)

    assert len(recovered.unknown) == 2
    assert not recovered.not_sent


async def test_without_a_witness_nothing_is_proved_absent(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    sandbox.faults.add("refund", ResetBeforeEffect())
    result = await gateway.refund(refunds(sandbox))
    assert not result.succeeded

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [outcome.status for outcome in result]
    assert str(recovered[0].error).endswith("recover it together with one that succeeded")
    sandbox.faults.clear()
    known = (await gateway.refund(refunds(sandbox)))[0]
    assert statuses(await gateway.recover([recovered[0], known])) == [NOT_SENT, SUCCEEDED]


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_a_refund_that_lands_after_its_reply_was_lost_is_waited_for(
    sandbox: Sandbox,
    client: MakeClient,
    recovery: RecoveryPolicy,
    skip_sleeps: Callable[..., list[float]],
) -> None:
    gateway = client(attrs.evolve(recovery, settle_seconds=60))
    sandbox.faults.add("refund", LateEffect(seconds=3600, times=1))
    result = await gateway.refund(refunds(sandbox))
    assert len(result.unknown) == 2
    slept = skip_sleeps(sandbox.land_late_effects)
    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert 50 < max(slept) <= 60
    assert_books_agree(sandbox, recovered)


@pytest.mark.parametrize("recovery", EVIDENCE)
@pytest.mark.parametrize("failing_look", [2, 3])
async def test_one_look_after_the_settle_time_is_not_enough(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy, failing_look: int
) -> None:
    before = BeforeRequest()
    gateway = client(recovery, limiter=before)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    before.act(failing_look, lambda: sandbox.faults.add("search_refunds", EmptyLookUp(times=1)))

    recovered = await gateway.recover(result)

    assert len(recovered.unknown) == 2
    assert all("two look-ups disagree" in str(outcome.error) for outcome in recovered.unknown)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_the_last_look_still_finds_a_refund(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    before = BeforeRequest()
    gateway = client(recovery, limiter=before)
    sandbox.faults.add("refund", LateEffect(seconds=3600, times=1))
    result = await gateway.refund(refunds(sandbox))
    before.act(3, sandbox.land_late_effects)

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert_books_agree(sandbox, recovered)


async def test_a_baseline_is_not_taken_from_a_reply_of_failure(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    sandbox.faults.add("search_refunds", ReturnStatus(code="0", message="busy"))

    result = await gateway.refund(refunds(sandbox))

    assert len(result.not_sent) == len(result)
    assert "could not be looked up" in str(result.not_sent[0].error)
    assert "busy" in str(result.not_sent[0].error)
    assert sandbox.requests["refund"] == 0


async def test_an_end_that_is_ahead_or_not_known_is_waited_for_from_now(
    sandbox: Sandbox, client: MakeClient, skip_sleeps: Callable[..., list[float]]
) -> None:
    gateway = client(attrs.evolve(REFERENCES, settle_seconds=60))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    unknown = result.unknown[0]
    assert unknown.sending is not None
    slept = skip_sleeps()
    for ended_at in (unknown.sending.ended_at + 3600, math.inf):
        ahead = attrs.evolve(unknown.sending, ended_at=ended_at)
        exchange = attrs.evolve(unknown.exchange, sending=ahead)
        await gateway.recover([attrs.evolve(unknown, exchange=exchange), *result.succeeded])
        assert 50 < max(slept) <= 60
        slept.clear()


async def test_a_cancelled_recovery_tells_of_what_it_was_given(
    sandbox: Sandbox, client: MakeClient
) -> None:
    before = BeforeRequest()
    gateway = client(REFERENCES, limiter=before)
    sandbox.faults.add("refund", DropReply(times=1))
    result = await gateway.refund(refunds(sandbox))
    recovering = asyncio.create_task(gateway.recover(list(result)))
    before.act(1, recovering.cancel)
    with pytest.raises(asyncio.CancelledError) as caught:
        await recovering
    told: Any = vars(caught.value)["outcome"]
    assert [outcome.order for outcome in told] == [outcome.order for outcome in result]
    assert statuses(told) == statuses(result)
    assert_books_agree(sandbox, await gateway.recover(told))

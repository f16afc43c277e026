"""Refunds, settled over HTTP by the records of a real gateway, and sent again where asked for."""

import asyncio
import math
import time
from collections.abc import Callable

import attrs
import pytest

from gateway_async import BatchPolicy, BatchResult, ConfigurationError, RecoveryPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import (
    DropReply,
    EmptyLookUp,
    IgnoreSelection,
    LateEffect,
    NoReply,
    ReturnStatus,
)
from tests.orders import Make, seeded
from tests.recovery.books import MARKER, REFERENCES, losing, lost
from tests.support.books import NOT_SENT, SUCCEEDED, check_books, statuses
from tests.support.collaborators import Limiter

BOTH = pytest.mark.parametrize("recovery", [REFERENCES, MARKER])
"""With either kind of evidence."""


@pytest.fixture
def skip_sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Let recovery wait for no time, but do something in its place; the pauses are noted."""
    sleep = asyncio.sleep

    def begin(meanwhile: Callable[[], object] = lambda: None) -> list[float]:
        slept: list[float] = []

        async def skip(seconds: float) -> None:
            slept.append(seconds)
            if seconds:
                meanwhile()
            await sleep(0)

        monkeypatch.setattr(asyncio, "sleep", skip)
        return slept

    return begin


class BeforeRequest(Limiter):
    """A limiter that does something before the n-th request from when it is told to."""

    def __init__(self) -> None:
        super().__init__(enter=lambda number: self._acts.pop(number, bool)())
        self._acts: dict[int, Callable[[], object]] = {}

    def act(self, number: int, act: Callable[[], object]) -> None:
        self._acts = {self.entered + number: act}


@BOTH
async def test_only_two_look_ups_that_work_and_agree_prove_an_absence(
    sandbox: Sandbox, make: Make, recovery: RecoveryPolicy
) -> None:
    before = BeforeRequest()
    gateway = make(recovery=recovery, limiter=before)
    result = await lost(sandbox, gateway)
    assert len(result.unknown) == 2
    for blind in (IgnoreSelection(), EmptyLookUp(), ReturnStatus(code="9", message="later")):
        sandbox.faults.add("search_refunds", blind)
        recovered = await gateway.recover(result)
        assert statuses(recovered) == statuses(result)
        sandbox.faults.clear()
    assert "later" in str(recovered.unknown[0].error)
    for failing_look in (2, 3):
        before.act(failing_look, lambda: sandbox.faults.add("search_refunds", EmptyLookUp(times=1)))
        recovered = await gateway.recover(result)
        assert len(recovered.unknown) == 2
        assert all("two look-ups disagree" in str(one.error) for one in recovered.unknown)
    recovered = await gateway.recover(result)
    assert {recovered[one.index].status for one in result.unknown} == {NOT_SENT}
    assert recovered.counts[SUCCEEDED] == 4
    assert [outcome.order for outcome in recovered] == [outcome.order for outcome in result]
    check_books(sandbox, recovered)
    assert sandbox.requests["refund"] == 3


@BOTH
@pytest.mark.parametrize("settle_seconds", [0, 60])
async def test_a_refund_that_lands_after_its_reply_was_lost_is_waited_for(
    sandbox: Sandbox,
    make: Make,
    recovery: RecoveryPolicy,
    skip_sleeps: Callable[..., list[float]],
    settle_seconds: int,
) -> None:
    """Also where it lands before the last look only."""
    before = BeforeRequest()
    gateway = make(recovery=attrs.evolve(recovery, settle_seconds=settle_seconds), limiter=before)
    sandbox.faults.add("refund", LateEffect(seconds=3600, times=1))
    result = await gateway.refund(seeded(sandbox))
    assert len(result.unknown) == 2
    before.act(3, sandbox.land_late_effects)
    slept = skip_sleeps(sandbox.land_late_effects)
    recovered = await gateway.recover(result)
    assert statuses(recovered) == [SUCCEEDED] * 6
    assert {one.record.refund_amount for one in recovered if one.record} == {1}
    assert 50 < max(slept) <= 60 or not settle_seconds
    check_books(sandbox, recovered)


@pytest.mark.parametrize(
    ("ended_at", "step", "resend_absent"),
    [(3600, 0, False), (math.inf, 0, False), (0, 3600, False), (-3600, 0, True)],
    ids=["ahead", "not known", "a step of the clock", "a resend has a settle time of its own"],
)
async def test_an_end_from_which_nothing_can_be_counted_is_waited_for_from_now(  # fixtures
    sandbox: Sandbox,
    make: Make,
    skip_sleeps: Callable[..., list[float]],
    monkeypatch: pytest.MonkeyPatch,
    ended_at: float,
    step: float,
    *,
    resend_absent: bool,
) -> None:
    """The wall clock may be put ahead meanwhile."""
    recovery = attrs.evolve(REFERENCES, settle_seconds=60, resend_absent=resend_absent)
    gateway, real = make(recovery=recovery), time.time
    result = await lost(sandbox, gateway)
    unknown = result.unknown[0]
    assert unknown.sending is not None
    sending = attrs.evolve(unknown.sending, ended_at=real() + ended_at)
    other = attrs.evolve(unknown, exchange=attrs.evolve(unknown.exchange, sending=sending))
    slept = skip_sleeps()
    monkeypatch.setattr(time, "time", lambda: real() + step)
    await gateway.recover([other, *result.succeeded])
    assert 50 < max(slept) <= 60


# What was proved absent, sent again where the caller asks for that, and once


@BOTH
async def test_recovery_with_resends_may_be_repeated(
    sandbox: Sandbox, make: Make, recovery: RecoveryPolicy
) -> None:
    gateway = make(recovery=attrs.evolve(recovery, resend_absent=True))
    result = await lost(sandbox, gateway)
    sandbox.faults.add("refund", DropReply(times=1))

    first = await gateway.recover(result)
    assert len(first.unknown) == 2
    for given in ([*result, *result.unknown], first, result):
        again = await gateway.recover(given)
        assert set(statuses(again)) == {SUCCEEDED}
        assert [outcome.order for outcome in again] == [outcome.order for outcome in given]
        check_books(sandbox, again)
    assert not (await gateway.recover([*result, *again])).not_sent
    check_books(sandbox, again)


async def test_what_was_sent_again_has_its_own_record(sandbox: Sandbox, make: Make) -> None:
    orders = seeded(sandbox, 3)
    gateway = make(recovery=attrs.evolve(REFERENCES, resend_absent=True))
    one_by_one = BatchPolicy(chunk_size=1, concurrency=1)
    result = await gateway.refund(losing(sandbox, "refund", *orders), policy=one_by_one)
    recovered = await gateway.recover(result)
    assert statuses(recovered) == [SUCCEEDED] * 3
    own = [outcome.record.transaction_id for outcome in recovered if outcome.record]
    assert own == [order.transaction_id for order in orders]
    check_books(sandbox, recovered)


async def test_two_recoveries_at_once_send_nothing_twice(sandbox: Sandbox, make: Make) -> None:
    gateway = make(recovery=attrs.evolve(REFERENCES, resend_absent=True))
    result = await lost(sandbox, gateway)

    recovered, error = await asyncio.gather(
        gateway.recover(result), gateway.recover(result.unknown), return_exceptions=True
    )

    assert isinstance(error, ConfigurationError)
    assert "await that call first" in str(error)
    assert isinstance(recovered, BatchResult)
    check_books(sandbox, recovered)
    check_books(sandbox, await gateway.recover(result))


@BOTH
async def test_a_recovery_cut_off_while_it_resends_may_be_repeated(
    sandbox: Sandbox, make: Make, recovery: RecoveryPolicy
) -> None:
    gateway = make(
        recovery=attrs.evolve(recovery, resend_absent=True),
        policy=BatchPolicy(concurrency=2, chunk_size=2, drain_seconds=0),
    )
    result = await lost(sandbox, gateway)
    sandbox.faults.add("refund", NoReply(times=1))
    recovering = asyncio.create_task(gateway.recover(result))
    while sandbox.requests["refund"] < 4:  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0.001)
    recovering.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await recovering
    assert getattr(caught.value, "outcome", None) is result
    recovered = await gateway.recover(result)
    assert statuses(recovered) == [SUCCEEDED] * 6
    check_books(sandbox, recovered)

"""What recovery proved not to be done, sent again where the caller asks for that, and once."""

import asyncio
import time
from collections.abc import Callable

import attrs
import pytest

from gateway_async import BatchPolicy, BatchResult, ConfigurationError, RecoveryPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, NoReply, ResetBeforeEffect
from tests.recovery.books import (
    EVIDENCE,
    REFERENCES,
    SUCCEEDED,
    MakeClient,
    assert_books_agree,
    refunds,
    statuses,
)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_what_is_absent_is_resent_where_the_caller_asks(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(attrs.evolve(recovery, resend_absent=True))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert [outcome.index for outcome in recovered] == list(range(6))
    assert_books_agree(sandbox, recovered)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_recovery_with_resends_may_be_repeated(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(attrs.evolve(recovery, resend_absent=True))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    sandbox.faults.add("refund", DropReply(times=1))

    first = await gateway.recover(result)
    assert len(first.unknown) == 2
    again = await gateway.recover(first)
    from_the_start = await gateway.recover(result)

    for recovered in (again, from_the_start):
        assert statuses(recovered) == [SUCCEEDED] * 6
        assert [outcome.order for outcome in recovered] == [outcome.order for outcome in result]
    assert_books_agree(sandbox, from_the_start)


async def test_two_recoveries_at_once_send_nothing_twice(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(attrs.evolve(REFERENCES, resend_absent=True))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))

    recovered, error = await asyncio.gather(
        gateway.recover(result), gateway.recover(result.unknown), return_exceptions=True
    )

    assert isinstance(error, ConfigurationError)
    assert "await that call first" in str(error)
    assert isinstance(recovered, BatchResult)
    assert_books_agree(sandbox, recovered)
    assert_books_agree(sandbox, await gateway.recover(result))


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_a_recovery_cut_off_while_it_resends_may_be_repeated(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(
        attrs.evolve(recovery, resend_absent=True),
        policy=BatchPolicy(concurrency=2, chunk_size=2, drain_seconds=0),
    )
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
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
    assert_books_agree(sandbox, recovered)


async def test_a_resend_waits_for_the_settle_time_of_its_own(
    sandbox: Sandbox, client: MakeClient, skip_sleeps: Callable[..., list[float]]
) -> None:
    gateway = client(attrs.evolve(REFERENCES, resend_absent=True, settle_seconds=60))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    unknown = result.unknown[0]
    assert unknown.sending is not None
    sending = attrs.evolve(unknown.sending, ended_at=0.0)
    old = attrs.evolve(unknown, exchange=attrs.evolve(unknown.exchange, sending=sending))
    slept = skip_sleeps()
    await gateway.recover([old, *result.succeeded])
    assert 50 < max(slept) <= 60


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_an_order_given_twice_is_resent_once(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(attrs.evolve(recovery, resend_absent=True))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))

    recovered = await gateway.recover([*result, *result.unknown])

    assert statuses(recovered) == [SUCCEEDED] * 8
    assert_books_agree(sandbox, recovered)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_an_old_outcome_beside_its_settled_self_is_not_resent(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(attrs.evolve(recovery, resend_absent=True))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    settled = await gateway.recover(result)
    assert settled.ok

    recovered = await gateway.recover([*result, *settled])

    assert not recovered.not_sent
    assert_books_agree(sandbox, recovered)


async def test_a_step_of_the_wall_clock_shortens_no_settle_time(
    sandbox: Sandbox,
    client: MakeClient,
    skip_sleeps: Callable[..., list[float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = client(attrs.evolve(REFERENCES, settle_seconds=3600))
    (done, lost) = refunds(sandbox, 2)
    first = await gateway.refund([done])
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    unclear = await gateway.refund([lost])
    real, slept = time.time, skip_sleeps()
    monkeypatch.setattr(time, "time", lambda: real() + 7200)
    await gateway.recover([*first, *unclear])
    assert max(slept) > 1800

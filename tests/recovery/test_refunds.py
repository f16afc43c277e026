"""What is settled over HTTP by the records of a real gateway, and sent again where asked for."""

import asyncio
import itertools
import math
import pickle
import time
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    BatchResult,
    ConfigurationError,
    Dialect,
    GatewayClient,
    InvalidOrderError,
    OutcomeStatus,
    PaymentState,
    RecoveryPolicy,
    RefundOrder,
    RefundRecord,
)
from gateway_async.sandbox import Sandbox, faults
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, check_books, effects, statuses
from tests.support.collaborators import Limiter
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import (
    AT_ONCE,
    MARKER,
    REFERENCES,
    RESENDING,
    Make,
    made_up,
    orders_for,
    reply_to,
    seeded,
)

BOTH = pytest.mark.parametrize("recovery", [REFERENCES, MARKER])
"""With either kind of evidence."""


def skip_sleeps(
    patch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None
) -> list[float]:
    """Let recovery wait for no time, but do something in its place; return the pauses."""
    sleep, slept = asyncio.sleep, list[float]()

    async def skip(seconds: float) -> None:
        slept.append(seconds)
        if seconds:
            meanwhile()
        await sleep(0)

    patch.setattr(asyncio, "sleep", skip)
    return slept


class BeforeRequest(Limiter):
    """A limiter that does something before the n-th request from when it is told to."""

    def __init__(self) -> None:
        super().__init__(enter=lambda number: self._acts.pop(number, bool)())
        self._acts: dict[int, Callable[[], object]] = {}

    def act(self, number: int, act: Callable[[], object]) -> None:
        self._acts = {self.entered + number: act}


async def lost(sandbox: Sandbox, gateway: GatewayClient) -> BatchResult[RefundOrder, RefundRecord]:
    """Refund six orders, two of which the gateway never sees and does not answer."""
    sandbox.faults.add("refund", faults.ResetBeforeEffect(times=1))
    return await gateway.refund(seeded(sandbox))


@BOTH
async def test_only_two_look_ups_that_work_and_agree_prove_an_absence(
    sandbox: Sandbox, make: Make, recovery: RecoveryPolicy
) -> None:
    before = BeforeRequest()
    gateway = make(recovery=recovery, limiter=before)
    result = await lost(sandbox, gateway)
    assert len(result.unknown) == 2
    for blind in (
        faults.IgnoreSelection(),
        faults.EmptyLookUp(),
        faults.ReturnStatus(code="9", message="later"),
    ):
        sandbox.faults.add("search_refunds", blind)
        recovered = await gateway.recover(result)
        assert statuses(recovered) == statuses(result)
        sandbox.faults.clear()
    assert "later" in str(recovered.unknown[0].error)
    for failing_look in (2, 3):
        before.act(
            failing_look, lambda: sandbox.faults.add("search_refunds", faults.EmptyLookUp(times=1))
        )
        recovered = await gateway.recover(result)
        assert len(recovered.unknown) == 2
        assert all("two look-ups disagree" in str(one.error) for one in recovered.unknown)
    sandbox.faults.add("search_refunds", faults.Status(503, times=1))
    recovered = await gateway.recover(result)
    assert recovered.retries == result.retries + 1
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
    settle_seconds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where it lands before the last look only."""
    before = BeforeRequest()
    gateway = make(recovery=attrs.evolve(recovery, settle_seconds=settle_seconds), limiter=before)
    sandbox.faults.add("refund", faults.LateEffect(seconds=3600, times=1))
    result = await gateway.refund(seeded(sandbox))
    assert len(result.unknown) == 2
    before.act(3, sandbox.land_late_effects)
    slept = skip_sleeps(monkeypatch, sandbox.land_late_effects)
    recovered = await gateway.recover(result)
    assert statuses(recovered) == [SUCCEEDED] * 6
    assert {one.record.refund_amount for one in recovered if one.record} == {1}
    assert 50 < max(slept) <= 60 or not settle_seconds
    check_books(sandbox, recovered)


async def test_an_end_from_which_nothing_can_be_counted_is_waited_for_from_now(
    sandbox: Sandbox, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    for ended_at, step, resend_absent in (
        (3600, 0, False),  # it is ahead
        (math.inf, 0, False),  # it is not known
        (0, 3600, False),  # the wall clock is put ahead meanwhile
        (0, -3600, False),  # it is set back
        (-3600, 0, True),  # a resend has a settle time of its own
    ):
        recovery = attrs.evolve(REFERENCES, settle_seconds=60, resend_absent=resend_absent)
        gateway = make(recovery=recovery)
        result = await lost(sandbox, gateway)
        unknown = result.unknown[0]
        assert unknown.sending is not None
        sending = attrs.evolve(unknown.sending, ended_at=real() + ended_at)
        other = attrs.evolve(unknown, exchange=attrs.evolve(unknown.exchange, sending=sending))
        with monkeypatch.context() as patch:
            slept = skip_sleeps(patch)
            steps = itertools.chain([0, 0], itertools.repeat(step))
            patch.setattr(time, "time", lambda steps=steps: real() + next(steps))
            await gateway.recover([other, *result.succeeded])
        assert 50 < max(slept) <= 60


# What was proved absent, sent again where the caller asks for that, and once


@BOTH
async def test_recovery_with_resends_may_be_repeated_and_runs_once_at_a_time(
    sandbox: Sandbox, make: Make, recovery: RecoveryPolicy
) -> None:
    gateway = make(recovery=attrs.evolve(recovery, resend_absent=True))
    result = await lost(sandbox, gateway)
    sandbox.faults.add("refund", faults.DropReply(times=1))

    first, error = await asyncio.gather(
        gateway.recover(result), gateway.recover(result.unknown), return_exceptions=True
    )

    assert isinstance(error, ConfigurationError)
    assert "await that call first" in str(error)
    assert isinstance(first, BatchResult)
    assert len(first.unknown) == 2
    assert [outcome.order for outcome in first] == [outcome.order for outcome in result]
    for given in (list(first), [*result, *result.unknown], first, result):
        again = await gateway.recover(given)
        assert set(statuses(again)) == {SUCCEEDED}
        assert [outcome.order for outcome in again] == [outcome.order for outcome in given]
        check_books(sandbox, again)
    both = await gateway.recover([*result, *again])
    assert not both.not_sent
    reasons = [outcome.record.refund_reason or "" for outcome in both.succeeded if outcome.record]
    assert {reason.count("[ga-") for reason in reasons} == {int(recovery is MARKER)}
    assert "record_transaction_id" in both.to_dicts()[0]
    check_books(sandbox, again)


async def test_what_was_sent_again_has_its_own_record_and_is_not_held_back_as_alike(
    sandbox: Sandbox, make: Make
) -> None:
    one, other = seeded(sandbox, 2)
    before, lose = BeforeRequest(), faults.ResetBeforeEffect(times=3)
    before.act(3, lambda: sandbox.faults.add("refund", lose))  # all behind the first
    recovery, default = attrs.evolve(REFERENCES, resend_absent=True), BatchPolicy(chunk_size=100)
    gateway = make(recovery=recovery, limiter=before, policy=default)
    policy = BatchPolicy(chunk_size=1, concurrency=1, duplicates="allow", stop_after_unknown=9)
    lost = await gateway.refund([one, other, one, other], policy=policy)
    recovered = await gateway.recover(lost)
    assert (statuses(lost)[1:], statuses(recovered)) == ([UNKNOWN] * 3, [SUCCEEDED] * 4)
    own = [outcome.record.transaction_id for outcome in recovered if outcome.record]
    assert own == [order.transaction_id for order in (one, other, one, other)]
    assert effects(sandbox, [one, other]) == [2, 2]


# What may be given to a recovery, and what can be settled of less than a whole batch


async def test_recovery_takes_outcomes_of_another_process_and_those_that_were_yielded(
    sandbox: Sandbox, make: Make
) -> None:
    gateway = make(recovery=REFERENCES)
    sandbox.faults.add("refund", faults.DropReply(times=1))
    async with gateway.refund(seeded(sandbox)) as batch:
        yielded = pickle.loads(pickle.dumps([outcome async for outcome in batch]))  # noqa: S301  # our own
    assert statuses(await gateway.recover(yielded)) == [SUCCEEDED] * 6
    with pytest.raises(ConfigurationError, match="has yielded unknown outcomes"):
        await gateway.recover(batch.result)
    unknown = [outcome for outcome in yielded if outcome.status is UNKNOWN]
    recovered = await gateway.recover(unknown)
    assert [outcome.index for outcome in recovered] == [outcome.index for outcome in unknown]
    assert statuses(recovered) == [SUCCEEDED] * 2
    asked = sandbox.requests["search_refunds"]
    assert statuses(await gateway.recover(recovered)) == [SUCCEEDED] * 2
    assert len(await gateway.recover([])) == 0
    assert sandbox.requests["search_refunds"] == asked
    wrong: Any
    for wrong in ([1], "abc", 5, None):
        with pytest.raises(InvalidOrderError, match="expected a BatchResult or outcomes"):
            await gateway.recover(wrong)


# Captures and cancels, settled by the states that the dialect gives a meaning

STATES = Dialect(
    payment_states={
        "4100": PaymentState.AUTHORISED,
        "3000": PaymentState.CAPTURED,
        "4200": PaymentState.CANCELLED,
    }
)


NOT_DONE = {"fault": faults.ResetBeforeEffect(times=1)}
TWICE = {"duplicates": "allow", "count": 2}
# Each row: what is unusual, the statuses, and the state that the first record shows.
BY_STATE: dict[str, tuple[dict[str, Any], list[OutcomeStatus], str | None]] = {
    "captured": ({}, [SUCCEEDED], "3000"),
    "cancelled": ({"operation": "cancel"}, [SUCCEEDED], "4200"),
    "not cancelled": ({"operation": "cancel", **NOT_DONE}, [NOT_SENT], "4100"),
    "in a state without a meaning": ({"dialect": Dialect()}, [UNKNOWN], "3000"),
    "not listed": ({"look_up": faults.EmptyLookUp()}, [UNKNOWN], None),
    "not captured": (NOT_DONE, [NOT_SENT], "4100"),
    "not captured, and sent again": ({**NOT_DONE, "recovery": RESENDING}, [SUCCEEDED], None),
    "not captured, in a reply of failure": (
        *({**NOT_DONE, "look_up": faults.ReturnStatus(listed=None)}, [UNKNOWN]),
        "4100",
    ),
    "not captured, beside others": (
        {**NOT_DONE, "look_up": faults.ExtraItems()},
        [UNKNOWN],
        "4100",
    ),
    # The state may be the work of an equal one; one that is given alone may have had another.
    "given alone": ({"alone": True}, [SUCCEEDED], "3000"),
    "of a batch with no equal one": ({"duplicates": "allow"}, [SUCCEEDED], "3000"),
    "given alone, of a batch that may have one": (
        *({"duplicates": "allow", "alone": True}, [UNKNOWN]),
        None,
    ),
    "not captured, and its equal one was": ({**TWICE, **NOT_DONE}, [UNKNOWN, SUCCEEDED], None),
    "in doubt, and so is its equal one": (TWICE, [UNKNOWN, UNKNOWN], None),
}
WHY = {"in a state without a meaning": "no meaning", "not listed": "lists 0 records of it"}


@pytest.mark.parametrize("name", BY_STATE)
async def test_a_capture_or_cancel_is_settled_by_a_state_that_no_other_can_have_caused(
    sandbox: Sandbox, make: Make, name: str
) -> None:
    given, expected, state = BY_STATE[name]
    operation = given.get("operation", "capture")
    policy = BatchPolicy(concurrency=1, duplicates=given.get("duplicates", "reject"))
    dialect = given.get("dialect", STATES)
    recovery = given.get("recovery", AT_ONCE)
    gateway = make(dialect=dialect, policy=policy, recovery=recovery)
    count = given.get("count", 1)
    sandbox.faults.add(operation, given.get("fault", faults.DropReply(times=count)))
    result = await gateway.batch(operation, seeded(sandbox, 1, operation) * count)
    if "look_up" in given:
        sandbox.faults.add("query", given["look_up"])

    recovered = await gateway.recover(list(result) if "alone" in given else result)

    assert statuses(recovered) == expected
    assert getattr(recovered[0].record, "payment_status", None) == state
    assert WHY.get(name, "") in str(recovered[0].error)
    # Where no state has a meaning, no later look-up can prove more.
    assert sandbox.requests["query"] == 1 or dialect.payment_states
    check_books(sandbox, recovered, operation)


async def test_a_record_whose_result_has_no_meaning_settles_no_capture() -> None:
    orders = orders_for("capture", made_up(1))
    record = {"transaction_id": orders[0].transaction_id, "payment_status": "3000"}

    def answer(asked: Asked) -> Any:
        is_query = asked.operation.name == "query"
        return reply_to("query", [{**record, "query_result": "7"}]) if is_query else b"lost"

    gateway = client_over(answer, dialect=STATES, recovery=AT_ONCE)
    assert statuses(await gateway.recover(await gateway.capture(orders))) == [UNKNOWN]


CAPTURED = {"payment_status": "3000", "query_result": "1"}


@pytest.mark.parametrize("most", [10, 100])
async def test_captures_are_settled_also_by_short_lists(most: int) -> None:
    orders = orders_for("capture", made_up(41))

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "capture":
            return b"lost"
        listed = [{"transaction_id": name, **CAPTURED} for name in asked.transactions]
        return reply_to("query", listed[:most])

    transport = MemoryTransport(answer)
    gateway = client_over(transport, dialect=STATES, recovery=AT_ONCE)
    result = await gateway.recover(await gateway.capture(orders))
    assert statuses(result) == [SUCCEEDED] * 41
    assert most == 10 or len(transport.asked) == 2  # what lists all of them lacks none

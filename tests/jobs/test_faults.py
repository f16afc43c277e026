"""What a job does about replies that never come, and what it leaves to a person."""

import time
from collections import Counter
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    Dialect,
    EvidenceError,
    GatewayClient,
    OutcomeUnknownError,
    PaymentState,
    RecoveryPolicy,
    RejectedError,
)
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import (
    DropReply,
    EmptyLookUp,
    Fault,
    Latency,
    MissingItems,
    ResetAfterEffect,
    ResetBeforeEffect,
)
from gateway_async.sandbox.ledger import PaymentStatus
from gateway_async.transport import AiohttpTransport, HttpRequest
from tests.jobs.books import (
    AT_ONCE,
    DECLINED,
    NOT_SENT,
    POLICY,
    RESENDING,
    SUCCEEDED,
    UNKNOWN,
    Make,
    check_books,
    check_conserved,
    counts,
    effects,
    kept,
    references_of,
    seeded,
    statuses,
)

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

STATES = Dialect(
    payment_states={
        PaymentStatus.CAPTURED.value: PaymentState.CAPTURED,
        PaymentStatus.CANCELLED.value: PaymentState.CANCELLED,
        PaymentStatus.AUTHORISED.value: PaymentState.AUTHORISED,
    }
)
MARKER = attrs.evolve(AT_ONCE, refund_evidence="marker")
LOST: list[Fault] = [DropReply(times=2), ResetAfterEffect(times=2), MissingItems(times=2)]


@pytest.mark.parametrize("recovery", [AT_ONCE, MARKER])
@pytest.mark.parametrize("fault", LOST, ids=repr)
async def test_lost_replies_are_settled_at_the_end(
    sandbox: Sandbox, make: Make, journal: Journal, fault: Fault, recovery: RecoveryPolicy
) -> None:
    orders = seeded(sandbox, 8)
    sandbox.faults.add("refund", fault)
    result = await make(recovery=recovery).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders) == [1] * 8
    assert len(set(references_of(await kept(journal)))) == 8


@pytest.mark.parametrize("recovery", [AT_ONCE, MARKER])
@pytest.mark.parametrize("fault", LOST, ids=repr)
async def test_refunds_of_one_transaction_never_share_a_reference(
    sandbox: Sandbox, make: Make, journal: Journal, fault: Fault, recovery: RecoveryPolicy
) -> None:
    orders = seeded(sandbox, 2, refund_amount=Decimal("2.00"))
    policy = attrs.evolve(POLICY, duplicates="serialize")
    sandbox.faults.add("refund", fault)
    for _ in range(3):
        gateway = make(policy=policy, recovery=recovery)
        await gateway.refund([*orders, *orders, *orders], job=journal.job("job"))
    found = await kept(journal)
    assert effects(sandbox, orders) == [3, 3]
    assert set(statuses(found)) == {SUCCEEDED}
    given = Counter(
        (o.order.transaction_id, o.record.refund_reference_id) for o in found if o.record
    )
    made = sandbox.ledger.recent_refunds()
    assert given == Counter((each.transaction_id, each.refund_reference_id) for each in made)
    assert set(given.values()) == {1}


async def test_what_cannot_be_settled_is_held_with_the_evidence(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("search_refunds", EmptyLookUp())
    result = await make(policy=attrs.evolve(POLICY, concurrency=1)).refund(
        orders, job=journal.job("job")
    )
    check_conserved(result, orders)
    check_books(sandbox, result)
    assert await counts(journal) == {JobState.SUCCEEDED: 4, JobState.HELD: 2}
    held = [outcome for outcome in await kept(journal) if outcome.status is UNKNOWN]
    assert [outcome.index for outcome in held] == [outcome.index for outcome in result.unknown]
    for outcome in [*held, *result.unknown]:
        assert isinstance(outcome.error, OutcomeUnknownError)
        assert "recovery does not settle it" in str(outcome.error)
    assert (await journal.status("job")).done


async def test_what_is_held_is_looked_at_again_by_a_resume(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("search_refunds", EmptyLookUp())
    await make().refund(orders, job=journal.job("job"))
    sandbox.faults.clear()
    sandbox.requests.clear()
    result = await make().resume(journal.job("job"))
    assert set(statuses(result)) == {SUCCEEDED}
    assert sandbox.requests["refund"] == 0
    assert effects(sandbox, orders) == [1] * 6


@pytest.mark.parametrize("recovery", [RESENDING, attrs.evolve(RESENDING, refund_evidence="marker")])
async def test_what_is_absent_is_sent_again_once_where_that_is_asked(
    sandbox: Sandbox, make: Make, journal: Journal, recovery: RecoveryPolicy
) -> None:
    orders = seeded(sandbox, 8)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    sandbox.faults.add("refund", DropReply(times=1))
    result = await make(recovery=recovery).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders) == [1] * 8
    assert sandbox.requests["refund"] == 5


async def test_what_is_absent_is_not_sent_again_unasked(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    one = make(policy=attrs.evolve(POLICY, concurrency=1))
    for batch in (one.refund(orders, job=journal.job("job")), one.resume(journal.job("job"))):
        result = await batch
        assert statuses(result) == [NOT_SENT] * 2 + [SUCCEEDED] * 4
        assert "proved that it was not done" in str(result[0].error)
        assert await counts(journal) == {JobState.HELD: 2, JobState.SUCCEEDED: 4}
    assert sandbox.requests["refund"] == 3


async def test_what_was_proved_earlier_is_not_said_of_a_run_that_could_not_look(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    await make().refund(seeded(sandbox), job=journal.job("job"))
    sandbox.faults.add("search_refunds", DropReply())
    for _ in range(2):
        (error, _) = [o.error for o in await make().resume(journal.job("job")) if o.error]
        assert str(error).startswith("earlier, recovery proved that it was not done: ")
        assert str(error).count("recovery does not settle it: the look-up failed") == 1


async def test_absence_counts_only_after_the_settle_time_and_two_looks(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    recovery = attrs.evolve(RESENDING, settle_seconds=0.2)
    began = time.monotonic()
    result = await make(recovery=recovery).refund(orders, job=journal.job("job"))
    assert result.ok
    assert time.monotonic() - began >= 0.2
    # A baseline for each of three chunks and the one sent again, and three looks.
    assert sandbox.requests["search_refunds"] == 4 + 3


@pytest.mark.parametrize("operation", ["capture", "cancel"])
async def test_captures_and_cancels_are_settled_by_their_state(
    sandbox: Sandbox, make: Make, journal: Journal, operation: str
) -> None:
    orders = seeded(sandbox, 6, operation)
    sandbox.faults.add(operation, DropReply(times=1))
    gateway = make(dialect=STATES)
    result = await getattr(gateway, operation)(orders, job=journal.job("job"))
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders, operation) == [1] * 6


@pytest.mark.parametrize("operation", ["capture", "cancel", "review"])
async def test_what_no_look_up_tells_stays_held(
    sandbox: Sandbox, make: Make, journal: Journal, operation: str
) -> None:
    orders = seeded(sandbox, 6, operation)
    sandbox.faults.add(operation, DropReply(times=1))
    gateway = make(dialect=attrs.evolve(sandbox.dialect, payment_states={}))
    for begin in (
        lambda job: getattr(gateway, operation)(orders, job=job),
        gateway.resume,
    ):
        result = await begin(journal.job("job"))
        assert result.counts[UNKNOWN] == 2
        assert await counts(journal) == {JobState.SUCCEEDED: 4, JobState.HELD: 2}
    assert effects(sandbox, orders, operation) == [1] * 6


async def test_what_was_declined_keeps_its_code_and_text(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = [*seeded(sandbox, 2), *seeded(sandbox, 2, amount="99.00")]
    first = await make().refund(orders, job=journal.job("job"))
    assert statuses(first) == [SUCCEEDED] * 2 + [DECLINED] * 2
    again = await make().resume(journal.job("job"))
    for one, other in zip(first.declined, again.declined, strict=True):
        assert isinstance(one.error, RejectedError)
        assert isinstance(other.error, RejectedError)
        assert (one.error.code, one.error.text) == (other.error.code, other.error.text)
        assert one.error.code or one.error.text
    assert sandbox.requests["refund"] == 2


async def test_a_refused_connection_leaves_all_new(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    nowhere = GatewayClient("http://127.0.0.1:9", make()._session.credentials, policy=POLICY)
    async with nowhere as gateway:
        gateway._session = attrs.evolve(
            gateway._session, retry=make()._session.retry, gateway=make().gateway
        )
        result = await gateway.refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert set(statuses(result)) == {NOT_SENT}
    assert await counts(journal) == {JobState.NEW: 6}
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6


async def test_what_the_evidence_fails_on_is_never_new_again(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answered_unasked(_: Any, message: HttpRequest, **__: Any) -> None:
        raise EvidenceError(f"a reply came to {message.path}, which was never written")

    orders = seeded(sandbox, 4)
    gateway = make(policy=attrs.evolve(POLICY, concurrency=1), recovery=MARKER)
    monkeypatch.setattr(AiohttpTransport, "send", answered_unasked)
    result = await gateway.refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert statuses(result) == [UNKNOWN, UNKNOWN, NOT_SENT, NOT_SENT]
    assert await counts(journal) == {JobState.HELD: 2, JobState.NEW: 2}
    monkeypatch.undo()
    result = await make(recovery=MARKER).resume(journal.job("job"))
    assert await counts(journal) == {JobState.HELD: 2, JobState.SUCCEEDED: 2}
    assert effects(sandbox, orders) == [0, 0, 1, 1]


async def test_a_batch_that_stopped_goes_on_with_a_resume(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 10)
    sandbox.faults.add("refund", DropReply(times=1))
    stopping = attrs.evolve(POLICY, concurrency=1, stop_after_unknown=1)
    result = await make(policy=stopping).refund(orders, job=journal.job("job"))
    check_books(sandbox, result)
    assert result.counts[NOT_SENT] > 0
    sandbox.faults.clear()
    result = await make().resume(journal.job("job"))
    assert result.ok
    assert effects(sandbox, orders) == [1] * 10


async def test_a_deadline_leaves_the_rest_to_a_resume(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox, 10)
    sandbox.faults.add("refund", Latency(seconds=0.3))
    soon = attrs.evolve(POLICY, concurrency=1, deadline_seconds=0.4)
    result = await make(policy=soon).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    check_books(sandbox, result)
    assert result.counts[NOT_SENT] > 0
    sandbox.faults.clear()
    result = await make().resume(journal.job("job"))
    assert result.ok
    assert effects(sandbox, orders) == [1] * 10


@pytest.mark.parametrize(
    ("decision", "becomes", "requests"),
    [("succeeded", SUCCEEDED, 0), ("declined", DECLINED, 0), ("not_sent", SUCCEEDED, 1)],
)
async def test_an_operator_decides(  # fixtures
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    decision: str,
    becomes: Any,
    requests: int,
) -> None:
    orders = seeded(sandbox, 4, "review")
    sandbox.faults.add("review", ResetBeforeEffect(times=1))
    one = make(policy=attrs.evolve(POLICY, concurrency=1))
    result = await one.review(orders, job=journal.job("job"))
    assert statuses(result) == [UNKNOWN] * 2 + [SUCCEEDED] * 2
    for order in orders[:2]:
        await journal.resolve("job", order, decision, "asked the gateway's support")
    sandbox.requests.clear()
    result = await make().resume(journal.job("job"))
    assert statuses(result) == [becomes] * 2 + [SUCCEEDED] * 2
    assert sandbox.requests["review"] == requests

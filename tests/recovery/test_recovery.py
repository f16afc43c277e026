"""Recovery against a real gateway over HTTP: it settles what is proved, and nothing else."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    BatchResult,
    CancelOrder,
    CaptureOrder,
    ConfigurationError,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    OrderRef,
    Outcome,
    OutcomeStatus,
    PaymentState,
    RecoveryPolicy,
    RefundOrder,
    ReviewOrder,
)
from gateway_async.operations import SEARCH_REFUNDS
from gateway_async.sandbox import Sandbox, SeededOrder
from gateway_async.sandbox.faults import (
    DropReply,
    EmptyLookUp,
    Fault,
    IgnoreSelection,
    LateEffect,
    NoReply,
    ResetBeforeEffect,
    ReturnStatus,
)
from gateway_async.transport import Evidence, Message, RawReply, Transport

REFERENCES = RecoveryPolicy(settle_seconds=0, record_baseline=True)
NO_BASELINE = RecoveryPolicy(settle_seconds=0)
MARKER = RecoveryPolicy(settle_seconds=0, refund_evidence="marker")
EVIDENCE = [REFERENCES, MARKER]

SUCCEEDED, UNKNOWN, NOT_SENT = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.NOT_SENT,
)

MakeClient = Callable[..., GatewayClient]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as running:
        yield running


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[MakeClient]:
    made: list[GatewayClient] = []

    def make(recovery: RecoveryPolicy = REFERENCES, **settings: Any) -> GatewayClient:
        credentials = Credentials(
            merchant_id=sandbox.merchant_id,
            account_id=sandbox.account_id,
            signer=HmacSigner(sandbox.secret),
        )
        settings = {"policy": BatchPolicy(concurrency=2, chunk_size=2), **settings}
        made.append(GatewayClient(sandbox.base_url, credentials, recovery=recovery, **settings))
        return made[-1]

    yield make
    for gateway in made:
        await gateway.aclose()


def refund_of(seeded: SeededOrder, amount: str = "1.00", reason: str = "torn") -> RefundOrder:
    return RefundOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
        refund_amount=Decimal(amount),
        refund_reason=reason,
    )


def refunds(sandbox: Sandbox, count: int = 6) -> list[RefundOrder]:
    return [refund_of(seeded) for seeded in sandbox.seed(count, status="captured")]


def statuses(result: BatchResult[Any, Any]) -> list[OutcomeStatus]:
    return [outcome.status for outcome in result]


def assert_books_agree(sandbox: Sandbox, result: BatchResult[Any, Any]) -> None:
    for outcome in result:
        effects = sandbox.ledger.effects("refund", outcome.order.transaction_id)
        assert effects <= 1
        if outcome.status is SUCCEEDED:
            assert effects == 1
        if outcome.status is NOT_SENT:
            assert effects == 0


class BeforeLook:
    """A transport that does something before the n-th refund search."""

    def __init__(self, transport: Transport, number: int, act: Callable[[], object]) -> None:
        self._transport = transport
        self._left = number
        self._act = act

    async def send(self, message: Message, *, evidence: Evidence, seconds: float) -> RawReply:
        if message.path == SEARCH_REFUNDS.path:
            self._left -= 1
            if self._left == 0:
                self._act()
        return await self._transport.send(message, evidence=evidence, seconds=seconds)

    async def aclose(self) -> None:
        await self._transport.aclose()


def act_before_look(gateway: GatewayClient, number: int, act: Callable[[], object]) -> None:
    spy = BeforeLook(gateway._session.transport, number, act)
    gateway._session = attrs.evolve(gateway._session, transport=spy)


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
async def test_an_equal_refund_made_before_is_not_taken_for_this_one(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(recovery)
    orders = refunds(sandbox)
    await client(NO_BASELINE).refund(orders)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(orders)
    assert len(result.unknown) == 2

    recovered = await gateway.recover(result)

    assert recovered.counts[SUCCEEDED] == 4
    assert recovered.counts[NOT_SENT] == 2
    for outcome in recovered.not_sent:
        assert sandbox.ledger.effects("refund", outcome.order.transaction_id) == 1


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
@pytest.mark.parametrize("duplicates", ["allow", "serialize"])
@pytest.mark.parametrize("lost", [0, 1])
async def test_two_equal_refunds_of_one_transaction_one_of_them_lost(
    sandbox: Sandbox,
    client: MakeClient,
    recovery: RecoveryPolicy,
    duplicates: str,
    lost: int,
) -> None:
    gateway = client(recovery)
    (seeded,) = sandbox.seed(1, status="captured")
    orders = [refund_of(seeded), refund_of(seeded), *refunds(sandbox, 1)]

    def losing_one() -> Iterator[RefundOrder]:
        for index, order in enumerate(orders):
            if index == lost:
                sandbox.faults.add("refund", ResetBeforeEffect(times=1))
            yield order

    result = await gateway.refund(
        losing_one(), policy=BatchPolicy(concurrency=1, chunk_size=1, duplicates=duplicates)
    )
    assert result[lost].status is UNKNOWN

    recovered = await gateway.recover(result)

    effects = sandbox.ledger.effects("refund", seeded.transaction_id)
    assert len(recovered) == 3
    assert recovered[lost].status is NOT_SENT
    assert sum(outcome.status is SUCCEEDED for outcome in recovered[:2]) == effects


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


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_a_refund_that_lands_after_its_reply_was_lost_is_waited_for(
    sandbox: Sandbox,
    client: MakeClient,
    recovery: RecoveryPolicy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = client(attrs.evolve(recovery, settle_seconds=60))
    sandbox.faults.add("refund", LateEffect(seconds=3600, times=1))
    result = await gateway.refund(refunds(sandbox))
    assert len(result.unknown) == 2
    slept: list[float] = []
    real_sleep = asyncio.sleep

    async def land_meanwhile(seconds: float) -> None:
        slept.append(seconds)
        if seconds:
            sandbox.land_late_effects()
        await real_sleep(0)

    monkeypatch.setattr("gateway_async.recovery.asyncio.sleep", land_meanwhile)
    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert 50 < max(slept) <= 60
    assert_books_agree(sandbox, recovered)


@pytest.mark.parametrize("recovery", EVIDENCE)
@pytest.mark.parametrize("failing_look", [2, 3])
async def test_one_look_after_the_settle_time_is_not_enough(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy, failing_look: int
) -> None:
    gateway = client(recovery)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    act_before_look(
        gateway, failing_look, lambda: sandbox.faults.add("search_refunds", EmptyLookUp(times=1))
    )

    recovered = await gateway.recover(result)

    assert len(recovered.unknown) == 2
    assert all("two looks disagree" in str(outcome.error) for outcome in recovered.unknown)


@pytest.mark.parametrize("recovery", EVIDENCE)
async def test_the_last_look_still_finds_a_refund(
    sandbox: Sandbox, client: MakeClient, recovery: RecoveryPolicy
) -> None:
    gateway = client(recovery)
    sandbox.faults.add("refund", LateEffect(seconds=3600, times=1))
    result = await gateway.refund(refunds(sandbox))
    act_before_look(gateway, 3, sandbox.land_late_effects)

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert_books_agree(sandbox, recovered)


STATES = Dialect(
    payment_states={
        "4100": PaymentState.AUTHORISED,
        "3000": PaymentState.CAPTURED,
        "4200": PaymentState.CANCELLED,
    }
)


@pytest.mark.parametrize(
    ("operation", "order_class"), [("capture", CaptureOrder), ("cancel", CancelOrder)]
)
@pytest.mark.parametrize(
    ("fault", "expected"), [(DropReply(times=1), SUCCEEDED), (ResetBeforeEffect(times=1), NOT_SENT)]
)
async def test_captures_and_cancels_are_settled_by_the_states_of_the_dialect(
    sandbox: Sandbox,
    client: MakeClient,
    operation: str,
    order_class: Any,
    fault: Fault,
    expected: OutcomeStatus,
) -> None:
    gateway = client(dialect=STATES)
    orders = [
        order_class(
            transaction_id=seeded.transaction_id,
            order_no=seeded.order_no,
            currency=seeded.currency,
            amount=seeded.amount,
        )
        for seeded in sandbox.seed(4, status="authorised")
    ]
    sandbox.faults.add(operation, fault)
    result = await getattr(gateway, operation)(orders)
    assert len(result.unknown) == 2

    recovered = await gateway.recover(result)

    assert recovered.counts[UNKNOWN] == 0
    assert recovered.counts[expected] == (4 if expected is SUCCEEDED else 2)
    for outcome in recovered:
        effects = sandbox.ledger.effects(operation, outcome.order.transaction_id)
        assert effects == (outcome.status is SUCCEEDED)


async def test_without_states_captures_stay_unknown_with_their_record(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client()
    (seeded,) = sandbox.seed(1, status="authorised")
    order = CaptureOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )
    sandbox.faults.add("capture", DropReply(times=1))

    recovered = await gateway.recover(await gateway.capture([order]))

    assert recovered[0].status is UNKNOWN
    record: Any = recovered[0].record
    assert record.payment_status == "3000"
    assert "no meaning" in str(recovered[0].error)


async def test_reviews_and_look_ups_stay_as_they_were(sandbox: Sandbox, client: MakeClient) -> None:
    gateway = client()
    (seeded,) = sandbox.seed(1, status="authorised")
    review = ReviewOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )
    sandbox.faults.add("review", DropReply())
    sandbox.faults.add("query", DropReply())
    reviewed = await gateway.review([review])
    queried = await gateway.query([OrderRef(order_no=seeded.order_no)])

    unknown: list[Outcome[Any, Any]] = [*reviewed, *queried]
    recovered = await gateway.recover(unknown)

    assert statuses(recovered) == [UNKNOWN, UNKNOWN]


async def test_recovery_takes_outcomes_of_another_process(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    sandbox.faults.add("refund", DropReply(times=1))
    result = pickle.loads(pickle.dumps(await gateway.refund(refunds(sandbox))))  # noqa: S301  # our own

    recovered = await gateway.recover(result.unknown)

    assert [outcome.index for outcome in recovered] == [o.index for o in result.unknown]
    assert statuses(recovered) == [SUCCEEDED] * 2


async def test_recovery_of_nothing_asks_nothing(sandbox: Sandbox, client: MakeClient) -> None:
    gateway = client(REFERENCES)
    result = await gateway.refund(refunds(sandbox))
    asked = sandbox.requests["search_refunds"]

    recovered = await gateway.recover(result)

    assert statuses(recovered) == statuses(result)
    assert sandbox.requests["search_refunds"] == asked
    assert len(await gateway.recover([])) == 0


@pytest.mark.parametrize("wrong", [[1], "abc", 5, None])
async def test_recovery_refuses_what_is_no_outcome(client: MakeClient, wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected a BatchResult or outcomes"):
        await client().recover(wrong)


async def test_an_unknown_refund_whose_sibling_is_not_given_is_not_settled(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    (seeded,) = sandbox.seed(1, status="captured")
    orders = [refund_of(seeded), refund_of(seeded)]
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    policy = BatchPolicy(concurrency=2, chunk_size=1, duplicates="allow")
    result = await gateway.refund(orders, policy=policy)
    assert sorted(statuses(result)) == [SUCCEEDED, UNKNOWN]

    assert statuses(await gateway.recover(list(result.unknown))) == [UNKNOWN]
    assert sandbox.ledger.effects("refund", seeded.transaction_id) == 1


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
    with pytest.raises(asyncio.CancelledError):
        await recovering

    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED] * 6
    assert_books_agree(sandbox, recovered)


async def test_a_resend_waits_for_the_settle_time_of_its_own(
    sandbox: Sandbox, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = client(attrs.evolve(REFERENCES, resend_absent=True, settle_seconds=60))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    slept: list[float] = []
    real_sleep = asyncio.sleep

    async def skip(seconds: float) -> None:
        slept.append(seconds)
        await real_sleep(0)

    unknown = result.unknown[0]
    assert unknown.sending is not None
    old = attrs.evolve(unknown, sending=attrs.evolve(unknown.sending, ended_at=0.0))
    monkeypatch.setattr("gateway_async.recovery.asyncio.sleep", skip)
    await gateway.recover([old, *result.succeeded])
    assert 50 < max(slept) <= 60


async def test_a_reference_that_no_look_up_can_ask_for_stays_unknown(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    orders = refunds(sandbox, 3)
    odd = attrs.evolve(orders[2], transaction_id="T,1")
    sandbox.faults.add("refund", DropReply())

    result = await gateway.refund([*orders[:2], odd])
    recovered = await gateway.recover(result)

    assert statuses(recovered) == [SUCCEEDED, SUCCEEDED, UNKNOWN]
    assert "cannot be looked up" in str(recovered[2].error)


async def test_a_witness_is_one_that_a_look_up_can_ask_for(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    odd = [
        attrs.evolve(outcome, order=attrs.evolve(outcome.order, transaction_id="T,1"))
        for outcome in result.succeeded[:1]
    ]

    recovered = await gateway.recover([*odd, *result])

    assert recovered.counts[NOT_SENT] == 2


async def test_an_outcome_that_a_stream_yielded_must_be_given_itself(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    sandbox.faults.add("refund", DropReply(times=1))
    async with gateway.refund(refunds(sandbox)) as batch:
        outcomes = [outcome async for outcome in batch]

    with pytest.raises(ConfigurationError, match="yielded by its stream"):
        await gateway.recover(batch.result)
    assert statuses(await gateway.recover(outcomes)) == [SUCCEEDED] * 6


async def test_one_capture_is_no_proof_of_another(sandbox: Sandbox, client: MakeClient) -> None:
    gateway = client(dialect=STATES)
    (seeded,) = sandbox.seed(1, status="authorised")
    order = CaptureOrder(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )

    def losing_the_second() -> Iterator[CaptureOrder]:
        yield order
        sandbox.faults.add("capture", ResetBeforeEffect(times=1))
        yield order

    policy = BatchPolicy(concurrency=1, chunk_size=1, duplicates="serialize")
    result = await gateway.capture(losing_the_second(), policy=policy)
    assert statuses(result) == [SUCCEEDED, UNKNOWN]

    assert statuses(await gateway.recover(result)) == [SUCCEEDED, UNKNOWN]


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


async def test_a_recovered_list_is_still_no_whole_batch(
    sandbox: Sandbox, client: MakeClient
) -> None:
    gateway = client(REFERENCES)
    (seeded,) = sandbox.seed(1, status="captured")
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    policy = BatchPolicy(concurrency=2, chunk_size=1, duplicates="allow")
    result = await gateway.refund([refund_of(seeded), refund_of(seeded)], policy=policy)

    once = await gateway.recover(list(result.unknown))
    twice = await gateway.recover(once)

    assert statuses(once) == statuses(twice) == [UNKNOWN]


@pytest.mark.parametrize("operation", ["capture", "cancel"])
async def test_a_state_may_be_an_earlier_siblings_that_was_not_given(
    sandbox: Sandbox, client: MakeClient, operation: str
) -> None:
    gateway = client(dialect=STATES)
    (seeded,) = sandbox.seed(1, status="authorised")
    order_class: Any = {"capture": CaptureOrder, "cancel": CancelOrder}[operation]
    order = order_class(
        transaction_id=seeded.transaction_id,
        order_no=seeded.order_no,
        currency=seeded.currency,
        amount=seeded.amount,
    )

    def losing_the_second() -> Iterator[Any]:
        yield order
        sandbox.faults.add(operation, ResetBeforeEffect(times=1))
        yield order

    policy = BatchPolicy(concurrency=1, chunk_size=1, duplicates="serialize")
    result = await getattr(gateway, operation)(losing_the_second(), policy=policy)

    assert statuses(await gateway.recover(list(result.unknown))) == [UNKNOWN]


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


async def test_a_clock_that_is_ahead_keeps_nobody_waiting(
    sandbox: Sandbox, client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = client(attrs.evolve(REFERENCES, settle_seconds=60))
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    result = await gateway.refund(refunds(sandbox))
    slept: list[float] = []
    real_sleep = asyncio.sleep

    async def skip(seconds: float) -> None:
        slept.append(seconds)
        await real_sleep(0)

    unknown = result.unknown[0]
    assert unknown.sending is not None
    ahead = attrs.evolve(unknown.sending, ended_at=unknown.sending.ended_at + 3600)
    monkeypatch.setattr("gateway_async.recovery.asyncio.sleep", skip)
    await gateway.recover([attrs.evolve(unknown, sending=ahead), *result.succeeded])
    assert 50 < max(slept) <= 60

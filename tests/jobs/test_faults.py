"""What a job does about replies that never come, and what it leaves to a person."""

from typing import Any

import attrs
import pytest

from gateway_async import EvidenceError, OutcomeUnknownError, RecoveryPolicy
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, EmptyLookUp, ResetBeforeEffect
from gateway_async.transport import HttpRequest
from tests.jobs.books import RESENDING, Interposed, counts, kept, references_of
from tests.orders import AT_ONCE, POLICY, Make, seeded
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, check_conserved, effects, statuses

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)

ONE_BY_ONE = attrs.evolve(POLICY, concurrency=1)
MARKER = attrs.evolve(AT_ONCE, refund_evidence="marker")


@pytest.mark.parametrize("recovery", [RESENDING, attrs.evolve(RESENDING, refund_evidence="marker")])
async def test_lost_refunds_are_found_and_absent_ones_sent_again_once_where_that_is_asked(
    sandbox: Sandbox, make: Make, journal: Journal, recovery: RecoveryPolicy
) -> None:
    orders = seeded(sandbox, 8)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    sandbox.faults.add("refund", DropReply(times=1))
    result = await make(recovery=recovery).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert result.ok
    assert effects(sandbox, orders) == [1] * 8
    assert len(set(references_of(await kept(journal)))) == 8
    assert sandbox.requests["refund"] == 5


async def test_what_cannot_be_settled_is_held_with_the_evidence_until_a_run_that_can(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("search_refunds", EmptyLookUp())
    result = await make(policy=ONE_BY_ONE).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert await counts(journal) == {JobState.SUCCEEDED: 4, JobState.HELD: 2}
    for outcomes in (result, await kept(journal)):
        assert statuses(outcomes) == [UNKNOWN] * 2 + [SUCCEEDED] * 4
        for outcome in outcomes[:2]:
            assert isinstance(outcome.error, OutcomeUnknownError)
            assert "recovery does not settle it" in str(outcome.error)
    assert (await journal.status("job")).done
    sandbox.faults.clear()
    assert (await make().resume(journal.job("job"))).ok
    assert sandbox.requests["refund"] == 3
    assert effects(sandbox, orders) == [1] * 6


async def test_what_is_absent_is_not_sent_again_unasked(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    one = make(policy=ONE_BY_ONE)
    for batch in (one.refund(orders, job=journal.job("job")), one.resume(journal.job("job"))):
        result = await batch
        assert statuses(result) == [NOT_SENT] * 2 + [SUCCEEDED] * 4
        assert "proved that it was not done" in str(result[0].error)
        assert await counts(journal) == {JobState.HELD: 2, JobState.SUCCEEDED: 4}
    sandbox.faults.add("search_refunds", DropReply())
    for _ in range(2):  # what was proved earlier is not said of a run that could not look
        said = str((await one.resume(journal.job("job")))[0].error)
        assert said.startswith("earlier, recovery proved that it was not done: ")
        assert said.count("recovery does not settle it: the look-up failed") == 1
    assert sandbox.requests["refund"] == 3


async def test_what_the_evidence_fails_on_is_never_new_again(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    async def answered_unasked(message: HttpRequest) -> Any:
        raise EvidenceError(f"a reply came to {message.path}, which was never written")

    orders, gateway = seeded(sandbox, 4), make(policy=ONE_BY_ONE, recovery=MARKER)
    Interposed(gateway, before=answered_unasked)
    result = await gateway.refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert statuses(result) == [UNKNOWN, UNKNOWN, NOT_SENT, NOT_SENT]
    assert await counts(journal) == {JobState.HELD: 2, JobState.NEW: 2}
    await make(recovery=MARKER).resume(journal.job("job"))
    assert await counts(journal) == {JobState.HELD: 2, JobState.SUCCEEDED: 2}
    assert effects(sandbox, orders) == [0, 0, 1, 1]

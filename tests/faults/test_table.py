"""Every fault of the sandbox leads to the statuses that the table of faults names, and no secret.

A payment by card is made beside each, so that there is something to hide.
"""

import asyncio
import pickle

import pytest

from gateway_async import OutcomeUnknownError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.deeds import SUCCEEDED, Trial
from tests.support.calls import paid_by_card
from tests.support.dragnet import Dragnet, links_of
from tests.support.faults import LARGE, ROWS, Row


def _tried(row: Row) -> list[tuple[str, Row]]:
    return [("query", row)] * bool(row.read) + [(row.operation, row)]


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize(("operation", "row"), [one for row in ROWS for one in _tried(row)])
async def test_what_a_fault_leads_to(
    net: Dragnet, sandbox: Sandbox, operation: str, row: Row
) -> None:
    trial, fault = Trial(sandbox, operation), row.fault
    sandbox.faults.add("*", fault)
    async with trial.client(max_reply_bytes=LARGE) as gateway:
        told = await trial.run_with(gateway)
        assert trial.reads or trial.requests == 1
        call = gateway.pay_direct(paid_by_card())
        (paid,) = await asyncio.gather(call, return_exceptions=True)
        net.catch("came", [told.result, paid, *told.errors, gateway], deep=False)
    for error in (paid, *told.errors):
        net.catch("error", error)
        assert [cause for cause in links_of(error)[1:] if cause.__traceback__] == []
    assert set(sandbox.faults.struck) == {type(fault).__name__}
    assert told.statuses == [*(row.read if trial.reads else row.money)]
    if not trial.reads:
        assert set(trial.effects) == {row.effects}
        assert all(isinstance(error, OutcomeUnknownError) for error in told.errors if error)
    if told.result is not None:
        copy = pickle.loads(pickle.dumps(told.result))  # noqa: S301  # our own
        assert [repr(outcome) for outcome in copy] == [repr(outcome) for outcome in told.result]
        assert told.result.unexpected.count == row.strangers
        assert told.result.ok == (set(told.statuses) == {SUCCEEDED} and not row.strangers)
    if told.result is not None and trial.reads:
        is_doubled = isinstance(fault, faults.DoubledItems) and not fault.status
        sizes = {len(outcome.record or ()) for outcome in told.result.succeeded}
        assert sizes <= ({2} if is_doubled else {1})


def test_the_table_has_every_fault_that_strikes_requests() -> None:
    kinds = {getattr(faults, name) for name in faults.__all__}
    played = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, faults.Fault)}
    played -= {faults.Fault, faults.Ending, faults.AnswerFault, faults.ReplyFault}
    played -= {kind for kind in played if issubclass(kind, faults.NotificationFault)}
    assert {type(row.fault) for row in ROWS} == played

"""Every fault of the sandbox leads to the statuses that the table of faults names."""

import pytest

from gateway_async import OutcomeUnknownError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.deeds import SUCCEEDED, Trial
from tests.support.faults import LARGE, ROWS, Row


def _tried(row: Row) -> list[tuple[str, Row]]:
    return [("query", row)] * bool(row.read) + [(row.operation, row)]


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize(("operation", "row"), [one for row in ROWS for one in _tried(row)])
async def test_what_a_fault_leads_to(sandbox: Sandbox, operation: str, row: Row) -> None:
    trial, fault = Trial(sandbox, operation), row.fault
    sandbox.faults.add(operation, fault)
    told = await trial.run(max_reply_bytes=LARGE)
    assert set(sandbox.faults.struck) == {type(fault).__name__}
    assert told.statuses == [*(row.read if trial.reads else row.money)]
    if not trial.reads:
        assert trial.requests == 1
        assert set(trial.effects) == {row.effects}
        assert all(isinstance(error, OutcomeUnknownError) for error in told.errors if error)
    if told.result is not None:
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

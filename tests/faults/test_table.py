"""Every fault of the sandbox leads to the statuses that the table of faults names."""

import pytest

from gateway_async import OutcomeUnknownError, RejectedError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.deeds import DECLINED, DEEDS, SUCCEEDED, Trial
from tests.support.faults import LARGE, ROWS, Row


def _tried(row: Row) -> list[tuple[str, Row]]:
    return [("query", row)] * bool(row.read) + [(row.operation, row)]


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize(("operation", "row"), [one for row in ROWS for one in _tried(row)])
async def test_what_a_fault_leads_to(sandbox: Sandbox, operation: str, row: Row) -> None:
    trial, fault = Trial(sandbox, DEEDS[operation]), row.fault
    sandbox.faults.add(operation, fault)
    told = await trial.run(max_reply_bytes=LARGE)
    assert set(sandbox.faults.struck) == {type(fault).__name__}
    assert told.statuses == [*(row.read if trial.kind.is_read else row.money)]
    if not trial.kind.is_read:
        assert trial.requests == 1
        assert set(trial.effects) == {row.effects}
        assert all(isinstance(error, OutcomeUnknownError) for error in told.errors if error)
    if told.result is not None:
        assert told.result.unexpected.count == row.strangers
        assert told.result.ok == (set(told.statuses) == {SUCCEEDED} and not row.strangers)
    if told.result is not None and trial.kind.is_read:
        is_doubled = isinstance(fault, faults.DoubledItems) and not fault.status
        sizes = {len(outcome.record or ()) for outcome in told.result.succeeded}
        assert sizes <= ({2} if is_doubled else {1})


def test_the_table_has_every_fault_that_strikes_requests() -> None:
    kinds = {getattr(faults, name) for name in faults.__all__}
    bases = {faults.Fault, faults.Ending, faults.AnswerFault, faults.ReplyFault}
    played = {
        kind
        for kind in kinds - bases
        if issubclass(kind, faults.Fault) and not issubclass(kind, faults.NotificationFault)
    }
    assert {type(row.fault) for row in ROWS} == played


@pytest.mark.parametrize("trial", ["refund"], indirect=True)
async def test_what_the_gateway_declines_item_by_item(trial: Trial) -> None:
    """The refunds ask for 4.00 of 10.00: the third of each is above what is left."""
    deed = trial.kind(trial.sandbox)
    async with trial.client() as gateway:
        said = [await deed.do(gateway) for _ in range(3)]
    assert [told.status for told in said] == [SUCCEEDED, SUCCEEDED, DECLINED]
    assert all(isinstance(error, RejectedError) for error in said[-1].errors)
    assert deed.effects() == [2, 2, 2]

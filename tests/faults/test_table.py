"""Every fault of the sandbox leads to the statuses that the table of faults names, and no secret.

A payment by card is made beside each, so that there is something to hide.
"""

import asyncio
import pickle

import pytest

from gateway_async import GatewayClient, OutcomeUnknownError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.trial import Trial
from tests.support.books import SUCCEEDED, statuses
from tests.support.calls import paid_by_card
from tests.support.dragnet import Dragnet, links_of
from tests.support.faults import LARGE, ROWS, Row


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.fault))
async def test_what_a_fault_leads_to(net: Dragnet, sandbox: Sandbox, row: Row) -> None:
    sandbox.faults.add("*", row.fault)
    async with Trial(sandbox, "query").client(max_reply_bytes=LARGE) as gateway:
        await _pay(net, sandbox, gateway, row)
        for operation, expected in (("query", row.read), ("refund", row.money)):
            if len(expected) > 1:
                await _run(net, gateway, Trial(sandbox, operation), row)
    assert set(sandbox.faults.struck) == {type(row.fault).__name__}


async def _pay(net: Dragnet, sandbox: Sandbox, gateway: GatewayClient, row: Row) -> None:
    payment = paid_by_card()
    (paid,) = await asyncio.gather(gateway.pay_direct(payment), return_exceptions=True)
    net.catch("came", [paid, gateway], deep=False)
    _check_error(net, paid)
    done = len(sandbox.ledger.payments_of(payment.order_no))
    assert done <= 1 == sandbox.requests["pay_direct"]
    if isinstance(paid, BaseException):
        assert isinstance(paid, OutcomeUnknownError)
    else:
        assert len(row.money) > 1
        assert done == 1 or paid.order_status != "1"


async def _run(net: Dragnet, gateway: GatewayClient, trial: Trial, row: Row) -> None:
    result = await trial.run_with(gateway)
    net.catch("came", result, deep=False)
    for outcome in result:
        _check_error(net, outcome.error)
    copy = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own
    assert [repr(outcome) for outcome in copy] == [repr(outcome) for outcome in result]
    assert result.unexpected.count == row.strangers
    assert result.ok == (set(statuses(result)) == {SUCCEEDED} and not row.strangers)
    if trial.reads:
        assert tuple(statuses(result)) == row.read
        is_doubled = isinstance(row.fault, faults.DoubledItems) and not row.fault.status
        sizes = {len(outcome.record or ()) for outcome in result.succeeded}
        assert sizes <= ({2} if is_doubled else {1})
    else:
        assert tuple(statuses(result)) == row.money
        assert trial.requests == 1
        assert set(trial.effects) == {row.effects}


def _check_error(net: Dragnet, error: object) -> None:
    """An error shows no secret, and what hangs on it keeps no frames."""
    net.catch("error", error)
    assert [cause for cause in links_of(error)[1:] if cause.__traceback__] == []


def test_the_table_has_every_fault_that_strikes_requests() -> None:
    kinds = {getattr(faults, name) for name in faults.__all__}
    played = {kind for kind in kinds if isinstance(kind, type) and issubclass(kind, faults.Fault)}
    played -= {faults.Fault, faults.Ending, faults.AnswerFault, faults.ReplyFault}
    played -= {kind for kind in played if issubclass(kind, faults.NotificationFault)}
    assert {type(row.fault) for row in ROWS} == played

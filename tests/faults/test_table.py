"""Every fault of the sandbox leads to the statuses that the table of faults names, and no secret.

A payment by card and a payout are made beside each, so that there is something to hide.
"""

import asyncio
import pickle
from typing import Any

import pytest

from gateway_async import GatewayClient, OutcomeUnknownError, PayoutRequest
from gateway_async.sandbox import Sandbox, faults
from tests.faults.conftest import Trial
from tests.support.books import SUCCEEDED, effects, statuses
from tests.support.dragnet import Dragnet, links_of
from tests.support.examples import full, paid_by_card
from tests.support.faults import ALL_UNKNOWN, LARGE, ROWS, Row


@pytest.mark.usefixtures("held_for_long")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.fault))
async def test_what_a_fault_leads_to(net: Dragnet, sandbox: Sandbox, row: Row) -> None:
    sandbox.faults.add("*", row.fault)
    async with Trial(sandbox, "query").client(max_reply_bytes=LARGE) as gateway:
        calls: list[tuple[Any, Any, str, str]] = [
            (gateway.pay_direct, paid_by_card(), "order_status", "1"),
            (gateway.payout, full(PayoutRequest), "status", "COMPLETED"),
        ]
        for call, order, field, success in calls:
            came: Any = (await asyncio.gather(call(order), return_exceptions=True))[0]
            net.catch("came", [came, gateway], deep=False)
            _check_error(net, came)
            (done,) = effects(sandbox, [order])
            assert done <= 1 == sandbox.requests[call.__name__]
            is_unknown = isinstance(came, OutcomeUnknownError)
            assert is_unknown or done == 1 or getattr(came, field) != success
            if isinstance(row.fault, faults.Ending | faults.InvalidBody):
                assert is_unknown is (row.money == ALL_UNKNOWN)
            if len(row.money) == 1:  # what only XML may hold
                assert is_unknown is (call == gateway.pay_direct)
        for operation, expected in (("query", row.read), ("refund", row.money)):
            if len(expected) > 1:
                await _run(net, gateway, Trial(sandbox, operation), row)
    assert set(sandbox.faults.struck) == {type(row.fault).__name__}


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

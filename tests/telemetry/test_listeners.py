"""Listeners of one's own: what they break is their own affair.

The simulation shows that what they hear adds up, however a batch ends.
"""

import asyncio
import itertools
import logging
from contextlib import nullcontext
from typing import Any

import pytest

from gateway_async import OutcomeStatus, OutcomeUnknownError
from gateway_async.telemetry import Telemetry
from tests.support.collaborators import Diary
from tests.support.memory import Asked, MemoryTransport, all_done, client_over
from tests.support.orders import POLICY, direct_payment, payout_request, references, refunds

METHODS = sorted(name for name in vars(Telemetry) if not name.startswith("_"))
ERRORS = itertools.cycle([LookupError, asyncio.CancelledError, AssertionError])


def _breaking(method: str, error: type[BaseException]) -> Diary:
    """Return a diary one page of which cannot be written on."""

    def broken(*_: object) -> object:
        raise error("the listener broke")

    kind = type("Broken", (Diary,), {method: broken})
    return kind()  # type: ignore[no-any-return]  # a subclass of Diary


@pytest.mark.parametrize(("method", "error"), list(zip(METHODS, ERRORS, strict=False)))
async def test_a_listener_that_breaks_changes_no_outcome(
    caplog: pytest.LogCaptureFixture, method: str, error: type[BaseException]
) -> None:
    def answer(asked: Asked) -> Any:
        return asked.done() if "T000000" not in asked.transactions else b"lost"

    diary, orders = _breaking(method, error), refunds(7)
    transport = MemoryTransport(answer)
    client = client_over(transport, policy=POLICY, telemetry=diary)
    result = await client.refund(orders)
    assert set(transport.effects.values()) == {1}
    async with client.query(references(7)[1:]) as batch:
        assert [o.status async for o in batch] == [OutcomeStatus.SUCCEEDED] * 6
    transport.handler = all_done
    assert (await client.pay_direct(direct_payment())).order_status == "1"
    assert [outcome.order for outcome in result] == orders
    assert result.counts[OutcomeStatus.UNKNOWN] == 2
    assert result.counts[OutcomeStatus.SUCCEEDED] == 5
    (complaint,) = (one for one in caplog.records if one.name == "gateway_async.telemetry")
    assert complaint.levelno == logging.ERROR
    assert complaint.exc_info is not None
    assert complaint.exc_info[0] is error
    # Of what it could not begin, it is not told the end.
    assert method != "request_began" or not diary.requests
    assert diary.is_closed or method.endswith("_ended")


class _Full(logging.Handler):
    """A handler of the program's that raises once requests were made, as a filter may, too."""

    def emit(self, record: logging.LogRecord) -> None:
        if "began" not in record.getMessage():
            raise OSError("no space left")


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_log_that_breaks_hides_no_outcome(is_lost: bool) -> None:
    transport = MemoryTransport(lambda asked: b"lost" if is_lost else asked.done())
    client, log = client_over(transport, policy=POLICY), logging.getLogger("gateway_async")
    handler, level = _Full(), log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        with pytest.raises(OutcomeUnknownError) if is_lost else nullcontext():
            assert (await client.payout(payout_request())).status == "COMPLETED"
        result = await client.refund(refunds(3))
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
    assert result.counts[OutcomeStatus.UNKNOWN if is_lost else OutcomeStatus.SUCCEEDED] == 3

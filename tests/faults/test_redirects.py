"""A redirect is a status like any other: not one byte of a request goes elsewhere."""

import aiohttp
import pytest

from gateway_async import ReplyStatusError
from gateway_async.sandbox import faults
from tests.faults.deeds import ATTEMPTS, UNKNOWN, Trial
from tests.faults.proxy import Listener


@pytest.mark.parametrize("given", [False, True], ids=["our session", "the caller's session"])
@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
async def test_a_redirect_is_not_followed(trial: Trial, status: int, *, given: bool) -> None:
    async with Listener(hangs_up=True) as elsewhere:
        fault = faults.Redirect(f"{elsewhere.base_url}/v1/refund", status)
        trial.sandbox.faults.add(trial.kind.operation, fault)
        if given:
            async with aiohttp.ClientSession() as session:
                told = await trial.run(session=session)
        else:
            told = await trial.run()
        assert (elsewhere.connections, elsewhere.received) == (0, 0)
    assert told.status is UNKNOWN
    assert isinstance(told.error, ReplyStatusError)
    assert told.error.status == status
    assert trial.requests == trial.by_kind(read=ATTEMPTS, money=1)
    assert "redirects are not followed" in str(told.error)


async def test_a_redirect_to_the_gateway_itself_is_not_followed_either(trial: Trial) -> None:
    fault = faults.Redirect("/v1/capture", 307)
    trial.sandbox.faults.add(trial.kind.operation, fault)
    told = await trial.run()
    assert told.status is UNKNOWN
    assert trial.sandbox.requests.total() == trial.by_kind(read=ATTEMPTS, money=1)

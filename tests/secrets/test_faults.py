"""No fault of the gateway makes the library show a secret."""

from typing import TYPE_CHECKING

import pytest

from gateway_async import GatewayError, Timeouts
from tests.secrets.dragnet import links_of
from tests.secrets.driving import OPERATIONS, drive, some
from tests.support.faults import LARGE, ROWS, Row

if TYPE_CHECKING:
    from gateway_async.sandbox import Sandbox
    from tests.secrets.conftest import Opened
    from tests.secrets.dragnet import Dragnet

HASTY = Timeouts(reply_seconds=0.3)


async def test_nothing_leaks_where_all_is_well(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    came = await drive(net, opened(), sandbox)
    assert [name for name, value in came.items() if isinstance(value, Exception)] == []
    assert len(net.signatures) > len(OPERATIONS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row.fault).__name__)
async def test_nothing_leaks_under_a_fault(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox", row: Row
) -> None:
    number = ROWS.index(row)
    names = some(number)[number % 2 :: 2]
    sandbox.faults.add("*", row.fault)
    came = await drive(net, opened(timeouts=HASTY, max_reply_bytes=LARGE), sandbox, names)
    assert set(sandbox.faults.struck) == {type(row.fault).__name__}
    errors = [value for value in came.values() if isinstance(value, BaseException)]
    assert [error for error in errors if not isinstance(error, GatewayError)] == []
    causes = [cause for error in errors for cause in list(links_of(error))[1:]]
    assert [cause for cause in causes if cause.__traceback__] == []

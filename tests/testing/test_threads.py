"""A sandbox on a thread of its own is asked from others as if it were here.

Refunds, recovery and jobs by the fixtures are shown by the suites of the page.
"""

import asyncio
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway_async import ConfigurationError, Dialect, DirectPayment, GatewayClient
from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.faults import DropReply, LateNotification
from gateway_async.testing import sandbox_client, threaded_sandbox
from tests.support import nursery
from tests.support.orders import CARD, PAYMENT, seeded
from tests.support.processes import ROOT

pytest_plugins = ["gateway_async.testing"]


def test_the_books_are_read_from_here_while_others_write(gateway_sandbox: Sandbox) -> None:
    def write(_: int) -> list[str]:
        return [order.transaction_id for order in gateway_sandbox.seed(20)]

    with ThreadPoolExecutor(8) as executor:
        made = executor.map(write, range(16))
        read = [len(list(gateway_sandbox.ledger)) for _ in range(20)]
    assert len({name for some in made for name in some}) == len(gateway_sandbox.ledger) == 320
    assert read == sorted(read)


def test_all_parts_are_there(gateway_sandbox: Sandbox, gateway_client: GatewayClient) -> None:
    async def refund() -> bool:
        return (await gateway_client.refund([order])).ok

    (order,) = seeded(gateway_sandbox, 1)
    gateway_sandbox.faults.add("refund", DropReply(times=1))
    assert not asyncio.run(refund())
    assert gateway_sandbox.requests == {"search_refunds": 1, "refund": 1}
    assert gateway_sandbox.faults.struck == {"DropReply": 1}
    transaction = gateway_sandbox.ledger.transaction(order.transaction_id)
    assert transaction.status is PaymentStatus.CAPTURED
    assert asyncio.run(gateway_sandbox.deliver_notifications()) == 0


def test_what_is_refused_is_raised_here_and_a_closed_client_sends_nothing() -> None:
    with threaded_sandbox() as sandbox:
        port = int(sandbox.base_url.rpartition(":")[2])
        with pytest.raises(ConfigurationError, match="cannot listen"), threaded_sandbox(port=port):
            pass
        with pytest.raises(ConfigurationError, match="no status"):
            sandbox.seed(1, status="nonsense")
        with sandbox_client(sandbox) as gateway:
            pass
        with pytest.raises(ConfigurationError, match="closed"):
            gateway.refund(seeded(sandbox, 1))
    names = [thread.name for thread in threading.enumerate()]
    assert [name for name in names if name.startswith("gateway_async sandbox")] == []


class TestSettings:
    @pytest.fixture
    def threads(self) -> set[str]:
        return set()

    @pytest.fixture
    def gateway_sandbox_settings(self, threads: set[str]) -> dict[str, Any]:
        def clock() -> datetime:
            threads.add(threading.current_thread().name)
            return datetime.now(UTC)

        return {"merchant_id": "M7", "secret": "another", "clock": clock, "notify_pauses": (0,)}

    @pytest.fixture
    def gateway_client_settings(self) -> dict[str, Any]:
        return {"dialect": Dialect(notification_answer="taken")}

    def test_settings_are_overridden_and_all_happens_there(
        self, gateway_sandbox: Sandbox, gateway_client: GatewayClient, threads: set[str]
    ) -> None:
        assert gateway_sandbox.merchant_id == "M7"
        assert gateway_client.dialect.notification_answer == "taken"
        assert asyncio.run(gateway_client.recent_transactions()).records == ()
        gateway_sandbox.seed(1)
        assert threads == {"gateway_async sandbox"}
        gateway_sandbox.faults.add("*", LateNotification(3600))
        notified = DirectPayment(**PAYMENT, **CARD, notify_url="http://127.0.0.1:1/n")
        asyncio.run(gateway_client.pay_direct(notified))
        assert asyncio.run(gateway_sandbox.deliver_notifications()) == 1


# The fixtures serve pytest-asyncio, anyio and Django alike: the suites of the page pass

PAGE = (ROOT / "docs" / "how-to" / "testing.md").read_text()
SUITES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
STRICT = """[pytest]
asyncio_mode = strict
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


@pytest.mark.slow
async def test_pytest_asyncio_in_strict_mode_anyio_and_django(tmp_path: Path) -> None:
    """What pytest-asyncio does in its auto mode, the tests beside this one show.

    They end long before the usual `settle_seconds`, a minute, so recovery waits for nothing.
    """
    for name, text in SUITES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "pytest.ini").write_text(STRICT)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # each takes its time to load
    options = ("-p", "pytest_asyncio.plugin", "-p", "anyio.pytest_plugin", "-q")
    process = await nursery.start(pytest.main, options, env=env, cwd=tmp_path)
    output = b"".join(await process.communicate())
    assert re.search(rb"^9 passed in ", output, re.MULTILINE), output.decode()

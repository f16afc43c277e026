"""The examples that are programs run, and say what their pages show.

The example shop believes the gateway alone, and repeats nothing that may have been done.
"""

import os
import re
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import aiohttp
import attrs
import pytest
from aiohttp.test_utils import TestClient, TestServer

from gateway_async import RecoveryPolicy
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, ResetBeforeEffect, Status
from gateway_async.testing import sandbox_client
from tests.support import nursery, orders
from tests.support.nursery import run_file
from tests.support.postgres import postgres_url
from tests.support.processes import ROOT

EXAMPLES = ROOT / "docs" / "examples"
pytest_plugins = ["gateway_async.testing"]


async def _run(name: str, *arguments: str) -> tuple[str, str]:
    """Run an example to its end; return what it printed, and its log."""
    process = await nursery.start(run_file, [str(EXAMPLES / name), *arguments], env=os.environ)
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()
    return stdout.decode(), stderr.decode()


async def test_a_reconciliation_finds_both_differences() -> None:
    stdout, stderr = await _run("reconcile.py")
    assert stderr == ""
    assert stdout.splitlines()[:3] == [
        "S00000041 amount 25.00",
        "S00000071 refund_absent_at_gateway 0",
        "1,000 entries: 998 matched, 2 differing, 0 unanswered",
    ]


async def test_procrastinate_runs_the_slices_of_a_job() -> None:
    with postgres_url() as url:
        stdout, stderr = await _run("procrastinate_workers.py", url)
    assert stdout == "1000 succeeded\n"
    assert stderr.splitlines()[-1] == "1000 of 1000 orders"


async def test_spans_are_printed_as_their_page_shows() -> None:
    stdout, stderr = await _run("telemetry.py")
    assert stderr == ""
    page = EXAMPLES.parent / "how-to" / "telemetry.md"
    assert f"```text\n{stdout}```" in page.read_text()


FORM = {"tea": "Oolong", "first_name": "Ada", "note": "x"}
CARD = {**orders.CARD, "card": "4111 1111 1111 1111", "security_code": "9753"}


@attrs.frozen
class Till:
    """The shop, as a browser without scripts sees it."""

    shop: Any
    sandbox: Sandbox
    browser: TestClient[Any, Any]

    async def order(self) -> Any:
        async with self.browser.post("/orders", data=FORM, allow_redirects=False) as response:
            assert response.status == 303
            return self.shop.orders[response.headers["Location"].rpartition("/")[2]]

    async def page(self, order: Any) -> str:
        async with self.browser.get(f"/orders/{order.order_no}") as response:
            assert response.status == 200
            return await response.text()

    async def press(self, order: Any, action: str, **fields: str) -> str:
        """Send the form that the order's page has now."""
        fields = {"token": order.token, **fields}
        url = f"/orders/{order.order_no}/{action}"
        async with self.browser.post(url, data=fields) as response:
            assert response.status == 200
            return await response.text()

    def effects(self, order: Any) -> dict[str, int]:
        payments = self.sandbox.ledger.payments_of(order.order_no)
        return dict(sum((payment.effects for payment in payments), Counter()))


@pytest.fixture
async def till(gateway_sandbox: Sandbox) -> AsyncIterator[Till]:
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    recovery = RecoveryPolicy(record_baseline=True, settle_seconds=0)
    with sandbox_client(gateway_sandbox, recovery=recovery) as gateway:
        async with gateway, gateway.coalesced() as single:
            shop = import_module("docs.examples.shop").Shop(gateway, single, url)
            server = TestServer(shop.app, socket_factory=lambda *_: listening)
            async with TestClient(server) as browser:
                yield Till(shop, gateway_sandbox, browser)


async def captured(till: Till) -> Any:
    order = await till.order()
    await till.press(order, "card", **CARD)
    await till.press(order, "capture")
    assert order.state == "captured"
    return order


async def test_what_was_done_without_a_reply_is_found_out_and_not_repeated(till: Till) -> None:
    for operation in ("pay_direct", "capture", "refund"):
        till.sandbox.faults.add(operation, DropReply(times=1))
    order = await captured(till)
    token = order.token
    await till.press(order, "refund", refund_amount="2.00")
    await till.press(order, "refund", refund_amount="2.00", token=token)
    await order.settling  # by the gateway's records, in the background
    assert till.effects(order) == {"pay_direct": 1, "capture": 1, "refund": 1}
    assert "2.00 EUR" in await till.page(order)
    assert order.state == "captured"
    await till.press(order, "refund", refund_amount="3.00")
    assert till.effects(order)["refund"] == 2
    assert "5.00 EUR" in await till.page(order)


async def test_what_nobody_can_settle_stays_in_doubt_and_is_not_offered_again(till: Till) -> None:
    refunded, paid = await captured(till), await till.order()
    till.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    await till.press(refunded, "refund", refund_amount="2.00")
    await refunded.settling
    for operation in ("pay_direct", "query"):
        till.sandbox.faults.add(operation, Status(503))
    await till.press(paid, "card", **CARD)
    till.sandbox.faults.clear()
    for order in (refunded, paid):
        page = await till.page(order)
        assert "not confirmed this yet" in page
        assert "<input" not in page
        assert order.state == "unknown"


async def test_a_payment_page_that_was_lost_is_not_offered_and_leads_on(till: Till) -> None:
    order = await till.order()
    till.sandbox.faults.add("checkout", DropReply(times=1))
    page = await till.press(order, "checkout")
    assert (order.state, till.effects(order)) == ("waiting", {"checkout": 1})
    assert re.findall(r'class="button" href="([^"]*)"', page) == ["/"]
    paid = await till.order()
    await till.press(paid, "checkout")
    waiting = await till.page(paid)
    assert f'href="/orders/{paid.order_no}/checkout"' in waiting


async def test_bad_input_is_named_and_a_card_is_kept_nowhere(
    till: Till, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    order = await till.order()
    page = await till.press(order, "card", **{**CARD, "card": "4111 x"})
    assert "card: a card number is digits only" in page.partition('<p class="message">')[2]
    assert "4111 x" not in page
    assert (order.state, till.effects(order)) == ("new", {})
    page = await till.press(order, "card", **CARD)
    kept = repr((till.shop.orders, attrs.asdict(order, recurse=False), caplog.text, page))
    for secret in ("4111 1111", "41111111", "9753"):
        assert secret not in kept


async def test_it_is_small_opens_with_one_command_and_closes_quietly() -> None:
    script = EXAMPLES / "shop.py"
    assert len(script.read_text(encoding="utf-8").splitlines()) < 200
    process = await nursery.start(run_file, [str(script)], env=os.environ)
    line = (await process.stdout.readline()).decode()
    address = re.fullmatch(r"The shop is open at (http://127\.0\.0\.1:\d+)\n", line)
    try:
        assert address is not None
        async with aiohttp.ClientSession() as http, http.get(address[1]) as response:
            assert "Darjeeling" in await response.text()
    finally:
        process.send_signal(signal.SIGINT)
    assert await process.communicate() == (b"", b"")
    assert process.returncode == 0

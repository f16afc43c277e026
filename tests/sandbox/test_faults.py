"""What the client's tests do not show of the faults: those that it reads past, and the wire.

Statuses and effects under each fault are in `tests/support/faults.py`, and tried in `tests/faults`.
"""

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox, Transaction, faults
from gateway_async.sandbox.faults import Fault, Faults
from tests.sandbox.conftest import DIRECT, Merchant, item, merchant_of
from tests.support.interruptions import asked, until

Check = Callable[[bytes], bool]
NUMBERS = ["S00000001", "S00000002", "S00000003"]


@pytest.fixture
def orders(merchant: Merchant) -> list[Transaction]:
    return merchant.sandbox.seed(3, status="captured")


async def raw(
    merchant: Merchant, orders: list[Transaction]
) -> tuple[aiohttp.ClientResponse, bytes]:
    fields = {"refund_orders": [item(order) for order in orders]}
    async with merchant.post("refund", fields) as response:
        return response, await response.read()


@pytest.mark.parametrize("fault", [faults.NoReply(), faults.Latency(3600), faults.LateEffect(3600)])
async def test_nothing_is_left_when_the_sandbox_closes(fault: Fault) -> None:
    async def lose() -> None:
        with pytest.raises((aiohttp.ClientConnectionError, aiohttp.ClientPayloadError)):
            await raw(merchant, merchant.sandbox.seed(1, status="captured"))

    before = asyncio.all_tasks()
    async with merchant_of() as merchant:
        merchant.sandbox.faults.add("refund", fault)
        held = asyncio.create_task(lose())
        await asked(merchant.sandbox)
    await held
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.ResetAfterEffect(), aiohttp.ClientOSError),
        (faults.DropReply(), aiohttp.ServerDisconnectedError),
    ],
)
async def test_a_reset_is_seen_as_such(
    merchant: Merchant, orders: list[Transaction], fault: Fault, error: type[Exception]
) -> None:
    merchant.sandbox.faults.add("refund", fault)
    with pytest.raises(error):
        await raw(merchant, orders)


@pytest.mark.parametrize("fault", [faults.NoReply(), faults.Drip(pause_seconds=0.01)])
async def test_a_held_request_ends_when_its_client_goes(
    merchant: Merchant, orders: list[Transaction], fault: Fault
) -> None:
    before = asyncio.all_tasks()
    merchant.sandbox.faults.add("refund", fault)
    held = asyncio.create_task(raw(merchant, orders))
    await asked(merchant.sandbox)
    held.cancel()
    await until(lambda: asyncio.all_tasks() == before)


def records(field: str, *texts: Any, **envelope: Any) -> Check:
    def is_so(body: bytes) -> bool:
        reply = json.loads(body)
        listed = [one[field] for one in reply["refund_orders"]]
        return listed == [*texts] and envelope.items() <= reply.items()

    return is_so


def is_right(body: bytes) -> bool:
    return bool(json.loads(body)["return_status"] == "1")


@pytest.mark.parametrize(
    ("fault", "named", "is_so"),
    [
        (faults.ReorderedItems(), "application/json", records("order_no", *NUMBERS[::-1])),
        (
            faults.UnknownFields(),
            "application/json",
            records("sandbox_field", *["record"] * 3, sandbox_field="envelope"),
        ),
        (faults.NumbersForText(), "", records("amount", *[10.0] * 3, return_status=1)),
        (
            faults.UnknownItemStatus(text="no"),
            "",
            lambda b: (b'"refund_message":"no"' in b, b"error_message" in b) == (True, False),
        ),
        (faults.HtmlErrorPage(), "502 text/html", lambda b: b"<h1>" in b),
        (faults.WrongContentType("text/css"), "text/css", is_right),
        (faults.ByteOrderMark(), "", lambda b: b[:3] == b"\xef\xbb\xbf" and is_right(b[3:])),
        (faults.GzipReply(), "gzip", lambda b: is_right(gzip.decompress(b))),
    ],
)
async def test_the_effect_is_done_and_the_reply_is_another(
    merchant: Merchant, orders: list[Transaction], fault: Fault, named: str, is_so: Check
) -> None:
    merchant.sandbox.faults.add("refund", fault)
    response, body = await raw(merchant, orders)
    assert is_so(body)
    headers = response.headers
    shown = f"{response.status} {headers['Content-Type']} {headers.get('Content-Encoding')}"
    assert named in shown
    assert merchant.effects(*orders) == [1, 1, 1]


async def test_faults_of_a_list_add_up_and_leave_a_payment(
    merchant: Merchant, orders: list[Transaction]
) -> None:
    for fault in (faults.NullList, faults.MissingItems, faults.ExtraItems, faults.Doctype):
        merchant.sandbox.faults.add("*", fault())
    _, body = await raw(merchant, orders)
    assert records("order_no", "stranger-1")(body)
    assert (await merchant.pay(DIRECT))["order_no"] == "N-1"  # read as XML: its type is harmless


def test_endings_follow_each_other_and_others_join_in_until_they_are_cleared() -> None:
    plans = Faults()
    plans.add("refund", faults.DropReply(times=2))
    plans.add("*", faults.Status(times=1))
    plans.add("*", faults.MissingItems(times=1))
    assert plans.plan("query").names == ("Status", "MissingItems")
    assert [plans.plan("refund").names for _ in range(3)] == [("DropReply",), ("DropReply",), ()]
    for delay in (0.5, 1.0):
        plans.add("*", faults.Latency(delay))
    assert plans.plan("refund").names == ("Latency", "Latency")
    plans.clear()
    plans.add("*", faults.LostNotification())
    assert plans.plan("checkout").faults == ()
    assert plans.plan("checkout", notifications=True).names == ("LostNotification",)


def test_probabilities_are_repeatable() -> None:
    def drawn() -> list[int]:
        plans = Sandbox(random_seed=7).faults
        plans.add("*", faults.DropReply(probability=0.3))
        return [len(plans.plan("refund").faults) for _ in range(1000)]

    assert drawn() == drawn()
    assert 200 < sum(drawn()) < 400


def test_what_cannot_strike_is_refused() -> None:
    wrong: list[tuple[str, Any]] = [("refunds", faults.DropReply()), ("refund", faults.DropReply)]
    for operation, fault in wrong:
        with pytest.raises(ConfigurationError, match=r"^Faults\.add: "):
            Faults().add(operation, fault)

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
from gateway_async.sandbox import Transaction, faults
from gateway_async.sandbox.faults import Fault, Faults
from tests.sandbox.conftest import Merchant, item, merchant_of
from tests.support.interruptions import asked

Check = Callable[[bytes], bool]
NUMBERS = ["S00000001", "S00000002", "S00000003"]


@pytest.fixture
def orders(merchant: Merchant) -> list[Transaction]:
    return merchant.sandbox.seed(3, status="captured")


async def raw(merchant: Merchant, orders: list[Transaction]) -> tuple[Any, bytes]:
    fields = {"refund_orders": [item(order) for order in orders]}
    async with merchant.post("refund", fields) as response:
        return response.headers, await response.read()


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


def records(field: str, *texts: Any) -> Check:
    return lambda body: [one[field] for one in json.loads(body)["refund_orders"]] == [*texts]


def is_right(body: bytes) -> bool:
    return bool(json.loads(body)["return_status"] == "1")


@pytest.mark.parametrize(
    ("fault", "named", "is_so"),
    [
        (faults.ReorderedItems(), "application/json", records("order_no", *NUMBERS[::-1])),
        (faults.UnknownFields(), "application/json", records("sandbox_field", *["record"] * 3)),
        (faults.NumbersForText(), "application/json", records("amount", *[10.0] * 3)),
        (faults.WrongContentType("text/css"), "text/css", is_right),
        (faults.ByteOrderMark(), "", lambda b: b[:3] == b"\xef\xbb\xbf" and is_right(b[3:])),
        (faults.GzipReply(), "gzip", lambda b: is_right(gzip.decompress(b))),
        (faults.Drip(100, 0.0), "", is_right),
    ],
)
async def test_the_effect_is_done_and_the_reply_is_another(
    merchant: Merchant, orders: list[Transaction], fault: Fault, named: str, is_so: Check
) -> None:
    merchant.sandbox.faults.add("refund", fault)
    headers, body = await raw(merchant, orders)
    assert is_so(body)
    assert named in f"{headers['Content-Type']} {headers.get('Content-Encoding')}"
    assert merchant.effects(*orders) == [1, 1, 1]


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
        plans = Faults(random_seed=7)
        plans.add("*", faults.DropReply(probability=0.3))
        return [len(plans.plan("refund").faults) for _ in range(1000)]

    assert drawn() == drawn()
    assert 200 < sum(drawn()) < 400


def test_what_cannot_strike_is_refused() -> None:
    wrong: list[tuple[str, Any]] = [("refunds", faults.DropReply()), ("refund", faults.DropReply)]
    for operation, fault in wrong:
        with pytest.raises(ConfigurationError, match=r"^Faults\.add: "):
            Faults().add(operation, fault)

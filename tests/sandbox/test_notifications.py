"""What a merchant's server is told at `notify_url`, and what may go wrong on the way."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import aiohttp
import attrs
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from defusedxml.ElementTree import fromstring

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox, notifier
from gateway_async.sandbox.faults import (
    Faults,
    LateNotification,
    LostNotification,
    OvertakenNotification,
    RepeatedNotification,
)
from tests.sandbox.conftest import Merchant, sign
from tests.sandbox.test_payments import DIRECT, PAYOUT, pay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FOREVER = 3600.0
NASTY = "</respon>\r\n&amp;\x01 \"'🎉 中文"


@attrs.frozen
class Told:
    content_type: str
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True, strict_parsing=True))


@attrs.frozen
class Shop:
    """A merchant's server that keeps what it is told, and answers as it is told to."""

    url: str
    statuses: list[int]
    told: list[Told]
    heard: asyncio.Event

    @property
    def orders(self) -> list[str]:
        return [one.form["order_no"] for one in self.told]


@pytest.fixture
async def shop() -> "AsyncIterator[Shop]":
    statuses: list[int] = []
    told: list[Told] = []
    heard = asyncio.Event()

    async def notify(request: web.Request) -> web.Response:
        told.append(Told(request.headers["Content-Type"], await request.read()))
        heard.set()
        elsewhere = {"Location": "/elsewhere"}
        return web.Response(status=statuses.pop(0) if statuses else 200, headers=elsewhere)

    app = web.Application()
    app.router.add_post("/notify", notify)
    async with TestServer(app, host="127.0.0.1") as server:
        yield Shop(str(server.make_url("/notify")), statuses, told, heard)


@asynccontextmanager
async def merchant_of(sandbox: Sandbox) -> "AsyncIterator[Merchant]":
    async with sandbox, aiohttp.ClientSession() as http:
        yield Merchant(sandbox=sandbox, http=http)


def read_form(told: Told) -> dict[str, str]:
    assert told.content_type == "application/x-www-form-urlencoded"
    return told.form


def read_json(told: Told) -> dict[str, str]:
    assert told.content_type.startswith("application/json")
    fields: dict[str, str] = json.loads(told.body)
    return fields


def read_xml(told: Told) -> dict[str, str]:
    assert told.content_type.startswith("text/xml")
    root = fromstring(told.body.decode())
    assert root.tag == "respon"
    return {element.tag: element.text or "" for element in root}


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(
    ("notify_format", "read", "order_no"),
    [
        ("form", read_form, NASTY),
        ("json", read_json, NASTY),
        ("xml", read_xml, NASTY.replace("\x01", "")),
    ],
)
async def test_a_notification_is_written_as_it_is_asked_for(
    shop: Shop,
    *,
    notify_format: str,
    read: "Callable[[Told], dict[str, str]]",
    order_no: str,
    signed: bool,
) -> None:
    sandbox = Sandbox(notify_format=notify_format, notify_signed=signed)
    async with merchant_of(sandbox) as merchant:
        await pay(merchant, {**DIRECT, "order_no": NASTY, "notify_url": shop.url})
        assert await sandbox.deliver_notifications() == 1
    (told,) = shop.told
    fields = read(told)
    signature = fields.pop("encryption_data", None)
    assert signature == (sign(fields) if signed else None)
    (transaction,) = sandbox.ledger.payments_of(NASTY)
    assert fields == {
        "merchant_id": "M1",
        "account_id": "A1",
        "order_no": order_no,
        "transaction_id": transaction.transaction_id,
        "amount": "12.30",
        "currency": "EUR",
        "order_status": "1",
        "result_info": "0000:success",
        "payment_status": "4100",
    }


async def test_what_was_sent_can_be_looked_at_and_sent_again(
    merchant: Merchant, shop: Shop
) -> None:
    await pay(merchant, {**DIRECT, "card": "4000000000009995", "notify_url": shop.url})
    await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.operation, sent.url, sent.status) == ("pay_direct", shop.url, 200)
    assert (sent.delivered, sent.attempts) == (True, 1)
    headers = {"Content-Type": sent.content_type}
    async with merchant.http.post(sent.url, data=sent.body, headers=headers):
        first, again = shop.told
    assert first == again
    assert (first.form["order_status"], first.form["result_info"]) == (
        "0",
        "2011:insufficient funds",
    )
    assert first.form["encryption_data"] not in repr(sent)


async def test_a_payout_is_told(merchant: Merchant, shop: Shop) -> None:
    await merchant.ask("payout", {**PAYOUT, "notify_url": shop.url})
    await merchant.sandbox.deliver_notifications()
    fields = shop.told[0].form
    signature = fields.pop("encryption_data")
    assert signature == sign(fields)
    assert (fields["request_id"], fields["status"]) == (PAYOUT["request_id"], "COMPLETED")


async def test_what_is_refused_is_not_told(merchant: Merchant, shop: Shop) -> None:
    wrong = {**PAYOUT, "payment_amount": "x", "notify_url": shop.url}
    assert (await merchant.ask("payout", wrong))["status"] == "FAILED"
    await pay(merchant, {**DIRECT, "amount": "x", "notify_url": shop.url})
    assert await merchant.sandbox.deliver_notifications() == 0
    assert shop.told == []


async def test_a_payout_that_is_deduplicated_is_told_once(shop: Shop) -> None:
    async with merchant_of(Sandbox(deduplicate_payouts=True)) as merchant:
        for _ in range(2):
            await merchant.ask("payout", {**PAYOUT, "notify_url": shop.url})
        await merchant.sandbox.deliver_notifications()
    assert len(shop.told) == 1


@pytest.mark.parametrize(
    ("statuses", "attempts", "delivered"),
    [([500, 302], 3, True), ([500, 400, 404], 3, False), ([204], 1, True)],
)
async def test_it_is_tried_again_with_the_same_bytes(
    shop: Shop, statuses: list[int], attempts: int, *, delivered: bool
) -> None:
    shop.statuses.extend(statuses)
    async with merchant_of(Sandbox(notify_pauses=(0.0, 0.0, 0.0))) as merchant:
        await pay(merchant, {**DIRECT, "notify_url": shop.url})
        await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.attempts, sent.delivered, len(shop.told)) == (attempts, delivered, attempts)
    assert {one.body for one in shop.told} == {sent.body}


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1/n",
        "http://shop.example/n",
        "http://127.0.0.1:1/n",
        "ftp://127.0.0.1/n",
        "http://127.0.0.1:99999/n",
        "http://127.0.0.1@192.0.2.1/n",
        "http://192.0.2.1\\@127.0.0.1:1/n",
        "nonsense\r\n",
    ],
)
async def test_an_address_that_cannot_be_told_hurts_nobody(merchant: Merchant, url: str) -> None:
    result = await pay(merchant, {**DIRECT, "notify_url": url})
    assert result["order_status"] == "1"
    await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.delivered, sent.status) == (False, None)


async def test_a_name_that_leads_elsewhere_is_not_followed(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]
    refused: list[str] = []
    real = notifier._open_socket

    def open_socket(address: aiohttp.AddrInfoType) -> socket.socket:
        with pytest.raises(PermissionError) as refusal:
            real(address)
        refused.append(str(refusal.value))
        raise refusal.value

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: elsewhere)
    monkeypatch.setattr(notifier, "_open_socket", open_socket)
    await pay(merchant, {**DIRECT, "notify_url": "http://localhost/n"})
    await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.attempts, sent.delivered) == (2, False)
    assert refused == ["a sandbox calls this machine alone, and not 192.0.2.1"] * 2


# Faults


def told_of(merchant: Merchant) -> list[bool]:
    return [one.delivered for one in merchant.sandbox.notifications]


async def pay_each(merchant: Merchant, shop: Shop, *order_nos: str) -> None:
    for order_no in order_nos:
        await pay(merchant, {**DIRECT, "order_no": order_no, "notify_url": shop.url})


async def test_a_notification_can_be_lost(merchant: Merchant, shop: Shop) -> None:
    merchant.sandbox.faults.add("pay_direct", LostNotification(times=1))
    await pay_each(merchant, shop, "A", "B")
    await merchant.sandbox.deliver_notifications()
    assert shop.orders == ["B"]
    assert told_of(merchant) == [False, True]
    assert merchant.sandbox.faults.struck == {"LostNotification": 1}


async def test_a_notification_can_be_repeated(merchant: Merchant, shop: Shop) -> None:
    merchant.sandbox.faults.add("*", RepeatedNotification(copies=3, times=1))
    await pay_each(merchant, shop, "A")
    await merchant.sandbox.deliver_notifications()
    assert shop.orders == ["A", "A", "A"]
    assert told_of(merchant) == [True, True, True]


async def test_a_notification_can_be_overtaken(merchant: Merchant, shop: Shop) -> None:
    merchant.sandbox.faults.add("pay_direct", OvertakenNotification(times=1))
    await pay_each(merchant, shop, "A", "B")
    while len(shop.told) < 2:
        shop.heard.clear()
        await shop.heard.wait()
    assert shop.orders == ["B", "A"]


async def test_a_late_notification_comes_later_or_when_it_is_asked_for(
    merchant: Merchant, shop: Shop
) -> None:
    merchant.sandbox.faults.add("pay_direct", LateNotification(0.01, times=1))
    merchant.sandbox.faults.add("pay_direct", LateNotification(FOREVER, times=1))
    await pay_each(merchant, shop, "A")
    assert shop.orders == []
    assert await merchant.sandbox.deliver_notifications() == 1
    merchant.sandbox.faults.add("pay_direct", LateNotification(0.01, times=1))
    shop.heard.clear()
    await pay_each(merchant, shop, "B")
    await shop.heard.wait()
    assert shop.orders == ["A", "B"]


async def test_what_is_under_way_at_the_end_is_given_up(shop: Shop) -> None:
    async with merchant_of(Sandbox()) as merchant:
        merchant.sandbox.faults.add("*", OvertakenNotification())
        await pay_each(merchant, shop, "A", "B")
    assert shop.orders == []
    assert told_of(merchant) == [False, False]


async def test_no_more_than_a_bounded_number_is_under_way(
    merchant: Merchant, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifier, "_MOST_UNDER_WAY", 2)
    merchant.sandbox.faults.add("*", LateNotification(FOREVER))
    await pay_each(merchant, shop, "A", "B", "C")
    assert told_of(merchant) == [False]
    assert await merchant.sandbox.deliver_notifications() == 2
    assert sorted(shop.orders) == ["A", "B"]


def test_notification_faults_strike_no_request() -> None:
    faults = Faults()
    faults.add("*", LostNotification())
    assert faults.plan("checkout").faults == ()
    assert faults.plan("checkout", notifications=True).faults == (LostNotification(),)
    with pytest.raises(ConfigurationError, match="no notification is sent for 'refund'"):
        faults.add("refund", LostNotification())


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"notify_format: 'yaml'.*'form', 'json', 'xml'"):
        Sandbox(notify_format="yaml")
    with pytest.raises(ConfigurationError, match="return_url: 'javascript:x' is no http"):
        Sandbox(return_url="javascript:x")

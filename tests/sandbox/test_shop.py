"""What the shopper meets, and what the merchant's server is told at `notify_url`.

Every input of the loading page is compared in a browser: `tests/browser/test_shop.py`.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import attrs
import pytest
from aiohttp import web

from gateway_async.sandbox import PaymentStatus, faults
from tests.sandbox.conftest import APM, DIRECT, NASTY, PAYMENT, PAYOUT, Merchant, merchant_of, sign
from tests.support.servers import answering

SHOP = "http://127.0.0.1:1"


async def begin(merchant: Merchant, fields: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Begin a checkout, and go where the loading page leads to; return that, and its inputs."""
    page = await merchant.page("checkout", fields)
    assert "<title>Loading</title>" in page
    assert page.count("</script>") == 1
    (action,) = re.findall(r'method="post" action="([^"]+)"', page)
    inputs = json.loads(re.findall(r"var inputs = (\{.*\});", page)[0])
    changed = {**inputs, "amount": "0.01"}  # what a browser changed does not count
    async with merchant.http.post(action, data=changed, allow_redirects=False) as forwarded:
        assert forwarded.status == 303
        return merchant.sandbox.base_url + forwarded.headers["Location"], inputs


async def read_page(merchant: Merchant, url: str) -> str:
    async with merchant.http.get(url) as response:
        assert (response.status, response.headers["Cache-Control"]) == (200, "no-store")
        return await response.text()


async def test_the_payment_page_has_what_was_sent_as_text_and_names_test_cards(
    merchant: Merchant,
) -> None:
    url, _ = await begin(merchant, {**PAYMENT, "first_name": NASTY})
    assert merchant.sandbox.requests["checkout"] == 1
    page = await read_page(merchant, url)
    assert "<script" not in page
    assert unescape(page).count(NASTY) == 1
    assert ("12.30" in page, "0.01" in page) == (True, False)
    assert re.findall(r'action="([^"]+)"', page) == [url]
    for card, info in (("4000000000000002", "2001:declined"), ("any other", "0000:success")):
        assert re.search(rf"{card}.*{info}", page)


@pytest.mark.parametrize(
    ("choices", "status", "shown"),
    [
        (
            ["leave", "pay", "decline"],
            PaymentStatus.AUTHORISED,
            "Paid</h1>\n<p>This payment was made",
        ),
        (["leave", "nonsense"], PaymentStatus.WAITING, 'value="pay"'),
    ],
)
async def test_the_first_choice_counts_is_notified_once_and_leads_back(
    merchant: Merchant, choices: list[str], status: PaymentStatus, shown: str
) -> None:
    back = "https://shop.example/back?a=1&b=2"
    asked = {**APM, "return_url": back, "notify_url": "http://127.0.0.1:1/n"}
    result = await merchant.pay(asked)
    assert set(result) == {"merchant_id", "account_id", *PAYMENT, "issuer_url"}
    for choice in choices:
        assert await merchant.decide(result["issuer_url"], choice) == (303, back)
    assert merchant.status is status
    await merchant.sandbox.deliver_notifications()
    told = [one.operation for one in merchant.sandbox.notifications]
    assert told == ["pay_apm"] * (status is not PaymentStatus.WAITING)
    assert shown in await read_page(merchant, result["issuer_url"])


async def test_a_payment_without_a_way_back_takes_the_merchants() -> None:
    back, left = f"{SHOP}/orders/a%2Fb%20%C3%BC%26%3F?done=1", f"{SHOP}/cart"
    of_the_portal = {"return_url": f"{SHOP}/orders/{{order_no}}?done=1", "cancel_url": left}
    async with merchant_of(**of_the_portal) as merchant:
        url, inputs = await begin(merchant, {**PAYMENT, "order_no": "a/b ü&?"})
        assert await merchant.decide(url, "leave") == (303, left)
        for choice in ("pay", "leave"):  # the first choice counts
            assert await merchant.decide(url, choice) == (303, back)
        assert (inputs["returnUrl"], inputs["return_url"]) == (back, back)
        assert (inputs["cancelUrl"], inputs["cancel_url"]) == (left, left)
        own = (await merchant.pay({**APM, "return_url": f"{SHOP}/own"}))["issuer_url"]
        assert await merchant.decide(own, "pay") == (303, f"{SHOP}/own")


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("http://shop.example/zurück?b=%20#e", "http://shop.example/zur%C3%BCck?b=%20#e"),
        ('https://shop.example/"><script>', "https://shop.example/%22%3E%3Cscript%3E"),
        *((url, "") for url in ("javascript:alert(1)", "//shop.example/", "http://[::1/")),
        ("http://shop.example/\r\nSet-Cookie: a=b", ""),
    ],
)
async def test_only_a_web_address_leads_back(merchant: Merchant, url: str, location: str) -> None:
    result = await merchant.pay({**APM, "return_url": url})
    for choice in ("leave", "pay"):
        decided = await merchant.decide(result["issuer_url"], choice)
        assert decided == (303 if location else 200, location)
    assert ("<a " in await read_page(merchant, result["issuer_url"])) == bool(location)


async def test_there_is_no_page_without_a_payment(merchant: Merchant) -> None:
    page = await merchant.page("checkout", {**PAYMENT, "amount": "<b>"})
    assert "missing or wrong: amount" in page
    assert "<form" not in page
    url = merchant.sandbox.base_url
    assert await merchant.decide(f"{url}/pay/1", "pay") == (404, "")
    made_up = {"gbc_id": "../" * 10_000}
    async with merchant.http.post(f"{url}/v1/checkout", data=made_up) as response:
        assert (response.status, "no such payment" in await response.text()) == (404, True)
    assert len(merchant.sandbox.ledger) == 0


# The merchant's server

FORM = "application/x-www-form-urlencoded"


@attrs.define(eq=False)
class Shop:
    """A merchant's server that keeps what it is told."""

    url: str = ""
    statuses: list[int] = attrs.field(factory=list)  # what it answers, before it answers 200
    told: list[bytes] = attrs.field(factory=list)
    heard: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def notify(self, request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == FORM
        self.told.append(await request.read())
        self.heard.set()
        status = self.statuses.pop(0) if self.statuses else 200
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    def fields(self, number: int = 0) -> dict[str, str]:
        told = self.told[number].decode()
        return dict(parse_qsl(told, keep_blank_values=True, strict_parsing=True))

    @property
    def orders(self) -> list[str]:
        return [self.fields(number)["order_no"] for number in range(len(self.told))]


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    shop = Shop()
    async with answering(shop.notify) as shop.url:
        yield shop


async def test_payments_and_payouts_are_notified_by_signed_forms(shop: Shop) -> None:
    order_no = f"</respon>\r\n{NASTY}\x01 中文"
    async with merchant_of(deduplicate_payouts=True) as merchant:
        wrong = {**PAYOUT, "payment_amount": "x", "notify_url": shop.url}
        assert (await merchant.ask("payout", wrong))["status"] == "FAILED"
        await merchant.pay({**DIRECT, "amount": "x", "notify_url": shop.url})
        await merchant.pay({**DIRECT, "order_no": order_no, "notify_url": shop.url})
        assert await merchant.sandbox.deliver_notifications() == 1
        for _ in range(2):
            await merchant.ask("payout", {**PAYOUT, "notify_url": shop.url})
        assert await merchant.sandbox.deliver_notifications() == 1
    paid, paid_out = shop.fields(0), shop.fields(1)
    for fields in (paid, paid_out):
        signature = fields.pop("encryption_data")
        assert signature == sign(fields)
    (transaction,) = merchant.sandbox.ledger
    assert paid == {
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
    assert (paid_out["request_id"], paid_out["status"]) == (PAYOUT["request_id"], "COMPLETED")


@pytest.mark.parametrize(
    ("statuses", "attempts", "delivered"),
    [([500, 307], 3, True), ([500, 400, 404], 3, False), ([204], 1, True)],
)
async def test_it_is_tried_again_with_the_same_bytes_which_you_may_send_yourself(
    shop: Shop, statuses: list[int], attempts: int, delivered: bool
) -> None:
    shop.statuses.extend(statuses)
    async with merchant_of(notify_pauses=(0.0, 0.0, 0.0)) as merchant:
        await merchant.pay({**DIRECT, "card": "4000000000009995", "notify_url": shop.url})
        await merchant.sandbox.deliver_notifications()
        (sent,) = merchant.sandbox.notifications
        named = {"Content-Type": FORM}
        await merchant.http.post(sent.url, data=sent.body, headers=named)
    assert (sent.operation, sent.attempts, sent.delivered) == ("pay_direct", attempts, delivered)
    assert shop.told == [shop.told[0]] * (attempts + 1)
    assert shop.fields()["result_info"] == "2011:insufficient funds"
    assert shop.fields()["encryption_data"] not in repr(sent)


@pytest.mark.parametrize(
    ("url", "attempts"),
    [
        ("http://localhost:1/n", 2),
        ("https://[::1]:1/n", 2),
        ("http://192.0.2.1/n", 0),
        ("http://localhost.example.com/n", 0),
        ("http://127.0.0.1@192.0.2.1/n", 0),
        ("http://192.0.2.1\\@127.0.0.1:1/n", 0),
        ("nonsense\r\n", 0),
    ],
)
async def test_only_this_machine_is_called(merchant: Merchant, url: str, attempts: int) -> None:
    result = await merchant.pay({**DIRECT, "notify_url": url})
    assert result["order_status"] == "1"
    await merchant.sandbox.deliver_notifications()
    (sent,) = merchant.sandbox.notifications
    assert (sent.delivered, sent.status, sent.attempts) == (False, None, attempts)


async def test_a_notification_is_lost_repeated_or_late(shop: Shop) -> None:
    late = faults.LateNotification(3600.0, times=1)
    async with merchant_of() as merchant:

        async def pay(order_no: str, *struck: faults.Fault) -> None:
            for fault in struck:
                sandbox.faults.add("*", fault)
            await merchant.pay({**DIRECT, "order_no": order_no, "notify_url": shop.url})

        sandbox = merchant.sandbox
        await pay("lost", faults.LostNotification(times=1))
        await pay("repeated", faults.RepeatedNotification(copies=3, times=1))
        await sandbox.deliver_notifications()
        assert shop.orders == ["repeated"] * 3
        shop.heard.clear()
        await pay("late", late)
        await pay("next")
        await shop.heard.wait()
        assert shop.orders[3:] == ["next"]
        await sandbox.deliver_notifications()
        await pay("too late", late)  # it ends with the sandbox
    assert shop.orders[3:] == ["next", "late"]
    assert [one.delivered for one in sandbox.notifications] == [False, *[True] * 5, False]

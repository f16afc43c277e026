"""What the shopper meets: choices made twice, the way back, and texts that want to be more."""

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from gateway_async.sandbox import PaymentStatus, Sandbox
from gateway_async.sandbox.checkout import to_location
from tests.sandbox.conftest import Merchant
from tests.sandbox.test_payments import NASTY, PAYMENT, decide, pay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

APM = {**PAYMENT, "payment_method": "boleto"}


@pytest.fixture
async def merchant_with_portal() -> "AsyncIterator[Merchant]":
    """A merchant who told the gateway once where shoppers go."""
    sandbox = Sandbox(
        return_url="http://127.0.0.1:1/orders/{order_no}?done=1",
        cancel_url="http://127.0.0.1:1/cart",
    )
    async with sandbox, aiohttp.ClientSession() as http:
        yield Merchant(sandbox=sandbox, http=http)


async def begin(merchant: Merchant, fields: dict[str, Any]) -> str:
    """Begin a checkout, and go where the loading page leads to."""
    async with merchant.post("checkout", fields, form=True) as response:
        page = await response.text()
    (page_id,) = re.findall(r'"gbc_id": "([^"]+)"', page)
    checkout = f"{merchant.sandbox.base_url}/v1/checkout"
    async with merchant.http.post(
        checkout, data={"gbc_id": page_id, "amount": "0.01"}, allow_redirects=False
    ) as forwarded:
        assert forwarded.status == 303
        return merchant.sandbox.base_url + forwarded.headers["Location"]


async def read_page(merchant: Merchant, url: str) -> str:
    async with merchant.http.get(url) as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        return await response.text()


def status_of(merchant: Merchant) -> PaymentStatus:
    (transaction,) = merchant.sandbox.ledger
    return transaction.status


@pytest.mark.parametrize(
    ("choices", "status"),
    [
        (["pay", "pay"], PaymentStatus.AUTHORISED),
        (["pay", "decline", "leave"], PaymentStatus.AUTHORISED),
        (["decline", "pay"], PaymentStatus.DECLINED),
        (["leave", "leave", "pay"], PaymentStatus.AUTHORISED),
        (["leave"], PaymentStatus.WAITING),
        (["nonsense"], PaymentStatus.WAITING),
    ],
)
async def test_the_first_choice_counts_and_is_told_once(
    merchant: Merchant, choices: list[str], status: PaymentStatus
) -> None:
    url = await begin(merchant, {**PAYMENT, "notify_url": "http://127.0.0.1:1/n"})
    for choice in choices:
        assert (await decide(merchant, url, choice))[0] == 200
    assert status_of(merchant) is status
    await merchant.sandbox.deliver_notifications()
    assert len(merchant.sandbox.notifications) == (status is not PaymentStatus.WAITING)


async def test_inputs_that_lead_nowhere_are_told_so(merchant: Merchant) -> None:
    async with merchant.http.post(
        f"{merchant.sandbox.base_url}/v1/checkout",
        data={"gbc_id": "../" * 10_000},
        allow_redirects=False,
    ) as response:
        assert response.status == 404
        assert "no such payment" in await response.text()


async def test_what_the_browser_changed_in_the_inputs_does_not_count(merchant: Merchant) -> None:
    page = await read_page(merchant, await begin(merchant, PAYMENT))
    assert "12.30" in page
    assert "0.01" not in page


@pytest.mark.parametrize(
    ("choice", "told"),
    [("pay", "made before"), ("decline", "declined"), ("leave", 'value="pay"')],
)
async def test_the_page_tells_what_was_chosen(merchant: Merchant, choice: str, told: str) -> None:
    back = "https://shop.example/back?a=1&b=2"
    url = (await pay(merchant, {**APM, "return_url": back}))["issuer_url"]
    await decide(merchant, url, choice)
    page = await read_page(merchant, url)
    assert told in page
    assert [
        unescape(href) for href in re.findall(r'<a class="button main" href="([^"]*)"', page)
    ] == ([] if choice == "leave" else [back])


async def test_a_payment_without_a_way_back_takes_the_merchants(
    merchant_with_portal: Merchant,
) -> None:
    merchant = merchant_with_portal
    url = await begin(merchant, {**PAYMENT, "order_no": "a/b ü&?"})
    shop = "http://127.0.0.1:1"
    assert await decide(merchant, url, "leave") == (303, f"{shop}/cart")
    assert await decide(merchant, url, "pay") == (303, f"{shop}/orders/a%2Fb%20%C3%BC%26%3F?done=1")
    own = (await pay(merchant, {**APM, "return_url": f"{shop}/own"}))["issuer_url"]
    assert await decide(merchant, own, "pay") == (303, f"{shop}/own")


async def test_the_ways_back_are_among_the_inputs(merchant_with_portal: Merchant) -> None:
    async with merchant_with_portal.post("checkout", PAYMENT, form=True) as response:
        page = await response.text()
    back = "http://127.0.0.1:1/orders/N-1?done=1"
    assert page.count(f'"{back}"') == 2
    assert page.count('"http://127.0.0.1:1/cart"') == 2


@pytest.mark.parametrize(
    ("url", "location"),
    [
        ("http://shop.example/a?b=c&d=%20#e", "http://shop.example/a?b=c&d=%20#e"),
        ("https://shop.example/zurück/中文", "https://shop.example/zur%C3%BCck/%E4%B8%AD%E6%96%87"),
        ('https://shop.example/"><script>', "https://shop.example/%22%3E%3Cscript%3E"),
        ("javascript:alert(1)", ""),
        ("data:text/html,<script>alert(1)</script>", ""),
        ("//shop.example/", ""),
        ("/orders", ""),
        ("http:///orders", ""),
        ("http:\\\\shop.example", ""),
        ("http://[::1/", ""),
        ("http://shop.example/\r\nSet-Cookie: a=b", ""),
        ("http://shop.example/a b", ""),
        (" http://shop.example/", ""),
        ("", ""),
    ],
)
def test_a_way_back_is_a_web_address(url: str, location: str) -> None:
    assert to_location(url) == location


@pytest.mark.parametrize("url", ["javascript:alert(1)", "http://shop.example/\r\nX: y"])
async def test_a_way_back_that_is_none_leads_nowhere(merchant: Merchant, url: str) -> None:
    result = await pay(merchant, {**APM, "return_url": url, "cancel_url": url})
    for choice in ("leave", "pay"):
        assert await decide(merchant, result["issuer_url"], choice) == (200, "")
    assert "<a " not in await read_page(merchant, result["issuer_url"])


async def test_texts_of_the_merchant_and_the_shopper_stay_texts(merchant: Merchant) -> None:
    names = ("order_no", "website", "first_name", "last_name", "note", "currency", "items")
    url = await begin(merchant, {**PAYMENT, **dict.fromkeys(names, NASTY)})
    page = await read_page(merchant, url)
    assert "<script" not in page
    assert unescape(page).count(NASTY) == len(names)

"""What the shopper meets: the way to the payment page, choices made twice, and the way back.

Every input of the loading page is compared in a browser: `tests/browser/test_shop.py`.
"""

import json
import re
from html import unescape
from typing import Any

import pytest

from gateway_async.sandbox import PaymentStatus
from tests.sandbox.conftest import APM, NASTY, PAYMENT, Merchant, merchant_of

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
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
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

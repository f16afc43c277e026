"""A shopper, and the shop's people, in the example shop."""

import json
from collections.abc import AsyncIterator, Mapping
from importlib import import_module, resources
from typing import Any
from urllib.parse import parse_qsl

import attrs
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Page, expect

from gateway_async import GatewayClient, HmacSigner, Operation
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.ledger import PaymentStatus, Transaction
from tests.browser.conftest import Visit
from tests.support import examples
from tests.support.interface_fields import PAGE_INPUTS
from tests.support.servers import answering

pytestmark = pytest.mark.asyncio(loop_scope="module")

NASTY = (
    '"quotes" and \'apostrophes\' </script><script>alert("run")</script><!--<script> & &amp; &lt; '
    "<img src=x onerror=alert('run')> ${1} {{1}} \\u003c %3C + ; # 🎉👩\u200d👧 中文 Ünlü "
    "\u2028 \u202e end"
)
WRITTEN = ("first_name", "last_name", "note", "website", "custom", "billing_city")
_PAGES = resources.files("gateway_async.sandbox") / "templates"
RENAMED: dict[str, str] = json.loads((_PAGES / "inputs.json").read_text("utf-8"))["renamed"]
"""The other names under which the page repeats fields."""


@attrs.frozen
class Story:
    """A visit to the shop, and the gateway behind it."""

    url: str
    orders: dict[str, Any]
    sandbox: Sandbox
    visit: Visit

    @property
    def page(self) -> Page:
        return self.visit.page

    async def order(self, tea: str, *, name: str = "Ada", note: str = "") -> None:
        await self.page.goto(self.url)
        await self.page.fill("input[name=first_name]", name)
        await self.page.fill("input[name=note]", note)
        await self.page.click(f"button[value={tea}]")
        await self.expect_state("new")

    async def press(self, name: str, *, clicks: int = 1) -> None:
        await self.page.get_by_role("button", name=name).click(click_count=clicks)

    async def expect_state(self, state: str) -> None:
        await expect(self.page.locator(".state")).to_have_text(state)

    def payment(self) -> Transaction:
        (payment,) = self.sandbox.ledger
        return payment


@pytest_asyncio.fixture(loop_scope="module")
async def story(visit: Visit) -> AsyncIterator[Story]:
    async with import_module("docs.examples.shop").open_shop() as (shop, sandbox):
        yield Story(shop.url, shop.orders, sandbox, visit)


async def test_double_clicks_reloads_and_back_act_once_up_to_a_refund(story: Story) -> None:
    await story.page.goto(story.url)
    await story.visit.keep_screenshots("shop-catalogue")
    await story.order("Oolong", name="Ada Lovelace", note="Please ring twice")
    await story.visit.keep_screenshots("shop-order")
    await story.press("Pay 12.50 EUR", clicks=2)
    await expect(story.page.locator("h1")).to_have_text("Pay Leaf & Kettle")
    await story.visit.keep_screenshots("payment")
    assert story.payment().amount == story.orders[story.payment().order_no].amount
    await story.page.dblclick("button[value=pay]")
    await story.expect_state("paid")
    await story.page.reload()
    await story.visit.keep_screenshots("shop-paid")
    await story.sandbox.deliver_notifications()
    assert [one.status for one in story.sandbox.notifications] == [200]

    await story.press("Capture 12.50 EUR", clicks=2)
    await story.expect_state("captured")
    await story.page.fill("input[name=refund_amount]", "4.20")
    await story.press("Refund", clicks=2)
    await expect(story.page.locator("dl")).to_contain_text("4.20 EUR")
    await story.visit.keep_screenshots("shop-refunded")
    assert await story.visit.fits()
    await story.page.go_back()
    await story.page.reload()
    await story.expect_state("captured")
    payment = story.payment()
    assert (payment.status, str(payment.refunded_amount)) == (PaymentStatus.CAPTURED, "4.20")
    assert [refund.reason for refund in payment.refunds] == ["returned"]
    assert dict(payment.effects) == {"checkout": 1, "capture": 1, "refund": 1}
    assert payment.refusals.total() == 0


async def test_a_shopper_who_leaves_declines_and_goes_back(story: Story) -> None:
    await story.order("Darjeeling")
    await story.press("Pay 9.90 EUR")
    await story.page.click("button[value=leave]")
    await story.expect_state("waiting")
    await story.visit.keep_screenshots("shop-waiting")
    await story.page.click("text=Go to the payment page")
    await story.page.click("button[value=decline]")
    await story.expect_state("declined")
    assert story.payment().status is PaymentStatus.DECLINED
    await story.page.go_back()
    await expect(story.page.locator("h1")).to_have_text("Declined")
    assert await story.page.locator("button").count() == 0
    await story.visit.keep_screenshots("declined")


async def test_every_input_of_the_loading_page_is_what_was_sent(visit: Visit) -> None:
    page, sent = visit.page, dict[str, str]()
    texts: dict[str, Any] = dict.fromkeys(WRITTEN, NASTY)
    payment = attrs.evolve(examples.redirect_payment(), **texts)
    async with Sandbox() as sandbox:

        def sign(operation: Operation, fields: Mapping[str, str]) -> str:
            signature = HmacSigner(sandbox.secret).sign(operation, fields)
            sent.update(fields, encryption_data=signature)
            return signature

        credentials = attrs.evolve(sandbox.credentials, signer=sign)
        async with GatewayClient(sandbox.base_url, credentials) as gateway:
            html = (await gateway.checkout(payment)).html

        async def show(_: web.Request) -> web.Response:
            return web.Response(text=html, content_type="text/html")

        async with answering(show, "GET") as shop, page.expect_request("**/checkout") as posted:
            await page.goto(shop)
        await page.wait_for_url("**/pay/*")
        assert NASTY in await page.locator("dd").all_inner_texts()
        assert await page.locator("script, img, dl *:not(dt, dd, bdi)").count() == 0
        assert await visit.fits()
    text = (await posted.value).post_data or ""
    inputs = dict(parse_qsl(text, keep_blank_values=True, strict_parsing=True))
    copies = {name: sent.get(source, "") for name, source in RENAMED.items()}
    params = "&".join(f"{name}={text}" for name, text in sent.items())
    expected = {**sent, **copies, "allParams": params}
    assert {name: inputs[name] for name in expected} == expected
    assert {*inputs} >= PAGE_INPUTS

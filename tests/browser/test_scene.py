"""A shopper's way through the sandbox: the loading page, the payment page, and back."""

import re
from decimal import Decimal

import attrs
import pytest
from playwright.async_api import Route, expect

from gateway_async import ApmPayment, Item, RedirectPayment
from gateway_async.sandbox import PaymentStatus
from tests.browser.site import Site
from tests.browsers import Visit, form_of
from tests.models.examples import redirect_payment

pytestmark = pytest.mark.asyncio(loop_scope="module")

NASTY = (
    '"quotes" and \'apostrophes\' </script><script>alert("run")</script><!--<script> & &amp; &lt; '
    "<img src=x onerror=alert('run')> ${1} {{1}} \\u003c %3C + ; # 🎉👩‍👩‍👧 中文 Ünlü "
    "\u2028 \u202e end"
)
PAYMENT = RedirectPayment(order_no="N-1", currency="EUR", amount=Decimal("12.30"))
HOSTILE = attrs.evolve(
    redirect_payment(),
    currency="EUR",
    order_no=f"N-1 {NASTY}",
    first_name=NASTY,
    last_name=f"O'{NASTY}",
    note=f"first line\nsecond line\r\n{NASTY}",
    custom=NASTY,
    website=NASTY,
    delivery_address=NASTY,
    items=[Item(parts=("SKU", NASTY, "1", "12.30"))],
)
LONG = attrs.evolve(
    PAYMENT,
    order_no="N-20261121-000001",
    website="Leaf & Kettle",
    first_name="张",
    last_name="伟 O'Neill",
    note="Please ring twice 🎉\nand leave it <at the door>",
    items=[
        Item(parts=("SKU-1", "First flush Darjeeling, 100 g", "2", "9.90")),
        Item(parts=("SKU-2", "Supercalifragilistic" * 4, "1", "1.50")),
    ],
)

GATEWAY_SET = (
    *("gbc_id", "connector_code", "account_name", "webSite", "pm_id", "apm_type", "descriptor"),
    *("orderprefix", "rrtimezone", "ordernumlength", "sendbgoods", "replacename"),
    *("send_bank_website", "replace_up_id", "replace_match_address", "to_pass_page"),
    *("source_request_ip", "default_lang", "defaultLang", "verifyBillingAddress"),
    *("verify_billing_address", "merSendLogoNo", "logo_name", "gatewayNo"),
)
OTHER_NAMES = {
    "orderNo": "order_no",
    "orderAmount": "amount",
    "orderCurrency": "currency",
    "merNo": "merchant_id",
    "signInfo": "encryption_data",
    "firstName": "first_name",
    "lastName": "last_name",
    "email": "shopper_email",
    "phone": "shopper_phone",
    "country": "billing_country",
    "state": "billing_state",
    "city": "billing_city",
    "zip": "billing_postal_code",
    "address": "billing_address",
    "shipFirstName": "delivery_firstname",
    "shipLastName": "delivery_lastname",
    "shipCountry": "delivery_country",
    "shipState": "delivery_state",
    "shipCity": "delivery_city",
    "shipZip": "delivery_postal_code",
    "shipAddress": "delivery_address",
    "shipFee": "shipping",
    "itemTotal": "item_total",
    "taxTotal": "tax_total",
    "shippingDiscount": "shipping_discount",
    "goodsInfo": "items",
    "remark": "note",
    "notifyUrl": "notify_url",
    "source_notify_url": "notify_url",
    "paymentToken": "token_id",
    "token": "token_id",
    "shopperId": "shopper_id",
    "shopperLevel": "shopper_level",
    "isOpen3D": "open3d",
}
WAYS = {"returnUrl": "back", "return_url": "back", "cancelUrl": "left", "cancel_url": "left"}
EMPTY = ("cardType", "card_type", "APMType", "payment_method")
"""What a redirect payment has no field for."""


def as_a_form_sends_it(text: str) -> str:
    """Return a text with its line ends as HTML forms write them."""
    return re.sub("\r\n|\r|\n", "\r\n", text)


async def press_buy(site: Site, visit: Visit) -> None:
    await visit.page.goto(f"{site.url}/cart")
    await visit.page.click("text=Buy")
    await visit.page.wait_for_url("**/pay/*")


def status_of(site: Site) -> PaymentStatus:
    (transaction,) = site.sandbox.ledger
    return transaction.status


async def test_every_input_is_what_was_sent(site: Site, visit: Visit) -> None:
    site.payment = attrs.evolve(HOSTILE, notify_url=f"{site.url}/notify?a=1&b=2")
    async with visit.page.expect_request(f"{site.sandbox.base_url}/v1/checkout") as posted:
        await press_buy(site, visit)
    inputs = form_of(await posted.value)

    for name, text in site.sent.items():
        assert inputs.pop(name) == as_a_form_sends_it(text), name
    for name, source in OTHER_NAMES.items():
        assert inputs.pop(name) == as_a_form_sends_it(site.sent[source]), name
    for name, way in WAYS.items():
        assert inputs.pop(name) == f"{site.url}/{way}", name
    for name in EMPTY:
        assert inputs.pop(name) == "", name
    everything = inputs.pop("allParams")
    for name, text in site.sent.items():
        assert as_a_form_sends_it(f"{name}={text}") in everything, name
    assert inputs.pop("webSite") == site.sent["website"]
    assert sorted([*inputs, "webSite"]) == sorted(GATEWAY_SET)


async def test_hostile_texts_are_shown_and_run_nothing(site: Site, visit: Visit) -> None:
    site.payment = HOSTILE
    await press_buy(site, visit)
    shown = await visit.page.locator("dl").inner_text()
    for text in (HOSTILE.order_no, HOSTILE.first_name, NASTY):
        assert " ".join((text or "").split()) in " ".join(shown.split())
    assert await visit.page.locator("script, img, dl *:not(dt, dd, bdi)").count() == 0
    assert await visit.page.title() == "Sandbox payment"
    await expect(visit.page.locator("bdi", has_text=re.compile("^12.30$"))).to_have_count(1)
    assert not await visit.is_too_wide()
    await visit.keep_screenshots("payment-hostile-texts")
    assert not await visit.is_too_wide()


async def test_paying_tells_the_merchant_and_leads_back(site: Site, visit: Visit) -> None:
    site.payment = attrs.evolve(LONG, notify_url=f"{site.url}/notify")
    await press_buy(site, visit)
    await visit.keep_screenshots("payment")
    await visit.page.click("button[value=pay]")
    await visit.page.wait_for_url(f"{site.url}/back")
    assert status_of(site) is PaymentStatus.AUTHORISED
    await site.sandbox.deliver_notifications()
    (told,) = site.told
    assert (told["order_no"], told["order_status"]) == (site.payment.order_no, "1")

    await visit.page.go_back()
    await expect(visit.page.locator("h1")).to_have_text("Paid")
    await visit.keep_screenshots("paid")
    await visit.page.click("text=Back to the shop")
    await visit.page.wait_for_url(f"{site.url}/back")


async def test_an_apm_payment_leads_to_such_a_page_too(site: Site, visit: Visit) -> None:
    site.payment = ApmPayment(
        order_no="N-1",
        currency="BRL",
        amount=Decimal("12.30"),
        payment_method="boleto",
        notify_url=f"{site.url}/notify",
        return_url=f"{site.url}/back?of=中文&q=\"'<>",
    )
    await press_buy(site, visit)
    await visit.page.click("button[value=pay]")
    await visit.page.wait_for_url("**/back?*")
    assert await visit.page.evaluate("new URLSearchParams(location.search).get('q')") == "\"'<>"
    assert await visit.page.evaluate("new URLSearchParams(location.search).get('of')") == "中文"
    assert status_of(site) is PaymentStatus.AUTHORISED
    await site.sandbox.deliver_notifications()
    assert len(site.told) == 1


async def test_the_loading_page_shows_that_something_happens(site: Site, visit: Visit) -> None:
    site.payment = PAYMENT

    async def stay(route: Route) -> None:
        await route.fulfill(status=204)  # an answer upon which a browser keeps the page it has

    await visit.page.route("**/v1/checkout", stay)
    await visit.page.goto(f"{site.url}/cart")
    await visit.page.click("text=Buy")
    await expect(visit.page).to_have_title("Loading")
    await expect(visit.page.locator("text=Taking you to the payment page.")).to_be_visible()
    await visit.keep_screenshots("loading")

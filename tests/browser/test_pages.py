"""Pages in a real browser, Debian's Chromium; skipped where there is none, failing in CI.

That is the report, wide and narrow, light and dark, on paper; and the example shop, with a shopper
and the shop's people. One browser, whose tests run in the loop of the module; each has a page of
its own.
"""

import json
import re
import shutil
from collections.abc import AsyncIterator, Mapping
from importlib import import_module, resources
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import attrs
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Route,
    async_playwright,
    expect,
)

from gateway_async import (
    GatewayClient,
    HmacSigner,
    Operation,
    Outcome,
    OutcomeStatus,
    OutcomeUnknownError,
    RedirectPayment,
)
from gateway_async.report import Report, render
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.ledger import PaymentStatus, Transaction
from tests.report.test_page import HEAD, LOST, night, refund
from tests.support import examples
from tests.support.interface_fields import PAGE_INPUTS
from tests.support.processes import missing
from tests.support.servers import answering

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = {"desk": 1280, "phone": 390}
_HEIGHT = 800
_PATIENCE_SECONDS = 300
_ELSEWHERE = re.compile(r"^(https?|wss?)://(?!127\.0\.0\.1[:/])")
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")


@attrs.define(eq=False, slots=False)  # playwright adds attributes
class Visit:
    """A page of its own, without anybody else's cookies."""

    page: Page
    # what a page must never do: errors, dialogs, and requests that leave this machine
    alarms: list[str] = attrs.field(factory=list)

    async def show(self, page: str, folder: Path) -> None:
        """Open a page from a file."""
        path = folder / "report.html"
        path.write_text(page, encoding="utf-8")
        await self.page.goto(path.as_uri())

    async def keep_screenshots(self, name: str) -> None:
        """Keep what is shown, at the width of a desk and of a phone, below build/screenshots."""
        for device, width in WIDTHS.items():
            await self.page.set_viewport_size({"width": width, "height": _HEIGHT})
            await self.page.screenshot(
                path=SCREENSHOTS / f"{name}-{device}.png", full_page=True, animations="disabled"
            )

    async def fits(self) -> bool:
        """Say whether the page need not be scrolled sideways, at either width."""
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        found = []
        for width in WIDTHS.values():
            await self.page.set_viewport_size({"width": width, "height": _HEIGHT})
            found.append(await self.page.evaluate(fits))
        return all(found)

    async def dismiss(self, dialog: Dialog) -> None:
        self.alarms.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def hear(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.alarms.append(f"console: {said.text}")

    async def refuse(self, route: Route) -> None:
        self.alarms.append(f"left this machine: {route.request.url}")
        await route.abort()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        missing("no Chromium on this machine; on Debian: apt-get install chromium")
    expect.set_options(timeout=_PATIENCE_SECONDS * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """A page in a real browser, watched for what it must never do; it must end without an alarm."""
    context = await browser.new_context(viewport={"width": WIDTHS["desk"], "height": _HEIGHT})
    context.set_default_timeout(_PATIENCE_SECONDS * 1000)
    visit = Visit(await context.new_page())
    visit.page.on("pageerror", lambda error: visit.alarms.append(f"script error: {error}"))
    visit.page.on("dialog", visit.dismiss)
    visit.page.on("console", visit.hear)
    await context.route(_ELSEWHERE, visit.refuse)
    yield visit
    await context.close()
    assert visit.alarms == []


# The report

_LINES = "all => all.filter(one => one.checkVisibility()).map(one => one.getClientRects().length)"
_NEXT_FRAME = "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_LONG = "X" * 20 + "0123456789" * 9


async def test_it_fits_a_desk_and_a_phone_in_light_and_dark(visit: Visit, tmp_path: Path) -> None:
    await visit.show(render(night(), HEAD), tmp_path)
    await visit.keep_screenshots("report")
    assert await visit.fits()  # the phone was last
    for name in ("Money", "How long the gateway took"):
        region = visit.page.get_by_role("region", name=name)
        assert await region.evaluate("one => one.scrollWidth <= one.clientWidth")
    papers = []
    for media in ({}, {"color_scheme": "dark"}, {"color_scheme": "dark", "media": "print"}):
        await visit.page.emulate_media(**media)  # type: ignore[arg-type]  # each by its name
        papers.append(await visit.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert papers[0] == papers[2] != papers[1]


def unknown(*texts: str) -> Report:
    """Return a report of twenty orders that are unknown for these reasons in turn."""
    report, status = Report("refund", job="november"), OutcomeStatus.UNKNOWN
    for number in range(20):
        error = OutcomeUnknownError(texts[number % len(texts)])
        order = refund(number, order_no=f"2026-11-20-{number}-ORDER", transaction_id=_LONG)
        report.see(Outcome(order=order, index=number, status=status, error=error), number + 2)
    return report


async def test_identifiers_and_sums_stay_on_one_line(visit: Visit, tmp_path: Path) -> None:
    job = "refund-M10442-gateway.example-99c0601b7fa5769b"
    lines = (("see them with", f"gateway-async jobs show {job}"),)
    head = attrs.evolve(HEAD, job=job, next_lines=lines)
    await visit.show(render(unknown(LOST), head), tmp_path)
    assert await visit.fits()
    for width in WIDTHS.values():
        await visit.page.set_viewport_size({"width": width, "height": 800})
        ids = await visit.page.locator(".id, .sum, .kind").evaluate_all(_LINES)
        assert len(ids) > 20
        assert {*ids} == {1}


async def test_on_paper_every_example_is_there(visit: Visit, tmp_path: Path) -> None:
    await visit.show(render(unknown("reset", "timed out"), HEAD), tmp_path)
    page = visit.page
    rows = page.locator("details:not([open]) tbody tr")
    assert await rows.count() == 20
    visible = "all => all.map(one => one.checkVisibility({contentVisibilityAuto: true}))"
    assert not any(await rows.evaluate_all(visible))
    await page.emulate_media(media="print")
    await page.evaluate(_NEXT_FRAME)  # what is visible shows once it is drawn
    assert all(await rows.evaluate_all(visible))


async def test_even_markup_that_got_in_could_do_nothing(visit: Visit, tmp_path: Path) -> None:
    """The policy of the page lets no script run, and no style but its own."""
    page = render(night(105), HEAD)
    attack = (
        "<script>document.title = 'owned'</script><style>body { color: red }</style>"
        "<p id='there' onclick=\"document.title = 'owned'\" style='color: red'>x</p>"
    )
    await visit.show(page.replace("<main>", f"<main>{attack}", 1), tmp_path)
    await visit.page.locator("#there").click()
    assert await visit.page.title() != "owned"
    color = "getComputedStyle(document.querySelector('#there')).color"
    assert await visit.page.evaluate(color) != "rgb(255, 0, 0)"
    assert len(visit.alarms) >= 3
    assert all("Content Security Policy" in alarm for alarm in visit.alarms)
    visit.alarms.clear()


# The shop

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

    async def order(self, tea: str) -> None:
        await self.page.goto(self.url)
        await self.page.fill("input[name=first_name]", "Ada Lovelace")
        await self.page.fill("input[name=note]", "Please ring twice")
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
    await story.order("Oolong")
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
    payment = attrs.evolve(examples.full(RedirectPayment), **texts)
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

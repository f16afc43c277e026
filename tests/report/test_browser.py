"""The page in a real browser: it sorts and filters, loads nothing, and runs nothing but its own."""

from typing import TYPE_CHECKING, Any

import attrs
import pytest

from gateway_async.reconciliation import reconcile
from gateway_async.report import Report
from gateway_async.report.page import page as render
from tests.reconciliation.planting import PLANTS, STATES
from tests.report.runs import HEAD, HOSTILE, hostile, night

if TYPE_CHECKING:
    from playwright.async_api import Page

    from gateway_async import GatewayClient
    from gateway_async.sandbox import Sandbox
    from tests.report.conftest import Show

pytestmark = pytest.mark.slow


async def _shown(page: "Page", column: int) -> list[str]:
    """Return a column of the rows that are shown."""
    rows = page.locator("table.listing tbody tr:not([hidden])")
    cells: list[str] = await rows.evaluate_all(
        "(rows, column) => rows.map(row => row.cells[column].textContent.trim())", column
    )
    return cells


async def test_the_table_is_filtered_and_sorted(show: "Show") -> None:
    visit = await show(render(night(), HEAD))
    page = visit.page
    numbers = [int(text.replace(",", "")) for text in await _shown(page, 0)]
    kinds = await _shown(page, 1)
    assert len(numbers) == 70
    assert list(dict.fromkeys(kinds)) == ["unknown", "not sent", "declined"]
    count = page.locator("output")
    assert await count.text_content() == "70 of 70 shown"

    await page.get_by_role("button", name="Index").click()
    assert [int(text.replace(",", "")) for text in await _shown(page, 0)] == sorted(numbers)
    await page.get_by_role("button", name="Amount").click()
    amounts = [float(text.split()[0]) for text in await _shown(page, 4)]
    assert amounts == sorted(amounts)
    assert any(one < 10 for one in amounts)  # as numbers: as texts, 10 is before 9
    assert amounts[-1] >= 10
    await page.get_by_role("button", name="Amount").press("Enter")
    assert [float(text.split()[0]) for text in await _shown(page, 4)] == amounts[::-1]
    header = page.get_by_role("columnheader", name="Amount")
    assert await header.get_attribute("aria-sort") == "descending"

    await page.get_by_role("combobox", name="Status").select_option("not_sent")
    assert set(await _shown(page, 1)) == {"not sent"}
    await page.get_by_label("Search").fill("TOO much")
    assert set(await _shown(page, 6)) == {"refund_amount: too much"}
    assert await count.text_content() == "7 of 70 shown"
    await page.get_by_label("Search").fill("nobody says this")
    assert await _shown(page, 0) == []


async def test_it_fits_a_desk_and_a_phone_in_light_and_dark(show: "Show") -> None:
    visit = await show(render(night(), HEAD))
    for width in (1280, 390):
        await visit.page.set_viewport_size({"width": width, "height": 800})
        assert not await visit.is_too_wide()
    await visit.page.get_by_role("combobox", name="Sort by").select_option(label="Order")
    orders = await _shown(visit.page, 2)
    await visit.page.get_by_role("combobox", name="Sort by").select_option(label="as listed")
    assert (await _shown(visit.page, 1))[0] == "unknown"
    assert orders == sorted(orders, key=lambda name: int(name[2:]))
    await visit.keep_screenshots("report")
    paper = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    await visit.page.emulate_media(color_scheme="dark")
    assert await visit.page.evaluate("getComputedStyle(document.body).backgroundColor") != paper


async def test_what_a_gateway_or_a_file_says_runs_nothing_and_changes_nothing(
    show: "Show",
) -> None:
    names = ("command", "gateway", "source", "out", "job", "failure")
    attack: dict[str, Any] = {name: HOSTILE[number] for number, name in enumerate(names)}
    attack["next_lines"] = HOSTILE
    visit = await show(render(hostile(), attrs.evolve(HEAD, **attack)))
    page = visit.page
    assert await page.locator("script").count() == 1
    assert await page.locator("img, iframe, b").count() == 0
    assert await page.locator("h1").all_text_contents() == [f"gateway-async {HOSTILE[0]}"]
    shown = await _shown(page, 2)
    assert shown[: len(HOSTILE)] == list(HOSTILE)
    assert "退款已拒绝,余额不足" in shown
    assert await page.evaluate("document.title") != "owned"
    for width in (1280, 390):
        await page.set_viewport_size({"width": width, "height": 800})
        assert not await visit.is_too_wide()


async def test_even_markup_that_got_in_could_do_nothing(show: "Show") -> None:
    """The policy of the page lets its own script run, and no other, wherever it came from."""
    page = render(night(105), HEAD)
    attack = (
        "<script>document.title = 'owned'</script>"
        "<p id='there' onclick=\"document.title = 'owned'\" style='color: red'>x</p>"
    )
    visit = await show(page.replace("<main>", f"<main>{attack}", 1))
    await visit.page.locator("#there").click()
    assert await visit.page.title() != "owned"
    assert len(visit.alarms) >= 2
    assert all("Content Security Policy" in alarm for alarm in visit.alarms)
    visit.alarms.clear()
    assert await visit.page.locator("output").text_content() == "6 of 6 shown"


async def test_differences_of_every_kind_are_listed(
    show: "Show", gateway: "GatewayClient", sandbox: "Sandbox"
) -> None:
    ledger = [plant(sandbox, f"N-{kind}") for kind, plant in PLANTS.items()]
    report = Report("reconcile")
    async with reconcile(gateway, ledger, states=STATES) as reconciliation:
        async for difference in reconciliation:
            report.see_difference(difference)
    head = attrs.evolve(HEAD, command="reconcile", next_lines=(), unexpected=0)
    visit = await show(render(report, head, reconciliation.summary))
    shown = [kind.replace(" ", "_") for kind in await _shown(visit.page, 1)]
    assert sorted(shown) == sorted(PLANTS)
    await visit.page.get_by_role("combobox", name="Difference").select_option("amount")
    assert await _shown(visit.page, 5) == ["10.01"]
    assert await _shown(visit.page, 6) == ["10.00"]
    steps = await visit.page.locator(".next > li").count()
    assert steps == len(PLANTS)
    await visit.keep_screenshots("reconciliation")

"""The page in a real browser: wide and narrow, light and dark, on paper; nothing in it runs."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import attrs
import pytest
import pytest_asyncio

from gateway_async import Outcome, OutcomeStatus, OutcomeUnknownError
from gateway_async.report import Report, render
from tests.browser.conftest import Visit
from tests.report.runs import HEAD, LOST, night, refund

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

Show = Callable[[str], Awaitable[Visit]]

_LINES = "all => all.filter(one => one.checkVisibility()).map(one => one.getClientRects().length)"
_NEXT_FRAME = "new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_LONG = "X" * 20 + "0123456789" * 9


@pytest_asyncio.fixture(loop_scope="module")
async def show(visit: Visit, tmp_path: Path) -> AsyncIterator[Show]:
    """Open a page from a file; nothing else may be asked for."""
    asked: list[str] = []
    visit.page.on("request", lambda request: asked.append(request.url))

    async def shown(page: str) -> Visit:
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        await visit.page.goto(path.as_uri())
        return visit

    yield shown
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


async def test_it_fits_a_desk_and_a_phone_in_light_and_dark(show: Show) -> None:
    visit = await show(render(night(), HEAD))
    assert await visit.fits()  # the phone was last
    for name in ("Money", "How long the gateway took"):
        region = visit.page.get_by_role("region", name=name)
        assert await region.evaluate("one => one.scrollWidth <= one.clientWidth")
    await visit.keep_screenshots("report")
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


async def test_identifiers_and_sums_stay_on_one_line(show: Show) -> None:
    job = "refund-M10442-gateway.example-99c0601b7fa5769b"
    lines = (("see them with", f"gateway-async jobs show {job}"),)
    head = attrs.evolve(HEAD, job=job, next_lines=lines)
    page = (visit := await show(render(unknown(LOST), head))).page
    assert await visit.fits()
    for width in (390, 1280):
        await page.set_viewport_size({"width": width, "height": 800})
        ids = await page.locator(".id, .sum, .kind").evaluate_all(_LINES)
        assert len(ids) > 20
        assert set(ids) == {1}


async def test_on_paper_every_example_is_there(show: Show) -> None:
    page = (await show(render(unknown("reset", "timed out"), HEAD))).page
    rows = page.locator("details:not([open]) tbody tr")
    assert await rows.count() == 20
    visible = "all => all.map(one => one.checkVisibility({contentVisibilityAuto: true}))"
    assert not any(await rows.evaluate_all(visible))
    await page.emulate_media(media="print")
    await page.evaluate(_NEXT_FRAME)  # what is visible shows once it is drawn
    assert all(await rows.evaluate_all(visible))


async def test_even_markup_that_got_in_could_do_nothing(show: Show) -> None:
    """The policy of the page lets no script run, and no style but its own."""
    page = render(night(105), HEAD)
    attack = (
        "<script>document.title = 'owned'</script><style>body { color: red }</style>"
        "<p id='there' onclick=\"document.title = 'owned'\" style='color: red'>x</p>"
    )
    visit = await show(page.replace("<main>", f"<main>{attack}", 1))
    await visit.page.locator("#there").click()
    assert await visit.page.title() != "owned"
    color = "getComputedStyle(document.querySelector('#there')).color"
    assert await visit.page.evaluate(color) != "rgb(255, 0, 0)"
    assert len(visit.alarms) >= 3
    assert all("Content Security Policy" in alarm for alarm in visit.alarms)
    visit.alarms.clear()

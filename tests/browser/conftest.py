"""A page in a real browser: Debian's Chromium; skipped where there is none, failing in CI.

One browser a module, whose tests run in the loop of the module; a page of its own for each.
"""

import shutil
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest_asyncio
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Route,
    async_playwright,
    expect,
)

from tests.support.processes import missing

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = {"desk": 1280, "phone": 390}
_HEIGHT = 800
_PATIENCE_SECONDS = 300
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-sync")


class Visit:
    """A page of its own, without anybody else's cookies."""

    def __init__(self, page: Page) -> None:
        self.page = page
        # what a page must never do: errors, dialogs, and requests that leave this machine
        self.alarms: list[str] = []

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
    await context.route(_leaves_this_machine, visit.refuse)
    yield visit
    await context.close()
    assert visit.alarms == []


def _leaves_this_machine(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https", "ws", "wss"}:
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True

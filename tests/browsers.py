"""A real browser for tests: Debian's Chromium; skipped where there is none, failing in CI.

Give a test a page of its own:

    @pytest.fixture
    async def visit() -> AsyncIterator[Visit]:
        async with open_browser() as browser, open_visit(browser) as visit:
            yield visit
"""

import contextlib
import shutil
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import attrs
from playwright.async_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Route,
    async_playwright,
    expect,
)

from tests.support.slow import missing

SCREENSHOTS = Path(__file__).parent.parent / "build" / "screenshots"
WIDTHS = {"desk": 1280, "phone": 390}
_HEIGHT = 800
_PATIENCE_SECONDS = 30
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    "--disable-sync",
)


@attrs.frozen
class Visit:
    """A page of its own, without anybody else's cookies.

    Attributes:
        page: Playwright's page.
        alarms: What a page must never do: script errors, errors in the console, dialogs, and
            requests that leave this machine (which are not let out).
    """

    page: Page
    alarms: list[str] = attrs.field(factory=list)

    async def keep_screenshots(self, name: str) -> None:
        """Keep what is shown, at the width of a desk and of a phone, below build/screenshots."""
        for device, width in WIDTHS.items():
            await self.page.set_viewport_size({"width": width, "height": _HEIGHT})
            await self.page.screenshot(
                path=SCREENSHOTS / f"{name}-{device}.png", full_page=True, animations="disabled"
            )

    async def is_too_wide(self) -> bool:
        """Say whether the page must be scrolled sideways, at the present width."""
        wide: bool = await self.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        return wide


@contextlib.asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Start Chromium, and end it with the block."""
    path = shutil.which("chromium")
    if path is None:
        missing("no Chromium on this machine; on Debian: apt-get install chromium")
    expect.set_options(timeout=_PATIENCE_SECONDS * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def open_visit(browser: Browser) -> AsyncIterator[Visit]:
    """Open a page of its own, watched for what a page must never do."""
    context = await browser.new_context(viewport={"width": WIDTHS["desk"], "height": _HEIGHT})
    context.set_default_timeout(_PATIENCE_SECONDS * 1000)
    visit = Visit(await context.new_page())
    _watch(visit)
    await context.route(_leaves_this_machine, lambda route: _refuse(route, visit))
    try:
        yield visit
    finally:
        await context.close()


def _watch(visit: Visit) -> None:
    async def dismiss(dialog: Dialog) -> None:
        visit.alarms.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def hear(said: ConsoleMessage) -> None:
        if said.type == "error":
            visit.alarms.append(f"console: {said.text}")

    visit.page.on("pageerror", lambda error: visit.alarms.append(f"script error: {error}"))
    visit.page.on("dialog", dismiss)
    visit.page.on("console", hear)


def _leaves_this_machine(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https", "ws", "wss"}:
        return False
    try:
        return not ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


async def _refuse(route: Route, visit: Visit) -> None:
    visit.alarms.append(f"left this machine: {route.request.url}")
    await route.abort()


def form_of(request: Request) -> dict[str, str]:
    """Return the fields of a form that the browser sent, each of which came once."""
    pairs = parse_qsl(request.post_data or "", keep_blank_values=True, strict_parsing=True)
    fields = dict(pairs)
    assert len(fields) == len(pairs)
    return fields

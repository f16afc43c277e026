"""One browser a module, whose tests run in the loop of the module; a page of its own for each."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from tests.browsers import Visit, open_browser, open_visit


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def visit(browser: Browser) -> AsyncIterator[Visit]:
    """A page in a real browser; it must end without an alarm."""
    async with open_visit(browser) as visit:
        yield visit
    assert visit.alarms == []

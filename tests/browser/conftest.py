from collections.abc import AsyncIterator

import pytest

from tests.browsers import Visit, open_browser, open_visit


@pytest.fixture
async def visit() -> AsyncIterator[Visit]:
    """A page in a real browser; it must end without an alarm."""
    async with open_browser() as browser, open_visit(browser) as visit:
        yield visit
    assert visit.alarms == []

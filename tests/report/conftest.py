"""Reports in a real browser."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from tests.browsers import Visit, open_browser, open_visit

Show = Callable[[str], Awaitable[Visit]]


@pytest.fixture
async def show(tmp_path: Path) -> AsyncIterator[Show]:
    """Open a page from a file; whatever it does that no page may do is an error."""
    async with open_browser() as browser, open_visit(browser) as visit:
        asked: list[str] = []
        visit.page.on("request", lambda request: asked.append(request.url))

        async def shown(page: str) -> Visit:
            path = tmp_path / "report.html"
            path.write_text(page, encoding="utf-8")
            await visit.page.goto(path.as_uri())
            return visit

        yield shown
        assert visit.alarms == []
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []

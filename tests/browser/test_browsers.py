"""The watch over a page rings."""

from typing import Any

import pytest

from tests import browsers
from tests.browsers import open_browser, open_visit

MISDEEDS = """
<img src="http://192.0.2.1/pixel.png"><img src="//shop.example/pixel.png">
<script>alert("a dialog"); console.error("a word"); throw new Error("a mistake")</script>
"""


async def test_a_watched_page_does_nothing_unseen() -> None:
    async with open_browser() as browser, open_visit(browser) as visit:
        await visit.page.goto("data:text/html,")
        assert visit.alarms == []
        await visit.page.set_content(MISDEEDS.replace("//shop", "http://shop"))
        alarms = " ".join(visit.alarms)
    for seen in ("192.0.2.1", "shop.example", "a dialog", "a word", "a mistake"):
        assert seen in alarms


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail), ("", pytest.skip)])
def test_without_chromium_a_test_is_skipped_but_fails_in_ci(
    ci: str, outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome.Exception, match="no Chromium"):
        browsers.find_chromium()

"""The watch over a page rings."""

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


@pytest.mark.parametrize(
    ("variables", "outcome"), [({"CI": "true"}, pytest.fail), ({}, pytest.skip)]
)
def test_without_chromium_a_test_is_skipped_but_fails_in_ci(
    variables: dict[str, str], outcome: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("CI", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(outcome.Exception, match="no Chromium"):  # type: ignore[attr-defined]  # pytest's own
        browsers.find_chromium()

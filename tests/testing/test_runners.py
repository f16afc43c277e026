"""The fixtures serve pytest-asyncio, anyio and Django alike: the suites of the page pass."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "testing.md").read_text()
SUITES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


def test_pytest_asyncio_in_strict_mode_anyio_and_django(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What pytest-asyncio does in its auto mode, the tests beside this one show."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # each takes its time to load
    pytester.makepyfile(**{name.removesuffix(".py"): text for name, text in SUITES.items()})
    pytester.makeini(
        """
        [pytest]
        asyncio_mode = strict
        asyncio_default_fixture_loop_scope = function
        filterwarnings = error
        """
    )
    done = pytester.runpytest_subprocess("-p", "asyncio", "-p", "anyio", "-q")
    done.assert_outcomes(passed=9)

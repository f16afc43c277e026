"""The fixtures serve pytest-asyncio, anyio and Django alike: the suites of the page pass."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "testing.md").read_text()
SUITES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))


def _run(pytester: pytest.Pytester, mode: str, suites: dict[str, str]) -> pytest.RunResult:
    pytester.makepyfile(**{name.removesuffix(".py"): text for name, text in suites.items()})
    pytester.makeconftest(SUITES["conftest.py"])
    pytester.makeini(
        f"""
        [pytest]
        asyncio_mode = {mode}
        asyncio_default_fixture_loop_scope = function
        filterwarnings = error
        """
    )
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q")


def test_pytest_asyncio_in_strict_mode_anyio_and_django(pytester: pytest.Pytester) -> None:
    suites = {name: text for name, text in SUITES.items() if name.startswith("test_")}
    _run(pytester, "strict", suites).assert_outcomes(passed=6)


def test_pytest_asyncio_in_auto_mode(pytester: pytest.Pytester) -> None:
    suite = SUITES["test_with_pytest_asyncio.py"].replace("@pytest.mark.asyncio\n", "")
    result = _run(pytester, "auto", {"test_with_pytest_asyncio.py": suite})
    result.assert_outcomes(passed=2)

"""Type checkers accept what works at run time, and refuse what does not."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = Path(__file__).with_name("examples.py").read_text()
PAGE = (ROOT / "docs" / "how-to" / "payouts.md").read_text()
PAYOUT = '''
"""The example of a payout, in a function of its own."""

from collections.abc import Callable

from gateway_async import GatewayClient


async def example(
    gateway: GatewayClient, book: Callable[..., None], look_into: Callable[..., None]
) -> None:
    """Pay out."""
'''
PYRIGHT = """
{"typeCheckingMode": "strict", "reportUnnecessaryTypeIgnoreComment": "error"}
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Write the examples where users would: beside nothing of this repository."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (payout,) = [block for block in blocks if "\nrequest = PayoutRequest(" in block]
    (tmp_path / "examples.py").write_text(EXAMPLES)
    (tmp_path / "payout.py").write_text(PAYOUT + textwrap.indent(payout, "    "))
    (tmp_path / "pyrightconfig.json").write_text(PYRIGHT)
    return tmp_path


def check(command: list[str], where: Path) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603  # our own words
        [sys.executable, "-m", *command],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout + done.stderr


def test_mypy_agrees(written: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install --group types")
    cache = pytestconfig.cache.mkdir("mypy")
    options = ["--strict", "--config-file=", f"--cache-dir={cache}"]
    code, said = check(["mypy", *options, "examples.py", "payout.py"], written)
    assert (code, said) == (0, "Success: no issues found in 2 source files\n")


def test_pyright_agrees(written: Path) -> None:
    if find_spec("pyright") is None or check(["pyright", "--version"], written)[0] != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")
    code, said = check(["pyright", "--pythonpath", sys.executable, "-p", "."], written)
    assert code == 0, said
    assert "0 errors" in said


def test_pyright_accepts_the_examples_of_the_docs(tmp_path: Path) -> None:
    if find_spec("pyright") is None or check(["pyright", "--version"], tmp_path)[0] != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")
    for example in sorted((ROOT / "docs" / "examples").glob("*.py")):
        shutil.copy(example, tmp_path)
    code, said = check(["pyright", "--pythonpath", sys.executable, "."], tmp_path)
    assert code == 0, said


@pytest.mark.slow
def test_every_type_is_known(tmp_path: Path) -> None:
    """`pyright --verifytypes` has to guess no type of the package as it is installed."""
    if find_spec("pyright") is None or check(["pyright", "--version"], tmp_path)[0] != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(ROOT / "gateway_async", packages / "gateway_async")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    found = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "gateway_async", "--ignoreexternal"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PATH": f"{tmp_path}/venv/bin:{os.environ['PATH']}"},
    )
    problems = [line for line in found.stdout.splitlines() if "error: " in line]
    assert [line for line in problems if "/gateway_async/cli/" not in line] == []
    assert "Type completeness score: " in found.stdout

"""Type checkers accept what works at run time, and refuse what does not."""

import os
import re
import shutil
import sys
import sysconfig
import textwrap
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.processes import ROOT, Done, run_python

EXAMPLES = Path(__file__).with_name("examples.py").read_text()
BLOCK = re.compile(
    r"^ *(?:```python|<!-- invisible-code-block: python)\n(.*?)^ *(?:```|-->)$",
    re.DOTALL | re.MULTILINE,
)
IN_DOCSTRING = re.compile(r"^( *)\.\. code-block:: python\n\n((?:\1 {4}.*\n|\n)+)", re.MULTILINE)
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "README.md",
    *sorted((ROOT / "gateway_async").rglob("*.py")),
]
GIVEN = '''
"""The blocks of a page, each within the one before, and what the pages take for granted."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from gateway_async import Credentials, Dialect, GatewayClient, Journal, OrderRef, RefundOrder
from gateway_async.reconciliation import LedgerEntry
from gateway_async.sandbox import Sandbox

F = TypeVar("F")


class Celery:
    """What the pages need of Celery."""

    def task(self, *, acks_late: bool) -> Callable[[F], F]:
        """Make a function a task."""
        raise NotImplementedError


app: web.Application
base_url: str
celery: Celery
credentials: Credentials
dialect: Dialect
entries: list[LedgerEntry]
gateway: GatewayClient
journal: Journal
journal_url: str
make_gateway: Callable[[], GatewayClient]
orders: list[RefundOrder]
refs: list[OrderRef]
sandbox: Sandbox
book: Callable[..., None]
look_into: Callable[..., None]
on_payment: Callable[..., None]
save: Callable[..., None]
ship: Callable[..., None]
show: Callable[..., None]
'''
STRICT = "# pyright: strict, reportUnnecessaryTypeIgnoreComment=error\n"


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Write our own examples, those of the pages, and the blocks of each page as a module."""
    (tmp_path / "examples.py").write_text(STRICT + EXAMPLES)
    for example in sorted((ROOT / "docs" / "examples").glob("*.py")):
        shutil.copy(example, tmp_path)
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text())
        if page.suffix == ".py":
            blocks = [block for _, block in IN_DOCSTRING.findall(page.read_text())]
        if not blocks:
            continue
        module = GIVEN
        for depth, block in enumerate(blocks):
            source = f"async def block_{depth}() -> None:\n" + textwrap.indent(
                textwrap.dedent(block), "    "
            )
            module += textwrap.indent(source, "    " * depth)
        name = re.sub(r"\W", "_", str(page.relative_to(ROOT).with_suffix("")))
        (tmp_path / f"{name}.py").write_text(module)
    return tmp_path


def check(where: Path, *command: str, first: str = str(Path(sys.executable).parent)) -> Done:
    return run_python("-m", *command, cwd=where, PATH=f"{first}:{os.environ['PATH']}")


@pytest.fixture
def _pyright(tmp_path: Path) -> None:
    if find_spec("pyright") is None or check(tmp_path, "pyright", "--version").returncode != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")


def test_mypy_accepts_the_examples(pages: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install --group types")
    cache = pytestconfig.cache.mkdir("mypy")
    options = ["--strict", "--config-file=", f"--cache-dir={cache}"]
    done = check(pages, "mypy", *options, "--disable-error-code=import-untyped", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("_pyright")
def test_pyright_accepts_the_examples(pages: Path) -> None:
    done = check(pages, "pyright", "--pythonpath", sys.executable, ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("_pyright")
def test_every_type_is_known(tmp_path: Path) -> None:
    """`pyright --verifytypes` has to guess no type of the package as it is installed."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(ROOT / "gateway_async", packages / "gateway_async")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = ("pyright", "--verifytypes", "gateway_async", "--ignoreexternal")
    found = check(tmp_path, *command, first=f"{tmp_path}/venv/bin").stdout
    assert [line for line in found.splitlines() if "error: " in line] == []
    assert "Type completeness score: 100%" in found

"""Type checkers accept what works at run time, and refuse what does not."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from sybil import Document
from sybil.document import PythonDocStringDocument
from sybil.parsers import markdown, rest

from tests.docs.test_blocks import MODULES, PAGES
from tests.support.processes import ROOT

HERE = Path(__file__).parent
STRICT = "# pyright: strict, reportUnnecessaryTypeIgnoreComment=error\n"
GIVEN = """# mypy: disable-error-code=import-untyped
import asyncio
from gateway_async import GatewayClient, OrderRef
from given import *
"""


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Write our own examples, the programs of the pages, and the blocks of each as a module."""
    (tmp_path / "examples.py").write_text(STRICT + (HERE / "examples.py").read_text())
    for example in (HERE / "given.py", *(ROOT / "docs" / "examples").glob("*.py")):
        shutil.copy(example, tmp_path)
    for path in (*PAGES, *MODULES):
        name = re.sub(r"\W", "_", str(path.relative_to(ROOT)))
        (tmp_path / f"{name}.py").write_text(GIVEN + "".join(_nested(path)))
    return tmp_path


def _nested(path: Path) -> Iterator[str]:
    """Yield each block as a function within the one before, so that it may use its names."""
    if path.suffix == ".py":
        document = PythonDocStringDocument.parse(str(path), rest.CodeBlockParser("python"))
    else:
        document = Document.parse(str(path), markdown.CodeBlockParser("python"))
    for depth, block in enumerate(document):
        function = f"async def block() -> None:\n{textwrap.indent(str(block.parsed), '    ')}\n"
        yield textwrap.indent(function, "    " * depth)


def check(
    where: Path, *command: str, first: Path = Path(sys.executable).parent, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a checker to its end, which finds this Python before any other."""
    return subprocess.run(  # noqa: S603  # what tests name
        [sys.executable, "-m", *command],
        cwd=where,
        env={**os.environ, "PATH": f"{first}:{os.environ['PATH']}", **env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def _pyright() -> None:
    if find_spec("pyright") is None or check(HERE, "pyright", "--version").returncode != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")


def test_mypy_accepts_the_examples(examples: Path) -> None:
    """Mypy reads our configuration, and knows what its last run over all of this has found."""
    pytest.importorskip("mypy", reason="mypy is not installed: pip install --group types")
    done = check(ROOT, "mypy", str(examples), MYPYPATH=str(examples))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("_pyright")
def test_pyright_accepts_the_examples(examples: Path) -> None:
    done = check(examples, "pyright", "--pythonpath", sys.executable, ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.usefixtures("_pyright")
def test_every_type_is_known(tmp_path: Path) -> None:
    """`pyright --verifytypes` has to guess no type of the package as it is installed."""
    venv.create(tmp_path / "venv", with_pip=False)
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    shutil.copytree(ROOT / "gateway_async", packages / "gateway_async")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = ("pyright", "--verifytypes", "gateway_async", "--ignoreexternal")
    found = check(tmp_path, *command, first=tmp_path / "venv" / "bin").stdout
    assert [line for line in found.splitlines() if "error: " in line] == []
    assert "Type completeness score: 100%" in found

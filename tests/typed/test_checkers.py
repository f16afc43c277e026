"""Type checkers accept what works at run time, and refuse what does not."""

import os
import shutil
import sys
import sysconfig
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.processes import ROOT, Done, run_python

EXAMPLES = Path(__file__).with_name("examples.py").read_text()
STRICT = "# pyright: strict, reportUnnecessaryTypeIgnoreComment=error\n"


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Write our own examples, and the programs of the pages."""
    (tmp_path / "examples.py").write_text(STRICT + EXAMPLES)
    for example in sorted((ROOT / "docs" / "examples").glob("*.py")):
        shutil.copy(example, tmp_path)
    return tmp_path


def check(where: Path, *command: str, first: str = str(Path(sys.executable).parent)) -> Done:
    return run_python("-m", *command, cwd=where, PATH=f"{first}:{os.environ['PATH']}")


@pytest.fixture
def _pyright(tmp_path: Path) -> None:
    if find_spec("pyright") is None or check(tmp_path, "pyright", "--version").returncode != 0:
        pytest.skip("pyright is not installed, or cannot fetch itself: pip install pyright")


def test_mypy_accepts_the_examples(examples: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed: pip install --group types")
    cache = pytestconfig.cache.mkdir("mypy")
    options = ["--strict", "--config-file=", f"--cache-dir={cache}"]
    done = check(examples, "mypy", *options, "--disable-error-code=import-untyped", ".")
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
    found = check(tmp_path, *command, first=f"{tmp_path}/venv/bin").stdout
    assert [line for line in found.splitlines() if "error: " in line] == []
    assert "Type completeness score: 100%" in found

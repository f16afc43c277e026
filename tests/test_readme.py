"""The README's commands, code and tree are those that are run and tested."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import as_page
from gateway_async import errors

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CI_RUN = (ROOT / ".ci" / "run").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def test_the_first_refund_is_the_example() -> None:
    example = (ROOT / "docs" / "examples" / "refund.py").read_text()
    assert example in [text for language, text in BLOCKS if language == "python"]


@pytest.mark.slow
def test_the_first_refund_runs() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs" / "examples" / "refund.py")]
    done = subprocess.run(  # noqa: S603  # our own file
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    *first, counts = done.stdout.splitlines()
    assert len(first) == 3
    assert all(re.fullmatch(r"\S+ succeeded \S+-01", line) for line in first)
    assert "'succeeded': 120" in counts


def test_the_two_commands_are_those_that_ci_runs() -> None:
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert [command.rsplit("/", 1)[1] for command in commands] == [
        "gateway-async demo",
        "pytest -n auto",
    ]
    assert "grep '^python3 -m venv ' README.md" in CI_RUN


@pytest.mark.parametrize("name", sorted(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")))
def test_every_error_is_in_the_tree(name: str) -> None:
    assert re.search(rf"── {name}\b", README)
    assert issubclass(getattr(errors, name), errors.GatewayError)


def test_the_figures_are_those_of_the_last_run() -> None:
    page = as_page(json.loads((ROOT / "benchmarks" / "results.json").read_text()))
    assert (ROOT / "benchmarks" / "results.md").read_text() == page
    assert page in README

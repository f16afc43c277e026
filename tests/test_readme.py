"""The README's commands, code and figures are those that are run, tested and measured."""

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.__main__ import as_page
from benchmarks.chart import draw

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CI_RUN = (ROOT / ".ci" / "run").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
BENCHMARKS = ROOT / "benchmarks"
RESULTS = json.loads((BENCHMARKS / "results.json").read_text())
LINKS = re.findall(r"\]\((?!https?:)([^)#]+)", README)


def test_it_is_read_in_a_minute() -> None:
    assert len(README.splitlines()) <= 130


def test_the_first_refund_is_the_example() -> None:
    example = (ROOT / "docs" / "examples" / "refund.py").read_text()
    assert ("python", example) in BLOCKS


def test_the_two_commands_are_those_that_ci_runs() -> None:
    commands = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert [command.rsplit("/", 1)[1] for command in commands] == [
        "gateway-async demo",
        "pytest -n auto",
    ]
    assert "grep '^python3 -m venv ' README.md" in CI_RUN


def test_every_link_leads_somewhere() -> None:
    assert [link for link in LINKS if not (ROOT / link).exists()] == []


def test_the_figures_are_those_of_the_last_run() -> None:
    page = as_page(RESULTS)
    assert (BENCHMARKS / "results.md").read_text() == page
    assert (BENCHMARKS / "results.svg").read_text() == draw(RESULTS["figures"]["compare"])
    cost = figure("gateway_async")
    ratio = figure(
        "gateway_async, beside aiohttp and orjson, bodies written beforehand (the floor)"
    )
    said = " ".join(README.split())
    assert f"costs {cost:.3g} µs of CPU time, {ratio:.3g} times the floor" in said


def figure(name: str) -> float:
    rows: list[dict[str, Any]] = RESULTS["figures"]["compare"]
    return next(float(row["value"]) for row in rows if row["name"] == name)

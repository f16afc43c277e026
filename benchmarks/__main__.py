"""Runs the benchmarks: ``python -m benchmarks [NAME ...]``, all of them by default.

Each runs in a process of its own, so that none warms the next. All of them together write
``results.json``, ``results.md`` and ``results.svg`` beside this file.
"""

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.chart import draw
from benchmarks.figures import Figure, Goal, show

QUESTIONS = (
    "refund_batch",
    "memory",
    "latency",
    "loops",
    "compare",
    "journal",
    "direct_payment",
    "decoding",
    "import_time",
    "workers",
)
"""The modules of this package that answer one question each."""

HERE = Path(__file__).parent
PACKAGES = ("aiohttp", "attrs", "cattrs", "orjson", "elasticsearch", "httpx", "pydantic", "stripe")

_MEASURE = """
import json, sys
from importlib import import_module
import attrs
figures = import_module("benchmarks." + sys.argv[1]).measure()
json.dump([attrs.asdict(figure) for figure in figures], sys.stdout)
"""


def measured(question: str) -> list[Figure]:
    """Run one benchmark in a process of its own.

    Raises:
        subprocess.CalledProcessError: If it failed.
    """
    command = [sys.executable, "-c", _MEASURE, question]
    done = subprocess.run(  # noqa: S603  # this interpreter, and a module of ours
        command, stdout=subprocess.PIPE, check=True, text=True
    )
    return [_figure(fields) for fields in json.loads(done.stdout)]


def _figure(fields: dict[str, Any]) -> Figure:
    goal, quartiles = fields.pop("goal"), fields.pop("quartiles")
    return Figure(
        **fields,
        goal=Goal(**goal) if goal else None,
        quartiles=tuple(quartiles) if quartiles else None,
    )


def machine() -> dict[str, object]:
    """Say where the figures were measured."""
    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def as_json(results: dict[str, list[Figure]]) -> str:
    """Return everything, for machines."""
    figures = {
        question: [
            {
                "name": figure.name,
                "value": float(f"{figure.value:.3g}"),
                "quartiles": figure.quartiles
                and [float(f"{quartile:.3g}") for quartile in figure.quartiles],
                "unit": figure.unit,
                "goal": str(figure.goal) if figure.goal else None,
                "met": figure.goal.is_met(figure.value) if figure.goal else None,
                "detail": figure.detail,
            }
            for figure in found
        ]
        for question, found in results.items()
    }
    return json.dumps({"machine": machine(), "figures": figures}, indent=2) + "\n"


def as_table(results: dict[str, list[Figure]]) -> str:
    """Return what has a goal, as a table in Markdown."""
    rows = ["| benchmark | what | measured | goal | met |", "|---|---|---|---|---|"]
    for question, found in results.items():
        for figure in found:
            if figure.goal is not None:
                met = "yes" if figure.goal.is_met(figure.value) else "no"
                measured = f"{figure.value:.3g} {figure.unit}"
                rows.append(f"| {question} | {figure.name} | {measured} | {figure.goal} | {met} |")
    return "\n".join(rows) + "\n"


def main(chosen: list[str]) -> None:
    """Run the benchmarks that were asked for, and print their figures; all of them are kept.

    Raises:
        SystemExit: If there is no benchmark of a name.
    """
    if wrong := sorted(set(chosen) - set(QUESTIONS)):
        sys.exit(f"no benchmark is called {', '.join(wrong)}; there are {', '.join(QUESTIONS)}")
    results = {}
    for question in chosen or QUESTIONS:
        print(f"\n== {question}", flush=True)
        results[question] = measured(question)
        show(results[question])
    if not chosen:
        (HERE / "results.json").write_text(as_json(results), encoding="utf-8")
        (HERE / "results.md").write_text(as_table(results), encoding="utf-8")
        draw(results["compare"], HERE / "results.svg")


if __name__ == "__main__":
    main(sys.argv[1:])

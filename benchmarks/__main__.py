"""Runs the benchmarks: ``python -m benchmarks [NAME ...]``, all of them by default.

Each runs in a process of its own, so that none warms the next. All of them together write
``results.json``, ``results.md`` and ``results.svg`` beside this file.
"""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.chart import draw

QUESTIONS = (
    "refund_batch",
    "memory",
    "latency",
    "compare",
    "journal",
    "importing",
    "workers",
    "direct_payment",
)
"""The modules of this package that answer one question each."""

_WHOLE_FROM = 100
"""Larger figures are shown without decimal places."""

HERE = Path(__file__).parent
PACKAGES = ("aiohttp", "attrs", "orjson", "elasticsearch", "httpx", "stripe")

_MEASURE = """
import json, sys
from importlib import import_module
from benchmarks.figures import show
figures = import_module("benchmarks." + sys.argv[1]).measure()
show(figures)
print(json.dumps([figure.as_data() for figure in figures]))
"""


def measured(question: str) -> list[dict[str, Any]]:
    """Run one benchmark in a process of its own, print its figures, and return them.

    Raises:
        subprocess.CalledProcessError: If it failed.
    """
    command = [sys.executable, "-c", _MEASURE, question]
    done = subprocess.run(  # noqa: S603  # this interpreter, and a module of ours
        command, stdout=subprocess.PIPE, check=True, text=True
    )
    *shown, data = done.stdout.splitlines()
    print(*shown, sep="\n")
    found: list[dict[str, Any]] = json.loads(data)
    return found


def machine() -> dict[str, object]:
    """Say where the figures were measured."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "processor": platform.machine(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
    }


def as_page(data: dict[str, Any]) -> str:
    """Return everything in Markdown: what has a goal first, and the rest to be unfolded."""
    rows = [(question, row) for question, rows in data["figures"].items() for row in rows]
    wanted = [(question, row) for question, row in rows if row["goal"] is not None]
    others = [(question, row) for question, row in rows if row["goal"] is None]
    met = sum(row["met"] for _, row in wanted)
    lines = [
        f"Of {len(wanted)} goals {met} are met. {_place(data['machine'])}",
        "",
        "| benchmark | what | measured | quartiles | goal | met |",
        "|---|---|---|---|---|---|",
        *(f"{_row(*row)} {row[1]['goal']} | {_said(row[1])} |" for row in wanted),
        "",
        "<details><summary>What was measured beside these</summary>",
        "",
        "| benchmark | what | measured | quartiles |",
        "|---|---|---|---|",
        *(_row(*row) for row in others),
        "",
        "</details>",
    ]
    return "\n".join(lines) + "\n"


def _place(machine: dict[str, Any]) -> str:
    return (
        f"Measured on {machine['date']}, with Python {machine['python']} and aiohttp "
        f"{machine['packages']['aiohttp']}, on {machine['cores']} cores ({machine['system']}, "
        f"{machine['processor']})."
    )


def _row(question: str, row: dict[str, Any]) -> str:
    what = f"{row['name']} ({row['detail']})" if row["detail"] else row["name"]
    spread = " to ".join(map(_number, row["quartiles"] or ()))
    return f"| {question} | {what} | {_number(row['value'])} {row['unit']} | {spread} |"


def _said(row: dict[str, Any]) -> str:
    return "yes" if row["met"] else "no"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= _WHOLE_FROM else f"{value:.3g}"


def main(chosen: list[str]) -> None:
    """Run the benchmarks that were asked for, and print their figures; all of them are kept.

    Raises:
        SystemExit: If there is no benchmark of a name.
    """
    if wrong := sorted(set(chosen) - set(QUESTIONS)):
        sys.exit(f"no benchmark is called {', '.join(wrong)}; there are {', '.join(QUESTIONS)}")
    figures = {}
    for question in chosen or QUESTIONS:
        print(f"\n== {question}", flush=True)
        figures[question] = measured(question)
    if not chosen:
        data = {"machine": machine(), "figures": figures}
        (HERE / "results.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        (HERE / "results.md").write_text(as_page(data), encoding="utf-8")
        (HERE / "results.svg").write_text(draw(figures["compare"]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

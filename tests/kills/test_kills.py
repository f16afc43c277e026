"""Wherever a process is killed, nothing is done twice, lost, or wrongly reported."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kills.driver import ROOT
from tests.kills.plans import KILLED_AT, draw
from tests.postgres import postgres_url

_RUNS, _AT_ONCE = 50, 25  # by turns on SQLite and PostgreSQL; `nox -s kills` runs more
_LONGEST_SECONDS = 600
_LEAST_SHARE = 0.6


@pytest.fixture(scope="module", autouse=True)
def _a_server() -> Iterator[None]:
    """Skip these tests where there is no PostgreSQL."""
    with postgres_url():
        yield


def _run(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(  # noqa: S603  # this very interpreter
        (sys.executable, "-W", "error", "-m", "tests.kills", "--json", *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )
    assert not done.stderr
    tally: dict[str, Any] = json.loads(done.stdout)
    return tally


@pytest.mark.parametrize("start", range(0, _RUNS, _AT_ONCE))
def test_kills_do_no_harm(start: int) -> None:
    tally = _run("--runs", str(_AT_ONCE), "--start", str(start))
    assert not tally["failures"], "\n".join(tally["failures"])
    assert not tally["problems"]
    counts, statuses = tally["counts"], tally["statuses"]
    assert counts["runs"] == _AT_ONCE
    assert counts["kills"] == sum(tally["deaths"].values()) >= _AT_ONCE // 2
    assert counts["faulty"] >= _LEAST_SHARE * counts["requests"]
    assert statuses["succeeded"] > sum(statuses.values()) / 3
    assert statuses.get("unknown", 0) <= tally["states"].get("held", 0)
    assert "intent" not in tally["states"]


def test_the_runs_aim_at_every_step() -> None:
    aimed = {kill.kind for seed in range(_RUNS) for kill in draw(seed).kills}
    steps = {f"{step} {what}" for what, (steps, _) in KILLED_AT.items() for step in steps}
    assert aimed == {"", *steps}

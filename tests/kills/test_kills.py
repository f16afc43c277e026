"""Wherever a process is killed, nothing is done twice, lost, or wrongly reported."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kills.databases import DATABASES
from tests.kills.driver import ROOT
from tests.kills.plans import KILLED_AT, draw
from tests.postgres import postgres_url

_RUNS, _AT_ONCE = 50, 10
_LONGEST_SECONDS = 600
_LEAST_SHARE = 0.6


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """A kind of database; the test is skipped where there is none."""
    with postgres_url() if request.param == "postgresql" else contextlib.nullcontext():
        yield request.param


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


@pytest.mark.parametrize("database", DATABASES, indirect=True)
@pytest.mark.parametrize("start", range(0, _RUNS, _AT_ONCE))
def test_kills_do_no_harm(start: int, database: str) -> None:
    first = start + (_RUNS if database == "postgresql" else 0)
    tally = _run("--runs", str(_AT_ONCE), "--start", str(first), "--database", database)
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
    aimed = {kill.kind for seed in range(2 * _RUNS) for kill in draw(seed).kills}
    steps = {f"{step} {what}" for what, (steps, _) in KILLED_AT.items() for step in steps}
    assert aimed == {"", *steps}

"""Wherever a process is killed, nothing is done twice, lost, or wrongly reported."""

import pytest

from tests.kills.driver import run_seeds
from tests.kills.plans import KILLED_AT, draw

_RUNS, _AT_ONCE = 50, 25  # by turns on SQLite and PostgreSQL; `nox -s kills` runs more


@pytest.mark.parametrize("start", range(0, _RUNS, _AT_ONCE))
async def test_kills_do_no_harm(start: int) -> None:
    tally = await run_seeds(range(start, start + _AT_ONCE), "both")
    assert not tally.failures, "\n".join(tally.failures)
    assert not tally.problems
    counts, statuses = tally.counts, tally.statuses
    assert counts["runs"] == _AT_ONCE
    assert counts["kills"] == tally.deaths.total() >= _AT_ONCE // 2
    assert counts["faults"] >= counts["requests"]
    assert statuses["succeeded"] > statuses.total() / 3
    assert statuses["unknown"] <= tally.states["held"]
    assert "intent" not in tally.states


def test_the_runs_aim_at_every_step() -> None:
    aimed = {kill.kind for seed in range(_RUNS) for kill in draw(seed).kills}
    steps = {f"{step} {what}" for what, (steps, _) in KILLED_AT.items() for step in steps}
    assert aimed == {"", *steps}

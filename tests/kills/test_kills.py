"""Wherever a process is killed or frozen, nothing is done twice, lost, or wrongly reported."""

import pytest

from gateway_async import OutcomeStatus
from tests.kills.driver import run_seeds, split
from tests.kills.plans import STEPS, FrozenPlan, Plan

_RUNS, _AT_ONCE = 50, 25  # by turns on SQLite and PostgreSQL; `nox -s kills` runs more
_FROZEN = 16  # each step four times on either database


@pytest.mark.parametrize("start", range(0, _RUNS, _AT_ONCE))
async def test_kills_do_no_harm(start: int) -> None:
    tally, failures = await run_seeds(range(start, start + _AT_ONCE), "both")
    tally, wrong_steps = split(tally)
    failures += wrong_steps
    assert not failures, "\n".join(failures)
    assert tally["runs"] == _AT_ONCE
    assert tally["kills"] >= _AT_ONCE // 2
    assert tally["faults"] >= tally["requests"]
    outcomes = [tally[status] for status in OutcomeStatus]
    assert tally["succeeded"] > sum(outcomes) / 3
    assert tally["unknown"] <= tally["held"]


def test_the_runs_aim_at_every_step() -> None:
    aimed = {kill.kind for seed in range(_RUNS) for kill in Plan(seed).kills}
    assert aimed == {"", *STEPS}


async def test_a_frozen_process_that_goes_on_too_late_finds_its_lease_lost() -> None:
    tally, failures = await run_seeds(range(_FROZEN), "both", FrozenPlan)
    assert not failures, "\n".join(failures)
    assert tally["kills"] == _FROZEN

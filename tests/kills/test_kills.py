"""Wherever a process is killed or frozen, nothing is done twice, lost, or wrongly reported."""

from gateway_async import OutcomeStatus
from tests.kills.driver import run_seeds
from tests.kills.plans import STEPS, Plan

_RUNS = 24  # by turns on SQLite and PostgreSQL; `nox -s kills` has more
_FROZEN = 4  # of them: at each step on either database


def test_a_process_that_is_killed_or_frozen_does_no_harm() -> None:
    kills = [kill for seed in range(_RUNS) for kill in Plan(seed).kills]
    assert {kill.kind for kill in kills} > {"", *STEPS}
    tally, failures = run_seeds(range(_RUNS), "both")
    assert not failures, "\n".join(failures)
    assert (tally["runs"], tally["frozen"]) == (_RUNS, _FROZEN)
    assert tally["kills"] >= _RUNS // 2
    assert STEPS.keys() <= tally.keys()
    assert tally["faults"] >= tally["requests"]
    outcomes = [tally[status] for status in OutcomeStatus]
    assert tally["succeeded"] > sum(outcomes) / 3
    assert tally["unknown"] <= tally["held"]

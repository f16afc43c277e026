"""Wherever a process is killed, nothing is done twice, lost, or wrongly reported."""

import pytest

from gateway_async import OutcomeStatus
from tests.kills.driver import run_seeds
from tests.kills.worker import STEPS, Plan

_AT_ONCE = 25  # so many runs reach every step; `nox -s kills` has more of them


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "start" in metafunc.fixturenames:
        metafunc.parametrize("start", range(0, metafunc.config.getoption("--kills"), _AT_ONCE))


async def test_kills_do_no_harm(start: int) -> None:
    tally, failures = await run_seeds(range(start, start + _AT_ONCE))
    assert not failures, "\n".join(failures)
    assert tally["runs"] == _AT_ONCE
    assert tally["kills"] >= _AT_ONCE // 2
    assert tally["faults"] >= tally["requests"]
    outcomes = [tally[status] for status in OutcomeStatus]
    assert tally["succeeded"] > sum(outcomes) / 3
    assert tally["unknown"] <= tally["held"]


def test_the_runs_aim_at_every_step() -> None:
    aimed = {kill.kind for seed in range(2 * _AT_ONCE) for kill in Plan(seed).kills}
    assert aimed == {"", *STEPS}

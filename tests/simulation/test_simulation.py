"""Whatever the network, the gateway and the caller do, every order comes back with the truth."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.__main__ import run_seeds
from tests.simulation.running import run

_QUICK, _SEEDS, _AT_ONCE = 200, 600, 100  # six hundred miss every rule that is taken out
_STARTS = [
    pytest.param(start, marks=pytest.mark.slow if start >= _QUICK else ())
    for start in range(0, _SEEDS, _AT_ONCE)
]


@pytest.mark.parametrize("start", _STARTS)
def test_every_seed_keeps_the_laws(start: int) -> None:
    problems = run_seeds(range(start, start + _AT_ONCE))
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_the_same_seed_tells_the_same_story_in_any_process() -> None:
    command = (sys.executable, "-m", "tests.simulation", "--seeds", "9", "--start", "3", "--trace")
    told = subprocess.run(  # noqa: S603  # this very interpreter
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert all("\n".join(run(seed).network.trace) in told for seed in range(3, 12))

"""Whatever the network, the gateway and the caller do, every order comes back with the truth."""

import pytest

from tests.simulation.__main__ import run_seeds
from tests.simulation.running import run

_QUICK, _SEEDS, _AT_ONCE = 150, 750, 150
_STARTS = [
    pytest.param(start, marks=pytest.mark.slow if start >= _QUICK else ())
    for start in range(0, _SEEDS, _AT_ONCE)
]


@pytest.mark.parametrize("start", _STARTS)
def test_every_seed_keeps_the_laws(start: int) -> None:
    problems = run_seeds(range(start, start + _AT_ONCE))
    assert not problems, "\n".join(problems)


def test_the_same_seed_tells_the_same_story() -> None:
    for seed in range(3, 12):
        assert run(seed).network.trace == run(seed).network.trace

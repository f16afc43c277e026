"""A process that is frozen while another takes its job over wakes up, and does no harm."""

from tests.kills.driver import run_seeds
from tests.kills.plans import FrozenPlan

_RUNS = 16  # each step four times on either database


async def test_one_that_goes_on_too_late_finds_its_lease_lost() -> None:
    tally, failures = await run_seeds(range(_RUNS), "both", FrozenPlan)
    assert not failures, "\n".join(failures)
    assert tally["kills"] == _RUNS

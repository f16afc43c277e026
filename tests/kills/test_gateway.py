"""The gateway of a run strikes as often as it says, and its books tell orders apart."""

import pytest

from tests.kills.gateway import DrawnFaults, make_gateway
from tests.kills.plans import Plan, draw


def _plan_of(operation: str) -> Plan:
    return next(plan for plan in map(draw, range(100)) if plan.operation == operation)


@pytest.mark.parametrize("seed", range(5))
def test_most_requests_meet_a_fault_however_few_they_are(seed: int) -> None:
    faults = DrawnFaults(seed, "refund")
    for number in range(1, 100):
        before = faults.faulty
        assert len(faults.plan("refund").faults) == faults.faulty - before
        assert faults.requests == number
        assert faults.faulty >= 0.6 * number


def test_the_same_seed_draws_the_same() -> None:
    assert draw(7) == draw(7)
    first, second = DrawnFaults(7, "refund"), DrawnFaults(7, "refund")
    asked = ("refund", "search_refunds") * 50
    assert [first.plan(one) for one in asked] == [second.plan(one) for one in asked]


@pytest.mark.parametrize("operation", ["refund", "capture", "cancel"])
def test_nothing_is_done_before_the_run(operation: str) -> None:
    plan = _plan_of(operation)
    books = make_gateway(plan).books()
    assert books.done == (0,) * plan.orders
    assert not books.again

"""What is known of orders, drawn anew: nothing is lost, doubled, or moved that may not be."""

from itertools import pairwise

from hypothesis import given, strategies as st

from gateway_async.journal import JobState
from gateway_async.journal.stretches import (
    Change,
    Stretch,
    changes_of,
    obstacle,
    redraw,
    runs_of,
    write_references,
)

TOTAL = 30
NEW, INTENT, SUCCEEDED = JobState.NEW, JobState.INTENT, JobState.SUCCEEDED
EXPECTED = {str(INTENT): (NEW,), str(SUCCEEDED): (INTENT,)}


def _known(edges: set[int], referenced: bool) -> list[Stretch]:
    starts = [0, *sorted(edges), TOTAL]
    return [
        Stretch(
            first=first,
            last=end - 1,
            slice=0,
            state=str(NEW),
            reference_list=_listed(range(first, end)) if referenced else "",
        )
        for first, end in pairwise(starts)
    ]


def _listed(positions: range) -> str:
    return write_references([f"R{position}" for position in positions])


edges = st.sets(st.integers(1, TOTAL - 1))
some = st.sets(st.integers(0, TOTAL - 1), min_size=1).map(sorted)


@given(some)
def test_runs_are_the_positions(positions: list[int]) -> None:
    runs = list(runs_of(positions))
    assert [at for first, last in runs for at in range(first, last + 1)] == positions
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(runs))


@given(edges, some, st.booleans(), st.booleans())
def test_every_order_is_in_one_stretch_as_it_was_or_as_it_is_now(
    edges: set[int], positions: list[int], before: bool, after: bool
) -> None:
    known = _known(edges, before)
    changes = [
        Change(
            first,
            last,
            {"state": str(INTENT)}
            | (
                {"reference_list": write_references([f"S{at}" for at in range(first, last + 1)])}
                if after
                else {}
            ),
        )
        for first, last in runs_of(positions)
    ]
    assert obstacle(known, changes, EXPECTED, slice_number=0, request=None) is None
    drawn = {stretch.first: stretch for stretch in known}
    for was, parts in redraw(known, changes):
        assert was.first == parts[0].first
        assert drawn.pop(was.first) == was
        drawn |= {part.first: part for part in parts}
    orders = [
        (at, drawn[first].state, reference)
        for first in sorted(drawn)
        for at, reference in enumerate(drawn[first].references(), first)
    ]
    assert orders == [
        (
            at,
            INTENT if at in positions else NEW,
            f"S{at}" if after and at in positions else f"R{at}" if before else "",
        )
        for at in range(TOTAL)
    ]


@given(edges, some, st.integers(0, TOTAL - 1))
def test_an_order_in_another_state_is_an_obstacle(
    edges: set[int], positions: list[int], at: int
) -> None:
    known = [
        each._replace(state=str(SUCCEEDED)) if each.first <= at <= each.last else each
        for each in _known(edges, referenced=False)
    ]
    changes = changes_of(positions, {"state": str(INTENT)})
    moved = {each.first for each in known if each.state == SUCCEEDED}
    touched = any(
        each.first in moved and each.first <= position <= each.last
        for each in known
        for position in positions
    )
    found = obstacle(known, changes, EXPECTED, slice_number=0, request=None)
    assert (found is not None) is touched


def test_obstacles() -> None:
    known = [
        Stretch(0, 4, 0, str(INTENT), request_id=1),
        Stretch(5, 6, 1, str(INTENT), request_id=1),
        Stretch(7, 9, 0, str(INTENT), request_id=2),
    ]
    for indices, expected in (
        ([0, 4], None),
        ([3, 4, 5], "there is no order 5"),
        ([7], "order 7 is 'intent', of another request"),
        ([9, 10], "order 9 is 'intent', of another request"),
        ([10], "there is no order 10"),
        ([1, 1], "order 1 is named twice"),
        ([2, 1], "order 1 is named twice"),
    ):
        changes = changes_of(indices, {"state": str(SUCCEEDED)})
        assert obstacle(known, changes, EXPECTED, slice_number=0, request=1) == expected

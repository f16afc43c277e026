"""The verdict complains where there is something to complain about."""

from collections.abc import Sequence

import attrs
import pytest

from gateway_async import OutcomeStatus
from tests.kills.verdict import Books, Told, Wrong, judge

SUCCEEDED, DECLINED, UNKNOWN, NOT_SENT = (
    OutcomeStatus.SUCCEEDED,
    OutcomeStatus.DECLINED,
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.NOT_SENT,
)
BOOKS = Books(done=(1, 0, 1, 0, 0), references={0: ("T0-01",), 2: ("T2-01",)})
TOLD = (
    Told(0, SUCCEEDED, "T0-01"),
    Told(1, DECLINED),
    Told(2, UNKNOWN),
    Told(3, UNKNOWN),
    Told(4, NOT_SENT),
)


def _with(told: Told) -> list[Told]:
    return [told if one.index == told.index else one for one in TOLD]


def _kinds(
    books: Books = BOOKS,
    kept: Sequence[Told] = TOLD,
    told: Sequence[Told] = TOLD,
    earlier: Sequence[Told] = (),
    in_flight: int = 0,
) -> set[Wrong]:
    return {kind for kind, _ in judge(books, kept, told, earlier, in_flight=in_flight)}


def test_the_truth_is_right() -> None:
    assert not _kinds()
    assert not _kinds(earlier=[TOLD[0], TOLD[1], Told(4, UNKNOWN), Told(1, NOT_SENT)])


def test_what_was_done_twice_or_is_in_flight_is_noticed() -> None:
    doubled = Books(done=(2, 0, 1, 0, 0), references={0: ("T0-01", "T0-02")})
    assert Wrong.DOUBLED in _kinds(doubled)
    unknown = Books(done=(1, 0, 2, 0, 0), references=BOOKS.references)
    assert _kinds(unknown) == {Wrong.DOUBLED}
    assert _kinds(attrs.evolve(BOOKS, again=frozenset({2}))) == {Wrong.DOUBLED}
    assert _kinds(in_flight=1) == {Wrong.LOST}


@pytest.mark.parametrize(
    "wrong", [TOLD[:-1], [*TOLD, TOLD[2]], [*TOLD, Told(5, UNKNOWN)], []], ids=len
)
def test_a_lost_order_is_noticed_in_journal_and_report(wrong: Sequence[Told]) -> None:
    assert Wrong.LOST in _kinds(kept=wrong)
    assert Wrong.LOST in _kinds(told=wrong)


@pytest.mark.parametrize(
    "lie",
    [
        Told(0, DECLINED),
        Told(2, NOT_SENT),
        Told(3, SUCCEEDED),
        Told(4, SUCCEEDED, "T4-01"),
        Told(0, SUCCEEDED, "T2-01"),
    ],
    ids=str,
)
def test_a_lie_is_noticed_wherever_it_is_told(lie: Told) -> None:
    lied = _with(lie)
    assert _kinds(kept=lied) == {Wrong.REPORTED}
    assert _kinds(told=lied) == {Wrong.REPORTED}
    assert _kinds(kept=lied, told=lied) == {Wrong.REPORTED}


def test_a_report_that_is_not_what_was_kept_is_noticed() -> None:
    for told in (Told(0, SUCCEEDED), Told(4, UNKNOWN)):
        assert _kinds(told=_with(told)) == {Wrong.REPORTED}
    for earlier in (Told(2, SUCCEEDED, "T2-01"), Told(3, DECLINED), Told(0, SUCCEEDED, "T0-02")):
        assert _kinds(earlier=[earlier]) == {Wrong.REPORTED}

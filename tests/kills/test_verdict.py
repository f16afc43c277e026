"""The verdict complains where there is something to complain about."""

from collections.abc import Callable, Sequence

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

_Change = Callable[[Sequence[Told]], Sequence[Told]]


def _with(told: Told) -> _Change:
    return lambda before: [told if one.index == told.index else one for one in before]


def _kinds(
    books: Books = BOOKS,
    kept: Sequence[Told] = TOLD,
    told: Sequence[Told] = TOLD,
    earlier: Sequence[Told] = (),
    in_flight: int = 0,
) -> set[Wrong]:
    return {problem.kind for problem in judge(books, kept, told, earlier, in_flight=in_flight)}


def test_the_truth_is_right() -> None:
    assert not _kinds()
    assert not _kinds(earlier=[TOLD[0], TOLD[1], Told(4, UNKNOWN), Told(1, NOT_SENT)])


def test_a_refund_that_was_made_twice_is_doubled() -> None:
    doubled = Books(done=(2, 0, 1, 0, 0), references={0: ("T0-01", "T0-02")})
    assert Wrong.DOUBLED in _kinds(doubled)
    unknown = Books(done=(1, 0, 2, 0, 0), references=BOOKS.references)
    assert _kinds(unknown) == {Wrong.DOUBLED}


def test_a_capture_that_was_asked_for_again_is_doubled() -> None:
    assert _kinds(attrs.evolve(BOOKS, again=frozenset({2}))) == {Wrong.DOUBLED}


def test_an_order_in_flight_is_lost() -> None:
    assert _kinds(in_flight=1) == {Wrong.LOST}


LOSSES: dict[str, _Change] = {
    "one is missing": lambda told: told[:-1],
    "one is there twice": lambda told: [*told, told[2]],
    "one is a stranger": lambda told: [*told, Told(5, UNKNOWN)],
    "all are missing": lambda _: [],
}


@pytest.mark.parametrize("change", LOSSES.values(), ids=LOSSES)
def test_a_lost_order_is_noticed_in_journal_and_report(change: _Change) -> None:
    assert Wrong.LOST in _kinds(kept=change(TOLD))
    assert Wrong.LOST in _kinds(told=change(TOLD))


LIES: dict[str, Told] = {
    "done called declined": Told(0, DECLINED),
    "done called not sent": Told(2, NOT_SENT),
    "not done called succeeded": Told(3, SUCCEEDED),
    "not done called succeeded with a reference": Told(4, SUCCEEDED, "T4-01"),
    "the reference of another": Told(0, SUCCEEDED, "T2-01"),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_a_lie_is_noticed_wherever_it_is_told(lie: Told) -> None:
    lied = _with(lie)(TOLD)
    assert _kinds(kept=lied) == {Wrong.REPORTED}
    assert _kinds(told=lied) == {Wrong.REPORTED}
    assert _kinds(kept=lied, told=lied) == {Wrong.REPORTED}


def test_a_report_that_is_not_what_was_kept_is_noticed() -> None:
    assert _kinds(told=_with(Told(0, SUCCEEDED))(TOLD)) == {Wrong.REPORTED}
    assert _kinds(told=_with(Told(4, UNKNOWN))(TOLD)) == {Wrong.REPORTED}


@pytest.mark.parametrize(
    "earlier", [Told(2, SUCCEEDED, "T2-01"), Told(3, DECLINED), Told(0, SUCCEEDED, "T0-02")]
)
def test_what_was_final_must_stay(earlier: Told) -> None:
    assert _kinds(earlier=[earlier]) == {Wrong.REPORTED}

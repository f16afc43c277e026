"""What the support of the tests promises."""

from typing import Any

import attrs
import pytest

from tests.support.books import DECLINED, NOT_SENT, SUCCEEDED, UNKNOWN, Books, Told, Wrong, judge
from tests.support.processes import missing


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail), ("", pytest.skip)])
def test_without_a_server_a_test_is_skipped_but_fails_in_ci(
    ci: str, outcome: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome.Exception, match="no Chromium"):
        missing("no Chromium")


# The verdict complains where there is something to complain about

BOOKS = Books(done=(1, 0, 1, 0, 0), references={0: ("T0-01",), 2: ("T2-01",)})
TOLD = [
    Told(0, SUCCEEDED, "T0-01"),
    *(Told(1, DECLINED), Told(2, UNKNOWN), Told(3, UNKNOWN), Told(4, NOT_SENT)),
]
TRUE = [TOLD[0], TOLD[1], Told(4, UNKNOWN), Told(1, NOT_SENT)]
LOST: tuple[list[Told], ...] = (TOLD[:-1], [*TOLD, TOLD[2]], [*TOLD, Told(5, UNKNOWN)])
LIES = (Told(0, DECLINED), Told(2, NOT_SENT), Told(3, SUCCEEDED), Told(0, SUCCEEDED, "T2-01"))
NOT_KEPT_EARLIER = (Told(3, DECLINED), Told(0, SUCCEEDED, "T0-02"))


def _with(told: Told) -> list[Told]:
    return [told if one.index == told.index else one for one in TOLD]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, set()),
        ({"earlier": TRUE}, set()),
        ({"books": attrs.evolve(BOOKS, done=(1, 0, 2, 0, 0))}, {Wrong.DOUBLED}),
        ({"books": attrs.evolve(BOOKS, again=frozenset({2}))}, {Wrong.DOUBLED}),
        ({"in_flight": 1}, {Wrong.LOST}),
        *(({where: lost}, {Wrong.LOST}) for lost in LOST for where in ("kept", "told")),
        *(({"kept": _with(lie), "told": _with(lie)}, {Wrong.REPORTED}) for lie in LIES),
        ({"told": _with(Told(4, UNKNOWN))}, {Wrong.REPORTED}),
        *(({"earlier": [told]}, {Wrong.REPORTED}) for told in NOT_KEPT_EARLIER),
    ],
)
def test_only_what_is_wrong_is_noticed(given: dict[str, Any], wrong: set[Wrong]) -> None:
    given = {"books": BOOKS, "kept": TOLD, "told": TOLD, **given}
    assert {kind for kind, _ in judge(**given)} == wrong

"""The verdict complains where there is something to complain about."""

from typing import Any

import attrs
import pytest

from tests.support.books import (
    DECLINED,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    Books,
    Told,
    Wrong,
    judge,
)

BOOKS = Books(done=(1, 0, 1, 0, 0), references={0: ("T0-01",), 2: ("T2-01",)})
TOLD = [
    Told(0, SUCCEEDED, "T0-01"),
    *(Told(1, DECLINED), Told(2, UNKNOWN), Told(3, UNKNOWN), Told(4, NOT_SENT)),
]
TRUE = [TOLD[0], TOLD[1], Told(4, UNKNOWN), Told(1, NOT_SENT)]
LOST: tuple[list[Told], ...] = ([], TOLD[:-1], [*TOLD, TOLD[2]], [*TOLD, Told(5, UNKNOWN)])
LIES = (
    *(Told(0, DECLINED), Told(2, NOT_SENT), Told(3, SUCCEEDED)),
    *(Told(4, SUCCEEDED, "T4-01"), Told(0, SUCCEEDED, "T2-01")),
)
NOT_KEPT = (*LIES, Told(0, SUCCEEDED), Told(4, UNKNOWN))
NOT_KEPT_EARLIER = (Told(2, SUCCEEDED, "T2-01"), Told(3, DECLINED), Told(0, SUCCEEDED, "T0-02"))


def _with(told: Told) -> list[Told]:
    return [told if one.index == told.index else one for one in TOLD]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({}, set()),
        ({"earlier": TRUE}, set()),
        ({"books": attrs.evolve(BOOKS, done=(1, 0, 2, 0, 0))}, {Wrong.DOUBLED}),
        ({"books": attrs.evolve(BOOKS, again=frozenset({2}))}, {Wrong.DOUBLED}),
        ({"books": attrs.evolve(BOOKS, done=(2, 0, 1, 0, 0))}, {Wrong.DOUBLED, Wrong.REPORTED}),
        ({"in_flight": 1}, {Wrong.LOST}),
        *(({where: lost}, {Wrong.LOST}) for lost in LOST for where in ("kept", "told")),
        *(({"kept": _with(lie)}, {Wrong.REPORTED}) for lie in LIES),
        *(({"kept": _with(lie), "told": _with(lie)}, {Wrong.REPORTED}) for lie in LIES),
        *(({"told": _with(lie)}, {Wrong.REPORTED}) for lie in NOT_KEPT),
        *(({"earlier": [told]}, {Wrong.REPORTED}) for told in NOT_KEPT_EARLIER),
    ],
)
def test_what_is_wrong_is_noticed_and_nothing_else(
    given: dict[str, Any], wrong: set[Wrong]
) -> None:
    given = {"books": BOOKS, "kept": TOLD, "told": TOLD, **given}
    assert {kind for kind, _ in judge(**given)} == wrong

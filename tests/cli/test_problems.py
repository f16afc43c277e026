from collections.abc import Iterable

import pytest

from gateway_async.cli.tables import KEPT_PROBLEMS, SHOWN_PROBLEMS, Problem, TableError


def same(lines: Iterable[int]) -> TableError:
    return TableError(Problem(line=line, column="status", reason="empty") for line in lines)


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([2], "line 2"),
        ([2, 3], "lines 2 to 3"),
        (range(2, 122), "lines 2 to 121"),
        ([2, 3, 5], "line 2 and 2 more"),
    ],
)
def test_what_is_wrong_for_one_reason_is_said_once(lines: Iterable[int], place: str) -> None:
    error = same(lines)
    assert str(error).splitlines()[1:] == [f"{place}, column status: empty"]
    assert error.count == len([*lines])


def test_another_column_or_reason_is_said_beside_it() -> None:
    error = TableError(
        Problem(line=row, column=column, reason=reason)
        for row in (1, 2)
        for column, reason in (("a", "empty"), ("a", "long"), ("b", "empty"))
    )
    assert str(error).splitlines() == [
        "6 problems, nothing was sent",
        "lines 1 to 2, column a: empty",
        "lines 1 to 2, column a: long",
        "lines 1 to 2, column b: empty",
    ]


def test_all_are_counted_beyond_those_that_are_kept() -> None:
    beyond = 5
    error = TableError(
        Problem(line=line, reason=reason)
        for line in range(KEPT_PROBLEMS + beyond)
        for reason in (f"bad {line}", "bad")
    )
    lines = str(error).splitlines()
    assert len(error.problems) == KEPT_PROBLEMS
    assert lines[0] == f"{2 * (KEPT_PROBLEMS + beyond):,} problems, nothing was sent"
    assert lines[2] == f"lines 0 to {KEPT_PROBLEMS + beyond - 1}: bad"
    shown = SHOWN_PROBLEMS - 1 + KEPT_PROBLEMS + beyond
    assert lines[-1] == f"... and {error.count - shown:,} more"

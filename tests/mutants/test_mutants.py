"""The mutants fit the library as it is; `nox -s mutants` shows that each is caught."""

import ast
from pathlib import Path

import pytest

from tests.mutants.mutant import MUTANTS, PACKAGE, ROOT, SEEDS, Mutant

SOURCE = """
def send(order, sent):
    if sent and order.amount > limit() or order.is_new(limit()):
        return None
    return post(order, again=True)
"""


def test_every_mutant_applies() -> None:
    wrong = []
    for mutant in MUTANTS:
        try:
            mutant.apply(ROOT / PACKAGE)
        except ValueError as error:
            wrong.append(str(error))
    assert wrong == []


def test_every_guard_exists() -> None:
    guards = {path for mutant in MUTANTS if mutant.guard != SEEDS for path in mutant.guard.split()}
    assert not [path for path in guards if not (ROOT / path).is_file()]


def _apply(package: Path, place: str, part: str, names: str, by: str) -> str:
    (package / "sending.py").write_text(SOURCE)
    mutant = Mutant("a rule", place, part, tuple(names.split()), by, SEEDS)
    return ast.unparse(mutant.apply(package)[1])


@pytest.mark.parametrize(
    ("part", "names", "by", "expected"),
    [
        ("condition", "amount", "False", "if False:"),
        ("operand", "is_new", "", "if sent and order.amount > limit():"),
        ("statement", "post", "pass", "    pass"),
        ("statement", "None", "return order", "return order"),
        ("keyword", "again", "False", "again=False"),
        ("keyword", "again", "", "post(order)"),
    ],
)
def test_a_part_is_replaced(part: str, names: str, by: str, expected: str, tmp_path: Path) -> None:
    for place in ("sending:send", "moved:send", "send"):  # the name alone finds it too
        assert expected in _apply(tmp_path, place, part, names, by)


@pytest.mark.parametrize(
    ("place", "part", "names", "by", "reason"),
    [
        ("sending:gone", "condition", "sent", "False", "is there 0 times"),
        ("sending:send", "condition", "revoked", "False", "and has: none"),
        ("sending:send", "operand", "order limit", "0", "and has: sent and order.amount"),
        ("sending:send", "condition", "sent", "revoked", "does not know revoked"),
        ("sending:send", "keyword", "again", "True", "is the same without it"),
    ],
)
def test_a_mutant_that_does_not_apply_fails(  # a table's columns
    place: str, part: str, names: str, by: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=reason):
        _apply(tmp_path, place, part, names, by)

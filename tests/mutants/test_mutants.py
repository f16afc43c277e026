"""The mutants fit the library as it is; `nox -s mutants` shows that each is caught."""

import ast

import pytest

from tests.mutants.__main__ import ROOT
from tests.mutants.table import MUTANTS, SEEDS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
def test_every_mutant_applies(mutant: Mutant) -> None:
    source = (ROOT / "gateway_async" / mutant.path).read_text()
    changed = mutant.apply(source)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_every_guard_exists() -> None:
    guards = {path for mutant in MUTANTS if mutant.guard != SEEDS for path in mutant.guard.split()}
    assert not [path for path in guards if not (ROOT / path).is_file()]


def test_every_rule_is_named_once() -> None:
    assert len({mutant.rule for mutant in MUTANTS}) == len(MUTANTS)

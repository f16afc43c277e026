"""The mutants fit the library as it is; `nox -s mutants` shows that each is caught."""

from tests.mutants.mutant import MUTANTS, PACKAGE, ROOT, SEEDS


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

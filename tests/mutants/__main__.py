"""Take the rules out one by one, and see that each is missed: ``python -m tests.mutants``."""

import argparse
import ast
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.mutants.mutant import MUTANTS, PACKAGE, ROOT, SEEDS, Mutant

_COPIED = (PACKAGE, "tests", "pyproject.toml", "README.md", "docs")
_SEEDS = ("-m", "tests.simulation", "--seeds", "1000", "--most", "1")
_TESTS = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")
_LONGEST_SECONDS = 300
_PASSED, _FAILED = 0, 1


class Verdict(StrEnum):
    """What came of one check."""

    MISSED = "the rule was missed"
    TIMEOUT = "timeout: without the rule, the check did not end"
    SURVIVED = "NOT MISSED"
    BROKEN = "THE CHECK DID NOT RUN"


def check(project: Path, guard: str, mutant: Mutant | None = None) -> Verdict:
    """Run a guard over a copy of the project, with or without a rule."""
    arguments = _SEEDS if guard == SEEDS else (*_TESTS, *guard.split())
    with TemporaryDirectory() as folder:
        copy = Path(folder)
        _copy(project, copy)
        try:
            if mutant is not None:
                path, tree = mutant.apply(copy / PACKAGE)
                path.write_text(ast.unparse(tree))
            done = subprocess.run(  # noqa: S603  # this very interpreter
                (sys.executable, *arguments),
                cwd=copy,  # whose package comes first
                env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
                capture_output=True,
                text=True,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return Verdict.BROKEN
        except subprocess.TimeoutExpired:
            return Verdict.TIMEOUT
    if done.returncode == _PASSED:
        return Verdict.SURVIVED
    # What cannot be collected ends with another status; an error is one of a fixture's end.
    has_run = done.stdout.rstrip().endswith("problems") or " failed" in done.stdout
    has_run = has_run or " error in " in done.stdout
    if done.returncode == _FAILED and has_run:
        return Verdict.MISSED
    sys.stderr.write(done.stdout + done.stderr)
    return Verdict.BROKEN


def _copy(project: Path, target: Path) -> None:
    for name in _COPIED:
        if (project / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(project / name, target / name, ignore=ignored)
        else:
            shutil.copy(project / name, target / name)


def main() -> int:
    """Run every guard with all rules in place, then with each rule taken out.

    Return exit code 1 where a rule is not missed, or a check fails without reason.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", help="only rules whose text, place or guard has all")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    options = parser.parse_args()
    mutants = [
        one
        for one in MUTANTS
        if all(word in f"{one.rule} {one.place} {one.guard}" for word in options.words)
    ]
    guards, problems = sorted({one.guard for one in mutants}), 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        project = Path(folder)  # as it is now, whatever is edited meanwhile
        _copy(ROOT, project)
        for guard, verdict in zip(guards, pool.map(check, repeat(project), guards), strict=True):
            if verdict is not Verdict.SURVIVED:
                sys.stdout.write(f"fails with every rule in place: {guard}\n")
                problems += 1
        verdicts = pool.map(check, repeat(project), [one.guard for one in mutants], mutants)
        for mutant, verdict in zip(mutants, verdicts, strict=True):
            sys.stdout.write(f"{verdict}: {mutant.rule} ({mutant.guard})\n")
            sys.stdout.flush()
            problems += verdict not in {Verdict.MISSED, Verdict.TIMEOUT}
    sys.stdout.write(f"{len(mutants)} rules taken out, {problems or 'no'} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

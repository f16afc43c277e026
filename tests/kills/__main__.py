"""Run kills: ``python -m tests.kills --runs 100 --start 0 --jobs 2 --database both``."""

import argparse
import itertools
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

from tests.kills.driver import DATABASES, Tally, run_part, split
from tests.kills.plans import FrozenPlan, Plan
from tests.support.books import Wrong

_ENOUGH = 25
"""So many runs reach every step."""


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes beside each other")
    parser.add_argument("--database", default="both", choices=("both", *DATABASES))
    parser.add_argument("--frozen", action="store_true", help="freeze processes, and kill none")
    options = parser.parse_args()
    make_plan = FrozenPlan if options.frozen else Plan
    tally, failures = Tally(), list[str]()
    seeds = range(options.start, options.start + options.runs)
    parts = [seeds[number :: options.jobs] for number in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        given = itertools.repeat(options.database), itertools.repeat(make_plan)
        for counted, failed in pool.map(run_part, parts, *given):
            tally.update(counted)
            failures += failed
    tally, wrong_steps = split(tally)
    failures += wrong_steps if options.runs >= _ENOUGH and not options.frozen else []
    wrong = "/".join(str(tally[kind]) for kind in Wrong)
    counts = ", ".join(f"{count} {name}" for name, count in tally.items())
    last = f"doubled/lost/wrongly reported: {wrong}; failed runs: {tally['failed']}"
    sys.stdout.write("\n".join([*failures, counts, last, ""]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

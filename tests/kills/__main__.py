"""Run kills: ``python -m tests.kills --runs 100 --start 0 --jobs 2 --database both``."""

import argparse
import functools
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.kills.driver import DATABASES, run_seeds
from tests.kills.plans import STEPS
from tests.support.books import Wrong


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes beside each other")
    parser.add_argument("--database", default="both", choices=("both", *DATABASES))
    options = parser.parse_args()
    tally, failures = Counter[str](), list[str]()
    seeds = range(options.start, options.start + options.runs)
    parts = [seeds[number :: options.jobs] for number in range(options.jobs)]
    run = functools.partial(run_seeds, database=options.database)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for counted, failed in pool.map(run, parts):
            tally.update(counted)
            failures += failed
    wrong = "/".join(str(tally[kind]) for kind in Wrong)
    counts = ", ".join(f"{count} {name}" for name, count in tally.items() if name not in STEPS)
    last = f"doubled/lost/wrongly reported: {wrong}; failed runs: {tally['failed']}"
    sys.stdout.write("\n".join([*failures, counts, last, ""]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Run kills: ``python -m tests.kills --runs 100 --start 0 --jobs 2 --database both``."""

import argparse
import itertools
import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.kills.driver import DATABASES, Tally, run_part
from tests.support.books import Wrong


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes beside each other")
    parser.add_argument("--database", default="both", choices=("both", *DATABASES))
    options = parser.parse_args()
    tally = Tally()
    seeds = range(options.start, options.start + options.runs)
    parts = [seeds[number :: options.jobs] for number in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        for one in pool.map(run_part, parts, itertools.repeat(options.database)):
            tally.merge(one)
    wrong = "/".join(str(tally.problems[kind]) for kind in Wrong)
    lines = [
        *tally.failures,
        f"{_listed(tally.counts)}",
        f"killed at: {_listed(tally.deaths)}",
        f"orders: {_listed(tally.statuses)}; in the journal: {_listed(tally.states)}",
        f"doubled/lost/wrongly reported: {wrong}; failed runs: {tally.problems['failed']}",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())

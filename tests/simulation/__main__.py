"""Run seeds: ``python -m tests.simulation --seeds 1000 --start 0 --jobs 2``."""

import argparse
import gc
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.checks import find_problems
from tests.simulation.running import run

_AT_ONCE = 50


def run_seeds(seeds: Iterable[int]) -> list[str]:
    """Run some seeds, and return what went wrong, with the command that shows it again."""
    gc.disable()
    try:
        stories = [run(seed) for seed in seeds]
    finally:
        gc.enable()
    gc.collect()  # what was dropped and never awaited or retrieved is noticed here
    again = "    again: python -m tests.simulation --seeds 1 --trace --start"
    return [
        f"{problem}\n{again} {story.scenario.seed}"
        for story in stories
        for problem in find_problems(story)
    ]


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--most", type=int, default=10, help="stop after so many problems")
    parser.add_argument("--trace", action="store_true", help="print what happened")
    options = parser.parse_args()
    seeds, found = range(options.start, options.start + options.seeds), 0
    for story in map(run, seeds if options.trace else ()):
        sys.stdout.write("\n".join([str(story.scenario), *story.network.trace, ""]))
    parts = [seeds[first : first + _AT_ONCE] for first in range(0, len(seeds), _AT_ONCE)]
    with ProcessPoolExecutor(options.jobs) as pool:
        for problems in pool.map(run_seeds, parts):
            found += len(problems)
            sys.stdout.writelines(f"{problem}\n" for problem in problems)
            if found >= options.most:
                pool.shutdown(cancel_futures=True)
                break
    sys.stdout.write(f"{options.seeds} seeds from {options.start}: {found or 'no'} problems\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Where does the time of a refund batch go?

Run as ``python -m benchmarks.hot_spots SIDE``, SIDE being a function of `benchmarks.refund_batch`.
It prints the functions with the most CPU time of their own, as cProfile tells it: of several runs
the least, since other processes only add. Profiling makes functions that are called often look
large: it takes about a microsecond a call.
"""

import asyncio
import cProfile
import pstats
import re
import sys
import time

from benchmarks import refund_batch
from benchmarks.replies import ORDERS
from benchmarks.stub import stub

RUNS = 5
SHOWN = 25
NONE = (0.0, 0.0)


def own_times(side: str, url: str) -> dict[str, tuple[float, float]]:
    """Return each function's own time in µs an order, and its calls an order, in one run."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(asyncio.run, getattr(refund_batch, side)(url))
    orders = refund_batch.REQUESTS * ORDERS
    return {
        named(*place): (own / orders * 1e6, calls / orders)
        for place, (_, calls, own, _, _) in pstats.Stats(profile).stats.items()  # type: ignore[attr-defined]  # typeshed lacks it
    }


def named(path: str, _: int, function: str) -> str:
    """Name a function by the module that it stands in, wherever that is installed."""
    short = re.sub(
        r".*/(?:site-packages|lib/python[\d.]+|(?=gateway_async/|benchmarks/))", "", path
    )
    return f"{short.removeprefix('/')} {function}".removeprefix("~ ")


def least(runs: list[dict[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """Return the least of several runs, function by function."""
    return {name: min(run.get(name, NONE) for run in runs) for name in runs[0]}


def main() -> None:
    """Print a table."""
    side = sys.argv[1] if sys.argv[1:] else "awaited"
    with stub() as url:
        times = least([own_times(side, url) for _ in range(RUNS)])
    total = sum(own for own, _ in times.values())
    print(f"{side}: own time in µs an order, its share, calls an order")
    for name, (own, calls) in sorted(times.items(), key=lambda one: -one[1][0])[:SHOWN]:
        print(f"{own:7.3f} {own / total:6.1%} {calls:7.2f}  {name}")
    print(f"{total:7.3f} {1:6.1%}          all, profiling included")


if __name__ == "__main__":
    main()

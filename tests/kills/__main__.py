"""Run kills: ``python -m tests.kills --runs 100 --start 0 --jobs 2 --database both``."""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from tests.kills.driver import DATABASES, ROOT, Tally, Urls, journals, run_plan
from tests.kills.plans import draw
from tests.kills.verdict import Wrong
from tests.nursery import Nursery

_TOGETHER = 10
_LOADED_LATE = (
    *("gateway_async.jobs", "gateway_async.recovery", "gateway_async.journal.submit"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"),
)


def summary(tally: Tally, seconds: float) -> str:
    """Say it all in some lines."""
    count, share = tally.counts, tally.counts["faulty"] / max(1, tally.counts["requests"])
    wrong = "/".join(f"{tally.problems[str(kind)]}" for kind in Wrong)
    lines = [
        *tally.failures,
        f"{count['runs']} runs, {count['kills']} kills, {count['ousted']} leases lost or taken",
        *(f"  {times:5} {kind}" for kind, times in sorted(tally.deaths.items())),
        f"{count['requests']} requests with money, {share:.0%} of them with a fault",
        f"orders: {_listed(tally.statuses)}; in the journal: {_listed(tally.states)}",
        f"doubled/lost/wrongly reported: {wrong}",
        f"failed runs: {tally.problems['failed']}, {seconds:.1f} seconds",
    ]
    return "\n".join(lines) + "\n"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


async def run_seeds(seeds: Iterable[int], database: str) -> Tally:
    """Carry runs out, some at a time, since they wait for leases most of it."""
    tally, left = Tally(), iter(seeds)

    async def work(urls: dict[str, Urls], nursery: Nursery, folder: Path) -> None:
        for seed in left:
            which = DATABASES[seed % 2] if database == "both" else database
            tally.merge(await run_plan(draw(seed), nursery, urls[which], folder))

    with TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        wanted = DATABASES if database == "both" else (database,)
        urls = {kind: stack.enter_context(journals(kind, Path(name))) for kind in wanted}
        nursery = stack.enter_context(Nursery("tests.kills.worker:main", *_LOADED_LATE))
        async with asyncio.TaskGroup() as group:
            for _ in range(_TOGETHER):
                group.create_task(work(urls, nursery, Path(name)))
    return tally


def _run_in_processes(options: argparse.Namespace) -> Tally:
    """Share the runs out to processes like this one."""
    tally, each = Tally(), -(-options.runs // options.jobs)
    starts = range(options.start, options.start + options.runs, each)
    last = options.start + options.runs
    processes = [
        subprocess.Popen(  # noqa: S603  # this very interpreter
            (
                *(sys.executable, "-m", "tests.kills", "--json", "--database", options.database),
                *("--start", str(start), "--runs", str(min(each, last - start))),
            ),
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )
        for start in starts
    ]
    for process in processes:
        said, _ = process.communicate()
        tally.merge(Tally(**json.loads(said)))
    return tally


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes beside each other")
    parser.add_argument("--database", default="both", choices=("both", *DATABASES))
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    began = time.monotonic()
    if options.jobs > 1:
        tally = _run_in_processes(options)
    else:
        seeds = range(options.start, options.start + options.runs)
        tally = asyncio.run(run_seeds(seeds, options.database))
    told = json.dumps(attrs.asdict(tally)) if options.json else None
    sys.stdout.write(told or summary(tally, time.monotonic() - began))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())

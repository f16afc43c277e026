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

from tests.kills.databases import DATABASES, Urls, journals
from tests.kills.driver import ROOT, Story, run_plan
from tests.kills.plans import draw
from tests.kills.verdict import Wrong
from tests.nursery import Nursery

_TOGETHER = 10
_LOADED_LATE = (
    *("gateway_async.jobs", "gateway_async.recovery", "gateway_async.journal.submit"),
    *("sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql.psycopg"),
)
_LONGEST_STORY = 3000


@attrs.define
class Tally:
    """What came of a number of runs.

    Attributes:
        counts: Runs, kills, processes ousted, requests that move money, and faulty ones.
        deaths: Kills by the kind of step.
        statuses: Orders by what became of them.
        states: Orders by how the journal calls that.
        problems: Problems by kind.
        failures: What to show of runs with a problem.
    """

    counts: Counter[str] = attrs.field(factory=Counter)
    deaths: Counter[str] = attrs.field(factory=Counter)
    statuses: Counter[str] = attrs.field(factory=Counter)
    states: Counter[str] = attrs.field(factory=Counter)
    problems: Counter[str] = attrs.field(factory=Counter)
    failures: list[str] = attrs.field(factory=list)

    def add(self, story: Story, database: str) -> None:
        """Count one run."""
        self.counts.update(
            runs=1,
            kills=len(story.deaths),
            ousted=story.ousted,
            requests=story.requests,
            faulty=story.faulty,
        )
        self.deaths.update(story.deaths)
        self.statuses.update(story.statuses)
        self.states.update(story.states)
        self.problems.update(str(kind) for kind, _ in story.problems)
        if story.problems:
            self.failures.append(_failure(story, database))

    def merge(self, other: "Tally") -> None:
        """Count what another process counted."""
        for name in ("counts", "deaths", "statuses", "states", "problems"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures

    def summary(self, seconds: float) -> str:
        """Say it all in some lines."""
        count, share = self.counts, self.counts["faulty"] / max(1, self.counts["requests"])
        wrong = "/".join(f"{self.problems[str(kind)]}" for kind in Wrong)
        lines = [
            *self.failures,
            f"{count['runs']} runs, {count['kills']} kills, {count['ousted']} leases lost or taken",
            *(f"  {times:5} {kind}" for kind, times in sorted(self.deaths.items())),
            f"{count['requests']} requests with money, {share:.0%} of them with a fault",
            f"orders: {_listed(self.statuses)}; in the journal: {_listed(self.states)}",
            f"doubled/lost/wrongly reported: {wrong}",
            f"failed runs: {self.problems['failed']}, {seconds:.1f} seconds",
        ]
        return "\n".join(lines) + "\n"


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _failure(story: Story, database: str) -> str:
    told = "\n".join(f"  {kind}: {text}" for kind, text in story.problems)[:_LONGEST_STORY]
    again = f"python -m tests.kills --runs 1 --start {story.plan.seed} --database {database}"
    return f"{story.plan}\n  deaths: {story.deaths}\n{told}\n  again: {again}"


def database_of(seed: int, wanted: str) -> str:
    """Return which database a run uses."""
    return DATABASES[seed % 2] if wanted == "both" else wanted


async def run_seeds(seeds: Iterable[int], database: str) -> Tally:
    """Carry runs out, some at a time, since they wait for leases most of it."""
    tally, left = Tally(), iter(seeds)

    async def work(urls: dict[str, Urls], nursery: Nursery, folder: Path) -> None:
        for seed in left:
            which = database_of(seed, database)
            tally.add(await run_plan(draw(seed), nursery, urls[which], folder), which)

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
    sys.stdout.write(told or tally.summary(time.monotonic() - began))
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Carries runs out: a sandbox here, and in other processes the workers that die and start again."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from gateway_async import OutcomeStatus
from gateway_async.journal import JobState, Journal
from tests import nursery
from tests.kills.gateway import Gateway, make_gateway
from tests.kills.plans import Kill, Plan, draw
from tests.kills.worker import DONE, OUSTED, main
from tests.postgres import postgres_url
from tests.support.books import Told, Wrong, judge, told_of
from tests.support.processes import ROOT, write_start

DATABASES = ("sqlite", "postgresql")
KILLED = -9

_MOST_OUSTED = 20
_TOGETHER = 10
_TURNS_TO_READ = 30
_LONGEST_STORY = 3000


@attrs.define
class Tally:
    """What came of one run, or of several."""

    counts: Counter[str] = attrs.field(factory=Counter)
    deaths: Counter[str] = attrs.field(factory=Counter)  # by the kind of step
    statuses: Counter[str] = attrs.field(factory=Counter)  # of orders, as the last process said
    states: Counter[str] = attrs.field(factory=Counter)  # the same, as the journal calls it
    problems: Counter[str] = attrs.field(factory=Counter)
    failures: list[str] = attrs.field(factory=list)  # what to show of runs with a problem

    def merge(self, other: "Tally") -> None:
        """Count what another run, or another process, counted."""
        for name in ("counts", "deaths", "statuses", "states", "problems"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures


@attrs.define(kw_only=True)
class Running:
    """A run under way."""

    plan: Plan
    gateway: Gateway
    url: str
    folder: Path
    ousted: int = attrs.field(default=0, init=False)
    told: list[list[Told]] = attrs.field(factory=list, init=False)  # by each process
    deaths: list[str] = attrs.field(factory=list, init=False)  # at which step; "" if at none

    async def complete(self) -> Tally:
        """Run it to its end and judge it."""
        failure = ""
        for kill in (*self.plan.kills, None):
            failure = await self._live(kill)
            if failure or not self.deaths[-1]:
                break
        if self.plan.again and not failure:
            failure = await self._live(None)
        tally = Tally(deaths=Counter(filter(None, self.deaths)))
        problems = [("failed", failure)] if failure else await self._judge(tally)
        tally.counts.update(
            runs=1,
            kills=tally.deaths.total(),
            ousted=self.ousted,
            requests=self.gateway.sandbox.requests[self.plan.operation],
            faults=self.gateway.sandbox.faults.struck.total(),
        )
        tally.statuses.update(str(one.status) for one in self.told[-1])
        tally.problems.update(kind for kind, _ in problems)
        if problems:
            said = "\n".join(f"  {kind}: {text}" for kind, text in problems)[:_LONGEST_STORY]
            database = self.url.partition(":")[0]
            again = f"python -m tests.kills --runs 1 --start {self.plan.seed} --database {database}"
            tally.failures.append(f"{self.plan}\n{self.deaths}\n{said}\n  again: {again}")
        return tally

    async def _live(self, kill: Kill | None) -> str:
        """Run one process until it dies or is done, and return what went wrong."""
        status: int | None = OUSTED
        said = ""
        for _ in range(_MOST_OUSTED):
            status, said = await self._run_process(kill)
            if status != OUSTED:
                break
            self.ousted += 1
        for _ in range(_TURNS_TO_READ):  # all that was sent is read before anybody starts anew
            await asyncio.sleep(0)
        number = len(self.told)
        if status not in (DONE, KILLED) or said:
            return f"process {number} ended with {status}: {said}"
        if (status == KILLED) is not bool(self.deaths[-1]):
            return f"process {number} was killed by somebody else"
        return ""

    async def _run_process(self, kill: Kill | None) -> tuple[int | None, str]:
        """Run a process to its end; return its exit status and what it complained about."""
        number = len(self.told)
        path = self.folder / f"{self.plan.seed}-{number}"
        report = path.with_suffix(".report")
        around = write_start(
            path,
            base_url=self.gateway.sandbox.base_url,
            secret=self.gateway.sandbox.secret,
            client=self.gateway.client,
            plan=self.plan,
            journal=self.url,
            job=f"run {self.plan.seed}",
            orders=self.gateway.orders,
            kill=kill,
            report=str(report),
            resume=number > 0 and self.plan.resumes[number % 8],
        )
        process = await nursery.start(main, env=around, cwd=ROOT)
        _, errors = await process.communicate()
        self._read(report)
        return process.returncode, errors.decode()

    def _read(self, report: Path) -> None:
        """Read what a process wrote down."""
        lines = report.read_text().splitlines() if report.exists() else []
        self.told.append([])
        self.deaths.append("")
        for kind, *values in map(json.loads, lines):
            if kind == "outcome":
                index, status, reference = values
                self.told[-1].append(Told(index, OutcomeStatus(status), reference))
            elif kind == "killed":
                self.deaths[-1] = values[0]

    async def _judge(self, tally: Tally) -> list[tuple[str, str]]:
        """Return what is wrong, and count how many orders are in each state."""
        job = f"run {self.plan.seed}"
        async with Journal.open(self.url) as journal:
            kept = [told_of(outcome) async for outcome in journal.outcomes(job)]
            counts = (await journal.status(job)).counts
        tally.states = Counter({str(state): count for state, count in counts.items() if count})
        *before, last = self.told
        earlier = [one for told in before for one in told]
        in_flight = counts[JobState.INTENT]
        found = judge(self.gateway.books(), kept, last, earlier, in_flight=in_flight)
        unknown = sum(one.status is OutcomeStatus.UNKNOWN for one in kept)
        if unknown > counts[JobState.UNKNOWN] + counts[JobState.HELD]:
            text = f"{unknown} orders are unknown, and the journal knows of {counts}"
            found.append((Wrong.REPORTED, text))
        return [(str(kind), text) for kind, text in found]


async def run_seeds(seeds: Iterable[int], database: str) -> Tally:
    """Carry runs out, some at a time, since they wait for leases most of it."""
    tally, left = Tally(), iter(seeds)
    wanted = DATABASES if database == "both" else (database,)

    async def work(folder: Path, postgres: str) -> None:
        for seed in left:
            plan = draw(seed)
            on_file = wanted[seed % len(wanted)] == "sqlite"
            url = f"sqlite:///{folder / f'{seed}.db'}" if on_file else postgres
            gateway = make_gateway(plan)
            async with gateway.sandbox:
                running = Running(plan=plan, gateway=gateway, url=url, folder=folder)
                tally.merge(await running.complete())

    with TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        postgres = stack.enter_context(postgres_url()) if "postgresql" in wanted else ""
        async with asyncio.TaskGroup() as group:
            for _ in range(_TOGETHER):
                group.create_task(work(Path(name), postgres))
    return tally


def run_part(seeds: range, database: str) -> Tally:
    """Carry runs out in a process of a pool."""
    return asyncio.run(run_seeds(seeds, database))

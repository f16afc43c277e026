"""Carries runs out: a sandbox here, and in other processes the workers that die and start again."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from gateway_async import OutcomeStatus
from gateway_async.journal import JobState, Journal
from tests.kills.databases import Urls
from tests.kills.gateway import Gateway, make_gateway
from tests.kills.plans import Plan
from tests.kills.verdict import Told, Wrong, judge, reference_of
from tests.kills.worker import DONE, OUSTED
from tests.nursery import Forked, Nursery

ROOT = Path(__file__).parents[2]
KILLED = -9

_MOST_OUSTED = 20
_TURNS_TO_READ = 30


@attrs.frozen(kw_only=True)
class Story:
    """What happened in one run.

    Attributes:
        plan: The run.
        problems: What is wrong, by kind: doubled, lost, wrongly reported, or failed.
        deaths: At which kind of step each process died.
        ousted: How often a process lost its lease or found it taken.
        requests: Requests that move money.
        faulty: How many of them met a fault.
        statuses: What became of the orders, as the last process said.
        states: The same, as the journal calls it.
        steps: How many steps the last process took.
    """

    plan: Plan
    problems: tuple[tuple[str, str], ...]
    deaths: tuple[str, ...]
    ousted: int
    requests: int
    faulty: int
    statuses: Counter[str]
    states: Counter[str]
    steps: int


@attrs.define
class Report:
    """What one process wrote down.

    Attributes:
        told: The outcomes that it was told.
        killed: At which kind of step it died; empty text if it did not.
        steps: How many steps it took, if it came to its end.
    """

    told: list[Told]
    killed: str = ""
    steps: int = 0


@attrs.define(kw_only=True)
class Running:
    """A run under way.

    Attributes:
        plan: The run.
        gateway: Its sandbox.
        nursery: Where its processes come from.
        url: Its journal.
        folder: Where its files are.
    """

    plan: Plan
    gateway: Gateway
    nursery: Nursery
    url: str
    folder: Path
    started: int = attrs.field(default=0, init=False)
    ousted: int = attrs.field(default=0, init=False)
    reports: list[Report] = attrs.field(factory=list, init=False)

    @property
    def job(self) -> str:
        """The name of the job."""
        return f"run {self.plan.seed}"

    async def complete(self) -> Story:
        """Run it to its end and judge it."""
        failure = ""
        for kill in (*self.plan.kills, None):
            failure = await self._live(None if kill is None else attrs.asdict(kill))
            if failure or not self.reports[-1].killed:
                break
        if self.plan.again and not failure:
            failure = await self._live(None)
        problems, states = [("failed", failure)], Counter[str]()
        if not failure:
            problems, states = await self._judge()
        faults = self.gateway.faults
        return Story(
            plan=self.plan,
            problems=tuple(problems),
            deaths=tuple(report.killed for report in self.reports if report.killed),
            ousted=self.ousted,
            requests=faults.requests,
            faulty=faults.faulty,
            statuses=Counter(str(one.status) for one in self.reports[-1].told),
            states=states,
            steps=self.reports[-1].steps,
        )

    async def _live(self, kill: dict[str, Any] | None) -> str:
        """Run one process until it dies or is done, and return what went wrong."""
        status: int | None = OUSTED
        said = ""
        for _ in range(_MOST_OUSTED):
            path = self._write(kill)
            status, said = await self._start(path)
            self.reports.append(_read_report(path.with_suffix(".report")))
            self.ousted += status == OUSTED
            if status != OUSTED:
                break
        for _ in range(_TURNS_TO_READ):  # all that was sent is read before anybody starts anew
            await asyncio.sleep(0)
        if status not in (DONE, KILLED) or said:
            return f"process {self.started} ended with {status}: {said}"
        if (status == KILLED) is not bool(self.reports[-1].killed):
            return f"process {self.started} was killed by somebody else"
        return ""

    async def _start(self, path: Path) -> tuple[int | None, str]:
        """Run a worker to its end, and return its exit status and what it complained about."""
        process: Forked | asyncio.subprocess.Process
        if self.plan.fresh and self.started == 1:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-W", "error", "-m", "tests.kills.worker", str(path)),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        else:
            process = await self.nursery.start([str(path)], env=os.environ, cwd=ROOT)
        _, errors = await process.communicate()
        return process.returncode, errors.decode()

    def _write(self, kill: dict[str, Any] | None) -> Path:
        path = self.folder / f"{self.plan.seed}-{self.started}.json"
        start = {
            **self.plan.settings(),
            "base_url": self.gateway.sandbox.base_url,
            "secret": self.gateway.sandbox.secret,
            "journal": self.url,
            "job": self.job,
            "orders": self.gateway.orders,
            "kill": kill,
            "report": str(path.with_suffix(".report")),
            "resume": self.started > 0 and self.plan.resumes[self.started % 8],
        }
        path.write_text(json.dumps(start))
        self.started += 1
        return path

    async def _judge(self) -> tuple[list[tuple[str, str]], Counter[str]]:
        """Return what is wrong, and how many orders are in each state."""
        async with Journal.open(self.url) as journal:
            kept = [_told(outcome) async for outcome in journal.outcomes(self.job)]
            counts = (await journal.status(self.job)).counts
        *before, last = self.reports
        found = judge(
            self.gateway.books(),
            kept,
            last.told,
            [one for report in before for one in report.told],
            in_flight=counts[JobState.INTENT],
        )
        problems = [(str(problem.kind), problem.text) for problem in found]
        unknown = sum(one.status is OutcomeStatus.UNKNOWN for one in kept)
        if unknown > counts[JobState.UNKNOWN] + counts[JobState.HELD]:
            text = f"{unknown} orders are unknown, and the journal knows of {counts}"
            problems.append((str(Wrong.REPORTED), text))
        return problems, Counter({str(state): count for state, count in counts.items() if count})


async def run_plan(plan: Plan, nursery: Nursery, urls: Urls, folder: Path) -> Story:
    """Carry a run out, and judge it."""
    gateway = make_gateway(plan)
    async with gateway.sandbox:
        running = Running(
            plan=plan,
            gateway=gateway,
            nursery=nursery,
            url=urls(f"journal-{plan.seed}"),
            folder=folder,
        )
        return await running.complete()


def _told(outcome: Any) -> Told:
    return Told(outcome.index, outcome.status, reference_of(outcome))


def _read_report(path: Path) -> Report:
    report = Report([])
    for kind, *values in _lines(path):
        if kind == "outcome":
            index, status, reference = values
            report.told.append(Told(index, OutcomeStatus(status), reference))
        elif kind == "killed":
            report.killed = values[0]
        elif kind == "done":
            report.steps = sum(values[0].values())
    return report


def _lines(path: Path) -> Iterator[list[Any]]:
    return map(json.loads, _text_of(path).splitlines())


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""

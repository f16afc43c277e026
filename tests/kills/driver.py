"""Carries runs out: a sandbox here, and in other processes the workers that die and start again."""

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from gateway_async import OutcomeStatus
from gateway_async.journal import Journal, OrderState
from tests.kills.plans import STEPS, Gateway, Kill, Plan
from tests.kills.worker import BUSY, DONE, LOST, main
from tests.support import nursery
from tests.support.books import Told, Wrong, judge, told_of
from tests.support.postgres import postgres_url
from tests.support.processes import ROOT, write_start

DATABASES = ("sqlite", "postgresql")
_MOST_ATTEMPTS, _TURNS_TO_READ, _TOGETHER = 200, 30, 10
_LOOK_SECONDS = 0.01
_LONGEST_STORY = 3000


@attrs.define(kw_only=True)
class Running:
    plan: Plan
    gateway: Gateway
    url: str
    folder: Path
    told: list[list[Told]] = attrs.field(factory=list, init=False)  # by each process
    deaths: list[str] = attrs.field(factory=list, init=False)  # at which step; "" if at none
    reached: set[str] = attrs.field(factory=set, init=False)  # kinds of steps

    async def complete(self) -> tuple[Counter[str], str]:
        """Run it to its end; return what came of it, and what to show if anything is wrong."""
        failure = ""
        for kill in (*self.plan.kills, None):
            if kill is not None and kill.by is signal.SIGSTOP:
                failure = await self._freeze(kill)
            else:
                failure = await self._live(kill)
            if failure or not self.deaths[-1]:
                break
        if self.plan.again and not failure:
            failure = await self._live(None)
        sandbox = self.gateway.sandbox
        tally = Counter[str](
            runs=1,
            kills=sum(map(bool, self.deaths)),
            frozen=sum(kill.by is signal.SIGSTOP for kill in self.plan.kills),
            requests=sandbox.requests[self.plan.operation],
            faults=sandbox.faults.struck.total(),
        )
        tally.update(self.reached & STEPS.keys())
        problems = [("failed", failure)] if failure else await self._judge(tally)
        tally.update(kind for kind, _ in problems)
        said = "\n".join(f"  {kind}: {text}" for kind, text in problems)[:_LONGEST_STORY]
        again = f"python -m tests.kills --runs 1 --start {self.plan.seed} --database "
        again += self.url.partition(":")[0]
        return tally, f"{self.plan}\n{self.deaths}\n{said}\n  again: {again}" if problems else ""

    async def _live(self, kill: Kill | None) -> str:
        status: int | None = None
        said = ""
        for _ in range(_MOST_ATTEMPTS):
            status, said = await self._ended(await self._start(kill))
            if status not in (LOST, BUSY):
                break
        for _ in range(_TURNS_TO_READ):  # all that was sent is read before anybody starts anew
            await asyncio.sleep(0)
        number = len(self.told)
        if status not in (DONE, -signal.SIGKILL) or said:
            return f"process {number} ended with {status}: {said}"
        if (status == -signal.SIGKILL) is not bool(self.deaths[-1]):
            return f"process {number} was killed by somebody else"
        return ""

    async def _freeze(self, stop: Kill) -> str:
        """Freeze a process, let another end its job, and the frozen one go on."""
        for _ in range(_MOST_ATTEMPTS):
            started = process, number = await self._start(stop)
            while process.returncode is None and not self.deaths[number]:
                await asyncio.sleep(_LOOK_SECONDS)
                self._read(number)
            if process.returncode not in (LOST, BUSY):
                break
            await self._ended(started)
        try:
            failure = await self._live(None)
        finally:
            process.send_signal(signal.SIGCONT)
        while process.returncode is None:  # it may have been about to stop, still
            await asyncio.sleep(_LOOK_SECONDS)
            process.send_signal(signal.SIGCONT)
        status, said = await self._ended(started)
        if not failure and (status, said) != (LOST, ""):
            failure = f"process {number}, which was frozen, ended with {status}: {said}"
        if any(told.status is OutcomeStatus.NOT_SENT for told in self.told[number]):
            failure += f"process {number}, which was frozen, cannot know what was not sent"
        return failure

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.plan.seed}-{number}"

    async def _start(self, kill: Kill | None) -> tuple[nursery.Forked, int]:
        """Start a process; return it and its number."""
        number = len(self.told)
        self.told.append([])
        self.deaths.append("")
        around = write_start(
            self._path(number),
            base_url=self.gateway.sandbox.base_url,
            secret=self.gateway.sandbox.secret,
            client=self.gateway.client,
            plan=self.plan,
            journal=self.url,
            job=f"run {self.plan.seed}",
            orders=self.gateway.orders,
            kill=kill,
            report=str(self._path(number).with_suffix(".report")),
            resume=number > 0 and self.plan.resumes[number % 8],
        )
        return await nursery.start(main, env=around, cwd=ROOT), number

    async def _ended(self, started: tuple[nursery.Forked, int]) -> tuple[int | None, str]:
        """Wait for the end of a process; return its exit status and what it complained about."""
        process, number = started
        _, errors = await process.communicate()
        self._read(number)
        return process.returncode, errors.decode()

    def _read(self, number: int) -> None:
        report = self._path(number).with_suffix(".report")
        lines = report.read_text().splitlines() if report.exists() else []
        self.told[number] = []
        for kind, *values in map(json.loads, lines):
            if kind == "outcome":
                index, status, reference = values
                self.told[number].append(Told(index, OutcomeStatus(status), reference))
            elif kind == "killed":
                self.deaths[number] = values[0]
            elif kind == "reached":
                self.reached.add(values[0])

    async def _judge(self, tally: Counter[str]) -> list[tuple[str, str]]:
        """Return what is wrong, and count how many orders are in each state."""
        job = f"run {self.plan.seed}"
        async with Journal.open(self.url) as journal:
            kept = [told_of(outcome) async for outcome in journal.outcomes(job)]
            counts = (await journal.status(job)).counts
        *before, last = self.told
        tally.update(str(one.status) for one in last)
        tally["held"] += counts[OrderState.HELD]
        earlier = [one for told in before for one in told]
        in_flight = counts[OrderState.INTENT]
        found = judge(self.gateway.books(), kept, last, earlier, in_flight=in_flight)
        unknown = sum(one.status is OutcomeStatus.UNKNOWN for one in kept)
        if unknown > counts[OrderState.UNKNOWN] + counts[OrderState.HELD]:
            text = f"{unknown} orders are unknown, and the journal knows of {counts}"
            found.append((Wrong.REPORTED, text))
        return [(str(kind), text) for kind, text in found]


def run_seeds(seeds: Iterable[int], database: str) -> tuple[Counter[str], list[str]]:
    """Carry runs out, some at a time, since they wait for leases most of it.

    Return what came of them, counted under names such as "kills", "succeeded", "doubled" and those
    of the steps that were reached; and what to show of those with a problem.
    """
    tally, failures, left = Counter[str](), list[str](), iter(seeds)
    wanted = DATABASES if database == "both" else (database,)

    async def work(folder: Path, postgres: str) -> None:
        for seed in left:
            plan = Plan(seed)
            on_file = wanted[seed % len(wanted)] == "sqlite"
            url = f"sqlite:///{folder / f'{seed}.db'}" if on_file else postgres
            gateway = Gateway(plan)
            async with gateway.sandbox:
                running = Running(plan=plan, gateway=gateway, url=url, folder=folder)
                counted, failure = await running.complete()
                tally.update(counted)
                failures.extend(filter(None, [failure]))

    async def work_together(*given: Any) -> None:
        await asyncio.gather(*(work(*given) for _ in range(_TOGETHER)))

    with TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        postgres = stack.enter_context(postgres_url()) if "postgresql" in wanted else ""
        asyncio.run(work_together(Path(name), postgres))
    return tally, failures

"""Carries runs out: a sandbox here, and in other processes the workers that die and start again."""

import asyncio
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    Dialect,
    OutcomeStatus,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.dialect import PaymentState
from gateway_async.journal import Journal, OrderState
from gateway_async.sandbox import PaymentStatus, Sandbox, faults
from gateway_async.sandbox.records import CLOSED_ACCOUNT
from tests.kills.worker import BUSY, DONE, LOST, STEPS, Kill, Plan, main
from tests.support import nursery
from tests.support.books import Books, Told, Wrong, effects, judge, told_of
from tests.support.orders import LOOK_UPS, NEEDS, orders_for, payout_request
from tests.support.postgres import postgres_url
from tests.support.processes import ROOT, write_start

LATEST_SECONDS = 0.12
"""No effect lands later than this after its request was read, whatever strikes that together."""

_NOTHING_DONE_CODE, _NOTHING_DONE_STATUS = "9", 429
"""By which this gateway vouches that nothing was done."""

_DIALECT = Dialect(
    declined_statuses={"0"},
    payout_declined_statuses={"FAILED"},
    payment_states={
        "3000": PaymentState.CAPTURED,
        "4100": PaymentState.AUTHORISED,
        "4200": PaymentState.CANCELLED,
    },
    nothing_done_return_statuses={_NOTHING_DONE_CODE},
    nothing_done_http_statuses=frozenset({_NOTHING_DONE_STATUS}),
)
_CLOSED = Beneficiary(bank_details=BankDetails(account_number=CLOSED_ACCOUNT))
"""To this account no payout is made."""

_TAG = re.compile(r"o([0-9]+)$")
_MONEY_LIKELY, _LOOK_LIKELY = 0.07, 0.02
"""How likely each fault strikes a request: four of five that move money meet one or more."""

_MONEY: tuple[faults.Fault, ...] = (
    *(faults.DropReply(), faults.DropReply(), faults.ResetBeforeEffect()),
    *(faults.ResetAfterEffect(), faults.LateEffect(0.02), faults.LateEffect(0.06)),
    *(faults.Latency(0.02), faults.Latency(0.04)),
    *(faults.Status(503), faults.Status(503, after_effect=True), faults.HtmlErrorPage()),
    *(faults.Status(_NOTHING_DONE_STATUS), faults.CutReply(0.1), faults.CutReply(0.8)),
    *(faults.InvalidBody(), faults.ReturnStatus(), faults.ReturnStatus(after_effect=False)),
    faults.ReturnStatus(_NOTHING_DONE_CODE, after_effect=False),
)
_MONEY_IN_LISTS: tuple[faults.Fault, ...] = (
    *(faults.MissingItems(1), faults.MissingItems(3), faults.UnknownItemStatus(count=2)),
    *(faults.ChangedAmount(), faults.ChangedIdentity(), faults.DoubledItems(status="7")),
)
_LOOKS: tuple[faults.Fault, ...] = (
    *(faults.DropReply(), faults.ResetAfterEffect(), faults.Status(503), faults.InvalidBody()),
    *(faults.CutReply(0.5), faults.Latency(0.1), faults.MissingItems(2)),
    *(faults.EmptyLookUp(), faults.DoubledItems(), faults.ReorderedItems()),
    *(faults.IgnoreSelection(), faults.GzipReply()),
)


@attrs.frozen
class Gateway:
    """A sandbox, and the orders of the run that it serves."""

    sandbox: Sandbox
    plan: Plan
    orders: list[Any]

    @property
    def client(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "timeouts": Timeouts(connect_seconds=20, reply_seconds=20, total_seconds=30),
            "retry": RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.02),
            "policy": BatchPolicy(
                concurrency=4,
                chunk_size=plan.chunk_size,
                stop_after_unknown=1000,
                duplicates="serialize" if plan.shared else "reject",
            ),
            "recovery": RecoveryPolicy(
                settle_seconds=2 * LATEST_SECONDS,
                resend_absent=plan.resent,
                refund_evidence="marker" if plan.marked else "references",
            ),
            "dialect": _DIALECT,
        }

    def books(self) -> Books:
        """Read the books: what was done of each order, and how often."""
        ledger, operation = self.sandbox.ledger, self.plan.operation
        references: dict[int, list[str]] = {number: [] for number in range(len(self.orders))}
        if operation == "refund":
            for transaction in ledger:
                for refund in transaction.refunds:
                    found = _TAG.search(refund.reason)
                    references[int(found[1]) if found else -1].append(refund.refund_reference_id)
        elif operation == "payout":
            for number, order in enumerate(self.orders):
                paid = ledger.payouts_of(order.request_id)
                references[number] += [each.transaction_id for each in paid]
        else:
            done = effects(self.sandbox, self.orders, operation)
            asked = [ledger.transaction(order.transaction_id) for order in self.orders]
            again = (n for n, times in enumerate(done) if times and asked[n].refusals[operation])
            return Books(done=done, again=frozenset(again))
        return Books(done=[*map(len, references.values())], references=references)


def make_gateway(plan: Plan) -> Gateway:
    """Make a sandbox that holds what the orders of a run are about; it is not started."""
    sandbox = Sandbox(random_seed=plan.seed)
    for fault in (*_MONEY, *(() if plan.operation == "payout" else _MONEY_IN_LISTS)):
        sandbox.faults.add(plan.operation, attrs.evolve(fault, probability=_MONEY_LIKELY))
    for operation, fault in itertools.product(LOOK_UPS, _LOOKS):
        sandbox.faults.add(operation, attrs.evolve(fault, probability=_LOOK_LIKELY))
    if plan.operation == "payout":
        # Runs share a PostgreSQL, and a port may come back: no two have the same payouts.
        first = 100 * plan.seed
        orders: list[Any] = [payout_request(first + number) for number in range(plan.orders)]
        for number in range(plan.refused):
            orders[number] = attrs.evolve(orders[number], beneficiary=_CLOSED)
        return Gateway(sandbox, plan, orders)
    held = sandbox.seed(plan.orders, status=NEEDS.get(plan.operation, "captured"))
    for order in held[: plan.refused]:
        sandbox.ledger.transaction(order.transaction_id).status = PaymentStatus.DECLINED
    # Those of one transaction are equal but for their reason, and apart or side by side.
    for number in range(1, plan.shared + 1):
        held[-number] = held[plan.refused + number % 3]
    orders = orders_for(plan.operation, held)
    if plan.operation == "refund":
        orders = [
            attrs.evolve(order, refund_amount="2.00", refund_reason=f"o{number}")
            for number, order in enumerate(orders)
        ]
    return Gateway(sandbox, plan, orders)


KILLED = -9

_MOST_ATTEMPTS = 200
_TOGETHER = 10
_TURNS_TO_READ = 30
_LONGEST_STORY = 3000


Tally = Counter[str]
"""What came of runs, counted under names such as "kills", "succeeded" and "doubled"."""


@attrs.define(kw_only=True)
class Running:
    plan: Plan
    gateway: Gateway
    url: str
    folder: Path
    told: list[list[Told]] = attrs.field(factory=list, init=False)  # by each process
    deaths: list[str] = attrs.field(factory=list, init=False)  # at which step; "" if at none
    reached: set[str] = attrs.field(factory=set, init=False)  # kinds of steps

    async def complete(self) -> tuple[Tally, str]:
        """Run it to its end; return what came of it, and what to show if anything is wrong."""
        failure = ""
        for kill in (*self.plan.kills, None):
            failure = await self._live(kill)
            if failure or not self.deaths[-1]:
                break
        if self.plan.again and not failure:
            failure = await self._live(None)
        sandbox = self.gateway.sandbox
        tally = Tally(
            runs=1,
            kills=sum(map(bool, self.deaths)),
            requests=sandbox.requests[self.plan.operation],
            faults=sandbox.faults.struck.total(),
        )
        problems = [("failed", failure)] if failure else await self._judge(tally)
        tally.update(kind for kind, _ in problems)
        said = "\n".join(f"  {kind}: {text}" for kind, text in problems)[:_LONGEST_STORY]
        return tally, f"{self.plan}\n{self.deaths}\n{said}" if problems else ""

    async def _live(self, kill: Kill | None) -> str:
        status: int | None = None
        said = ""
        for _ in range(_MOST_ATTEMPTS):
            status, said = await self._ended(await self._start(kill))
            if status not in (LOST, BUSY):
                break
        for _ in range(_TURNS_TO_READ):  # all that was sent is read before anybody starts anew
            await asyncio.sleep(0)
        if status not in (DONE, KILLED) or said:
            return f"process {len(self.told)} ended with {status}: {said}"
        if (status == KILLED) is not bool(self.deaths[-1]):
            return f"process {len(self.told)} was killed by somebody else"
        return ""

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

    async def _judge(self, tally: Tally) -> list[tuple[str, str]]:
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


async def run_seeds(seeds: Iterable[int]) -> tuple[Tally, list[str]]:
    """Carry runs out, some at a time, since they wait for leases most of it.

    Each second one has a file for its journal, the others a database of PostgreSQL. Return what
    came of them, and what to show of those with a problem. Where a step that processes are to be
    killed at is never reached, what the journal says of itself was changed, and not `KILLED_AT`.
    """
    tally, failures, left, reached = Tally(), list[str](), iter(seeds), set[str]()

    async def work(folder: Path, postgres: str) -> None:
        for seed in left:
            plan = Plan(seed)
            url = postgres if seed % 2 else f"sqlite:///{folder / f'{seed}.db'}"
            gateway = make_gateway(plan)
            async with gateway.sandbox:
                running = Running(plan=plan, gateway=gateway, url=url, folder=folder)
                counted, failure = await running.complete()
                tally.update(counted)
                failures.extend(filter(None, [failure]))
                reached.update(running.reached)

    with TemporaryDirectory() as name, postgres_url() as postgres:
        async with asyncio.TaskGroup() as group:
            for _ in range(_TOGETHER):
                group.create_task(work(Path(name), postgres))
    failures += [f"never reached: {step}" for step in sorted(STEPS - reached)]
    return tally, failures

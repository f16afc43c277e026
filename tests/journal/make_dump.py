"""Writes `journal_version_N.sql` beside itself: a journal as this release leaves it when killed.

Run as ``python -m tests.journal.make_dump`` before the format of a journal changes, and keep the
file: `test_earlier` reads, resumes and finishes it with every later release. The jobs in it:

- `finished`: done, but for one order that the gateway declined;
- `held`: two orders looked up and found not to be done, which wait for an operator;
- `sliced`: cut into three slices, of which the second is done;
- `captured`, `cancelled`, `reviewed`: nothing sent yet, since the gateway could not be reached;
- `decided`: an operator decided on two of the orders that were held;
- `unclear`: the gateway gave two refunds a status without a meaning, so that they are held;
- `gathered`: cut into slices, with transactions that occur in several places;
- `submitting`: not submitted to its end;
- `paid`: payouts, one of which is in doubt;
- `lost`: killed while it waited to look up two orders whose reply was lost;
- `stopped`: killed with a request in flight.
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from contextlib import AsyncExitStack, closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from gateway_async import (
    BatchPolicy,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency, ResetBeforeEffect
from tests.jobs.paying import payouts_of
from tests.orders import client_of, orders_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from gateway_async import RefundOrder

POLICY = BatchPolicy(concurrency=1, chunk_size=2)
NO_GATEWAY = "http://127.0.0.1:1"
WRITTEN_AT = datetime(2024, 5, 1, 3, tzinfo=UTC)
TIMES = (
    ("gateway_jobs", "created_at"),
    ("gateway_slices", "expires_at"),
    ("gateway_slices", "due_at"),
    ("gateway_chunks", "ended_at"),
)
AT_ONCE = RecoveryPolicy(settle_seconds=0)
AMOUNTS_AND_REASONS = [("1.00", ""), ("2.5", 'zurück, "ganz"'), ("3", "换货"), ("0.10", "a\tb")]


def refunds(sandbox: Sandbox, count: int) -> "list[RefundOrder]":
    """Return refunds that the sandbox can do, with amounts and texts of several kinds."""
    orders = orders_for("refund", sandbox.seed(count, status="captured"))
    kinds = AMOUNTS_AND_REASONS * count
    return [
        attrs.evolve(order, refund_amount=amount, refund_reason=reason)
        for order, (amount, reason) in zip(orders, kinds, strict=False)
    ]


async def broken(orders: "Iterable[RefundOrder]") -> "AsyncIterator[RefundOrder]":
    """Yield orders, and end in the middle of them."""
    for order in orders:
        yield order
    raise KeyError


async def reached(journal: Journal, name: str, **wanted: int) -> None:
    """Wait until at least so many orders of a job are in these states."""
    while True:
        known = {status.name: status.counts for status in await journal.jobs()}
        found = known.get(name, dict.fromkeys(JobState, 0))
        if all(found[JobState(state)] >= count for state, count in wanted.items()):
            return
        await asyncio.sleep(0.01)


async def fill(path: Path) -> list[str]:  # noqa: PLR0915  # one job after the other
    """Run the jobs, and return what the journal holds while two of them are under way."""
    async with AsyncExitStack() as opened:
        sandbox = await opened.enter_async_context(Sandbox(clock=lambda: WRITTEN_AT))
        journal = await opened.enter_async_context(Journal.open(f"sqlite:///{path}"))
        quick = client_of(sandbox, policy=POLICY, recovery=AT_ONCE)
        patient = client_of(sandbox, policy=POLICY)
        who = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
        cut_off = GatewayClient(NO_GATEWAY, who, retry=RetryPolicy(attempts=1))
        cut_off._session = attrs.evolve(cut_off._session, gateway=sandbox.base_url)
        naive = client_of(sandbox, policy=POLICY, recovery=AT_ONCE, dialect=Dialect())
        in_turn = attrs.evolve(POLICY, duplicates="serialize")
        serial = client_of(sandbox, policy=in_turn, recovery=AT_ONCE)
        for client in (quick, patient, cut_off, naive, serial):
            await opened.enter_async_context(client)

        orders = refunds(sandbox, 4)
        await quick.refund([attrs.evolve(orders[3], refund_amount=orders[3].amount)])
        await quick.refund(orders, job=journal.job("finished"))
        sandbox.faults.add("refund", ResetBeforeEffect(times=1))
        await quick.refund(refunds(sandbox, 4), job=journal.job("held"))
        sandbox.faults.add("refund", ResetBeforeEffect(times=1))
        await quick.refund(refunds(sandbox, 4), job=journal.job("decided"))
        await journal.resolve("decided", 0, "declined", "not theirs")
        await journal.resolve("decided", 1, "not_sent", "seen in the portal")
        too_much = [attrs.evolve(order, amount="99.00") for order in refunds(sandbox, 2)]
        await naive.refund([*refunds(sandbox, 2), *too_much], job=journal.job("unclear"))
        several = refunds(sandbox, 7)
        gathered = [*several, *(attrs.evolve(o, refund_amount="0.05") for o in several[:2])]
        await serial.submit("refund", gathered, job=journal.job("gathered"), slice_size=3)
        await serial.resume(journal.job("gathered"), slice_number=2)
        with suppress(KeyError):
            await quick.refund(broken(refunds(sandbox, 5)), job=journal.job("submitting"))
        sliced = journal.job("sliced")
        await quick.submit("refund", refunds(sandbox, 6), job=sliced, slice_size=2)
        await quick.resume(sliced, slice_number=2)
        for operation, name in (
            ("capture", "captured"),
            ("cancel", "cancelled"),
            ("review", "reviewed"),
        ):
            status, flag = "authorised", {}
            if operation == "review":
                status, flag = "captured", {"review_flag": "2"}
            unsent = orders_for(operation, sandbox.seed(3, status=status), **flag)
            await getattr(cut_off, operation)(unsent, job=journal.job(name))

        sandbox.faults.add("payout", ResetBeforeEffect(times=1))
        await quick.payouts(payouts_of(3), job=journal.job("paid"))

        sandbox.faults.add("refund", ResetBeforeEffect(times=1))
        under_way = [
            asyncio.ensure_future(patient.refund(refunds(sandbox, 6), job=journal.job("lost")))
        ]
        await reached(journal, "lost", unknown=2, succeeded=4)
        sandbox.faults.add("refund", Latency(0.5))
        stopped = patient.refund(refunds(sandbox, 8), job=journal.job("stopped"))
        under_way.append(asyncio.ensure_future(stopped))
        await reached(journal, "stopped", succeeded=2)
        sandbox.faults.add("refund", Latency(600))
        await reached(journal, "stopped", succeeded=4, intent=2)
        dumped = dump(path)
        for _ in range(2):  # the second time, what is in flight is not waited for
            for task in under_way:
                task.cancel()
            await asyncio.sleep(0.1)
        await asyncio.gather(*under_way, return_exceptions=True)
    return dumped


def dump(path: Path) -> list[str]:
    """Return the statements that make the file again, as if it were written at `WRITTEN_AT`.

    By no clock it is of the future then, and it does not name this machine.
    """
    past = time.time() - WRITTEN_AT.timestamp()
    with closing(sqlite3.connect(path)) as file, closing(sqlite3.connect(":memory:")) as copy:
        file.backup(copy)
        copy.execute("UPDATE gateway_slices SET owner = 'host:1' WHERE owner NOT LIKE 'import %'")
        for table, column in TIMES:
            copy.execute(f"UPDATE {table} SET {column} = {column} - ? WHERE {column} > 0", (past,))  # noqa: S608  # ours
        return list(copy.iterdump())


def version_of(statements: "Sequence[str]") -> int:
    """Return the version of the journal."""
    with closing(sqlite3.connect(":memory:")) as copy:
        copy.executescript("\n".join(statements))
        (version,) = copy.execute("SELECT version_num FROM gateway_journal_version").fetchone()
    return int(version)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(fill(Path(folder, "journal.db")))
    target = Path(__file__).with_name(f"journal_version_{version_of(made)}.sql")
    target.write_text("\n".join(made) + "\n")
    sys.stdout.write(f"{target}\n")

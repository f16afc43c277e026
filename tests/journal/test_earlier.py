"""A journal outlives the release that wrote it: a newer one reads, resumes and finishes its jobs.

`journal_version_2.sql` is what the last state of the library with that version left when it was
killed, with jobs in every state; its program is in the history of this folder, `make_dump.py`.
"""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
import sqlalchemy as sa

import gateway_async
from gateway_async import (
    Credentials,
    GatewayClient,
    HmacSigner,
    NotDoneError,
    OutcomeStatus,
    RecoveryPolicy,
    RetryPolicy,
)
from gateway_async.errors import JobConflictError, JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.ledger import PaymentStatus, Refund, Transaction
from tests.journal.tables import Tables
from tests.orders import client_of, orders_for
from tests.postgres import emptied

HERE = Path(__file__).parent
WRITTEN_AT = datetime(2024, 5, 1, 3, tzinfo=UTC)
RESENDING = RecoveryPolicy(settle_seconds=0, resend_absent=True)
DONE_BUT_NOT_KNOWN = {("lost", 0), ("stopped", 4)}
"""What the gateway did of the requests whose replies the earlier process never read."""
STATUSES = {
    "finished": ["succeeded", "succeeded", "succeeded", "declined"],
    "held": ["not_sent", "not_sent", "succeeded", "succeeded"],
    "decided": ["declined", "not_sent", "succeeded", "succeeded"],
    "unclear": ["succeeded", "succeeded", "not_sent", "not_sent"],
    "gathered": [*["not_sent"] * 3, *["succeeded"] * 3, *["not_sent"] * 3],
    "submitting": [],
    "sliced": ["not_sent", "not_sent", "succeeded", "succeeded", "not_sent", "not_sent"],
    "captured": ["not_sent"] * 3,
    "cancelled": ["not_sent"] * 3,
    "reviewed": ["not_sent"] * 3,
    "lost": ["unknown", "unknown", *["succeeded"] * 4],
    "stopped": [*["succeeded"] * 4, "unknown", "unknown", "not_sent", "not_sent"],
}
KINDS: dict[str, Any] = {
    "BIGINT": sa.BigInteger,
    "INTEGER": sa.BigInteger,
    "DOUBLE": sa.Double,
    "BLOB": sa.LargeBinary,
}
PAYOUTS = ["unknown", "succeeded", "succeeded"]


@attrs.frozen(kw_only=True)
class Kept:
    """An order as the file has it, read past the library.

    Attributes:
        job: The name of its job.
        operation: The operation of that.
        at: Its position in the job.
        values: Its fields, in the order of the interface.
        reference: The reference of its refund; empty where the file has none.
    """

    job: str
    operation: str
    at: int
    values: list[str]
    reference: str

    def transaction(self) -> Transaction:
        """Return what the gateway's books have of it, at the moment of the kill."""
        transaction_id, order_no, currency, amount, *more = self.values
        is_done = bool(self.reference) or (self.job, self.at) in DONE_BUT_NOT_KNOWN
        amounts = [Decimal(more[0])] if is_done else []
        if (self.job, self.at) == ("finished", 3):  # it was refunded in whole before the job
            amounts = [Decimal(amount)]
        refunds = [
            Refund(
                refund_reference_id=f"{transaction_id}-01",
                transaction_id=transaction_id,
                amount=refunded,
                reason="",
                at=WRITTEN_AT,
            )
            for refunded in amounts
        ]
        is_paid = self.operation in {"refund", "review"}
        return Transaction(
            transaction_id=transaction_id,
            order_no=order_no,
            currency=currency,
            amount=Decimal(amount),
            created_at=WRITTEN_AT - timedelta(days=1),
            status=PaymentStatus.CAPTURED if is_paid else PaymentStatus.AUTHORISED,
            captured_amount=Decimal(amount if is_paid else 0),
            refunded_amount=sum(amounts, Decimal(0)),
            refunds=refunds,
            effects=Counter({"refund": len(refunds)}),
        )


def kept_in(path: Path) -> Iterator[Kept]:
    """Read all orders of the file but payouts, before it is upgraded."""
    with closing(sqlite3.connect(path)) as file:
        jobs = file.execute(
            "SELECT id, name, operation FROM gateway_jobs WHERE imported AND operation <> 'payout'"
        ).fetchall()
        for number, name, operation in jobs:
            (bodies,) = file.execute(
                "SELECT bodies FROM gateway_orders WHERE job_id = ?", (number,)
            ).fetchone()
            references = {
                first + offset: reference
                for first, listed in file.execute(
                    "SELECT first, reference FROM gateway_chunks WHERE job_id = ?", (number,)
                )
                for offset, reference in enumerate(json.loads(listed or "[]"))
            }
            for at, values in enumerate(zip(*json.loads(bodies).values(), strict=True)):
                yield Kept(
                    job=name,
                    operation=operation,
                    at=at,
                    values=list(values),
                    reference=references.get(at, ""),
                )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of the earlier version."""
    made = tmp_path / "journal.db"
    statements = (HERE / "journal_version_2.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(made)) as file:
        file.executescript(statements)
        file.execute("PRAGMA journal_mode = WAL")
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """The same journal in a file, and in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    target = emptied(request.getfixturevalue("postgres"))
    tables = sa.MetaData()
    server = sa.create_engine(sa.make_url(target).set(drivername="postgresql+psycopg"))
    dump = sa.create_engine(f"sqlite:///{path}")
    with dump.connect() as file, server.begin() as connection:
        tables.reflect(file)
        for table in tables.sorted_tables:
            columns = [
                sa.Column(
                    each.name,
                    KINDS.get(str(each.type), each.type),
                    primary_key=each.primary_key,
                    autoincrement=each.name == "id",
                    unique=(table.name, each.name) == ("gateway_jobs", "name"),
                    server_default="" if str(each.type) == "TEXT" else None,
                )
                for each in table.columns
            ]
            copy = sa.Table(table.name, sa.MetaData(), *columns)
            copy.create(connection)
            rows = [row._asdict() for row in file.execute(sa.select(table))]
            connection.execute(copy.insert(), rows)
            if "id" in table.columns:
                last = f"(SELECT max(id) FROM {table.name})"  # noqa: S608  # ours
                sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
                connection.execute(sa.text(f"SELECT setval({sequence}, {last})"))
    server.dispose()
    dump.dispose()
    return target


@pytest.fixture
def kept(path: Path, sandbox: Sandbox) -> list[Kept]:
    """The orders of the file, which the gateway knows, too."""
    known = [*kept_in(path)]
    books = {each.values[0]: each.transaction() for each in reversed(known)}
    for transaction in books.values():
        sandbox.ledger.enter(transaction)
    return known


def unreachable(base_url: str) -> GatewayClient:
    """Make a client of the sandbox that does not reach it."""
    who = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
    gateway = GatewayClient("http://127.0.0.1:1", who, retry=RetryPolicy(attempts=1))
    gateway._session = attrs.evolve(gateway._session, gateway=base_url)
    return gateway


async def _orders(journal: Journal, name: str) -> list[Any]:
    return [outcome.order async for outcome in journal.outcomes(name)]


async def test_an_earlier_journal_is_read(path: Path, url: str) -> None:
    known = [*kept_in(path)]
    for _ in range(2):  # the first time, it is upgraded
        async with Journal.open(url) as journal:
            names = [status.name for status in await journal.jobs()]
            assert [name for name in names if name != "paid"] == list(STATUSES)
            for name, expected in STATUSES.items():
                outcomes = [outcome async for outcome in journal.outcomes(name)]
                assert [str(outcome.status) for outcome in outcomes] == expected
                own = [each for each in known if each.job == name]
                for outcome, each in zip(outcomes, own, strict=True):
                    values = [str(value) for value in attrs.astuple(outcome.order)]
                    assert values == each.values
                    record: Any = outcome.record
                    assert (record.refund_reference_id if record else "") == each.reference
                if name == "unclear":  # a text of the gateway's stays one
                    for error in (outcomes[2].error, outcomes[3].error):
                        assert isinstance(error, NotDoneError)
                        assert (error.code, error.text) == ("2005", "amount is not the order's")
                        assert "\x1e" not in str(error)
    tables = Tables(url)
    assert tables.run("SELECT version_num FROM gateway_journal_version") == [("3",)]
    assert [each.name for each in path.parent.glob("*version*")] == []


async def test_an_earlier_journal_is_resumed_and_finished(
    url: str, sandbox: Sandbox, kept: list[Kept]
) -> None:
    async with (
        Journal.open(url) as journal,
        client_of(sandbox, recovery=RESENDING) as gateway,
    ):
        names = [name for name in STATUSES if name != "submitting"]
        parts = [
            (journal.job(name), number)
            for name in names
            for number in [each.number for each in await journal.slices(name)] or [0]
        ]
        for job, number in parts:
            await gateway.resume(job, slice_number=number)
        for name in names:
            outcomes = [outcome async for outcome in journal.outcomes(name)]
            is_declined = [status == "declined" for status in STATUSES[name]]
            assert [o.status is OutcomeStatus.DECLINED for o in outcomes] == is_declined
            assert {str(o.status) for o in outcomes} <= {"succeeded", "declined"}
        payouts = await gateway.resume(journal.job("paid"))
        assert [str(outcome.status) for outcome in payouts] == PAYOUTS
        with pytest.raises(JobConflictError, match="which stands in job 'paid'"):
            await gateway.payouts([payouts[1].order], job=journal.job("once more"))
        before = sandbox.requests.total()
        for job, number in parts:
            assert (await gateway.resume(job, slice_number=number)).requests == 0
        assert sandbox.requests.total() == before
    wanted = Counter(
        (each.operation, each.values[0])
        for each in kept
        if (each.job, each.at) != ("decided", 0)  # an operator said that it is not theirs
    )
    done = {each: sandbox.ledger.effects(*each) for each in wanted}
    assert done == wanted


def test_an_upgrade_that_fails_changes_nothing_and_keeps_a_copy(
    path: Path,
) -> None:
    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE gateway_requests SET baseline = 'no JSON' WHERE job_id = 2")
    broken = [*kept_dump(path)]
    with pytest.raises(json.JSONDecodeError):
        asyncio.run(Journal.open(f"sqlite:///{path}").__aenter__())
    (copy,) = path.parent.glob("journal.db.version-2")
    assert [*kept_dump(path)] == [*kept_dump(copy)] == broken
    path.write_bytes(before)

    async def held() -> int:
        async with Journal.open(f"sqlite:///{path}") as journal:
            return (await journal.status("held")).counts[JobState.HELD]

    assert asyncio.run(held()) == 2
    assert not copy.exists()


def kept_dump(path: Path) -> Iterator[str]:
    """Return the statements that make the file."""
    with closing(sqlite3.connect(path)) as file:
        yield from file.iterdump()


async def test_several_that_upgrade_at_once(url: str) -> None:
    journals = [Journal.open(url) for _ in range(4)]
    await asyncio.gather(*(journal.__aenter__() for journal in journals))
    assert [(await journal.status("held")).total for journal in journals] == [4] * 4
    for journal in journals:
        await journal.__aexit__(None, None, None)


async def test_the_orders_of_an_earlier_job_are_known_again(
    path: Path, sandbox: Sandbox, kept: list[Kept]
) -> None:
    async with (
        Journal.open(f"sqlite:///{path}") as journal,
        client_of(sandbox, recovery=RESENDING) as gateway,
    ):
        orders = await _orders(journal, "stopped")
        changed = [attrs.evolve(orders[0], refund_reason="another"), *orders[1:]]
        with pytest.raises(JobConflictError, match="which differs in refund_reason"):
            await gateway.refund(changed, job=journal.job("stopped"))
        assert sandbox.requests.total() == 0
        assert (await gateway.refund(iter(orders), job=journal.job("stopped"))).ok
        new = orders_for("refund", sandbox.seed(3, status="captured"))
        assert (await gateway.refund(new, job=journal.job("tonight"))).ok
        assert await _orders(journal, "tonight") == new
        assert await _orders(journal, "finished") != []
    for each in kept:
        if each.job == "stopped":
            assert sandbox.ledger.effects("refund", each.values[0]) == 1


@pytest.fixture(scope="session")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newer release, whose refunds have two more fields; the folder that holds it."""
    folder = tmp_path_factory.mktemp("newer")
    package = Path(gateway_async.__file__).parent
    shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    module = folder / package.name / "models" / "orders.py"
    last = '    refund_reason: str = ""\n'
    added = (
        '    urgency: str = "low"\n'
        '    fee: Decimal = attrs.field(default="0.00", converter=as_amount)\n'
    )
    text = module.read_text(encoding="utf-8")
    assert last in text
    module.write_text(text.replace(last, last + added), encoding="utf-8")
    return folder


def _run(newer: Path, url: str, base_url: str, job: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "newer_release.py"), str(newer), url, base_url, job]
    ended = subprocess.run(  # noqa: S603  # our own program
        command,
        env={**os.environ, "PYTHONPATH": str(newer)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("job", ["stopped", "tonight"])
async def test_a_release_with_more_fields_finishes_jobs_that_were_kept_without_them(
    path: Path, sandbox: Sandbox, kept: list[Kept], newer: Path, job: str
) -> None:
    """`stopped` was kept by version 2, and `tonight` is kept by this release."""
    url = f"sqlite:///{path}"
    kept_ids = [each.values[0] for each in kept if each.job == job]
    if not kept_ids:
        orders = orders_for("refund", sandbox.seed(3, status="captured"))
        kept_ids = [order.transaction_id for order in orders]
        async with Journal.open(url) as journal, unreachable(sandbox.base_url) as gateway:
            assert len((await gateway.refund(orders, job=journal.job(job))).not_sent) == 3
    found = await asyncio.to_thread(_run, newer, url, sandbox.base_url, job)
    assert found["fields"] == [["low", "0.00"]]
    assert "which differs in urgency" in found["conflict"]
    assert set(found["statuses"]) == {"succeeded"}
    assert [sandbox.ledger.effects("refund", each) for each in kept_ids] == [1] * len(kept_ids)


@pytest.mark.slow
async def test_an_order_with_a_field_that_this_release_does_not_know_is_not_sent_without_it(
    path: Path, sandbox: Sandbox, kept: list[Kept], newer: Path
) -> None:
    del kept
    url = f"sqlite:///{path}"
    await asyncio.to_thread(_run, newer, url, sandbox.base_url, "stopped")
    sandbox.requests.clear()
    words = (
        "job 'newer': .* does not know urgency, fee; finish the job with the release that stored"
    )
    async with Journal.open(url) as journal, client_of(sandbox) as gateway:
        assert (await journal.status("newer")).counts[JobState.NEW] == 8
        with pytest.raises(JournalError, match=words) as caught:
            await gateway.resume(journal.job("newer"), slice_number=1)
        assert caught.value.job == "newer"
        with pytest.raises(JournalError, match=words):
            await gateway.submit("refund", [], job=journal.job("newer"))
        assert len(await _orders(journal, "stopped")) == 8
    assert sandbox.requests.total() == 0

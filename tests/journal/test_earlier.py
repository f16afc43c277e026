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
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest

import gateway_async
from gateway_async import NotDoneError, RecoveryPolicy, RetryPolicy
from gateway_async.errors import JobConflictError, JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import Interposed, make_client, refuse
from tests.journal.tables import Tables
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import orders_for
from tests.postgres import emptied

HERE = Path(__file__).parent
DUMP = (HERE / "journal_version_2.sql").read_text(encoding="utf-8")
RESENDING = RecoveryPolicy(settle_seconds=0, resend_absent=True)
DONE_BUT_NOT_KNOWN = {("lost", 0): "late-1", ("stopped", 4): "late-2"}
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
PAYOUTS = ["unknown", "succeeded", "succeeded"]
ON_A_SERVER = {
    "INTEGER": "BIGINT",
    "DOUBLE": "DOUBLE PRECISION",
    "BLOB": "BYTEA",
    "BOOLEAN": "BIGINT",
    "WITHOUT ROWID": "",
    ",X'": ",'\\x",
    "\tid BIGINT NOT NULL": "\tid BIGSERIAL NOT NULL",
}
FLAGS = {"jobs": "imported", "requests": "alone", "slices": "finished"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of the earlier version."""
    made = tmp_path / "journal.db"
    with closing(sqlite3.connect(made)) as file:
        file.executescript(DUMP)
        file.execute("PRAGMA journal_mode = WAL")
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """The same journal in a file, and in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    target, dump = emptied(request.getfixturevalue("postgres")), DUMP
    for word, meaning in ON_A_SERVER.items():
        dump = dump.replace(word, meaning)
    with psycopg.connect(target) as server:
        server.execute(dump.encode())
        for table, flag in FLAGS.items():
            alter = f"ALTER TABLE gateway_{table} ALTER {flag}"
            server.execute(
                f"{alter} DROP DEFAULT, ALTER {flag} TYPE BOOLEAN USING {flag} <> 0".encode()
            )
        for table in ("gateway_jobs", "gateway_requests"):
            last = f"(SELECT max(id) FROM {table})"  # noqa: S608  # ours
            server.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {last})".encode()
            )
    return target


def kept_in(path: Path) -> dict[str, list[tuple[list[str], str]]]:
    """Read the file past the library: by job, the fields of each order and its reference."""
    kept: dict[str, list[tuple[list[str], str]]] = {}
    with closing(sqlite3.connect(path)) as file:
        jobs = "SELECT id, name FROM gateway_jobs WHERE imported AND operation <> 'payout'"
        for number, name in file.execute(jobs).fetchall():
            of_job = f"FROM gateway_{{}} WHERE job_id = {number}"
            (bodies,) = file.execute(f"SELECT bodies {of_job.format('orders')}").fetchone()
            listed = file.execute(f"SELECT first, reference {of_job.format('chunks')}").fetchall()
            references = {
                first + offset: reference
                for first, found in listed
                for offset, reference in enumerate(json.loads(found or "[]"))
            }
            values = zip(*json.loads(bodies).values(), strict=True)
            kept[name] = [([*each], references.get(at, "")) for at, each in enumerate(values)]
    return kept


async def test_an_earlier_journal_is_read(path: Path, url: str) -> None:
    kept = kept_in(path)
    for _ in range(2):  # the first time, it is upgraded
        async with Journal.open(url) as journal:
            names = [status.name for status in await journal.jobs()]
            assert [name for name in names if name != "paid"] == list(STATUSES)
            for name, expected in STATUSES.items():
                outcomes = [outcome async for outcome in journal.outcomes(name)]
                assert [str(outcome.status) for outcome in outcomes] == expected
                found: list[Any] = [(outcome.order, outcome.record) for outcome in outcomes]
                assert kept.get(name, []) == [
                    (
                        [*map(str, attrs.astuple(order))],
                        record.refund_reference_id if record else "",
                    )
                    for order, record in found
                ]
                if name == "unclear":  # a text of the gateway's stays one
                    for error in (outcomes[2].error, outcomes[3].error):
                        assert isinstance(error, NotDoneError)
                        assert (error.code, error.text) == ("2005", "amount is not the order's")
                        assert "\x1e" not in str(error)
    version = "SELECT version_num FROM gateway_journal_version"
    assert Tables(url).run(version) == [("3",)]
    assert [each.name for each in path.parent.glob("*version*")] == []


async def test_an_earlier_journal_is_resumed_and_finished(path: Path, url: str) -> None:
    made: dict[str, list[tuple[str, str]]] = {}
    wanted: Counter[str] = Counter()
    for name, orders in kept_in(path).items():
        for at, (values, known) in enumerate(orders):
            reference = known or DONE_BUT_NOT_KNOWN.get((name, at), "")
            if reference:
                made.setdefault(values[0], []).append((reference, values[4]))
            elif STATUSES[name][at] != "declined":
                wanted[values[0]] += 1

    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return asked.done()
        items = [
            {
                "transaction_id": transaction,
                "refund_reference_id": reference,
                "refund_amount": amount,
                "refund_status": "1",
            }
            for transaction in asked.transactions
            for reference, amount in made.get(transaction, ())
        ]
        return asked.done(refund_orders=items)

    transport = MemoryTransport(answer)
    gateway = client_over(transport, recovery=RESENDING)
    async with Journal.open(url) as journal:
        names = [name for name in STATUSES if name != "submitting"]
        parts = [
            (journal.job(name), number)
            for name in names
            for number in [each.number for each in await journal.slices(name)] or [0]
        ]
        for job, number in parts:
            await gateway.resume(job, slice_number=number)
        expected = {**dict.fromkeys(made, 0), **wanted}
        assert {name: transport.effects[name] for name in expected} == expected
        for name in names:
            found = [str(outcome.status) async for outcome in journal.outcomes(name)]
            assert found == [
                status if status == "declined" else "succeeded" for status in STATUSES[name]
            ]
        payouts = await gateway.resume(journal.job("paid"))
        assert [str(outcome.status) for outcome in payouts] == PAYOUTS
        with pytest.raises(JobConflictError, match="which stands in job 'paid'"):
            await gateway.payouts([payouts[1].order], job=journal.job("once more"))
        before = len(transport.asked)
        for job, number in parts:
            assert (await gateway.resume(job, slice_number=number)).requests == 0
        given: list[Any] = [outcome.order async for outcome in journal.outcomes("stopped")]
        assert (await gateway.refund(iter(given), job=journal.job("stopped"))).ok
        given[0] = attrs.evolve(given[0], refund_reason="another")
        with pytest.raises(JobConflictError, match="which differs in refund_reason"):
            await gateway.refund(given, job=journal.job("stopped"))
        assert len(transport.asked) == before


def test_an_upgrade_that_fails_changes_nothing_and_keeps_a_copy(path: Path) -> None:
    def dump(file: Path) -> list[str]:
        with closing(sqlite3.connect(file)) as opened:
            return [*opened.iterdump()]

    async def held() -> int:
        async with Journal.open(f"sqlite:///{path}") as journal:
            return (await journal.status("held")).counts[JobState.HELD]

    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE gateway_requests SET baseline = 'no JSON' WHERE job_id = 2")
    broken = dump(path)
    with pytest.raises(json.JSONDecodeError):
        asyncio.run(held())
    (copy,) = path.parent.glob("journal.db.version-2")
    assert dump(path) == dump(copy) == broken
    path.write_bytes(before)
    assert asyncio.run(held()) == 2
    assert not copy.exists()


async def test_several_that_upgrade_at_once(url: str) -> None:
    journals = [Journal.open(url) for _ in range(4)]
    await asyncio.gather(*(journal.__aenter__() for journal in journals))
    assert [(await journal.status("held")).total for journal in journals] == [4] * 4
    for journal in journals:
        await journal.__aexit__(None, None, None)


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
        '    fee: Decimal = attrs.field(default="0.00", converter=to_amount)\n'
    )
    text = module.read_text(encoding="utf-8")
    assert last in text
    module.write_text(text.replace(last, last + added), encoding="utf-8")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_release_with_more_fields_finishes_a_job_and_this_one_refuses_its_orders(
    url: str, sandbox: Sandbox, newer: Path
) -> None:
    orders = orders_for("refund", sandbox.seed(3, status="captured"))
    refusing = make_client(sandbox, retry=RetryPolicy(attempts=1))
    Interposed(refusing, before=refuse)
    async with Journal.open(url) as journal:
        assert len((await refusing.refund(orders, job=journal.job("tonight"))).not_sent) == 3
    command = [sys.executable, str(HERE / "newer_release.py"), str(newer), url, sandbox.base_url]
    ended = await asyncio.to_thread(
        subprocess.run,
        command,
        env={**os.environ, "PYTHONPATH": str(newer)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["fields"] == [["low", "0.00"]]
    assert "which differs in urgency" in found["conflict"]
    assert set(found["statuses"]) == {"succeeded"}
    assert [sandbox.ledger.effects("refund", each.transaction_id) for each in orders] == [1] * 3
    sandbox.requests.clear()
    words = "job 'newer': .* unexpected .* 'urgency'; finish the job with the release that stored"
    async with Journal.open(url) as journal, make_client(sandbox) as gateway:
        assert (await journal.status("newer")).counts[JobState.NEW] == 3
        with pytest.raises(JournalError, match=words) as caught:
            await gateway.resume(journal.job("newer"), slice_number=1)
        assert caught.value.job == "newer"
        with pytest.raises(JournalError, match=words):
            await gateway.submit("refund", [], job=journal.job("newer"))
    assert sandbox.requests.total() == 0

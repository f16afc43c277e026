"""A journal outlives the release that wrote it: a newer one reads, resumes and finishes its jobs.

The `.sql` files are what the last states of the library with these versions left when they were
killed, with jobs in every state; their program is in the history of this folder, `make_dump.py`.
`journal_version_1_first.sql` keeps orders without the names of their fields.
"""

import asyncio
import json
import sqlite3
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest

from gateway_async import AlikeRefundError, NotDoneError, OutcomeUnknownError, RejectedError
from gateway_async.errors import JobConflictError, JournalError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.codec import lookup_key
from gateway_async.journal.rows import ChunkState
from tests.journal.tables import Tables, on_a_file
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import RESENDING, refunds
from tests.support.postgres import emptied

HERE = Path(__file__).parent
DUMPS = ("1_first", "1", "2")  # of the same jobs
DUMP_3 = (HERE / "journal_version_3.sql").read_text(encoding="utf-8")
ERRORS_3 = {
    "declined": (RejectedError, "2005", "amount is not the order's"),
    "alike": (AlikeRefundError, "", "a refund of 1.00 of this transaction"),
    "notdone": (NotDoneError, "", "the gateway lists no refund that could be it"),
    "lost": (OutcomeUnknownError, "", "its reply was lost"),
}
"""Of the first order of each job: the class of its error, its code, and a part of its text."""
DONE_BUT_NOT_KNOWN = {("lost", 0): "late-1", ("stopped", 4): "late-2"}
"""What the gateway did of the requests whose replies the earlier process never read."""
STATUSES = {
    "finished": ["succeeded", "succeeded", "succeeded", "declined"],
    "held": ["not_sent", "not_sent", "succeeded", "succeeded"],
    "decided": ["declined", "not_sent", "succeeded", "succeeded"],
    "unclear": ["succeeded", "succeeded", "not_sent", "not_sent"],
    "gathered": [*["not_sent"] * 3, *["succeeded"] * 3, *["not_sent"] * 3],
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


@pytest.fixture(params=DUMPS)
def dump(request: pytest.FixtureRequest) -> str:
    """The statements that make a journal of an earlier version."""
    return (HERE / f"journal_version_{request.param}.sql").read_text(encoding="utf-8")


@pytest.fixture
def path(dump: str, tmp_path: Path) -> Path:
    """A journal of an earlier version."""
    made = tmp_path / "journal.db"
    with closing(sqlite3.connect(made)) as file:
        file.executescript(dump)
        file.execute("PRAGMA journal_mode = WAL")
    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, dump: str, path: Path) -> str:
    """The same journal in a file, and in PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    target = emptied(request.getfixturevalue("postgres"))
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
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master")}
        known = "reference FROM gateway_chunks"
        if "gateway_states" in tables:
            known = "reference_list FROM gateway_states"
        jobs = "SELECT id, name FROM gateway_jobs WHERE imported AND operation <> 'payout'"
        for number, name in file.execute(jobs).fetchall():
            of_job = f"WHERE job_id = {number}"
            select = f"SELECT bodies FROM gateway_orders {of_job}"  # noqa: S608  # ours
            (bodies,) = file.execute(select).fetchone()
            listed = file.execute(f"SELECT first, {known} {of_job}").fetchall()
            references = {
                first + offset: reference
                for first, found in listed
                for offset, reference in enumerate(json.loads(found or "[]"))
            }
            orders = json.loads(bodies)
            if isinstance(orders, dict):
                orders = orders.get("orders") or zip(*orders.values(), strict=True)
            kept[name] = [([*each], references.get(at, "")) for at, each in enumerate(orders)]
    return kept


def statuses_in(path: Path) -> dict[str, list[str]]:
    """Return the statuses of the outcomes of each job in a file."""
    return {name: STATUSES[name] for name in STATUSES if name in kept_in(path)}


async def test_an_earlier_journal_is_read(path: Path, url: str) -> None:
    kept, statuses = kept_in(path), statuses_in(path)
    for _ in range(2):  # the first time, it is upgraded
        async with Journal.open(url) as journal:
            names = [status.name for status in await journal.jobs()]
            assert [name for name in names if name != "paid"] == list(statuses)
            for name, expected in statuses.items():
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
    assert Tables(url).run(version) == [("4",)]
    assert [each.name for each in path.parent.glob("*version*")] == []


async def test_an_earlier_journal_is_resumed_and_finished(path: Path, url: str) -> None:
    statuses = statuses_in(path)
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
        parts = [
            (journal.job(name), number)
            for name in statuses
            for number in [each.number for each in await journal.slices(name)] or [0]
        ]
        for job, number in parts:
            await gateway.resume(job, slice_number=number)
        expected = {**dict.fromkeys(made, 0), **wanted}
        assert {name: transport.effects[name] for name in expected} == expected
        for name, earlier in statuses.items():
            found = [str(outcome.status) async for outcome in journal.outcomes(name)]
            assert found == [status if status == "declined" else "succeeded" for status in earlier]
        before = len(transport.asked)
        for job, number in parts:
            assert (await gateway.resume(job, slice_number=number)).requests == 0
        given: list[Any] = [outcome.order async for outcome in journal.outcomes("stopped")]
        assert (await gateway.refund(iter(given), job=journal.job("stopped"))).ok
        given[0] = attrs.evolve(given[0], refund_reason="another")
        with pytest.raises(JobConflictError, match="which differs in refund_reason"):
            await gateway.refund(given, job=journal.job("stopped"))
        assert len(transport.asked) == before


@pytest.mark.parametrize("dump", ["2"], indirect=True)
async def test_earlier_payouts_are_finished_and_paid_once(url: str) -> None:
    gateway = client_over(MemoryTransport(), recovery=RESENDING)
    async with Journal.open(url) as journal:
        payouts = await gateway.resume(journal.job("paid"))
        assert [str(outcome.status) for outcome in payouts] == PAYOUTS
        with pytest.raises(JobConflictError, match="which stands in job 'paid'"):
            await gateway.payouts([payouts[1].order], job=journal.job("once more"))


def test_an_upgrade_that_fails_changes_nothing_and_keeps_a_copy(path: Path) -> None:
    def dump(file: Path) -> list[str]:
        with closing(sqlite3.connect(file)) as opened:
            return [*opened.iterdump()]

    async def held() -> int:
        async with Journal.open(f"sqlite:///{path}") as journal:
            return (await journal.status("held")).counts[OrderState.HELD]

    before = path.read_bytes()
    with closing(sqlite3.connect(path)) as file, file:
        broken_row = "WHERE id = (SELECT max(id) FROM gateway_requests)"
        file.execute(f"UPDATE gateway_requests SET baseline = 'no JSON' {broken_row}")  # noqa: S608  # ours
    broken = dump(path)
    with pytest.raises(json.JSONDecodeError):
        asyncio.run(held())
    (copy,) = path.parent.glob("journal.db.version-*")
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


@pytest.mark.parametrize("dump", ["1"], indirect=True)
async def test_a_long_row_of_version_1_becomes_chunks(url: str) -> None:
    """A row of that version had any number of orders; requests of the job have 50 at most."""
    count, tables = 120, Tables(url)
    orders = refunds(count)
    names = [field.name for field in attrs.fields(type(orders[0]))]
    yes = "TRUE" if url.startswith("postgresql") else "1"
    tables.run(
        "INSERT INTO gateway_jobs VALUES "  # noqa: S608  # ours
        f"(100, 'long', 'refund', 'M1', 'A1', 1.7e9, {yes}, {count}, 'x', 0)"
    )
    for first in range(0, count, 50):
        block = orders[first : first + 50]
        rows = [[str(value) for value in attrs.astuple(order)] for order in block]
        keys = struct.pack(f"<{len(block)}I", *(lookup_key(o.transaction_id) for o in block))
        literal = f"X'{keys.hex()}'" if url.startswith("sqlite") else f"'\\x{keys.hex()}'"
        bodies = json.dumps({"fields": names, "orders": rows})
        tables.run(f"INSERT INTO gateway_orders VALUES (100, {first}, {literal}, '{bodies}')")  # noqa: S608  # ours
    tables.run(
        "INSERT INTO gateway_states (job_id, first, last, slice, state) VALUES "  # noqa: S608  # ours
        f"(100, 0, {count - 1}, 0, 'new')"
    )
    transport = MemoryTransport()
    async with Journal.open(url) as journal:
        chunks = [each for each in tables.chunks() if each.job_id == 100]
        assert [len(chunk.known) for chunk in chunks] == [50, 50, 20]
        result = await client_over(transport).resume(journal.job("long"))
    assert result.ok
    assert [outcome.order for outcome in result] == orders
    assert [transport.effects[order.transaction_id] for order in orders] == [1] * count


@pytest.fixture
def of_version_3(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A journal of version 3 in its first form, in a file or in PostgreSQL."""
    if request.param == "sqlite":
        with closing(sqlite3.connect(tmp_path / "journal.db")) as file:
            file.executescript(DUMP_3)
        return f"sqlite:///{tmp_path}/journal.db"
    target, dump = emptied(request.getfixturevalue("postgres")), DUMP_3
    words = {"DEFAULT FALSE": "DEFAULT 0", **ON_A_SERVER, "DOUBLE": "DOUBLE"}
    for word, meaning in {**words, "id BIGINT PRIMARY": "id BIGSERIAL PRIMARY"}.items():
        dump = dump.replace(word, meaning)
    with psycopg.connect(target) as server:
        server.execute(dump.encode())
        for table, flag in {"jobs": "imported", "slices": "finished"}.items():
            alter = f"ALTER TABLE gateway_{table} ALTER {flag}"
            server.execute(
                f"{alter} DROP DEFAULT, ALTER {flag} TYPE BOOLEAN USING {flag} <> 0".encode()
            )
            server.execute(f"{alter} SET DEFAULT FALSE".encode())
        server.execute("SELECT setval(pg_get_serial_sequence('gateway_jobs', 'id'), 100)")
    return target


@pytest.mark.parametrize("of_version_3", ["sqlite", "postgresql"], indirect=True)
async def test_what_version_3_said_of_orders_that_are_alike_is_kept(of_version_3: str) -> None:
    Tables(of_version_3).run(
        "INSERT INTO gateway_jobs VALUES "
        "(7, 'begun', 'refund', 'M1', 'A1', '', 1.7e9, (1 = 0), 0, 0)"
    )
    async with Journal.open(of_version_3) as journal:
        names = [status.name for status in await journal.jobs()]
        assert names == ["declined", "alike", "pay", "notdone", "unclear", "lost"]
        for name, (error_class, code, text) in ERRORS_3.items():
            found = [outcome async for outcome in journal.outcomes(name)]
            error = found[0].error
            assert type(error) is error_class
            assert (getattr(error, "code", ""), text in str(error)) == (code, True)
        records: list[Any] = [outcome.record async for outcome in journal.outcomes("pay")]
        assert [record.status for record in records] == ["COMPLETED"] * 3
        status = await journal.status("notdone")
        counts = status.counts
        assert attrs.evolve(status) == status
        assert (counts[OrderState.HELD], counts[OrderState.SUCCEEDED]) == (4, 4)
        transport = MemoryTransport()
        gateway = client_over(transport)
        assert (await gateway.refund(refunds(70), job=journal.job("begun"))).ok
    assert [transport.effects[order.transaction_id] for order in refunds(70)] == [1] * 70


async def test_the_later_form_of_version_3_is_upgraded(tmp_path: Path) -> None:
    """It differs from today's tables by a column alone."""
    url, transport = f"sqlite:///{tmp_path}/journal.db", MemoryTransport()
    gateway, orders = client_over(transport), refunds(60)
    async with Journal.open(url) as journal:
        assert (await gateway.refund(orders, job=journal.job("done"))).ok
    tables = Tables(url)
    tables.run("ALTER TABLE gateway_jobs ADD COLUMN imported BOOLEAN NOT NULL DEFAULT TRUE")
    tables.run("UPDATE gateway_journal_version SET version_num = '3'")
    known = tables.known()
    async with Journal.open(url) as journal:
        result = await gateway.refund(orders, job=journal.job("done"))
    assert (result.ok, result.requests, tables.known()) == (True, 0, known)
    assert tables.run("SELECT version_num FROM gateway_journal_version") == [("4",)]


def test_the_copy_of_an_upgrade_that_was_killed_at_its_end_goes(path: Path) -> None:
    async def read() -> None:
        async with Journal.open(f"sqlite:///{path}") as journal:
            assert (await journal.status("held")).total == 4

    asyncio.run(read())
    copy = path.with_name(f"{path.name}.version-1")
    copy.write_bytes(b"")
    asyncio.run(read())
    assert not copy.exists()


def changed_fields(file: sqlite3.Connection, change: Any) -> None:
    """Change the stored fields of the orders of every job that was begun just now."""
    which = "job_id IN (SELECT id FROM gateway_jobs WHERE name LIKE 'new %')"
    select = f"SELECT job_id, first, bodies FROM gateway_orders WHERE {which}"  # noqa: S608  # ours
    for job_id, first, bodies in file.execute(select).fetchall():
        stored = json.loads(bodies)
        change(stored)
        update = "UPDATE gateway_orders SET bodies = ? WHERE job_id = ? AND first = ?"
        file.execute(update, (json.dumps(stored), job_id, first))


@on_a_file
async def test_fields_that_another_release_has_not_are_defaults_and_more_fields_are_refused(
    url: str, path: Path
) -> None:
    transport = MemoryTransport()
    gateway, orders = client_over(transport), refunds(3)
    async with Journal.open(url) as journal:
        job = journal.job("new one")
        await gateway.submit("refund", orders, job=job, slice_size=3)
        with closing(sqlite3.connect(path)) as file, file:
            changed_fields(file, lambda stored: stored.pop("refund_reason"))
        assert [outcome.order async for outcome in journal.outcomes(job.name)] == orders
        other = [attrs.evolve(orders[0], refund_reason="another"), *orders[1:]]
        with pytest.raises(JobConflictError, match="which differs in refund_reason"):
            await gateway.submit("refund", other, job=job)
        assert await gateway.submit("refund", orders, job=job) == 3
        assert (await gateway.resume(job, slice_number=1)).ok
        assert [transport.effects[order.transaction_id] for order in orders] == [1] * 3
        before = len(transport.asked)
        job = journal.job("new two")
        await gateway.submit("refund", orders, job=job, slice_size=3)
        with closing(sqlite3.connect(path)) as file, file:
            changed_fields(file, lambda stored: stored.update(urgency=["low"] * 3))
        words = (
            "'new two': .* unexpected .* 'urgency'.*; finish the job with the release that stored"
        )
        assert (await journal.status(job.name)).counts[OrderState.NEW] == 3
        for refused in (
            gateway.resume(job, slice_number=1),
            gateway.submit("refund", orders, job=job),
        ):
            with pytest.raises(JournalError, match=words) as caught:
                await refused
            assert caught.value.job == job.name
        assert len(transport.asked) == before


def test_what_another_release_noted_of_orders_that_differ_is_read() -> None:
    """What is not known here is passed over, and a reference counts wherever it was written."""
    exceptions = (
        b'[{"at":[1],"known":{"state":"succeeded","sent":"x"},"references":["found"]},'
        b'{"at":[2],"known":{"state":"new","text":"late","request":7},"references":[]}]'
    )
    row = (1, 0, 2, 1, "succeeded", 1.0, "", '["first","",""]', exceptions)
    chunk = ChunkState.read(row)
    assert [(one.state, one.reference, one.text) for one in chunk.known.values()] == [
        ("succeeded", "first", ""),
        ("succeeded", "found", ""),
        ("new", "", "late"),
    ]
    assert ChunkState.read([*chunk.row().values()]) == chunk

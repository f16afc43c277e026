"""A journal outlives the release that wrote it: a newer one reads, resumes and finishes its jobs.

The `.sql` files are what the last states of the library with these versions left when they were
killed, with jobs in every state; their program is in the history of this folder, `make_dump.py`.
`journal_version_1_first.sql` keeps orders without the names of their fields.
"""

import asyncio
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import psycopg
import pytest

from gateway_async import (
    AlikeRefundError,
    NotDoneError,
    OutcomeUnknownError,
    RefundOrder,
    RejectedError,
    operations,
)
from gateway_async.errors import JobConflictError, JournalError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.rows import ChunkState
from gateway_async.operations import OPERATIONS
from tests.journal.tables import Tables, kept, on_a_file
from tests.support.books import NOT_SENT, SUCCEEDED, statuses
from tests.support.memory import Asked, MemoryTransport, client_over
from tests.support.orders import RESENDING, refunds
from tests.support.postgres import emptied

HERE = Path(__file__).parent
DUMPS = ("1_first", "1", "2")  # of the same jobs
ERRORS_3 = {
    "declined": (RejectedError, "2005", "amount is not the order's"),
    "alike": (AlikeRefundError, "", "a refund of 1.00 of this transaction"),
    "notdone": (NotDoneError, "", "the gateway lists no refund that could be it"),
    "lost": (OutcomeUnknownError, "", "its reply was lost"),
}
"""Of the first order of each job of version 3: the class, code, and a part of the text."""
DONE_BUT_NOT_KNOWN = {("lost", 0): "late-1", ("stopped", 4): "late-2"}
"""What the gateway did of the requests whose replies the earlier process never read."""
REASONS = {"1.00": "", "2.5": 'zurück, "ganz"', "3": "换货", "0.10": "a\tb"}
"""Of refunds, by their amounts."""
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
    "paid": ["unknown", "succeeded", "succeeded"],  # in version 2; no look-up finds payouts
    "lost": ["unknown", "unknown", *["succeeded"] * 4],
    "stopped": [*["succeeded"] * 4, "unknown", "unknown", "not_sent", "not_sent"],
}
ON_A_SERVER = {
    r"DOUBLE(?! P)": "DOUBLE PRECISION",
    r"\bid (INTEGER|BIGINT)": "id BIGSERIAL",
    r"INTEGER|BOOLEAN": "BIGINT",
    "BLOB": "BYTEA",
    "WITHOUT ROWID": "",
    "DEFAULT FALSE": "DEFAULT 0",
    ",X'": r",'\\x",
}


@pytest.fixture
def dump(request: pytest.FixtureRequest) -> str:
    """The statements that make a journal of an earlier version."""
    path = HERE / f"journal_version_{getattr(request, 'param', '1')}.sql"
    return path.read_text(encoding="utf-8")


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
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", dump, re.DOTALL)
    for word, meaning in ON_A_SERVER.items():
        dump = re.sub(word, meaning, dump)
    for table, columns in tables:
        for flag in re.findall(r"(\w+) BOOLEAN", columns):
            dump += f"ALTER TABLE {table} ALTER {flag} DROP DEFAULT, "
            dump += f"ALTER {flag} TYPE BOOLEAN USING {flag} <> 0, ALTER {flag} SET DEFAULT FALSE;"
    dump += "SELECT setval(pg_get_serial_sequence('gateway_jobs', 'id'), 100)"
    target = emptied(request.getfixturevalue("postgres"))
    with psycopg.connect(target) as server:
        server.execute(dump.encode())
    return target


def check_read(name: str, found: list[Any]) -> Iterator[dict[str, str]]:
    """Check the outcomes of a job; yield the refunds that the gateway lists of it."""
    assert [str(outcome.status) for outcome in found] == STATUSES[name]
    for outcome in found:
        order, one = outcome.order, outcome.order.transaction_id
        if isinstance(order, RefundOrder):
            reason = REASONS.get(str(order.refund_amount), order.refund_reason)
            assert order.refund_reason == reason
        reference = outcome.record and outcome.record.refund_reference_id
        assert reference == (f"{one}-01" if outcome.status == "succeeded" else None)
        reference = reference or DONE_BUT_NOT_KNOWN.get((name, outcome.index))
        if reference is not None:
            done = {"refund_reference_id": reference, "refund_status": "1"}
            yield {"transaction_id": one, "refund_amount": str(order.refund_amount), **done}
    if name == "unclear":  # a text of the gateway's stays one
        for error in (outcome.error for outcome in found[2:]):
            assert (type(error), error.code) == (NotDoneError, "2005")
            assert (error.text, "\x1e" in str(error)) == ("amount is not the order's", False)


@pytest.mark.parametrize("dump", DUMPS, indirect=True)
async def test_an_earlier_journal_is_read_resumed_and_finished(path: Path, url: str) -> None:
    listed: list[dict[str, str]] = []

    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return asked.done()
        found = [item for item in listed if item["transaction_id"] in asked.transactions]
        return asked.done(refund_orders=found)

    transport, wanted = MemoryTransport(answer), Counter[str]()
    gateway = client_over(transport, recovery=RESENDING)
    at_once = [Journal.open(url) for _ in range(4)]  # one of them upgrades it
    await asyncio.gather(*(journal.__aenter__() for journal in at_once))
    for journal in at_once:
        assert (await journal.status("held")).total == 4
        await journal.__aexit__(None, None, None)
    assert Tables(url).run("SELECT version_num FROM gateway_journal_version") == [("4",)]
    assert [each.name for each in path.parent.glob("*version*")] == []
    async with Journal.open(url) as journal:
        names = [each.name for each in await journal.jobs()]
        assert names == sorted(names, key=[*STATUSES].index)
        if "paid" in names:
            names.remove("paid")
            payouts = await gateway.resume(journal.job("paid"))
            assert [str(outcome.status) for outcome in payouts] == STATUSES["paid"]
            with pytest.raises(JobConflictError, match="which stands in job 'paid'"):
                await gateway.payouts([payouts[1].order], job=journal.job("once more"))
        for name in names:
            found = await kept(journal, name)
            done = list(check_read(name, found))
            wanted.update(one.order.transaction_id for one in found if one.status != "declined")
            wanted.subtract(item["transaction_id"] for item in done)
            listed += done
        parts = [
            (journal.job(name), number)
            for name in names
            for number in [each.number for each in await journal.slices(name)] or [0]
        ]
        for job, number in parts:
            await gateway.resume(job, slice_number=number)
        assert {name: transport.effects[name] for name in wanted} == wanted
        for name in names:
            expected = ["declined" if one == "declined" else "succeeded" for one in STATUSES[name]]
            assert [str(one.status) for one in await kept(journal, name)] == expected
        before = len(transport.asked)
        for job, number in parts:
            assert (await gateway.resume(job, slice_number=number)).requests == 0
        given = [outcome.order for outcome in await kept(journal, "stopped")]
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
    for _ in range(2):
        assert asyncio.run(held()) == 2
        assert not copy.exists()
        copy.touch()  # as an upgrade leaves it that is killed at its end


@on_a_file
async def test_a_long_row_of_version_1_becomes_chunks(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of that version had any number of orders, and a chunk has no more than a request."""
    few = attrs.evolve(OPERATIONS["refund"], limit=3)
    monkeypatch.setattr(operations, "OPERATIONS", {**OPERATIONS, "refund": few})
    tables = Tables(url)
    tables.run("DELETE FROM gateway_states WHERE job_id = 12 AND first > 0")
    tables.run("UPDATE gateway_states SET last = 7, reference_list = '' WHERE job_id = 12")
    async with Journal.open(url):
        chunks = [each for each in tables.chunks() if each.job_id == 12]
        assert [[*chunk.known] for chunk in chunks] == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("dump", ["3"], indirect=True)
async def test_what_version_3_said_of_orders_that_are_alike_is_kept(url: str) -> None:
    Tables(url).run(
        "INSERT INTO gateway_jobs VALUES "
        "(7, 'begun', 'refund', 'M1', 'A1', '', 1.7e9, (1 = 0), 0, 0)"
    )
    async with Journal.open(url) as journal:
        names = [status.name for status in await journal.jobs()]
        assert names == ["declined", "alike", "pay", "notdone", "unclear", "lost"]
        for name, (error_class, code, text) in ERRORS_3.items():
            error = (await kept(journal, name))[0].error
            assert (type(error), getattr(error, "code", "")) == (error_class, code)
            assert text in str(error)
        paid = await kept(journal, "pay")
        assert [outcome.record.status for outcome in paid] == ["COMPLETED"] * 3
        counts = (await journal.status("notdone")).counts
        assert (counts[OrderState.HELD], counts[OrderState.SUCCEEDED]) == (4, 4)
        transport = MemoryTransport()
        gateway = client_over(transport)
        assert (await gateway.refund(refunds(70), job=journal.job("begun"))).ok
    assert [transport.effects[order.transaction_id] for order in refunds(70)] == [1] * 70


@pytest.mark.parametrize("dump", ["3"], indirect=True)
async def test_orders_of_version_3_keep_their_states_where_exceptions_become_alike(
    url: str,
) -> None:
    """They differed by a column that is no longer kept, and outnumber what the row says of all."""
    exceptions = [
        {"at": [at], "known": {"state": "succeeded", "request": at, "ended_at": 1.79e9}}
        for at in range(3)
    ]
    said = json.dumps({"text": "why", "proof": "decided"})
    Tables(url).run(
        "UPDATE gateway_chunks SET state = 'new', request = NULL, ended_at = NULL, "  # noqa: S608  # ours
        f"reference_list = '', texts = '{said}', exceptions = '{json.dumps(exceptions)}' "
        "WHERE job_id = (SELECT id FROM gateway_jobs WHERE name = 'declined')"
    )
    async with Journal.open(url) as journal:
        counts = (await journal.status("declined")).counts
        assert (counts[OrderState.SUCCEEDED], counts[OrderState.NEW]) == (3, 1)
        assert statuses(await kept(journal, "declined")) == [SUCCEEDED] * 3 + [NOT_SENT]


async def test_the_later_form_of_version_3_is_upgraded(tmp_path: Path) -> None:
    """It differs from today's tables by a column alone."""
    url = f"sqlite:///{tmp_path}/journal.db"
    gateway, tables = client_over(), Tables(url)
    async with Journal.open(url) as journal:
        assert (await gateway.refund(refunds(60), job=journal.job("done"))).ok
    tables.run("ALTER TABLE gateway_jobs ADD COLUMN imported BOOLEAN NOT NULL DEFAULT TRUE")
    tables.run("UPDATE gateway_journal_version SET version_num = '3'")
    known = tables.known()
    async with Journal.open(url) as journal:
        result = await gateway.refund(refunds(60), job=journal.job("done"))
    assert (result.ok, result.requests, tables.known()) == (True, 0, known)
    assert tables.run("SELECT version_num FROM gateway_journal_version") == [("4",)]


async def test_fields_that_another_release_has_not_are_defaults_and_more_fields_are_refused(
    tmp_path: Path,
) -> None:
    url, transport, orders = f"sqlite:///{tmp_path}/journal.db", MemoryTransport(), refunds(3)
    gateway, change = client_over(transport), "UPDATE gateway_orders SET bodies = json_"
    async with Journal.open(url) as journal:
        job = journal.job("new")
        await gateway.submit("refund", orders, job=job, slice_size=3)
        Tables(url).run(f"{change}remove(CAST(bodies AS TEXT), '$.refund_reason')")
        assert [outcome.order for outcome in await kept(journal, job.name)] == orders
        other = [attrs.evolve(orders[0], refund_reason="another"), *orders[1:]]
        with pytest.raises(JobConflictError, match="which differs in refund_reason"):
            await gateway.submit("refund", other, job=job)
        assert await gateway.submit("refund", orders, job=job) == 3
        assert (await gateway.resume(job, slice_number=1)).ok
        assert [transport.effects[order.transaction_id] for order in orders] == [1] * 3
        before, job = len(transport.asked), journal.job("newer")
        await gateway.submit("refund", orders, job=job, slice_size=3)
        Tables(url).run(f"{change}set(CAST(bodies AS TEXT), '$.urgency', json_array(1, 2, 3))")
        words = "'newer': .* unexpected .* 'urgency'.*; finish the job with the release that stored"
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

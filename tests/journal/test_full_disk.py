"""A disk that is full: nothing is half written, and it goes on when there is room again."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import Journal
from gateway_async.journal.database import Transaction
from gateway_async.journal.rows import BLOCK
from tests.journal.tables import Tables, pages_of, sent, submitted, succeeded, taken
from tests.orders import made_up, orders_for

LONG = orders_for("refund", made_up(120), refund_reason="r" * 900)


@pytest.fixture
def file(tmp_path: Path) -> Tables:
    return Tables(f"sqlite:///{tmp_path / 'journal.db'}")


@pytest.fixture
async def filling(file: Tables) -> AsyncIterator[Journal]:
    async with Journal.open(file.url) as filling:
        yield filling


async def leave_room(journal: Journal, pages: int) -> None:
    """Let the file grow by so many pages, until the connection is made anew."""

    def limit(inside: Transaction) -> None:
        (used,) = inside.run("PRAGMA page_count").fetchone()
        inside.run(f"PRAGMA max_page_count = {used + pages}")

    await journal.database.run("cannot limit", limit)


@pytest.mark.parametrize("pages", range(0, 24, 3))
async def test_an_import(filling: Journal, file: Tables, pages: int) -> None:
    await submitted(filling, LONG[:1], "before")
    await leave_room(filling, pages)
    job = filling.job("job")
    with pytest.raises(JournalError, match="cannot submit job 'job': database or disk is full"):
        await job.submit("refund", "M1", "A1", pages_of(LONG, 5))
    blocks = file.run("SELECT first FROM gateway_orders WHERE job_id <> 1")
    chunks = file.run("SELECT first, last FROM gateway_chunks WHERE job_id <> 1")
    assert len(blocks) == sum(-(-(last - first + 1) // BLOCK) for first, last in chunks)
    assert await job.submit("refund", "M1", "A1", pages_of(LONG, 5)) == len(LONG)
    assert [outcome.order async for outcome in filling.outcomes("job")] == LONG


@pytest.mark.parametrize("pages", range(6))
async def test_a_chunk(filling: Journal, file: Tables, pages: int) -> None:
    lease = await taken(filling, LONG)
    await leave_room(filling, pages)
    long = {f"T{number}": frozenset({"r" * 100}) for number in range(300)}
    with pytest.raises(JournalError, match=r"cannot keep what is about to be sent.*full"):
        await sent(lease, range(50), references=long)
    assert set(file.states()) == {"new"}
    request = await sent(lease, range(50), references=long)
    await leave_room(filling, pages)
    with pytest.raises(JournalError, match=r"cannot keep the outcomes.*full"):
        await lease.settle(request, succeeded(range(50), reference="r" * 999), ended_at=1.0)
    assert file.states()[:50] == ["intent"] * 50
    await lease.settle(request, succeeded(range(50), reference="r" * 999), ended_at=1.0)
    with closing(sqlite3.connect(file.url.removeprefix("sqlite:///"))) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

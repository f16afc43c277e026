"""One thread, shared commits, and errors that reach only those they are about."""

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import JobState, Journal
from gateway_async.journal.database import Database, Transaction
from gateway_async.journal.leases import Lease
from tests.journal.tables import Tables, Watch, held_up, sent, succeeded, taken
from tests.orders import refunds
from tests.postgres import emptied


def broken(inside: Transaction) -> None:
    inside.run("SELECT broken FROM nowhere WHERE :x = 'hush'", x="hush")


def stubborn(_: Transaction) -> None:
    raise ZeroDivisionError("not of the database")


async def test_what_comes_in_turns_that_follow_is_committed_together(
    journal: Journal, tables: Tables
) -> None:
    lease = await taken(journal)
    watch = Watch(journal)
    sending = []
    for index in range(10):
        sending.append(asyncio.create_task(sent(lease, (index,))))
        await asyncio.sleep(0)
    assert len(set(await asyncio.gather(*sending))) == 10
    assert watch.commits == 1
    assert tables.states() == ["intent"] * 10


@pytest.fixture
def handed_over(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, threading.Thread]]:
    """How many operations went to the thread together each time, and from which thread."""
    handed: list[tuple[int, threading.Thread]] = []
    hand_over = Database._hand_over

    def noted(self: Database) -> None:
        handed.append((len(self._gathered), threading.current_thread()))
        hand_over(self)

    monkeypatch.setattr(Database, "_hand_over", noted)
    return handed


@pytest.mark.parametrize(("count", "groups"), [(5, [5]), (50, [32, 18])])
async def test_a_loop_that_is_never_quiet_holds_nothing_up(
    journal: Journal,
    handed_over: list[tuple[int, threading.Thread]],
    count: int,
    groups: list[int],
) -> None:
    lease = await taken(journal)
    handed_over.clear()
    renewing = []
    for _ in range(count):
        renewing.append(asyncio.ensure_future(lease.renew()))
        for _ in range(3):
            await asyncio.sleep(0)
    await asyncio.gather(*renewing)
    assert [size for size, _ in handed_over] == groups


async def test_a_chunk_costs_two_statements_and_a_share_of_two_commits(journal: Journal) -> None:
    lease = await taken(journal, refunds(250))
    watch = Watch(journal)
    chunks = [range(start, start + 50) for start in range(0, 250, 50)]
    requests = await asyncio.gather(*(sent(lease, chunk) for chunk in chunks))
    settled = [
        lease.succeed(request, chunk, ["R1"] * 50, ended_at=1.0)
        for request, chunk in zip(requests, chunks, strict=True)
    ]
    await asyncio.gather(*settled)
    assert watch.commits == 2
    assert watch.statements == 2 * len(chunks) + 2  # and the lease, in each transaction


async def test_each_gets_its_own_error(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)

    async def run(what: str, operation: Callable[[Transaction], object]) -> object:
        return await journal.database.run(what, operation)

    with held_up(journal):
        waiting = [
            asyncio.create_task(sent(lease, range(3))),
            asyncio.create_task(run("cannot do this", broken)),
            asyncio.create_task(sent(lease, range(2, 5))),
            asyncio.create_task(run("cannot do that", stubborn)),
            asyncio.create_task(sent(lease, range(5, 7))),
            asyncio.create_task(sent(lease, (9,))),
        ]
        await asyncio.sleep(0)
        waiting[-1].cancel()
    *ended, cancelled = await asyncio.gather(*waiting, return_exceptions=True)
    kinds = [type(each) for each in ended]
    assert kinds == [int, JournalError, JournalError, ZeroDivisionError, int]
    assert isinstance(cancelled, asyncio.CancelledError)
    assert tables.states()[:9] == ["intent"] * 3 + ["new"] * 2 + ["intent"] * 2 + ["new"] * 2
    error = ended[1]
    assert isinstance(error, JournalError)
    assert str(error).startswith("cannot do this: ")
    shown = f"{error!r} {error.__cause__!r} {error.__context__!r}"
    assert "hush" not in shown
    assert "WHERE" not in shown
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  # our own


async def test_a_failed_commit_is_not_repeated(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    watch = Watch(journal)
    with held_up(journal):
        waiting = [asyncio.create_task(sent(lease, (index,))) for index in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        watch.fails_commit = True
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(each, JournalError) for each in ended)
    assert watch.commits <= 2
    watch.fails_commit = False
    assert tables.states() == ["new"] * 10
    assert await sent(lease, range(3))


END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = 'gateway_async' AND datname = current_database()"
)


async def test_a_connection_that_breaks_is_made_anew_once(postgres: str) -> None:
    tables = Tables(emptied(postgres))
    attempts: list[str] = []

    def breaking(inside: Transaction) -> None:
        attempts.append("before")
        tables.run(END_CONNECTIONS)
        inside.run("SELECT 1")

    def losing_its_commit(inside: Transaction) -> None:
        attempts.append("after")
        inside.run("SELECT 1")
        tables.run(END_CONNECTIONS)

    async with Journal.open(postgres) as journal:
        lease = await taken(journal)
        tables.run(END_CONNECTIONS)
        request = await sent(lease, range(3))
        tables.run(END_CONNECTIONS)
        assert (await journal.status("job")).total == 10
        for operation in (breaking, losing_its_commit):
            with pytest.raises(JournalError, match="cannot break"):
                await journal.database.run("cannot break", operation)
        await lease.settle(request, succeeded(range(3)), ended_at=1.0)
    assert attempts == ["before", "before", "after"]  # a commit in doubt is not repeated
    assert tables.states()[:4] == ["succeeded"] * 3 + ["new"]


async def test_what_was_asked_for_is_done_before_the_thread_ends(url: str, tables: Tables) -> None:
    before = set(threading.enumerate())
    journal = await Journal.open(url).__aenter__()
    (thread,) = set(threading.enumerate()) - before
    assert thread.name == "gateway journal"
    lease = await taken(journal)
    with held_up(journal):
        sending = asyncio.create_task(sent(lease, range(3)))
        await asyncio.sleep(0)
        leaving = asyncio.create_task(journal.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await sending
    assert tables.states()[:3] == ["intent"] * 3
    assert set(threading.enumerate()) == before


async def test_no_thread_is_left_where_it_cannot_be_opened(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    (tmp_path / "text.db").write_text("this is no database" * 100)
    for url, said in (
        (f"sqlite:///{tmp_path}/nowhere/journal.db", r"cannot open the journal sqlite:///.*unable"),
        (f"sqlite:///{tmp_path}", r"cannot open the journal sqlite:///.*unable"),
        (f"sqlite:///{tmp_path}/text.db", "file is not a database"),
        ("postgresql://u:hush@127.0.0.1:1/db", "cannot open the journal postgresql://u@127"),
    ):
        with pytest.raises(JournalError, match=said) as caught:
            await Journal.open(url).__aenter__()
        assert "hush" not in repr(caught.value)
    assert set(threading.enumerate()) == before


async def test_a_closed_journal_says_so(url: str) -> None:
    async with Journal.open(url) as journal:
        lease = await taken(journal)
        with pytest.raises(JournalError, match="is open already"):
            await journal.__aenter__()
    for closed in (lease.renew(), lease.rows({JobState.NEW}), journal.jobs(), lease.release()):
        with pytest.raises(JournalError, match=r"closed|not open"):
            await closed
    with pytest.raises(JournalError, match="not open"):
        await journal.job("job").head()
    async with journal:
        assert (await journal.status("job")).total == 10


async def test_another_event_loop_is_refused(
    url: str, handed_over: list[tuple[int, threading.Thread]]
) -> None:
    journal = await Journal.open(url).__aenter__()
    lease = await taken(journal)
    refused: list[str] = []

    async def use_it() -> None:
        for call in (
            journal.jobs(),
            lease.renew(),
            journal.job("job").take("me"),
            journal.__aexit__(None, None, None),
        ):
            with pytest.raises(JournalError, match="entered in another event loop") as caught:
                await call
            refused.append(str(caught.value))

    renewing = asyncio.ensure_future(lease.renew())
    await asyncio.to_thread(asyncio.run, use_it())
    assert len(refused) == 4
    await renewing
    assert {thread for _, thread in handed_over} == {threading.current_thread()}


def test_a_journal_of_a_loop_that_is_gone_ends_its_thread(url: str) -> None:
    before = set(threading.enumerate())
    journal = Journal.open(url)
    asyncio.run(journal.__aenter__())
    (thread,) = set(threading.enumerate()) - before
    with pytest.raises(JournalError, match="entered in another event loop"):
        asyncio.run(journal.__aexit__(None, None, None))
    thread.join(30)
    assert not thread.is_alive()


WRITES: dict[str, Callable[[Lease, Journal], Awaitable[object]]] = {
    "intend": lambda lease, _: sent(lease, range(3, 6)),
    "settle": lambda lease, _: lease.settle(1, succeeded(range(3), reference="R"), ended_at=1.0),
    "withdraw": lambda lease, _: lease.withdraw(1, range(3)),
    "renew": lambda lease, _: lease.renew(),
    "release": lambda lease, _: lease.release(),
    "resolve": lambda _, journal: journal.resolve("job", 9, "succeeded", "why"),
    "take": lambda _, journal: journal.job("job").take("me", 1),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_statement_that_fails_leaves_nothing_half_done(
    journal: Journal, tables: Tables, write: str
) -> None:
    lease = await taken(journal)
    assert await sent(lease, range(3)) == 1
    tables.put(9, state="unknown")
    known = tables.snapshot()
    watch = Watch(journal)
    for number in range(20):
        watch.statements, watch.broken = 0, number
        with contextlib.suppress(JournalError):
            await WRITES[write](lease, journal)
            break
        assert tables.snapshot() == known
    if write == "take":  # there is no such slice, so it never succeeds
        return
    assert 0 < watch.statements <= number  # it ended before the turn of the broken one
    assert tables.snapshot() != known

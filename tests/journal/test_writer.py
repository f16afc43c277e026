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
from tests.journal.tables import (
    Tables,
    Watch,
    counts_of,
    held_up,
    sent,
    submitted,
    succeeded,
    taken,
)
from tests.orders import refunds
from tests.postgres import emptied


def broken(inside: Transaction) -> None:
    inside.run("SELECT broken FROM nowhere WHERE :x = 'hush'", x="hush")


def stubborn(_: Transaction) -> None:
    raise ZeroDivisionError("not of the database")


async def test_what_waits_together_is_committed_together(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    watch = Watch(journal)
    with held_up(journal):
        sending = [
            asyncio.create_task(sent(lease, range(start, start + 2))) for start in range(0, 10, 2)
        ]
        await asyncio.sleep(0)
    requests = await asyncio.gather(*sending)
    assert watch.commits == 2  # the one that held it up, and the five
    assert len(set(requests)) == 5
    assert tables.states() == ["intent"] * 10


async def test_what_comes_in_turns_of_the_loop_that_follow_is_committed_together(
    journal: Journal, tables: Tables
) -> None:
    lease = await taken(journal)
    watch = Watch(journal)
    sending = []
    for index in range(10):
        sending.append(asyncio.create_task(sent(lease, (index,))))
        await asyncio.sleep(0)
    await asyncio.gather(*sending)
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


async def test_closed_from_another_thread_it_hands_over_in_its_own(
    url: str, handed_over: list[tuple[int, threading.Thread]]
) -> None:
    journal = await Journal.open(url).__aenter__()
    lease = await taken(journal)
    renewing = asyncio.ensure_future(lease.renew())

    def close() -> None:
        with pytest.raises(JournalError, match="entered in another event loop"):
            asyncio.run(journal.__aexit__(None, None, None))

    await asyncio.to_thread(close)
    await renewing
    assert {thread for _, thread in handed_over} == {threading.current_thread()}


async def test_a_chunk_costs_two_statements_and_a_share_of_two_commits(journal: Journal) -> None:
    lease = await taken(journal, refunds(250))
    watch = Watch(journal)
    chunks = [range(start, start + 50) for start in range(0, 250, 50)]
    requests = await asyncio.gather(*(sent(lease, chunk) for chunk in chunks))
    await asyncio.gather(
        *(
            lease.succeed(request, chunk, ["R1"] * 50, ended_at=1.0)
            for request, chunk in zip(requests, chunks, strict=True)
        )
    )
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
        ]
        await asyncio.sleep(0)
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    kinds = [type(each) for each in ended]
    assert kinds == [int, JournalError, JournalError, ZeroDivisionError, int]
    assert tables.states() == ["intent"] * 3 + ["new"] * 2 + ["intent"] * 2 + ["new"] * 3


async def test_an_error_shows_no_statement_and_no_parameter(journal: Journal) -> None:
    with pytest.raises(JournalError, match=r"^cannot do this: .*nowhere") as caught:
        await journal.database.run("cannot do this", broken)
    shown = f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"
    assert "hush" not in shown
    assert "WHERE" not in shown
    assert caught.value.__cause__ is None
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301  # our own


async def test_a_cancelled_caller_disturbs_nobody(journal: Journal, tables: Tables) -> None:
    lease = await taken(journal)
    with held_up(journal):
        waiting = [asyncio.create_task(sent(lease, (index,))) for index in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(ended[1], asyncio.CancelledError)
    assert [tables.states()[index] for index in (0, 2)] == ["intent"] * 2


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


async def test_a_broken_connection_is_made_anew(postgres: str) -> None:
    tables = Tables(emptied(postgres))
    async with Journal.open(postgres) as journal:
        lease = await taken(journal)
        tables.run(END_CONNECTIONS)
        request = await sent(lease, range(3))
        tables.run(END_CONNECTIONS)
        assert (await journal.status("job")).total == 10
        tables.run(END_CONNECTIONS)
        await lease.settle(request, succeeded(range(3)), ended_at=1.0)
        assert (await counts_of(lease))[JobState.SUCCEEDED] == 3


async def test_a_connection_that_breaks_again_and_again_is_an_error(postgres: str) -> None:
    tables = Tables(emptied(postgres))
    attempts: list[int] = []

    def breaking(inside: Transaction) -> None:
        attempts.append(1)
        tables.run(END_CONNECTIONS)
        inside.run("SELECT 1")

    async with Journal.open(postgres) as journal:
        lease = await taken(journal)
        with pytest.raises(JournalError, match="cannot break: terminating connection"):
            await journal.database.run("cannot break", breaking)
        assert len(attempts) == 2
        assert await sent(lease, range(3))


async def test_a_commit_that_loses_its_connection_is_not_repeated(postgres: str) -> None:
    tables = Tables(emptied(postgres))
    attempts: list[int] = []

    def breaking(inside: Transaction) -> None:
        attempts.append(1)
        inside.run("SELECT 1")
        tables.run(END_CONNECTIONS)

    async with Journal.open(postgres) as journal:
        with pytest.raises(JournalError, match="cannot break"):
            await journal.database.run("cannot break", breaking)
        assert len(attempts) == 1


async def test_the_thread_ends_with_the_journal(url: str) -> None:
    before = set(threading.enumerate())
    async with Journal.open(url) as journal:
        (thread,) = set(threading.enumerate()) - before
        assert thread.name == "gateway journal"
        await submitted(journal)
    assert set(threading.enumerate()) == before


async def test_what_was_asked_for_is_done_before_it_ends(url: str, tables: Tables) -> None:
    async with Journal.open(url) as journal:
        lease = await taken(journal)
        with held_up(journal):
            sending = asyncio.create_task(sent(lease, range(3)))
            await asyncio.sleep(0)
    assert await sending
    assert tables.states()[:3] == ["intent"] * 3


async def test_a_cancelled_exit_ends_the_thread_all_the_same(url: str) -> None:
    before = set(threading.enumerate())
    journal = await Journal.open(url).__aenter__()
    with held_up(journal):
        leaving = asyncio.create_task(journal.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert set(threading.enumerate()) == before


async def test_no_thread_is_left_where_it_cannot_be_opened(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    for path in (tmp_path / "nowhere" / "journal.db", tmp_path):
        with pytest.raises(JournalError, match=r"cannot open the journal sqlite:///.*unable"):
            await Journal.open(f"sqlite:///{path}").__aenter__()
    (tmp_path / "text.db").write_text("this is no database" * 100)
    with pytest.raises(JournalError, match="file is not a database"):
        await Journal.open(f"sqlite:///{tmp_path / 'text.db'}").__aenter__()
    with pytest.raises(JournalError, match="cannot open the journal postgresql://u@127") as caught:
        await Journal.open("postgresql://u:hush@127.0.0.1:1/db").__aenter__()
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


async def test_another_event_loop_is_told(url: str) -> None:
    before = set(threading.enumerate())
    journal = await Journal.open(url).__aenter__()
    lease = await taken(journal)
    ended: list[BaseException] = []

    async def use_it() -> None:
        for call in (journal.jobs(), lease.renew(), journal.job("job").take("me")):
            with pytest.raises(JournalError, match="entered in another event loop") as caught:
                await call
            ended.append(caught.value)

    await asyncio.to_thread(asyncio.run, use_it())
    assert len(ended) == 3
    await lease.renew()
    await journal.__aexit__(None, None, None)
    assert set(threading.enumerate()) - before <= {
        each for each in threading.enumerate() if "asyncio" in each.name
    }


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


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("write", WRITES)
async def test_a_statement_that_fails_leaves_nothing_half_done(
    journal: Journal, tables: Tables, write: str, number: int
) -> None:
    lease = await taken(journal)
    assert await sent(lease, range(3)) == 1
    tables.put(9, state="unknown")
    known = tables.snapshot()
    watch = Watch(journal)
    watch.broken = number
    with contextlib.suppress(JournalError):
        await WRITES[write](lease, journal)
        assert 0 < watch.statements <= number  # it ended before the turn of the broken one
        assert tables.snapshot() != known
        return
    assert tables.snapshot() == known

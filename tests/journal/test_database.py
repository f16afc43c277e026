"""One thread, shared commits that are on the disk, and errors that reach only those concerned."""

import asyncio
import contextlib
import functools
import itertools
import operator
import pickle
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from gateway_async.errors import ConfigurationError, JobNotFoundError, JournalError
from gateway_async.journal import Journal, OrderState, engines
from gateway_async.journal.database import Database, Transaction
from tests.journal.tables import Failures, Tables, submitted
from tests.support.dragnet import Dragnet
from tests.support.orders import refunds
from tests.support.postgres import emptied
from tests.support.servers import serving, tunnel


@contextlib.contextmanager
def held_up(journal: Journal) -> Iterator[None]:
    """Keep the journal's thread busy, so that what is asked for meanwhile waits together."""
    begun, let_go = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        let_go.wait(30)

    journal.database.post("cannot wait", wait)
    begun.wait(30)
    try:
        yield
    finally:
        let_go.set()


def writing(journal: Journal, number: int) -> "asyncio.Future[Any]":
    """Write a note of its own."""

    def write(inside: Transaction) -> None:
        inside.run("INSERT INTO gateway_payout_keys VALUES (:number, 0, 0)", number=str(number))

    return journal.database.run(f"cannot write {number}", write)


def written(tables: Tables) -> list[int]:
    return sorted(int(row[0]) for row in tables.run("SELECT request_id FROM gateway_payout_keys"))


async def test_what_comes_in_turns_that_follow_is_committed_together(
    journal: Journal, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed, hand_over = list[int](), Database._hand_over

    def noted(self: Database) -> None:
        handed.append(len(self._gathered))
        hand_over(self)

    monkeypatch.setattr(Database, "_hand_over", noted)
    failures, asked = Failures(lambda _: False), []
    failures.strike(journal)
    for number in range(50):
        asked.append(writing(journal, number))
        for _ in range(3):
            await asyncio.sleep(0)
    await asyncio.gather(*asked)
    assert handed == [32, 18]
    assert failures.counts["commit"] <= 2
    assert written(tables) == [*range(50)]


async def test_each_gets_its_own_error(journal: Journal, tables: Tables) -> None:
    def broken(inside: Transaction) -> None:
        inside.run("SELECT broken FROM nowhere WHERE :x = 'hush'", x="hush")

    def stubborn(_: Transaction) -> None:
        raise ZeroDivisionError("not of the database")

    with held_up(journal):
        waiting = [
            writing(journal, 1),
            journal.database.run("cannot do this", broken),
            writing(journal, 1),
            journal.database.run("cannot do that", stubborn),
            writing(journal, 2),
            writing(journal, 3),
        ]
        await asyncio.sleep(0)
        waiting[-1].cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    kinds = [JournalError, JournalError, ZeroDivisionError, asyncio.CancelledError]
    assert [type(each) for each in ended if each is not None] == kinds
    assert (ended[0], ended[4]) == (None, None)
    assert written(tables)[:2] == [1, 2]
    error: Any = ended[1]
    assert str(error).startswith("cannot do this: ")
    shown = f"{error!r} {error.__cause__!r} {error.__context__!r}"
    assert not any(secret in shown for secret in ("hush", "WHERE"))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  # our own


async def test_an_error_of_ours_ends_no_connection_and_reaches_no_other(journal: Journal) -> None:
    """A server that has no other connection to give would refuse the next."""
    await submitted(journal)
    database: Any = journal.database
    driver = database._driver
    asked = (journal.status("none"), journal.resolve("job", 3, "declined", "why"), journal.jobs())
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in ended] == [JobNotFoundError, JournalError, list]
    assert database._driver is driver


async def test_nothing_waits_for_a_lock_in_vain_behind_another(postgres: str) -> None:
    waited = list[int]()

    def wait(number: int, inside: Transaction) -> None:
        waited.append(number)
        inside.run("SET LOCAL lock_timeout = '1ms'")
        inside.run("SELECT count(*) FROM gateway_jobs")

    async with Journal.open(emptied(postgres)) as journal:
        with psycopg.connect(postgres) as locked:
            locked.execute("LOCK TABLE gateway_jobs")
            asked = [
                journal.database.run(f"cannot read {number}", functools.partial(wait, number))
                for number in range(5)
            ]
            ended = await asyncio.gather(*asked, return_exceptions=True)
        assert await journal.jobs() == []
    assert waited == [0]
    for number, error in enumerate(ended):
        assert isinstance(error, JournalError)
        assert str(error) == f"cannot read {number}: canceling statement due to lock timeout"


async def test_a_file_that_stays_locked_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, real = list[object](), engines.Sqlite.begin

    def begin(self: engines.Sqlite, driver: Any) -> None:
        begun.append(driver)
        real(self, driver)

    monkeypatch.setattr(engines, "_BUSY_SECONDS", 0.05)
    async with Journal.open(f"sqlite:///{tmp_path}/journal.db") as journal:
        with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as locked:
            locked.execute("BEGIN EXCLUSIVE")
            monkeypatch.setattr(engines.Sqlite, "begin", begin)
            asked = [journal.jobs() for _ in range(100)]  # more than share a transaction
            for error in await asyncio.gather(*asked, return_exceptions=True):
                assert str(error) == "cannot read the jobs: database is locked"
        assert await journal.jobs() == []
    assert len(begun) == 2


async def test_a_write_whose_commit_broke_off_is_in_doubt(journal: Journal, tables: Tables) -> None:
    await submitted(journal)
    tables.put(state="unknown")
    Failures(lambda number: number == 0, "in doubt", ("commit",)).strike(journal)
    with pytest.raises(JournalError, match="is gone; it may be kept all the same") as caught:
        await journal.resolve("job", 3, "declined", "why")
    assert caught.value.is_in_doubt
    assert tables.states()[3] == "declined"
    with pytest.raises(JournalError, match="that is final") as caught:
        await journal.resolve("job", 3, "declined", "why")
    assert not caught.value.is_in_doubt


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
        for number in range(2):
            tables.run(END_CONNECTIONS)
            await writing(journal, number)
        for operation in (breaking, losing_its_commit):
            with pytest.raises(JournalError, match="cannot break"):
                await journal.database.run("cannot break", operation)
        await writing(journal, 2)
    assert attempts == ["before", "before", "after"]  # a commit in doubt is not repeated
    assert written(tables) == [0, 1, 2]


async def test_what_was_asked_for_is_done_before_the_thread_ends(url: str, tables: Tables) -> None:
    before = set(threading.enumerate())
    journal = await Journal.open(url).__aenter__()
    (thread,) = set(threading.enumerate()) - before
    assert thread.name.startswith("gateway journal")
    with held_up(journal):
        asked = writing(journal, 1)
        await asyncio.sleep(0)
        leaving = asyncio.create_task(journal.__aexit__(None, None, None))
        await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await leaving
    await asked
    assert written(tables) == [1]
    assert set(threading.enumerate()) == before


async def test_no_thread_is_left_where_it_cannot_be_opened(tmp_path: Path, net: Dragnet) -> None:
    before = set(threading.enumerate())
    net.signatures |= {"hush"}
    (tmp_path / "text.db").write_text("this is no database" * 100)
    server, shown = (
        "postgresql://u:hush@127.0.0.1:1/db",
        "cannot open the journal postgresql://u@127",
    )
    for url, said in (
        (f"sqlite:///{tmp_path}/nowhere/j.db", "its folder does not exist; make it first"),
        (f"sqlite:///{tmp_path}/{'n' * 300}", "cannot open .* unable to open database file"),
        (f"sqlite:///{tmp_path}", r"cannot open the journal sqlite:///.*unable"),
        (f"sqlite:///{tmp_path}/text.db", "file is not a database"),
        (server, shown),
        (f"{server}?prepare_threshold=0", "cannot be read"),
        (f"{server}?nonsense=hush", "cannot be read"),
    ):
        with net.raises(JournalError, ConfigurationError, match=said):
            await Journal.open(url).__aenter__()
    assert set(threading.enumerate()) == before


async def test_a_closed_journal_says_so(url: str) -> None:
    async with Journal.open(url) as journal:
        await submitted(journal)
        database = journal.database
        with pytest.raises(JournalError, match="is open already"):
            await journal.__aenter__()
    await journal.__aexit__(None, None, None)  # again, which does nothing
    for closed in (database.run("cannot", lambda _: None), journal.jobs(), journal.status("job")):
        with pytest.raises(JournalError, match=r"closed|not open"):
            await closed
    async with journal:
        assert (await journal.status("job")).total == 10


async def test_another_loop_is_refused_and_what_was_asked_is_done(url: str, tables: Tables) -> None:
    journal = await Journal.open(url).__aenter__()
    database = journal.database

    async def use_it() -> None:
        for call in (journal.jobs(), writing(journal, 2), journal.__aexit__(None, None, None)):
            with pytest.raises(JournalError, match="entered in another event loop"):
                await call

    asked = writing(journal, 1)
    with ThreadPoolExecutor() as threads:  # while this loop stands still, with what was asked for
        threads.submit(asyncio.run, use_it()).result()
    async with asyncio.timeout(120):
        await asked
        await database.aclose()
    assert written(tables) == [1]


async def test_a_decision_of_which_a_statement_fails_leaves_nothing_half_done(
    journal: Journal, tables: Tables
) -> None:
    """Of what else is written, so show jobs whose database fails."""
    await submitted(journal, refunds(60))
    tables.put(49, 50, state="unknown")  # of two chunks
    known = tables.snapshot()
    for number in itertools.count():
        failures = Failures(functools.partial(operator.eq, number))
        failures.strike(journal)
        with contextlib.suppress(JournalError):
            await journal.resolve("job", [49, 50], "succeeded", "why")
            break
        assert failures.failed == 1
        assert (await journal.status("job")).counts[OrderState.UNKNOWN] == 2  # connected anew
        assert tables.snapshot() == known
    assert number > 0
    assert tables.states()[49:51] == ["succeeded"] * 2


# What is on the disk after a commit, and what ends a wait for a database that says nothing


async def asked(journal: Journal, statement: str) -> list[Any]:
    """Return the rows of a statement on the journal's own connection."""
    ask = journal.database.run("cannot ask", lambda inside: [*map(tuple, inside.run(statement))])
    return await ask


@pytest.mark.parametrize(
    ("name", "configured", "used"),
    [("synchronous_commit", "off", "on"), ("client_encoding", "LATIN1", "UTF8")],
)
async def test_a_commit_is_on_the_servers_disk_and_any_text_can_be_kept(
    postgres: str, name: str, configured: str, used: str
) -> None:
    url, tables = emptied(postgres), Tables(postgres)
    database = url.rpartition("/")[2]
    tables.run(f"ALTER DATABASE {database} SET {name} = '{configured}'")
    try:
        for chosen in (url, f"{url}?options=-c{name}%3D{configured}"):
            async with Journal.open(chosen) as journal:
                assert await asked(journal, f"SELECT current_setting('{name}')") == [(used,)]
    finally:
        tables.run(f"ALTER DATABASE {database} RESET {name}")


async def test_a_commit_is_on_the_disk(tmp_path: object) -> None:
    async with Journal.open(f"sqlite:///{tmp_path}/journal.db") as journal:
        assert await asked(journal, "PRAGMA synchronous") == [(2,)]
        assert await asked(journal, "PRAGMA fullfsync") == [(1,)]


async def test_what_no_next_run_would_find_is_not_written(tmp_path: Path) -> None:
    path, aside = tmp_path / "journal.db", tmp_path / "aside"
    async with Journal.open(f"sqlite:///{path}") as journal:
        await submitted(journal)
        path.rename(aside)
        for _ in range(2):
            with pytest.raises(JournalError, match=r"cannot submit .* was deleted, moved"):
                await submitted(journal, name="another")
        assert not path.exists()
        path.write_bytes(aside.read_bytes())
        with pytest.raises(JournalError, match="replaced"):
            await submitted(journal, name="another")
    async with journal:  # it is another journal then, as it is to any process
        await submitted(journal, name="another")


async def test_nothing_is_kept_any_more_once_the_log_behind_a_link_was_lost(tmp_path: Path) -> None:
    """What a new log has, the old one would undo, were it put back."""
    (tmp_path / "link.db").symlink_to(tmp_path / "journal.db")
    async with Journal.open(f"sqlite:///{tmp_path}/link.db") as journal:
        await submitted(journal)
        (tmp_path / "journal.db-wal").unlink()
        for _ in range(2):
            together = [submitted(journal, name=f"job {number}") for number in range(3)]
            for error in await asyncio.gather(*together, return_exceptions=True):
                assert "write-ahead log beside it, was deleted" in str(error)


async def test_a_file_of_two_names_has_two_logs_and_is_refused(tmp_path: Path) -> None:
    """Two processes would each find the lease free, and send the same orders."""
    path, link = tmp_path / "journal.db", tmp_path / "a link.db"
    async with Journal.open(f"sqlite:///{path}") as journal:
        await submitted(journal)
    link.hardlink_to(path)
    for name in (path, link):
        with pytest.raises(JournalError, match="a second name: a hard link"):
            await Journal.open(f"sqlite:///{name}").__aenter__()
    link.unlink()
    async with Journal.open(f"sqlite:///{path}") as journal:
        assert [job.total for job in await journal.jobs()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists its mounts")
def test_a_file_that_is_mounted_alone_is_refused(tmp_path: Path) -> None:
    """As a container gets it: the log is beside the mount, and goes with the container."""
    path, mount = tmp_path / "journal.db", tmp_path / "a mount.db"
    path.touch()
    mount.touch()
    script = f"""
import asyncio, subprocess
from gateway_async.journal import Journal

subprocess.run(["mount", "--bind", "{path}", "{mount}"], check=True)
asyncio.run(Journal.open("sqlite:///{mount}").__aenter__())
"""
    command = ["unshare", "-rm", sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603  # ours
    if "unshare:" in done.stderr:
        pytest.skip("no mount can be made here")
    assert "a mount of the file alone" in done.stderr


async def test_limits_are_in_the_order_in_which_they_must_act(postgres: str) -> None:
    names = ("idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout")
    async with Journal.open(emptied(postgres)) as journal:
        found = await asked(
            journal,
            f"SELECT name, setting FROM pg_settings WHERE unit = 'ms' AND name IN {names}",  # noqa: S608  # ours
        )
    limits = dict(found)
    idle, lock, statement = (int(str(limits[name])) / 1000 for name in names)
    assert 0 < 2 * idle <= lock < statement < engines._SILENT_SECONDS


async def test_a_short_limit_of_the_server_ends_no_connection_that_is_being_made(
    postgres: str,
) -> None:
    url = f"{emptied(postgres)}?options=-cidle_in_transaction_session_timeout%3D1ms"
    for _ in range(20):
        async with Journal.open(url) as journal:
            assert await journal.jobs() == []


async def test_a_silent_server_is_given_up(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, is_silent = urlsplit(emptied(postgres)), False

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = await asyncio.open_connection(place.hostname, place.port or 5432)
        with contextlib.closing(server[1]):
            await tunnel((reader, writer), server, lambda: is_silent)

    async with serving(pass_on) as address:
        user, at, _ = place.netloc.rpartition("@")
        through = place._replace(netloc=f"{user}{at}{urlsplit(address).netloc}")
        async with Journal.open(through.geturl()) as journal:
            await submitted(journal)
            is_silent = True
            monkeypatch.setattr(engines, "_SILENT_SECONDS", 0.1)
            monkeypatch.setattr("psycopg.connection.timeout_from_conninfo", lambda _: 0.1)
            with pytest.raises(JournalError, match=r"cannot submit .*the server said nothing"):
                await submitted(journal, name="another")
            with pytest.raises(JournalError, match="timeout"):  # it is silent in the handshake
                await journal.jobs()
            monkeypatch.undo()
            is_silent = False
            await submitted(journal, name="another")
            is_silent = True
            monkeypatch.setattr(engines, "_SILENT_SECONDS", 0.1)
            waiting = asyncio.create_task(journal.status("job"))
            await asyncio.sleep(0)
    with pytest.raises(JournalError):
        await waiting

"""What is on the disk after a commit, and what ends a wait for a database that says nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import Journal, engines
from tests.journal.tables import Tables, submitted
from tests.orders import made_up, orders_for
from tests.postgres import emptied, postgres_url
from tests.support.cable import Cable


async def asked(journal: Journal, statement: str) -> list[Any]:
    """Return the rows of a statement on the journal's own connection."""
    ask = journal.database.run("cannot ask", lambda inside: [*map(tuple, inside.run(statement))])
    return await ask


@pytest.mark.parametrize(
    ("name", "configured", "used", "by"),
    [
        ("synchronous_commit", "off", "on", "database"),
        ("synchronous_commit", "off", "on", "url"),
        ("client_encoding", "LATIN1", "UTF8", "database"),
    ],
)
async def test_a_commit_is_on_the_servers_disk_and_any_text_can_be_kept(  # a table
    postgres: str, name: str, configured: str, used: str, by: str
) -> None:
    url, tables = emptied(postgres), Tables(postgres)
    database = url.rpartition("/")[2]
    if by == "url":
        url += f"?options=-c{name}%3D{configured}"
    else:
        tables.run(f"ALTER DATABASE {database} SET {name} = '{configured}'")
    try:
        async with Journal.open(url) as journal:
            assert await asked(journal, f"SELECT current_setting('{name}')") == [(used,)]  # ours
    finally:
        tables.run(f"ALTER DATABASE {database} RESET {name}")


@pytest.mark.slow
async def test_a_database_keeps_any_text_or_is_refused() -> None:
    text = "余额不足 и €"
    with postgres_url("SQL_ASCII") as url:
        async with Journal.open(url) as journal:
            await submitted(journal, orders_for("refund", made_up(1), refund_reason=text))
            assert (await anext(journal.outcomes("job"))).order.refund_reason == text
    with postgres_url("LATIN1") as url:
        with pytest.raises(JournalError, match=r"encoding of this database is LATIN1, .* UTF8"):
            await Journal.open(url).__aenter__()
        assert Tables(url).run("SELECT to_regclass('gateway_journal')") == [(None,)]


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


async def test_a_silent_server_is_given_up(postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = urlsplit(emptied(postgres))
    async with Cable(place.port or 5432) as cable:
        user, at, _ = place.netloc.rpartition("@")
        through = place._replace(netloc=f"{user}{at}127.0.0.1:{cable.port}")
        async with Journal.open(through.geturl()) as journal:
            await submitted(journal)
            cable.is_silent = True
            monkeypatch.setattr(engines, "_SILENT_SECONDS", 0.1)
            monkeypatch.setattr("psycopg.connection.timeout_from_conninfo", lambda _: 0.1)
            with pytest.raises(JournalError, match=r"cannot submit .*the server said nothing"):
                await submitted(journal, name="another")
            with pytest.raises(JournalError, match="timeout"):  # it is silent in the handshake
                await journal.jobs()
            monkeypatch.undo()
            cable.is_silent = False
            await submitted(journal, name="another")
            cable.is_silent = True
            monkeypatch.setattr(engines, "_SILENT_SECONDS", 0.1)
            waiting = asyncio.create_task(journal.status("job"))
            await asyncio.sleep(0)
    with pytest.raises(JournalError):
        await waiting

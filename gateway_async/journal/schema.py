"""Makes the tables of a journal where there are none, and brings earlier versions up to date."""

import glob
import shutil
from contextlib import closing
from pathlib import Path

from gateway_async.errors import JournalError
from gateway_async.journal.database import Transaction
from gateway_async.journal.engines import Sqlite
from gateway_async.journal.tables import statements
from gateway_async.journal.upgrades import UPGRADES

VERSION = "4"
_EARLIEST = "1"
_ADVISORY_LOCK = 0x6761_6A6F_7572


def prepare(transaction: Transaction) -> None:
    """Make the tables where there are none, and bring those of an earlier version up to date.

    Raises:
        JournalError: If they are of a newer version.
    """
    transaction.lock(_ADVISORY_LOCK)
    found = _find_version(transaction)
    if found is None:
        for statement in statements(is_sqlite=transaction.engine.is_sqlite):
            transaction.driver.execute(statement)
        transaction.run("INSERT INTO gateway_journal_version VALUES (:version)", version=VERSION)
        return
    if found != VERSION:
        _upgrade(transaction, found)
    if isinstance(transaction.engine, Sqlite):
        for copy in _copies(transaction.engine.path):  # also of one that was killed at its end
            copy.unlink(missing_ok=True)


def _find_version(transaction: Transaction) -> str | None:
    """Return the version of the tables; None where there are none."""
    if _has_table(transaction, "gateway_journal_version"):
        found = transaction.run("SELECT version_num FROM gateway_journal_version").fetchone()
        return str(found[0])
    if not _has_table(transaction, "gateway_journal"):
        return None
    # What is version 1 here had a number of its own; before it, jobs were not cut into slices.
    return _EARLIEST if _has_table(transaction, "gateway_slices") else "0"


def _has_table(transaction: Transaction, name: str) -> bool:
    # From a table, so that the server looks anew: another process may just have upgraded.
    statement = "SELECT 1 FROM pg_class WHERE oid = to_regclass(:name)"
    if transaction.engine.is_sqlite:
        statement = "SELECT 1 FROM sqlite_master WHERE name = :name"
    return transaction.run(statement, name=name).fetchone() is not None


def _upgrade(transaction: Transaction, found: str) -> None:
    """Bring the tables to this version, in the transaction of the caller, and commit.

    A copy of a SQLite file is kept beside it until that has succeeded.

    Raises:
        JournalError: If they are of a newer version, or of one that was never released.
    """
    if not (found.isdecimal() and int(found) in UPGRADES):
        raise JournalError(
            f"the journal in this database is of version {found}, and this release of "
            f"gateway_async reads versions {_EARLIEST} to {VERSION}: use the release that wrote "
            "it, or a newer one; in another database its jobs are not known, and their orders "
            "would be sent again"
        )
    if isinstance(transaction.engine, Sqlite):
        _copy(transaction.engine.path, found)
    for version in range(int(found), int(VERSION)):
        UPGRADES[version](transaction)
    transaction.run("UPDATE gateway_journal_version SET version_num = :version", version=VERSION)
    transaction.driver.commit()


def _copies(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{glob.escape(path.name)}.version-*"))


def _copy(path: Path, version: str) -> None:
    """Copy a SQLite file that this process has locked, as it was before."""
    import sqlite3  # noqa: PLC0415  # not of PostgreSQL

    for stale in _copies(path):  # of an upgrade that failed: the file is still as it was
        stale.unlink()
    target = path.with_name(f"{path.name}.version-{version}")
    target.touch(mode=0o600)  # before it has any orders
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    shutil.copymode(path, target)

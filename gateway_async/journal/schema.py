"""The tables of a journal, the same in SQLite and PostgreSQL, and their versions.

What changes often is narrow, and apart from what never changes. There are no foreign keys, since
nothing is ever deleted.
"""

import glob
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from gateway_async.errors import JournalError
from gateway_async.journal.database import Transaction
from gateway_async.journal.engines import Sqlite

VERSION = "4"
_EARLIEST = "1"
_ADVISORY_LOCK = 0x6761_6A6F_7572
_VERSIONS = Path(__file__).with_name("versions")

TABLES = Path(__file__).with_name("tables.sql")
# The words of tables.sql that differ: in SQLite, and in PostgreSQL.
_WORDS = {
    "SERIAL_KEY": ("INTEGER PRIMARY KEY", "BIGSERIAL PRIMARY KEY"),
    "BINARY_DATA": ("BLOB", "BYTEA"),
    "BY_KEY": ("WITHOUT ROWID", ""),
}


def statements(*, is_sqlite: bool) -> Iterator[str]:
    """Yield the statements that make the tables, in the words of a database."""
    text = TABLES.read_text(encoding="utf-8")
    for word, (sqlite, postgres) in _WORDS.items():
        text = text.replace(word, sqlite if is_sqlite else postgres)
    yield from filter(str.strip, text.split(";\n"))


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
    """Bring the tables to this version, in one transaction that no other process shares.

    A copy of a SQLite file is kept beside it until that has succeeded.

    Raises:
        JournalError: If they are of a newer version, or of one that was never released.
    """
    if not (found.isdecimal() and int(_EARLIEST) <= int(found) < int(VERSION)):
        raise JournalError(
            f"the journal in this database is of version {found}, and this release of "
            f"gateway_async reads versions {_EARLIEST} to {VERSION}: use the release that wrote "
            "it, or a newer one; in another database its jobs are not known, and their orders "
            "would be sent again"
        )
    import sqlalchemy as sa  # noqa: PLC0415  # seldom needed
    from alembic.operations import Operations  # noqa: PLC0415  # seldom needed
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415  # seldom needed
    from alembic.script import ScriptDirectory  # noqa: PLC0415  # seldom needed

    scripts = ScriptDirectory(str(_VERSIONS), version_locations=[str(_VERSIONS)])
    journal, driver = transaction.engine, transaction.driver
    kind = "sqlite" if journal.is_sqlite else "postgresql+psycopg"
    engine = sa.create_engine(
        f"{kind}://", creator=lambda: driver, poolclass=sa.StaticPool, hide_parameters=True
    )
    with engine.connect() as connection:
        journal.begin(driver)  # SQLAlchemy has ended the one before
        transaction.lock(_ADVISORY_LOCK)
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "gateway_journal_version",
                "transactional_ddl": True,  # also SQLite's: all versions in one transaction
                "fn": lambda revision, _: scripts._upgrade_revs(VERSION, revision),  # noqa: SLF001  # as `alembic upgrade` does
            },
        )
        if context.get_current_revision() != VERSION:  # else another process was faster
            if isinstance(journal, Sqlite):
                _copy(journal.path, found)
            try:
                with Operations.context(context):
                    context.run_migrations()
            except sa.exc.DBAPIError as error:
                raise error.orig or error from None
        driver.commit()


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

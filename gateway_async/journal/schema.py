"""The tables of a journal, the same in SQLite and PostgreSQL, and their versions.

What changes often is narrow, and apart from what never changes. There are no foreign keys, since
only an import that was not finished is ever deleted.
"""

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_async.errors import JournalError
from gateway_async.journal.database import Transaction

if TYPE_CHECKING:
    from gateway_async.journal.location import Location

VERSION = "3"
_EARLIEST = "2"
_ADVISORY_LOCK = 0x6761_6A6F_7572
_VERSIONS = Path(__file__).with_name("versions")

TABLES = Path(__file__).with_name("tables.sql")
_WORDS = {
    "sqlite+pysqlite": {
        "SERIAL_KEY": "INTEGER PRIMARY KEY",
        "BINARY_DATA": "BLOB",
        "BY_KEY": "WITHOUT ROWID",
    },
    "postgresql+psycopg": {
        "SERIAL_KEY": "BIGSERIAL PRIMARY KEY",
        "BINARY_DATA": "BYTEA",
        "BY_KEY": "",
    },
}


def statements(dialect: str) -> Iterator[str]:
    """Yield the statements that make the tables, in the words of a database."""
    for statement in filter(str.strip, TABLES.read_text(encoding="utf-8").split(";\n")):
        text = statement
        for word, meaning in _WORDS[dialect].items():
            text = text.replace(word, meaning)
        yield text


def prepare(engine: Any, location: "Location", *, create: bool = True) -> None:  # noqa: ANN401  # either engine
    """Make the tables where there are none, and bring those of an earlier version up to date.

    Args:
        engine: How to connect.
        location: Where the journal is.
        create: Whether a journal is made where there is none.

    Raises:
        JournalError: If they are of a newer version, or there are none and are not to be made, or
            the database cannot hold every text.
    """
    if location.is_sqlite and not create and not Path(location.path).exists():
        raise location.missing()
    with _transaction(engine) as transaction:
        transaction.lock(_ADVISORY_LOCK)
        if transaction.run(engine.find_table, name="gateway_journal_version").fetchone():
            row = transaction.run("SELECT version_num FROM gateway_journal_version").fetchone()
            found = str(row[0])
        elif transaction.run(engine.find_table, name="gateway_jobs").fetchone():
            found = "1"
        elif not create:
            raise location.missing()
        else:
            if not location.is_sqlite:
                _check_encoding(transaction)
            for statement in statements(engine.dialect):
                transaction.driver.execute(statement)
            transaction.run(
                "INSERT INTO gateway_journal_version VALUES (:version)", version=VERSION
            )
            found = VERSION
    if found != VERSION:
        _upgrade(engine, location, found)


@contextlib.contextmanager
def _transaction(engine: Any) -> Iterator[Transaction]:  # noqa: ANN401  # either engine
    """Connect for one transaction; closing the connection rolls back what failed."""
    with closing(engine.connect()) as driver:
        engine.begin(driver)
        yield Transaction(driver, engine)
        driver.commit()


def _upgrade(engine: Any, location: "Location", found: str) -> None:  # noqa: ANN401  # either engine
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
    connecting = sa.create_engine(
        f"{engine.dialect}://", creator=engine.connect, poolclass=sa.NullPool, hide_parameters=True
    )
    copy: Path | None = None
    with connecting.connect() as connection:
        driver: Any = connection.connection.driver_connection
        if location.is_sqlite:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            engine.lock(driver, _ADVISORY_LOCK)
        context = MigrationContext.configure(
            connection,
            opts={
                "version_table": "gateway_journal_version",
                "fn": lambda revision, _: scripts._upgrade_revs(VERSION, revision),  # noqa: SLF001  # as `alembic upgrade` does
            },
        )
        if context.get_current_revision() != VERSION:  # else another process was faster
            if location.is_sqlite:
                copy = _copied(Path(location.path), found)
            try:
                with Operations.context(context):
                    context.run_migrations()
            except sa.exc.DBAPIError as error:
                raise error.orig or error from None
        driver.commit()
    if copy is not None:
        copy.unlink()


def _copied(path: Path, version: str) -> Path:
    """Copy a SQLite file that this process has locked, as it was before."""
    import sqlite3  # noqa: PLC0415  # not of PostgreSQL

    target = path.with_name(f"{path.name}.version-{version}")
    target.unlink(missing_ok=True)  # of an upgrade that failed: the file is still as it was
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    shutil.copymode(path, target)
    return target


def _check_encoding(transaction: Transaction) -> None:
    """Make sure that the database holds every text that a gateway may say.

    Raises:
        JournalError: If it does not: that would come out only after money moved.
    """
    (encoding,) = transaction.run("SHOW server_encoding").fetchone()
    if encoding not in {"UTF8", "SQL_ASCII"}:
        raise JournalError(
            f"the encoding of this database is {encoding}, in which not every text can be kept: "
            "make one of UTF8 for the journal"
        )

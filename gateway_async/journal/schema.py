"""The tables of a journal, the same in SQLite and PostgreSQL, and their versions.

What changes often is narrow, and apart from what never changes. A chunk of orders that are alike is
one row, however many they are; an order that differs from its chunk has a row of its own. There are
no foreign keys, since only an import that was not finished is ever deleted.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from gateway_async.errors import JournalError

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

    from gateway_async.journal.location import Location

VERSION = "2"
_EARLIEST = "1"
_CLOSED_TO_EARLIER = 4
_ADVISORY_LOCK = 0x6761_6A6F_7572
_LOCK_OF_JOBS = 0x6761_6A6F_0000_0000
_ANY_TEXT = ("UTF8", "SQL_ASCII")
_VERSIONS = Path(__file__).with_name("versions")


class DatabaseNow(FunctionElement[float]):
    """The database's own clock, in seconds since the epoch: one for all processes."""

    inherit_cache: bool | None = True
    type: sa.types.TypeEngine[float] = sa.Double()


@compiles(DatabaseNow, "sqlite")
def _now_of_sqlite(element: DatabaseNow, compiler: "SQLCompiler", **_: Any) -> str:  # noqa: ANN401  # SQLAlchemy's
    del element, compiler
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(DatabaseNow, "postgresql")
def _now_of_postgresql(element: DatabaseNow, compiler: "SQLCompiler", **_: Any) -> str:  # noqa: ANN401  # SQLAlchemy's
    del element, compiler
    return "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"


SECONDS_FROM_NOW = DatabaseNow() + sa.bindparam("seconds", type_=sa.Double)
"""By the database's clock, so many `seconds` from now."""

_METADATA = sa.MetaData()
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _text(name: str) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=False, server_default="")


def _key(name: str, kind: Any = _NUMBER) -> "sa.Column[int]":  # noqa: ANN401  # SQLAlchemy's types
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


EARLIER_SCHEMA = sa.Table(
    "gateway_journal",
    _METADATA,
    _key("id", sa.Integer),
    sa.Column("version", sa.Integer, nullable=False),
)
"""Releases before version 2 look here, and leave a journal alone whose version they do not know."""

SCHEMA = sa.Table(
    "gateway_journal_version",
    _METADATA,
    sa.Column("version_num", sa.String(32), primary_key=True),
)
"""The version, kept by Alembic."""

JOBS = sa.Table(
    "gateway_jobs",
    _METADATA,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    _text("operation"),
    _text("merchant_id"),
    _text("account_id"),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("imported", sa.Boolean, nullable=False),
    sa.Column("total", _NUMBER, nullable=False),
    sa.Column("slice_size", _NUMBER, nullable=False, server_default="0"),
)
"""The jobs; `slice_size` is 0 where a job is in one piece."""

SLICES = sa.Table(
    "gateway_slices",
    _METADATA,
    _key("job_id"),
    _key("slice", sa.Integer),
    sa.Column("first", _NUMBER, nullable=False),
    sa.Column("last", _NUMBER, nullable=False),
    sa.Column("total", _NUMBER, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Index("gateway_slices_by_time", "finished", "due_at"),
)
"""The slices of jobs that were cut: between which positions their orders stand, and how many they
are; whether a run has nothing more to do in it, when it is handed to a queue again, and how many
runs in a row left it unfinished."""

LEASES = sa.Table(
    "gateway_leases",
    _METADATA,
    _key("job_id"),
    _key("slice", sa.Integer),
    sa.Column("epoch", _NUMBER, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

BLOCK = 50
"""How many orders a row of `ORDERS` holds; the last row of a job may hold fewer."""

ORDERS = sa.Table(
    "gateway_orders",
    _METADATA,
    _key("job_id"),
    _key("first"),
    sa.Column("lookup_keys", sa.LargeBinary, nullable=False),
    sa.Column("bodies", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
"""The orders as they were submitted, in blocks by position; never written again. `bodies` is a JSON
object with a list of values for each field; `lookup_keys` has 32 bits of each order's transaction.
They are apart from their chunks since SQLite writes a whole row when one column changes."""


def _known() -> "list[sa.Column[Any]]":
    """Return the columns for what is known of orders, in the words of `states`."""
    return [
        sa.Column("slice", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("request_id", _NUMBER),
        sa.Column("ended_at", sa.Double),
        _text("code"),
        _text("text"),
        _text("said"),
        _text("reference"),
        _text("proof"),
        _text("note"),
    ]


CHUNKS = sa.Table(
    "gateway_chunks",
    _METADATA,
    _key("job_id"),
    _key("first"),
    sa.Column("last", _NUMBER, nullable=False),
    *_known(),
    sa.Column("exceptions", sa.Integer, nullable=False, server_default="0"),
    sqlite_with_rowid=False,
)
"""The orders of a job in chunks, fixed when it is submitted: from position `first` to `last`.
`exceptions` is how many orders differ; they have a row of their own. `reference` is a JSON list
here: the gateway's references, one for each order; empty where it gave none."""

EXCEPTIONS = sa.Table(
    "gateway_exceptions",
    _METADATA,
    _key("job_id"),
    _key("position"),
    *_known(),
    sqlite_with_rowid=False,
)
"""Orders that differ from their chunk."""

REQUESTS = sa.Table(
    "gateway_requests",
    _METADATA,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("job_id", _NUMBER, nullable=False),
    sa.Column("epoch", _NUMBER, nullable=False),
    sa.Column("sent_at", sa.Double, nullable=False),
    sa.Column("marker", sa.Text),
    sa.Column("alone", sa.Boolean, nullable=False),
    _text("baseline"),
    sa.Index("gateway_requests_by_job", "job_id"),
)
"""The requests, as they were intended; `baseline` is JSON: by transaction the references it had
before."""


def lock_what_is_in_doubt(connection: sa.Connection, job_id: int) -> None:
    """Let no other transaction change orders of a job that are in doubt, until this one ends.

    Lock the job or a lease before, if at all. SQLite has one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_OF_JOBS + job_id)))


def prepare(connection: sa.Connection, location: "Location", *, create: bool = True) -> Path | None:
    """Make the tables where there are none, and bring those of an earlier version up to date.

    Args:
        connection: The connection, in a transaction that no other process shares.
        location: Where that is, to say so.
        create: Whether tables are made where there are none.

    Returns:
        The copy of a SQLite file that was upgraded: to be deleted once that is committed.

    Raises:
        JournalError: If they are of a newer version, or there are none and are not to be made, or
            the database cannot hold every text.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    found = _version_of(connection)
    if found == VERSION:
        return None
    if found is None:
        if not create:
            raise location.missing()
        _check_encoding(connection)
        _METADATA.create_all(connection)
        connection.execute(EARLIER_SCHEMA.insert().values(id=1, version=_CLOSED_TO_EARLIER))
        connection.execute(SCHEMA.insert().values(version_num=VERSION))
        return None
    if not (found.isdecimal() and int(found) < int(VERSION)):
        raise JournalError(
            f"the journal in this database is of version {found}, and this release of "
            f"gateway_async reads versions {_EARLIEST} to {VERSION}: use the release that wrote "
            "it, or a newer one; in another database its jobs are not known, and their orders "
            "would be sent again"
        )
    copy = _copied(Path(location.path), found) if location.is_sqlite else None
    _upgrade(connection, found)
    return copy


def _version_of(connection: sa.Connection) -> str | None:
    tables = sa.inspect(connection)
    if tables.has_table(SCHEMA.name):
        return str(connection.execute(sa.select(SCHEMA.c.version_num)).scalar_one())
    if not tables.has_table(EARLIER_SCHEMA.name):
        return None
    earlier = connection.execute(sa.select(EARLIER_SCHEMA.c.version)).scalar_one()
    return _EARLIEST if earlier in {2, 3} else f"0.{earlier}"


def _upgrade(connection: sa.Connection, found: str) -> None:
    """Run the scripts from the version that was found to this one, in the transaction."""
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415  # seldom needed
    from alembic.script import ScriptDirectory  # noqa: PLC0415  # seldom needed

    scripts = ScriptDirectory(str(_VERSIONS), version_locations=[str(_VERSIONS)])
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table": SCHEMA.name,
            "fn": lambda revision, _: scripts._upgrade_revs(VERSION, revision),  # noqa: SLF001  # as `alembic upgrade` does
        },
    )
    if found == _EARLIEST:
        context.stamp(scripts, _EARLIEST)
    from alembic.operations import Operations  # noqa: PLC0415  # seldom needed

    with Operations.context(context):
        context.run_migrations()


def _copied(path: Path, version: str) -> Path:
    """Copy a SQLite file that this process has locked, as it was before."""
    target = path.with_name(f"{path.name}.version-{version}")
    target.unlink(missing_ok=True)  # of an upgrade that failed: the file is still as it was
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
    shutil.copymode(path, target)
    return target


def _check_encoding(connection: sa.Connection) -> None:
    """Make sure that the database holds every text that a gateway may say.

    Raises:
        JournalError: If it does not: that would come out only after money moved.
    """
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(sa.text("SHOW server_encoding")).scalar_one()
    if encoding not in _ANY_TEXT:
        raise JournalError(
            f"the encoding of this database is {encoding}, in which not every text can be kept: "
            "make one of UTF8 for the journal"
        )

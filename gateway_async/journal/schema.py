"""The tables of a journal, the same in SQLite and PostgreSQL.

Law: what changes often is narrow, and apart from what never changes; a row stands for many orders
wherever they are alike: a chunk is one row, of a few bytes, however many orders it has. There are
no foreign keys, since nothing is ever deleted but an import that was not finished.
"""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from gateway_async.errors import JournalError

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

    from gateway_async.journal.location import Location

VERSION = 3
"""Version 3 names the fields of orders; in version 2 they stand by position."""
_READ = (2, VERSION)
_ADVISORY_LOCK = 0x6761_6A6F_7572
_LOCK_OF_JOBS = 0x6761_6A6F_0000_0000
_ANY_TEXT = ("UTF8", "SQL_ASCII")


class DatabaseNow(FunctionElement[float]):
    """The database's own clock, in seconds since the epoch: one for all processes."""

    inherit_cache = True
    type = sa.Double()


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


SCHEMA = sa.Table(
    "gateway_journal",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
)

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
    _text("digest"),
    sa.Column("slice_size", _NUMBER, nullable=False, server_default="0"),
)
"""The jobs; `slice_size` is 0 where a job is in one piece."""

SLICES = sa.Table(
    "gateway_slices",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("slice", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("first", _NUMBER, nullable=False),
    sa.Column("last", _NUMBER, nullable=False),
    sa.Column("total", _NUMBER, nullable=False),
    sa.Column("finished", sa.Boolean, nullable=False),
    sa.Column("due_at", sa.Double, nullable=False),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Index("gateway_slices_by_time", "finished", "due_at"),
)
"""The slices of jobs that were cut: between which positions their orders stand, and how many they
are; whether a run has nothing more to do in it, when somebody is to be told of it, and how many
runs in a row left it unfinished."""

LEASES = sa.Table(
    "gateway_leases",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("slice", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", _NUMBER, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

BLOCK = 50
"""How many orders a row of `ORDERS` holds; the last row of a job may hold fewer."""

ORDERS = sa.Table(
    "gateway_orders",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("first", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("lookup_keys", sa.LargeBinary, nullable=False),
    sa.Column("bodies", sa.Text, nullable=False),
    sqlite_with_rowid=False,
)
"""The orders as they were submitted, a block a row: `bodies` is what `codec` makes of them,
and `lookup_keys` what they are found by."""

STATES = sa.Table(
    "gateway_states",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("first", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("last", _NUMBER, nullable=False),
    sa.Column("slice", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("request_id", _NUMBER),
    sa.Column("ended_at", sa.Double),
    _text("code"),
    _text("text"),
    _text("reference_list"),
    _text("proof"),
    _text("note"),
    sqlite_with_rowid=False,
)
"""What is known of the orders, in the words of `states`: a row for each stretch of them, from its
first position to its last, that are alike. The stretches of a job cover it without a gap.
`reference_list` is the JSON list of the references that the gateway gave to them, one for each;
empty where it gave none."""

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
    """Let no other transaction decide on orders of a job that are in doubt, until this one ends.

    Whoever also locks the job or a lease does that before. SQLite has one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK_OF_JOBS + job_id)))


def prepare(connection: sa.Connection, location: "Location", *, create: bool = True) -> None:
    """Make the tables where there are none.

    Args:
        connection: The connection, in a transaction.
        location: Where that is, to say so.
        create: Whether they are made at all.

    Raises:
        JournalError: If they are of another version, or there are none and are not to be made, or
            cannot be since not every text could be kept in them.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    if not sa.inspect(connection).has_table(SCHEMA.name):
        if not create:
            raise location.missing()
        _check_encoding(connection)
        _METADATA.create_all(connection)
        connection.execute(SCHEMA.insert().values(id=1, version=VERSION))
    version = connection.execute(sa.select(SCHEMA.c.version)).scalar()
    if version not in _READ:
        raise JournalError(
            f"the journal in this database is of version {version}, and this release of "
            f"gateway_async reads versions {_READ[0]} to {_READ[-1]}: finish its jobs with the "
            "release that wrote it; in another database they are not known, and their orders would "
            "be sent again"
        )


def _check_encoding(connection: sa.Connection) -> None:
    """Make sure that the database holds every text that a gateway may say.

    Raises:
        JournalError: If it does not: it would be found out only after money moved.
    """
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(sa.text("SHOW server_encoding")).scalar_one()
    if encoding not in _ANY_TEXT:
        raise JournalError(
            f"the encoding of this database is {encoding}, in which not every text can be kept: "
            "make one of UTF8 for the journal"
        )

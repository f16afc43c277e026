"""The tables of a journal, the same in SQLite and PostgreSQL.

Law: what changes often is narrow, and apart from what never changes: a chunk's orders are two
ranged updates of a few bytes each. There are no foreign keys, since nothing is ever deleted but an
import that was not finished.
"""

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from gateway_async.errors import JournalError

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

VERSION = 1
_ADVISORY_LOCK = 0x6761_6A6F_7572


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
)

LEASES = sa.Table(
    "gateway_leases",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("slice", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("epoch", _NUMBER, nullable=False),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double, nullable=False),
)

ORDERS = sa.Table(
    "gateway_orders",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("position", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("transaction_id", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Index("gateway_orders_by_transaction", "job_id", "transaction_id"),
    sqlite_with_rowid=False,
)
"""The orders as they were submitted; `body` is what `codec` makes of them, and `transaction_id`
the key that they are found by: the beginning of the id, since an index takes no more."""

STATES = sa.Table(
    "gateway_states",
    _METADATA,
    sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("position", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("slice", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("request_id", _NUMBER),
    _text("code"),
    _text("text"),
    _text("reference"),
    _text("proof"),
    _text("note"),
    sqlite_with_rowid=False,
)
"""What is known of each order, in the words of `states`."""

REQUESTS = sa.Table(
    "gateway_requests",
    _METADATA,
    sa.Column("id", _NUMBER, primary_key=True),
    sa.Column("job_id", _NUMBER, nullable=False),
    sa.Column("epoch", _NUMBER, nullable=False),
    sa.Column("sent_at", sa.Double, nullable=False),
    sa.Column("ended_at", sa.Double),
    sa.Column("marker", sa.Text),
    sa.Column("alone", sa.Boolean, nullable=False),
    _text("baseline"),
    sa.Column("settled", sa.Text),
    sa.Index("gateway_requests_by_job", "job_id"),
)
"""The requests; `baseline` and `settled` are JSON: by transaction the references it had before,
and by position the reference that the reply gave."""


def prepare(connection: sa.Connection) -> None:
    """Make the tables where there are none.

    Raises:
        JournalError: If they are of another version.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADVISORY_LOCK)))
    if not sa.inspect(connection).has_table(SCHEMA.name):
        _METADATA.create_all(connection)
        connection.execute(SCHEMA.insert().values(id=1, version=VERSION))
    version = connection.execute(sa.select(SCHEMA.c.version)).scalar()
    if version != VERSION:
        raise JournalError(
            f"the journal in this database is of version {version}, and this release of "
            f"gateway_async reads version {VERSION}: use the release that wrote it, or another "
            "database"
        )

"""Version 4: version 3 in one form; a job is in the journal whole, or not at all.

The first tables of version 3 had the texts of orders that are alike in a column of their own, and
columns that nothing reads. Jobs of which an earlier release had only begun to keep the orders go.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"

_BEGUN = "SELECT id FROM gateway_jobs WHERE NOT imported"
_UNREAD = {"jobs": ("imported",), "slices": ("tries",), "chunks": ("request", "texts")}
_WITH_TEXTS = "SELECT * FROM gateway_chunks WHERE texts <> ''"
_WRITE = """
UPDATE gateway_chunks SET exceptions = :exceptions WHERE job_id = :job_id AND first = :first"""


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    for table in ("chunks", "orders", "payout_keys", "slices"):
        op.execute(f"DELETE FROM gateway_{table} WHERE job_id IN ({_BEGUN})")
    op.execute("DELETE FROM gateway_jobs WHERE NOT imported")
    tables = sa.inspect(connection)
    columns = {
        table: {column["name"] for column in tables.get_columns(f"gateway_{table}")}
        for table in _UNREAD
    }
    if "texts" in columns["chunks"]:
        for row in connection.execute(sa.text(_WITH_TEXTS)).mappings().all():
            connection.execute(sa.text(_WRITE), {**row, "exceptions": _merged(row)})
    for table, names in _UNREAD.items():
        for name in columns[table].intersection(names):
            op.execute(f"ALTER TABLE gateway_{table} DROP COLUMN {name}")


def _merged(row: sa.RowMapping) -> str:
    """Return the exceptions of a chunk, and among them the orders that have its texts."""
    exceptions = json.loads(row["exceptions"] or "[]")
    differing = {at for group in exceptions for at in group["at"]}
    alike = [at for at in range(row["last"] - row["first"] + 1) if at not in differing]
    known = {name: row[name] for name in ("state", "ended_at", "sent")}
    return json.dumps([*exceptions, {"at": alike, "known": {**known, **json.loads(row["texts"])}}])

"""Version 4: version 3 in one form; a job is in the journal whole, or not at all.

The first tables of version 3 had the texts of orders that are alike in a column of their own, and
columns that nothing reads. Jobs of which an earlier release had only begun to keep the orders go.
"""

import json
from typing import Any

import attrs
import sqlalchemy as sa
from alembic import op

from gateway_async.journal.rows import CHUNK_COLUMNS, ChunkState

revision = "4"
down_revision = "3"

_BEGUN = "SELECT id FROM gateway_jobs WHERE NOT imported"
_UNREAD = {"jobs": ("imported",), "slices": ("tries",), "chunks": ("request", "texts")}
_WITH_TEXTS = f"SELECT {', '.join(CHUNK_COLUMNS)}, texts FROM gateway_chunks WHERE texts <> ''"
_WRITE = """
UPDATE gateway_chunks SET exceptions = :exceptions, reference_list = :reference_list
WHERE job_id = :job_id AND first = :first"""


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
        for *row, texts in connection.execute(sa.text(_WITH_TEXTS)).all():
            connection.execute(sa.text(_WRITE), _merged(row, json.loads(texts)))
    for table, names in _UNREAD.items():
        for name in columns[table].intersection(names):
            op.execute(f"ALTER TABLE gateway_{table} DROP COLUMN {name}")


def _merged(row: list[object], texts: dict[str, Any]) -> dict[str, object]:
    """Return the row of a chunk whose orders have these texts, but for its exceptions."""
    chunk, exceptions = ChunkState.read(row), str(row[-1])
    differ = {at for group in json.loads(exceptions or "[]") for at in group["at"]}
    known = {
        at: one if offset in differ else one._replace(**texts)
        for offset, (at, one) in enumerate(chunk.known.items())
    }
    return attrs.evolve(chunk, known=known).row()

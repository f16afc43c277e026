"""Version 3: all that is known of a chunk is one row; a job knows its gateway.

Orders that differ from their chunk, and requests, had tables of their own; so had leases. The new
tables and rows are made as `schema` and `rows` make them: when these change, copy here what this
version needs.
"""

import json
import re
from itertools import islice, repeat

import sqlalchemy as sa
from alembic import op

from gateway_async.journal.rows import ChunkState, Known
from gateway_async.journal.schema import statements
from gateway_async.operations import OPERATIONS

revision = "3"
down_revision = "2"

_NEW_TABLES = re.compile(r"(TABLE|ON) gateway_(chunks|slices|payout_keys) ")
# In version 1, the gateway's own text stood behind the reason.
_BEFORE_SAID = "\x1e"
_CHANGES = """
ALTER TABLE gateway_jobs ADD COLUMN gateway TEXT NOT NULL DEFAULT '';
INSERT INTO gateway_slices
    (job_id, slice, first, last, total, finished, due_at, epoch, owner, expires_at)
SELECT s.*, coalesce(epoch, 0), coalesce(owner, ''), coalesce(expires_at, 0) FROM (
    SELECT job_id, slice, first, last, total, finished, due_at FROM earlier_slices
    UNION ALL SELECT id, 0, 0, total - 1, total, FALSE, 0 FROM gateway_jobs WHERE slice_size = 0
) s LEFT JOIN gateway_leases l ON l.job_id = s.job_id AND l.slice = s.slice"""
# Of earlier rows, with the job's operation and what was noted of their requests.
_ROWS = """
SELECT k.*, operation, baseline, marker, alone FROM {} k
JOIN gateway_jobs j ON j.id = k.job_id LEFT JOIN gateway_requests r ON r.id = k.request_id"""
_PAYOUTS = """
SELECT job_id, first, bodies FROM gateway_orders JOIN gateway_jobs ON id = job_id
WHERE operation = 'payout'"""
_ADD_PAYOUT = "INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    for table in ("chunks", "slices"):
        op.rename_table(f"gateway_{table}", f"earlier_{table}")
    op.execute("DROP INDEX IF EXISTS gateway_slices_by_time")
    for made in statements(is_sqlite=connection.dialect.name == "sqlite"):
        if _NEW_TABLES.search(made):
            op.execute(made)
    for change in _CHANGES.split(";"):
        op.execute(change)
    _convert_chunks(connection)
    for job_id, first, bodies in connection.execute(sa.text(_PAYOUTS)).all():
        for position, request_id in enumerate(json.loads(bodies)["request_id"], first):
            key = {"request_id": request_id.lower(), "job": job_id, "position": position}
            connection.execute(sa.text(_ADD_PAYOUT), key)
    for table in (
        *("earlier_chunks", "earlier_slices", "gateway_exceptions", "gateway_requests"),
        *("gateway_leases", "gateway_journal"),
    ):
        op.drop_table(table)


def _convert_chunks(connection: sa.Connection) -> None:
    """Convert what is known of orders; of version 1, a row may have any number of them."""
    exceptions = connection.execute(sa.text(_ROWS.format("gateway_exceptions")))
    differing = {(row.job_id, row.position): _known_of(row, row.reference) for row in exceptions}
    for row in connection.execute(sa.text(_ROWS.format("earlier_chunks"))).all():
        listed = json.loads(row.reference) if row.reference else repeat("")
        known = (
            (at, differing.get((row.job_id, at)) or _known_of(row, reference))
            for at, reference in zip(range(row.first, row.last + 1), listed, strict=False)
        )
        while made := dict(islice(known, OPERATIONS[row.operation].limit or 1)):
            chunk = ChunkState(row.job_id, row.slice, made).row()
            columns = ", ".join(f":{name}" for name in chunk)
            connection.execute(sa.text(f"INSERT INTO gateway_chunks VALUES ({columns})"), chunk)


def _known_of(row: "sa.Row[tuple[object, ...]]", reference: str) -> Known:
    text, _, said = row.text.partition(_BEFORE_SAID)
    kept = {name: getattr(row, name) for name in ("state", "code", "proof", "note", "ended_at")}
    known = Known(**kept, text=text, said=row.said or said, reference=reference)
    if row.alone is None:  # it was in no request
        return known
    note = {"references": json.loads(row.baseline or "{}"), "marker": row.marker}
    return known._replace(sent=json.dumps({**note, "alone": bool(row.alone)}))

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
_TEXTS = ("code", "text", "said", "proof", "note")
_CHANGES = """
ALTER TABLE gateway_jobs ADD COLUMN gateway TEXT NOT NULL DEFAULT '';
INSERT INTO gateway_slices (job_id, slice, first, last, total, finished, due_at)
SELECT job_id, slice, first, last, total, finished, due_at FROM earlier_slices;
INSERT INTO gateway_slices (job_id, slice, first, last, total)
SELECT id, 0, 0, total - 1, total FROM gateway_jobs WHERE slice_size = 0;
UPDATE gateway_slices SET (epoch, owner, expires_at) = (
    SELECT epoch, owner, expires_at FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
) WHERE EXISTS (
    SELECT 1 FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
)"""
_JOBS = "SELECT id, operation FROM gateway_jobs"
_REQUESTS = "SELECT id, baseline, marker, alone FROM gateway_requests WHERE job_id = :job"
_EXCEPTIONS = "SELECT * FROM gateway_exceptions WHERE job_id = :job"
_EARLIER_CHUNKS = "SELECT * FROM earlier_chunks WHERE job_id = :job"
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
    for job_id, operation in connection.execute(sa.text(_JOBS)).all():
        _convert_chunks(connection, job_id, OPERATIONS[operation].limit or 1)
    for job_id, first, bodies in connection.execute(sa.text(_PAYOUTS)).all():
        for position, request_id in enumerate(json.loads(bodies)["request_id"], first):
            key = {"request_id": request_id.lower(), "job": job_id, "position": position}
            connection.execute(sa.text(_ADD_PAYOUT), key)
    for table in (
        *("earlier_chunks", "earlier_slices", "gateway_exceptions", "gateway_requests"),
        *("gateway_leases", "gateway_journal"),
    ):
        op.drop_table(table)


def _convert_chunks(connection: sa.Connection, job_id: int, limit: int) -> None:
    """Convert what is known of a job's orders; of version 1, a row may have any number of them."""
    sent = {}
    for row in connection.execute(sa.text(_REQUESTS), {"job": job_id}):
        references = json.loads(row.baseline or "{}")
        note = {"references": references, "marker": row.marker, "alone": bool(row.alone)}
        sent[row.id] = json.dumps(note)

    def known_of(row: "sa.Row[tuple[object, ...]]", reference: str) -> Known:
        return Known(
            row.state,
            **{name: getattr(row, name) for name in _TEXTS},
            reference=reference,
            ended_at=row.ended_at,
            sent=sent.get(row.request_id, ""),
        )

    exceptions = connection.execute(sa.text(_EXCEPTIONS), {"job": job_id})
    differing = {row.position: known_of(row, row.reference) for row in exceptions}
    for row in connection.execute(sa.text(_EARLIER_CHUNKS), {"job": job_id}).all():
        listed = json.loads(row.reference) if row.reference else repeat("")
        known = (
            (at, differing.get(at) or known_of(row, reference))
            for at, reference in zip(range(row.first, row.last + 1), listed, strict=False)
        )
        while made := dict(islice(known, limit)):
            chunk = ChunkState(job_id, row.slice, made).row()
            columns = ", ".join(f":{name}" for name in chunk)
            connection.execute(sa.text(f"INSERT INTO gateway_chunks VALUES ({columns})"), chunk)

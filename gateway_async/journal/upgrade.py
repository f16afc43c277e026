"""From version 2 of the tables to version 3: one row a chunk, and jobs that know their gateway.

In version 2, orders that differ from their chunk, requests and leases had tables of their own. The
new rows are made as `rows` makes them: when that changes, copy here what this version needs.
"""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import orjson

from gateway_async.journal.rows import ChunkState, Known

if TYPE_CHECKING:
    from gateway_async.journal.database import Transaction

_NEW_TABLES = re.compile(r"(TABLE|ON) gateway_(chunks|slices|payout_keys) ")
_TEXTS = ("code", "text", "said", "proof", "note")
_BEFORE = """
ALTER TABLE gateway_chunks RENAME TO earlier_chunks;
ALTER TABLE gateway_slices RENAME TO earlier_slices;
DROP INDEX IF EXISTS gateway_slices_by_time"""
_AFTER = """
ALTER TABLE gateway_jobs ADD COLUMN gateway TEXT NOT NULL DEFAULT '';
INSERT INTO gateway_slices (job_id, slice, first, last, total, finished, due_at, tries)
SELECT job_id, slice, first, last, total, finished, due_at, tries FROM earlier_slices;
INSERT INTO gateway_slices (job_id, slice, first, last, total)
SELECT id, 0, 0, total - 1, total FROM gateway_jobs WHERE imported AND slice_size = 0;
UPDATE gateway_slices SET (epoch, owner, expires_at) = (
    SELECT epoch, owner, expires_at FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
) WHERE EXISTS (
    SELECT 1 FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
)"""
_AT_LAST = """
DROP TABLE earlier_chunks; DROP TABLE earlier_slices; DROP TABLE gateway_exceptions;
DROP TABLE gateway_requests; DROP TABLE gateway_leases; DROP TABLE gateway_journal"""
_REQUESTS = "SELECT id, baseline, marker, alone FROM gateway_requests WHERE job_id = :job"
_KNOWN = f"state, {', '.join(_TEXTS)}, request_id, ended_at, reference"
_EXCEPTIONS = f"SELECT position, {_KNOWN} FROM gateway_exceptions WHERE job_id = :job"
_CHUNKS = f"SELECT first, last, slice, {_KNOWN} FROM earlier_chunks WHERE job_id = :job"
_PAYOUTS = """
SELECT job_id, first, bodies FROM gateway_orders JOIN gateway_jobs ON id = job_id
WHERE operation = 'payout'"""
_ADD_PAYOUT = "INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"


def upgrade(transaction: "Transaction", tables: Iterable[str]) -> None:
    """Convert the journal.

    Args:
        transaction: The transaction; nothing is changed until it is committed.
        tables: The statements that make the tables of version 3.
    """
    new = filter(_NEW_TABLES.search, tables)
    for statement in (*_BEFORE.split(";"), *new, *_AFTER.split(";")):
        transaction.run(statement)
    for (job_id,) in transaction.run("SELECT id FROM gateway_jobs").fetchall():
        _convert_chunks(transaction, job_id)
    for job_id, first, bodies in transaction.run(_PAYOUTS).fetchall():
        for position, request_id in enumerate(orjson.loads(bodies)["request_id"], first):
            key = {"request_id": request_id.lower(), "job": job_id, "position": position}
            transaction.run(_ADD_PAYOUT, **key)
    for statement in _AT_LAST.split(";"):
        transaction.run(statement)


def _convert_chunks(transaction: "Transaction", job_id: int) -> None:
    sent = {}
    for number, baseline, marker, alone in transaction.run(_REQUESTS, job=job_id).fetchall():
        references = orjson.loads(baseline or "{}")
        note = {"references": references, "marker": marker, "alone": bool(alone)}
        sent[number] = orjson.dumps(note).decode()

    def known_of(state: str, *row: object) -> Known:
        *texts, request, ended_at, reference = row
        return Known(
            state,
            **dict(zip(_TEXTS, texts, strict=True)),
            reference=reference,
            request=request,
            ended_at=ended_at,
            sent=sent.get(request, ""),
        )

    found = transaction.run(_EXCEPTIONS, job=job_id).fetchall()
    differing = {position: known_of(*row) for position, *row in found}
    for first, last, slice_number, *row in transaction.run(_CHUNKS, job=job_id).fetchall():
        alike, span = known_of(*row), range(first, last + 1)
        listed = orjson.loads(alike.reference) if alike.reference else [""] * len(span)
        known = [
            differing.get(at) or alike._replace(reference=reference)
            for at, reference in zip(span, listed, strict=True)
        ]
        made = ChunkState(job_id, first, slice_number, known).row()
        columns = ", ".join(f":{name}" for name in made)
        transaction.run(f"INSERT INTO gateway_chunks VALUES ({columns})", **made)

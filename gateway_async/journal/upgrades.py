"""Journals of earlier versions: each upgrade makes the tables of one version those of the next.

New tables and rows are made as `tables` and `rows` make them: when these change, copy here what an
earlier version needs. Version 1 has no table with its version.
"""

import json
import re
from itertools import islice, repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.journal.rows import CHUNK_COLUMNS, ChunkState, Known
from gateway_async.journal.tables import statements
from gateway_async.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.journal.database import Transaction

# Version 2: orders by the names of their fields. The oldest orders name no fields: their values
# stand in the order of `_FIELDS`.

_ORDER = ("transaction_id", "order_no", "currency", "amount")
_FIELDS = {
    "capture": _ORDER,
    "cancel": _ORDER,
    "review": (*_ORDER, "review_flag"),
    "refund": (*_ORDER, "refund_amount", "refund_reason"),
}
# Of the tables of this version, what the step to the next one reads.
_CHANGES_2 = """
CREATE TABLE gateway_journal_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
INSERT INTO gateway_journal_version VALUES ('2');
ALTER TABLE gateway_states RENAME TO gateway_chunks;
ALTER TABLE gateway_chunks RENAME COLUMN reference_list TO reference;
ALTER TABLE gateway_chunks ADD COLUMN said TEXT NOT NULL DEFAULT '';
CREATE TABLE gateway_exceptions (job_id BIGINT, position BIGINT, request_id BIGINT);
ALTER TABLE gateway_jobs DROP COLUMN digest"""
_BLOCKS = """
SELECT operation, bodies, job_id, first FROM gateway_orders JOIN gateway_jobs ON id = job_id"""
_NAME_FIELDS = "UPDATE gateway_orders SET bodies = :bodies WHERE job_id = :job AND first = :first"


def _to_version_2(transaction: "Transaction") -> None:
    _change(transaction, _CHANGES_2)
    for operation, bodies, job, first in transaction.run(_BLOCKS).fetchall():
        found = json.loads(bodies)
        if isinstance(found, list):
            found = {"fields": _FIELDS[operation], "orders": found}
        columns = zip(found["fields"], zip(*found["orders"], strict=True), strict=True)
        named = json.dumps(dict(columns), ensure_ascii=False)
        transaction.run(_NAME_FIELDS, bodies=named, job=job, first=first)


# Version 3: all that is known of a chunk is one row; a job knows its gateway. Orders that differ
# from their chunk, and requests, had tables of their own; so had leases.

_NEW_TABLES = re.compile(r"(TABLE|ON) gateway_(chunks|slices|payout_keys) ")
# In version 1, the gateway's own text stood behind the reason.
_BEFORE_SAID = "\x1e"
_MOVES = """
ALTER TABLE gateway_chunks RENAME TO earlier_chunks;
ALTER TABLE gateway_slices RENAME TO earlier_slices;
DROP INDEX IF EXISTS gateway_slices_by_time"""
_CHANGES_3 = """
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
_DROPS = """
DROP TABLE earlier_chunks; DROP TABLE earlier_slices; DROP TABLE gateway_exceptions;
DROP TABLE gateway_requests; DROP TABLE gateway_leases; DROP TABLE gateway_journal"""
# Of earlier rows, with the job's operation and what was noted of their requests.
_ROWS = """
SELECT k.*, operation, baseline, marker, alone FROM {} k
JOIN gateway_jobs j ON j.id = k.job_id LEFT JOIN gateway_requests r ON r.id = k.request_id"""
_PAYOUTS = """
SELECT job_id, first, bodies FROM gateway_orders JOIN gateway_jobs ON id = job_id
WHERE operation = 'payout'"""
_ADD_PAYOUT = "INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"


def _to_version_3(transaction: "Transaction") -> None:
    _change(transaction, _MOVES)
    for made in statements(is_sqlite=transaction.engine.is_sqlite):
        if _NEW_TABLES.search(made):
            transaction.driver.execute(made)
    _change(transaction, _CHANGES_3)
    _convert_chunks(transaction)
    for job_id, first, bodies in transaction.run(_PAYOUTS).fetchall():
        for position, request_id in enumerate(json.loads(bodies)["request_id"], first):
            key = {"request_id": request_id.lower(), "job": job_id, "position": position}
            transaction.run(_ADD_PAYOUT, **key)
    _change(transaction, _DROPS)


def _convert_chunks(transaction: "Transaction") -> None:
    """Convert what is known of orders; of version 1, a row may have any number of them."""
    exceptions = _rows_of(transaction, "gateway_exceptions")
    differing = {(row.job_id, row.position): _known_of(row, row.reference) for row in exceptions}
    for row in _rows_of(transaction, "earlier_chunks"):
        listed = json.loads(row.reference) if row.reference else repeat("")
        known = (
            (at, differing.get((row.job_id, at)) or _known_of(row, reference))
            for at, reference in zip(range(row.first, row.last + 1), listed, strict=False)
        )
        while made := dict(islice(known, OPERATIONS[row.operation].limit or 1)):
            chunk = ChunkState(row.job_id, row.slice, made).row()
            columns = ", ".join(f":{name}" for name in chunk)
            transaction.run(f"INSERT INTO gateway_chunks VALUES ({columns})", **chunk)


def _rows_of(transaction: "Transaction", table: str) -> list[SimpleNamespace]:
    found = transaction.run(_ROWS.format(table))
    names = [column[0] for column in found.description]
    rows = (dict(zip(names, row, strict=True)) for row in found.fetchall())
    return [SimpleNamespace(**row) for row in rows]


def _known_of(row: SimpleNamespace, reference: str) -> Known:
    text, _, said = row.text.partition(_BEFORE_SAID)
    sent = ""
    if row.alone is not None:  # it was in a request
        note = {"references": json.loads(row.baseline or "{}"), "marker": row.marker}
        sent = json.dumps({**note, "alone": bool(row.alone)})
    return Known(
        row.state,
        code=row.code,
        text=text,
        said=row.said or said,
        reference=reference,
        proof=row.proof,
        note=row.note,
        ended_at=row.ended_at,
        sent=sent,
    )


# Version 4: version 3 in one form; a job is in the journal whole, or not at all. The first tables
# of version 3 had the texts of orders that are alike in a column of their own, and columns that
# nothing reads. Jobs of which an earlier release had only begun to keep the orders go.

_BEGUN = "SELECT id FROM gateway_jobs WHERE NOT imported"
_UNREAD = {"jobs": ("imported",), "slices": ("tries",), "chunks": ("request", "texts")}
_WITH_TEXTS = f"SELECT {', '.join(CHUNK_COLUMNS)}, texts FROM gateway_chunks WHERE texts <> ''"
_WRITE = """
UPDATE gateway_chunks SET exceptions = :exceptions, reference_list = :reference_list
WHERE job_id = :job_id AND first = :first"""


def _to_version_4(transaction: "Transaction") -> None:
    for table in ("chunks", "orders", "payout_keys", "slices"):
        transaction.run(f"DELETE FROM gateway_{table} WHERE job_id IN ({_BEGUN})")
    transaction.run("DELETE FROM gateway_jobs WHERE NOT imported")
    columns: dict[str, set[str]] = {}
    for table in _UNREAD:
        found = transaction.run(f"SELECT * FROM gateway_{table} LIMIT 0").description
        columns[table] = {column[0] for column in found}
    if "texts" in columns["chunks"]:
        for *row, texts in transaction.run(_WITH_TEXTS).fetchall():
            transaction.run(_WRITE, **_merged(row, json.loads(texts)))
    for table, names in _UNREAD.items():
        for name in columns[table].intersection(names):
            transaction.run(f"ALTER TABLE gateway_{table} DROP COLUMN {name}")


def _merged(row: list[object], texts: dict[str, Any]) -> dict[str, object]:
    """Return the row of a chunk whose orders have these texts, but for its exceptions."""
    chunk, exceptions = ChunkState.read(row), str(row[-1])
    differ = {at for group in json.loads(exceptions or "[]") for at in group["at"]}
    known = {
        at: one if offset in differ else one._replace(**texts)
        for offset, (at, one) in enumerate(chunk.known.items())
    }
    return attrs.evolve(chunk, known=known).row()


def _change(transaction: "Transaction", changes: str) -> None:
    for change in changes.split(";"):
        transaction.run(change)


UPGRADES: "Mapping[int, Callable[[Transaction], None]]" = {
    1: _to_version_2,
    2: _to_version_3,
    3: _to_version_4,
}
"""By version, what makes the next one of it, in the transaction of its caller."""

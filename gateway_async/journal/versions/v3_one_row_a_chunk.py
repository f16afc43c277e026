"""Version 3: all that is known of a chunk is one row; a job knows its gateway.

Orders that differ from their chunk, and requests, had tables of their own; so had leases.
"""

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"

_TEXTS = ("code", "text", "said", "proof", "note")
_KNOWN = f"state, request_id, ended_at, {', '.join(_TEXTS)}, reference"
_CHUNKS = """
CREATE TABLE gateway_chunks (
    job_id BIGINT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, slice INTEGER NOT NULL,
    state TEXT NOT NULL, request BIGINT, ended_at DOUBLE PRECISION, sent TEXT NOT NULL DEFAULT '',
    texts TEXT NOT NULL DEFAULT '', reference_list TEXT NOT NULL DEFAULT '',
    exceptions TEXT NOT NULL DEFAULT '', PRIMARY KEY (job_id, first)
)"""
_KEYS = """
CREATE TABLE gateway_payout_keys (
    request_id TEXT NOT NULL, job_id BIGINT NOT NULL, position BIGINT NOT NULL,
    PRIMARY KEY (request_id, job_id, position)
)"""
_SLICES = """
CREATE TABLE gateway_slices (
    job_id BIGINT NOT NULL, slice INTEGER NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL,
    total BIGINT NOT NULL, finished BOOLEAN NOT NULL DEFAULT FALSE,
    due_at DOUBLE PRECISION NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0,
    epoch BIGINT NOT NULL DEFAULT 0, owner TEXT NOT NULL DEFAULT '',
    expires_at DOUBLE PRECISION NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, slice)
)"""
_LEASED = """
UPDATE gateway_slices SET (epoch, owner, expires_at) = (
    SELECT epoch, owner, expires_at FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
) WHERE EXISTS (
    SELECT 1 FROM gateway_leases l
    WHERE l.job_id = gateway_slices.job_id AND l.slice = gateway_slices.slice
)"""


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    by_key = " WITHOUT ROWID" if connection.dialect.name == "sqlite" else ""
    for table in ("chunks", "slices"):
        op.rename_table(f"gateway_{table}", f"earlier_{table}")
    op.execute("DROP INDEX IF EXISTS gateway_slices_by_time")
    op.execute(_SLICES)
    op.execute("CREATE INDEX gateway_slices_by_time ON gateway_slices (finished, due_at)")
    op.execute(f"{_CHUNKS}{by_key}")
    op.execute(f"{_KEYS}{by_key}")
    op.execute("CREATE INDEX gateway_payout_keys_by_job ON gateway_payout_keys (job_id, position)")
    op.execute("ALTER TABLE gateway_jobs ADD COLUMN gateway TEXT NOT NULL DEFAULT ''")
    op.execute(
        "INSERT INTO gateway_slices (job_id, slice, first, last, total, finished, due_at, tries) "
        "SELECT job_id, slice, first, last, total, finished, due_at, tries FROM earlier_slices"
    )
    op.execute(
        "INSERT INTO gateway_slices (job_id, slice, first, last, total) "
        "SELECT id, 0, 0, total - 1, total FROM gateway_jobs WHERE imported AND slice_size = 0"
    )
    op.execute(_LEASED)
    for (job_id,) in connection.execute(sa.text("SELECT id FROM gateway_jobs")).all():
        _convert_chunks(connection, job_id)
    _add_payout_keys(connection)
    for table in (
        *("earlier_chunks", "earlier_slices", "gateway_exceptions", "gateway_requests"),
        *("gateway_leases", "gateway_journal"),
    ):
        op.drop_table(table)


def _convert_chunks(connection: sa.Connection, job_id: int) -> None:
    here = {"job": job_id}
    requests = {
        row.id: json.dumps(
            {
                "references": json.loads(row.baseline or "{}"),
                "marker": row.marker,
                "alone": bool(row.alone),
            }
        )
        for row in connection.execute(
            sa.text("SELECT id, baseline, marker, alone FROM gateway_requests WHERE job_id = :job"),
            here,
        )
    }
    differing: dict[int, dict[str, Any]] = {
        row.position: row._asdict()
        for row in connection.execute(
            sa.text(f"SELECT position, {_KNOWN} FROM gateway_exceptions WHERE job_id = :job"), here
        )
    }
    for row in connection.execute(
        sa.text(f"SELECT first, last, slice, {_KNOWN} FROM earlier_chunks WHERE job_id = :job"),
        here,
    ).all():
        alike = row._asdict()
        groups: dict[str, list[int]] = defaultdict(list)
        references: dict[int, str] = {}
        for position in range(row.first, row.last + 1):
            if (own := differing.get(position)) is not None:
                known = {"state": own["state"], **_texts(own)}
                if own["request_id"] is not None:
                    known |= {"request": own["request_id"], "sent": requests[own["request_id"]]}
                if own["ended_at"] is not None:
                    known["ended_at"] = own["ended_at"]
                groups[json.dumps(known)].append(position - row.first)
                references[position - row.first] = own["reference"]
        exceptions = [
            {"at": at, "known": json.loads(known), "references": [references[a] for a in at]}
            for known, at in groups.items()
        ]
        texts = _texts(alike)
        connection.execute(
            sa.text(
                "INSERT INTO gateway_chunks VALUES (:job, :first, :last, :slice, :state, :request, "
                ":ended_at, :sent, :texts, :reference_list, :exceptions)"
            ),
            {
                **here,
                **{name: alike[name] for name in ("first", "last", "slice", "state", "ended_at")},
                "request": row.request_id,
                "sent": requests.get(row.request_id, ""),
                "texts": json.dumps(texts) if texts else "",
                "reference_list": row.reference,
                "exceptions": json.dumps(exceptions) if exceptions else "",
            },
        )


def _texts(known: dict[str, Any]) -> dict[str, Any]:
    return {name: known[name] for name in _TEXTS if known[name]}


def _add_payout_keys(connection: sa.Connection) -> None:
    payouts = sa.text(
        "SELECT job_id, first, bodies FROM gateway_orders JOIN gateway_jobs ON id = job_id "
        "WHERE operation = 'payout'"
    )
    for job_id, first, bodies in connection.execute(payouts).all():
        for position, request_id in enumerate(json.loads(bodies)["request_id"], first):
            connection.execute(
                sa.text("INSERT INTO gateway_payout_keys VALUES (:request_id, :job, :position)"),
                {"request_id": request_id.lower(), "job": job_id, "position": position},
            )

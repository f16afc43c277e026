"""Version 2: chunks with rows for the orders that differ, and orders field by field.

Each stretch of alike orders becomes a chunk. Orders of the first releases name no fields: their
values stand in the order of `_FIELDS`. The gateway's own text gets a column of its own.
"""

import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

if TYPE_CHECKING:
    from collections.abc import Sequence

revision = "2"
down_revision = "1"

_ORDER = ("transaction_id", "order_no", "currency", "amount")
_FIELDS = {
    "capture": _ORDER,
    "cancel": _ORDER,
    "review": (*_ORDER, "review_flag"),
    "refund": (*_ORDER, "refund_amount", "refund_reason"),
}
_SAID = "\x1e"
_CLOSED_TO_EARLIER = 4
_AT_ONCE = 500
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_KNOWN = ("code", "text", "said", "reference", "proof", "note")


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    for name, key in (("gateway_chunks", "first"), ("gateway_exceptions", "position")):
        is_chunk = key == "first"
        op.create_table(
            name,
            sa.Column("job_id", _NUMBER, primary_key=True, autoincrement=False),
            sa.Column(key, _NUMBER, primary_key=True, autoincrement=False),
            *([sa.Column("last", _NUMBER, nullable=False)] if is_chunk else []),
            sa.Column("slice", sa.Integer, nullable=False),
            sa.Column("state", sa.Text, nullable=False),
            sa.Column("request_id", _NUMBER),
            sa.Column("ended_at", sa.Double),
            *(sa.Column(each, sa.Text, nullable=False, server_default="") for each in _KNOWN),
            *(
                [sa.Column("exceptions", sa.Integer, nullable=False, server_default="0")]
                if is_chunk
                else []
            ),
            sqlite_with_rowid=False,
        )
    connection.execute(
        sa.text(
            "INSERT INTO gateway_chunks (job_id, first, last, slice, state, request_id, ended_at, "
            "code, text, reference, proof, note) SELECT job_id, first, last, slice, state, "
            "request_id, ended_at, code, text, reference_list, proof, note FROM gateway_states"
        )
    )
    _split_texts(connection)
    _name_fields(connection)
    op.drop_table("gateway_states")
    op.drop_column("gateway_jobs", "digest")
    connection.execute(
        sa.text("UPDATE gateway_journal SET version = :version"), {"version": _CLOSED_TO_EARLIER}
    )


def _split_texts(connection: sa.Connection) -> None:
    found = connection.execute(
        sa.text("SELECT job_id, first, text FROM gateway_chunks WHERE text LIKE :pattern"),
        {"pattern": f"%{_SAID}%"},
    ).all()
    for job_id, first, text in found:
        message, _, said = text.partition(_SAID)
        connection.execute(
            sa.text(
                "UPDATE gateway_chunks SET text = :message, said = :said "
                "WHERE job_id = :job_id AND first = :first"
            ),
            {"message": message, "said": said, "job_id": job_id, "first": first},
        )


def _name_fields(connection: sa.Connection) -> None:
    jobs = connection.execute(sa.text("SELECT id, operation FROM gateway_jobs")).all()
    for job_id, operation in jobs:
        last = -1
        while found := _page(connection, job_id, last):
            connection.execute(
                sa.text(
                    "UPDATE gateway_orders SET bodies = :bodies "
                    "WHERE job_id = :job_id AND first = :first"
                ),
                [
                    {"bodies": _by_field(bodies, operation), "job_id": job_id, "first": first}
                    for first, bodies in found
                ],
            )
            last = found[-1][0]


def _page(connection: sa.Connection, job_id: int, last: int) -> "Sequence[Any]":
    return connection.execute(
        sa.text(
            "SELECT first, bodies FROM gateway_orders WHERE job_id = :job_id AND first > :last "
            "ORDER BY first LIMIT :most"
        ),
        {"job_id": job_id, "last": last, "most": _AT_ONCE},
    ).all()


def _by_field(bodies: str, operation: str) -> str:
    found = json.loads(bodies)
    if isinstance(found, dict):
        names, rows = found["fields"], found["orders"]
    else:
        names, rows = _FIELDS[operation], found
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    return json.dumps(columns, ensure_ascii=False, separators=(",", ":"))

"""Version 2: orders by the names of their fields; the gateway's own text in a column of its own.

The oldest orders name no fields: their values stand in the order of `_FIELDS`.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

_ORDER = ("transaction_id", "order_no", "currency", "amount")
_FIELDS = {
    "capture": _ORDER,
    "cancel": _ORDER,
    "review": (*_ORDER, "review_flag"),
    "refund": (*_ORDER, "refund_amount", "refund_reason"),
}
_BEFORE_SAID = "\x1e"
# Of the tables of this version, what the step to the next one reads.
_CHANGES = """
ALTER TABLE gateway_states RENAME TO gateway_chunks;
ALTER TABLE gateway_chunks RENAME COLUMN reference_list TO reference;
ALTER TABLE gateway_chunks ADD COLUMN said TEXT NOT NULL DEFAULT '';
CREATE TABLE gateway_exceptions (job_id BIGINT NOT NULL);
ALTER TABLE gateway_jobs DROP COLUMN digest"""
_TEXTS = "SELECT job_id, first, text FROM gateway_chunks WHERE text LIKE :pattern"
_SPLIT_TEXT = """
UPDATE gateway_chunks SET text = :text, said = :said WHERE job_id = :job AND first = :first"""
_NAME_FIELDS = "UPDATE gateway_orders SET bodies = :bodies WHERE job_id = :job AND first = :first"
_JOBS = "SELECT id, operation FROM gateway_jobs"
_BLOCKS = "SELECT first, bodies FROM gateway_orders WHERE job_id = :job"


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    for change in _CHANGES.split(";"):
        op.execute(change)
    for job, first, whole in connection.execute(
        sa.text(_TEXTS), {"pattern": f"%{_BEFORE_SAID}%"}
    ).all():
        text, _, said = whole.partition(_BEFORE_SAID)
        row = {"text": text, "said": said, "job": job, "first": first}
        connection.execute(sa.text(_SPLIT_TEXT), row)
    for job, operation in connection.execute(
        sa.text("SELECT id, operation FROM gateway_jobs")
    ).all():
        for first, bodies in connection.execute(sa.text(_BLOCKS), {"job": job}).all():
            row = {"bodies": _by_field(bodies, operation), "job": job, "first": first}
            connection.execute(sa.text(_NAME_FIELDS), row)


def _by_field(bodies: str, operation: str) -> str:
    found = json.loads(bodies)
    if isinstance(found, list):
        found = {"fields": _FIELDS[operation], "orders": found}
    columns = zip(*found["orders"], strict=True)
    return json.dumps(dict(zip(found["fields"], columns, strict=True)), ensure_ascii=False)

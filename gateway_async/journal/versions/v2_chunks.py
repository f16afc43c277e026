"""Version 2: orders by the names of their fields. Version 1 had no number that Alembic knows.

The oldest orders name no fields: their values stand in the order of `_FIELDS`.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = None

_ORDER = ("transaction_id", "order_no", "currency", "amount")
_FIELDS = {
    "capture": _ORDER,
    "cancel": _ORDER,
    "review": (*_ORDER, "review_flag"),
    "refund": (*_ORDER, "refund_amount", "refund_reason"),
}
# Of the tables of this version, what the step to the next one reads.
_CHANGES = """
ALTER TABLE gateway_states RENAME TO gateway_chunks;
ALTER TABLE gateway_chunks RENAME COLUMN reference_list TO reference;
ALTER TABLE gateway_chunks ADD COLUMN said TEXT NOT NULL DEFAULT '';
CREATE TABLE gateway_exceptions (job_id BIGINT, position BIGINT, request_id BIGINT);
ALTER TABLE gateway_jobs DROP COLUMN digest"""
_BLOCKS = """
SELECT operation, bodies, job_id, first FROM gateway_orders JOIN gateway_jobs ON id = job_id"""
_NAME_FIELDS = "UPDATE gateway_orders SET bodies = :bodies WHERE job_id = :job AND first = :first"


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    connection = op.get_bind()
    for change in _CHANGES.split(";"):
        op.execute(change)
    for operation, bodies, job, first in connection.execute(sa.text(_BLOCKS)).all():
        found = json.loads(bodies)
        if isinstance(found, list):
            found = {"fields": _FIELDS[operation], "orders": found}
        columns = zip(found["fields"], zip(*found["orders"], strict=True), strict=True)
        row = {"bodies": json.dumps(dict(columns), ensure_ascii=False), "job": job, "first": first}
        connection.execute(sa.text(_NAME_FIELDS), row)

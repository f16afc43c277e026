"""Version 4: a job is in the journal whole, or not at all.

Jobs of which an earlier release had only begun to keep the orders go.
"""

from alembic import op

revision = "4"
down_revision = "3"

_BEGUN = "SELECT id FROM gateway_jobs WHERE NOT imported"


def upgrade() -> None:
    """Convert the journal, in the transaction of its caller."""
    for table in ("chunks", "orders", "payout_keys", "slices"):
        op.execute(f"DELETE FROM gateway_{table} WHERE job_id IN ({_BEGUN})")
    op.execute("DELETE FROM gateway_jobs WHERE NOT imported")
    op.execute("ALTER TABLE gateway_jobs DROP COLUMN imported")

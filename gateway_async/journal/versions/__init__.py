"""From one version of the tables to the next: scripts for Alembic."""

"""Each test of a job has a journal on SQLite, and another on PostgreSQL."""

from tests.journal.conftest import journal, other, postgres, tables, url

__all__ = ["journal", "other", "postgres", "tables", "url"]

"""What tests of workers share: a journal in a file, its tables, and a PostgreSQL."""

from pathlib import Path

import pytest

from tests.journal.conftest import postgres, tables

__all__ = ["postgres", "tables", "url"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"

"""A shop that refunds by jobs, with a journal on SQLite and another on PostgreSQL."""

import pytest

from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.shop import Shop
from tests.journal.conftest import journal, other, postgres, tables, url
from tests.journal.tables import Tables
from tests.support.orders import Make

__all__ = ["journal", "other", "postgres", "shop", "tables", "url"]


@pytest.fixture
def shop(sandbox: Sandbox, make: Make, journal: Journal, other: Journal, tables: Tables) -> Shop:
    return Shop(sandbox, journal, other, tables, make)

"""Jobs over the sandbox: each test has a journal on SQLite, and another on PostgreSQL."""

from typing import TYPE_CHECKING

import pytest

from gateway_async import GatewayClient
from gateway_async.sandbox import Sandbox
from tests.jobs.books import Make, make_client
from tests.journal.conftest import journal, other, postgres, tables, url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["journal", "make", "other", "postgres", "tables", "url"]


@pytest.fixture
async def make(sandbox: Sandbox) -> "AsyncIterator[Make]":
    """Make clients of the sandbox that wait for nothing, each as another process would."""
    made: list[GatewayClient] = []

    def another(**settings: object) -> GatewayClient:
        made.append(make_client(sandbox, **settings))
        return made[-1]

    yield another
    for gateway in made:
        await gateway.aclose()

"""Journals on both databases, and a look at their tables past the library."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway_async.journal import Journal
from tests.journal.tables import Tables
from tests.support.postgres import emptied, postgres_url


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that has no table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return emptied(request.getfixturevalue("postgres"))


@pytest.fixture
def tables(url: str) -> Tables:
    return Tables(url)


@pytest.fixture
async def journal(url: str) -> AsyncIterator[Journal]:
    async with Journal.open(url) as journal:
        yield journal


@pytest.fixture
async def other(url: str, journal: Journal) -> AsyncIterator[Journal]:
    """Another process's journal, as far as the database can tell."""
    del journal
    async with Journal.open(url) as other:
        yield other

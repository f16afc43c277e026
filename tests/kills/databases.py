"""Journals for a number of runs."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.postgres import postgres_url

DATABASES = ("sqlite", "postgresql")

Urls = Callable[[str], str]
"""Gives the URL of the journal for a run, by the run's name."""


@contextlib.contextmanager
def journals(database: str, folder: Path) -> Iterator[Urls]:
    """Give journals of one kind: a SQLite file for each run, or one database for all of them."""
    if database == "sqlite":
        yield lambda name: f"sqlite:///{folder / name}.db"
        return
    with postgres_url() as url:
        yield lambda _: url

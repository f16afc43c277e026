"""A PostgreSQL database of its own for tests; skipped where no server answers, failing in CI."""

import contextlib
import os
import uuid
from collections.abc import Iterator

import psycopg
from psycopg import sql

from tests.support.processes import missing

_SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"


def server_url() -> str:
    return os.environ.get("GATEWAY_TEST_POSTGRES", _SERVER)


def _connect() -> "psycopg.Connection[tuple[object, ...]]":
    try:
        return psycopg.connect(server_url(), autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        missing("no PostgreSQL answers at GATEWAY_TEST_POSTGRES or 127.0.0.1:5432")


@contextlib.contextmanager
def postgres_url(template: str = "template0") -> Iterator[str]:
    """Make a database, yield its URL, and drop it."""
    name = f"gateway_test_{uuid.uuid4().hex}"
    make = "CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    with _connect() as server:
        server.execute(sql.SQL(make).format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield f"{server_url().rpartition('/')[0]}/{name}"
    finally:
        with _connect() as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def copied(url: str) -> contextlib.AbstractContextManager[str]:
    """Make a copy of a database that has no session, to be entered for its URL."""
    return postgres_url(url.rpartition("/")[2])


def emptied(url: str) -> str:
    """Drop every table of a database, and return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url

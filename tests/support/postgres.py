"""A PostgreSQL database of its own for tests; skipped where no server answers, failing in CI."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import LiteralString

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
def postgres_url(encoding: str = "UTF8") -> Iterator[str]:
    """Make a database, yield its URL, and drop it."""
    made = "CREATE DATABASE {} TEMPLATE template0 ENCODING {} LC_COLLATE 'C' LC_CTYPE 'C'"
    with _made(made, sql.Literal(encoding)) as url:
        yield url


@contextlib.contextmanager
def copied(url: str) -> Iterator[str]:
    """Make a copy of a database that has no session, yield its URL, and drop it."""
    with _made("CREATE DATABASE {} TEMPLATE {}", sql.Identifier(url.rpartition("/")[2])) as copy:
        yield copy


@contextlib.contextmanager
def _made(statement: LiteralString, detail: sql.Composable) -> Iterator[str]:
    name = f"gateway_test_{uuid.uuid4().hex}"
    with _connect() as server:
        server.execute(sql.SQL(statement).format(sql.Identifier(name), detail))
    try:
        yield f"{server_url().rpartition('/')[0]}/{name}"
    finally:
        with _connect() as server:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def emptied(url: str) -> str:
    """Drop every table of a database, and return its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return url

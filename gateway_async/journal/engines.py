"""One engine for each kind of database: how it connects, and what bounds its waits."""

import contextlib
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import event

from gateway_async.errors import ConfigurationError
from gateway_async.journal.postgres import bounded_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway_async.journal.location import Location

_BUSY_SECONDS = 30.0
_MOST_SECONDS_BETWEEN = 0.02
_SQLITE_SETTINGS = (
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = 1",
    "PRAGMA journal_mode",
)
"""The second: on macOS, a plain fsync leaves what was written in the drive's cache."""
_NOT_THERE = "was deleted, moved or replaced while the journal was open"
_POSTGRES_SETTINGS = (
    "SET statement_timeout = '60s'",
    "SET lock_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '10s'",
    (
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    ),
)
"""Who is frozen inside a transaction loses its locks before one that waits for them gives up; and
a commit is on the server's disk, however the server, database or user is configured."""
_POSTGRES_CONNECTION: "dict[str, int | str]" = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "gateway_async",
}
"""So that no call waits for ever; what the URL says itself goes before."""


def make_engine(location: "Location", *, create: bool = True) -> sa.Engine:
    """Make the engine of a journal; it connects later, and is used by one thread only.

    Args:
        location: Where the journal is.
        create: Whether a file is made where there is none.

    Raises:
        ConfigurationError: If the URL cannot be read.
        ModuleNotFoundError: If the database's driver is not installed.
        JournalError: If there is no such file, and none is to be made.
    """
    if location.is_sqlite and not create and not Path(location.path).exists():
        raise location.missing()
    return _sqlite(location.path) if location.is_sqlite else _postgresql(location.url)


class _File:
    """The file of a journal; once it goes by another name, no next run finds what is in it.

    Args:
        path: Where it is.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self._log = Path(f"{self.path.resolve()}-wal")  # SQLite has it beside what a link leads to
        self._known: tuple[int, int] | None = None
        self._lost_log = False

    def check(self, module: Any) -> None:  # noqa: ANN401  # sqlite3
        """Make sure that its name is not another file's, nor nobody's, and that its log is whole.

        Raises:
            OperationalError: If it was deleted, moved or replaced since it was opened.
        """
        if self._known not in {None, _number_of(self.path)}:
            raise module.OperationalError(f"the file {_NOT_THERE}")
        if self._lost_log:  # for good: put back, it would undo what a new one has
            raise module.OperationalError(f"the write-ahead log {_NOT_THERE}")

    def begin(self, connection: sa.Connection) -> None:
        """Begin a transaction, and look whether what it writes will be found again.

        Raises:
            OperationalError: If the file or its write-ahead log is not the one that was opened.
        """
        driver: Any = connection.connection.driver_connection
        driver.execute("BEGIN IMMEDIATE")
        module = connection.dialect.loaded_dbapi
        self._known = self._known or _number_of(self.path)
        log = _number_of(self._log)
        self._lost_log |= connection.info.setdefault("log", log) != log
        self.check(module)


def _number_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from any other; None where none can be found."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sqlite(path: str) -> sa.Engine:
    file = _File(path)
    engine = sa.create_engine(
        sa.URL.create("sqlite+pysqlite", database=str(file.path)),
        poolclass=sa.NullPool,
        hide_parameters=True,
        connect_args={"timeout": _BUSY_SECONDS, "isolation_level": None},
    )
    event.listen(engine, "do_connect", lambda dialect, *_: file.check(dialect.loaded_dbapi))
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", file.begin)
    return engine


def _set_up_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401  # sqlite3's
    with _closed_on_failure(connection):
        modes = [connection.execute(setting).fetchone() for setting in _SQLITE_SETTINGS]
        if modes[-1] != ("wal",):
            _turn_to_wal(connection)


def _turn_to_wal(connection: Any) -> None:  # noqa: ANN401  # sqlite3's
    """Turn a new file to a write-ahead log; SQLite itself does not wait for others that do so."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except Exception as error:
            if not _is_busy(error) or time.monotonic() >= until:
                raise
            time.sleep(random.uniform(0, _MOST_SECONDS_BETWEEN))  # noqa: S311  # jitter
        else:
            return


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "") == "SQLITE_BUSY"


def _postgresql(url: str) -> sa.Engine:
    try:
        made = sa.make_url(url).set(drivername="postgresql+psycopg")
    except sa.exc.ArgumentError:
        made = None
    if made is None:
        raise ConfigurationError("journal URL: this postgresql:// URL cannot be read")
    chosen = {name: value for name, value in _POSTGRES_CONNECTION.items() if name not in made.query}
    chosen["client_encoding"] = "utf8"  # any text, whatever server, URL and environment prefer
    engine = sa.create_engine(
        made,
        poolclass=sa.NullPool,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        connect_args=chosen,
    )
    made_of = bounded_connection(engine.dialect.loaded_dbapi)
    event.listen(
        engine,
        "do_connect",
        lambda _, __, arguments, named: made_of.connect(*arguments, **named),
    )
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _set_up_postgresql(connection: Any, _: object) -> None:  # noqa: ANN401  # psycopg's
    with _closed_on_failure(connection):
        for setting in _POSTGRES_SETTINGS:
            connection.execute(setting)
        connection.commit()


@contextlib.contextmanager
def _closed_on_failure(connection: Any) -> "Iterator[None]":  # noqa: ANN401  # either driver's
    try:
        yield
    except BaseException:
        connection.close()
        raise

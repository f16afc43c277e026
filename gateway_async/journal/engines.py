"""Where a journal is, and how it connects to that: a commit is durable, and no wait endless.

Nothing is opened before `connect`. A password is in no message and in no repr.

Statements are written in PostgreSQL's SQL, with `:name` for a parameter and `NOW_SECONDS` for the
database's own clock, which is one for all processes; `adapt` writes them for the driver.
"""

import contextlib
import functools
import os
import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_EXPECTED = (
    "expected sqlite:////path/to/file.db, with four slashes before an absolute path and no "
    "parameters, or postgresql://user@host/database; in a user, a password or a parameter, write @ "
    "as %40 and / as %2F"
)
_SQLITE = re.compile(r"sqlite:///(?P<path>[^?\0]+)", re.IGNORECASE)
# A colon before a host's port alone: elsewhere, a password may follow it.
_POSTGRES = re.compile(
    r"postgres(?:ql|ql\+psycopg)?://(?:(?P<user>[^:@/?#]*)(?::[^@/?#]*)?@)?"
    r"(?P<place>(?:[\w.,%-]|:\d+(?=[,/])|\[[\w:.%]+\])*/+[^/@?#][^@?#]*)(?:\?[^@]*)?",
    re.IGNORECASE,
)

# SQLite

_BUSY_SECONDS = 30.0
_MOST_SECONDS_BETWEEN = 0.02
_LOST = (
    "the file, or the write-ahead log beside it, was deleted, moved or replaced while the journal "
    "was open"
)
_TWO_NAMES = (
    "the file has a second name: a hard link, or a mount of the file alone. By each name SQLite "
    "keeps another write-ahead log, and a second process would send the same orders: remove the "
    "link, or mount the directory in place of the file"
)
_NO_FOLDER = "unable to open database file: its folder does not exist; make it first"
_MOUNTS = Path("/proc/self/mountinfo")


class Sqlite:
    """A file; once it goes by another name, no next run finds what is in it.

    Attributes:
        error: What its driver raises; nothing before it is loaded.
        lock_error: Nothing: once it has begun, a transaction has the only lock.
        shown: The URL as it may be shown.
        path: Where it is.

    Args:
        url: The URL as it was given.
        path: Where it is.
    """

    is_sqlite = True
    error: Any = ()
    lock_error: Any = ()

    def __init__(self, url: str, path: str) -> None:
        self.shown: str = url
        self.path: Path = Path(path)
        self._log = Path(f"{self.path.resolve()}-wal")  # SQLite has it beside what a link leads to
        self._file_number: tuple[int, int] | None = None
        self._log_number: tuple[int, int] | None = None
        self._is_lost = False

    @property
    def absolute_url(self) -> str:
        """The URL with the whole path of the file, from the working directory as it is now."""
        return f"sqlite:///{self.path.absolute()}"

    def check_absolute(self) -> None:
        """Refuse a path that is relative.

        Raises:
            ConfigurationError: With the URL that names the file in every working directory.
        """
        if not self.path.is_absolute():
            raise ConfigurationError(
                f"journal URL: {self.shown} depends on the working directory: started elsewhere, a "
                "job would begin anew and send every order again; write the whole path: "
                f"{self.absolute_url}"
            )

    @staticmethod
    @functools.cache
    def adapt(statement: str) -> str:
        """Write a statement as the driver wants it; SQLite has one writer, and locks no rows."""
        text = re.sub(r"\sFOR (UPDATE|SHARE)\b.*", "", statement)
        return text.replace("NOW_SECONDS", "((julianday('now') - 2440587.5) * 86400.0)")

    def connect(self) -> Any:  # noqa: ANN401  # the driver's
        """Connect; what is committed is on the disk.

        Raises:
            sqlite3.Error: If the file was deleted, moved or replaced since it was opened, or has
                a second name.
        """
        import sqlite3  # noqa: PLC0415  # Python may be built without it

        self.error = sqlite3.Error
        self._log_number = None
        self._check()
        self._check_names()
        with contextlib.suppress(OSError):  # the database then says what is wrong
            if not self.path.parent.exists():
                raise self.error(_NO_FOLDER)
            if not self.path.exists():  # made for this user alone
                self.path.touch(mode=0o600)
        driver = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            # The second: on macOS, a plain fsync leaves what was written in the drive's cache.
            driver.execute("PRAGMA synchronous = FULL")
            driver.execute("PRAGMA fullfsync = 1")
            self._keep_log(driver)
        except BaseException:  # raised again
            driver.close()
            raise
        return driver

    def _keep_log(self, driver: Any) -> None:  # noqa: ANN401  # the driver's
        """Have a write-ahead log kept; SQLite does not wait for others that do so in a new file."""
        until = time.monotonic() + _BUSY_SECONDS
        while driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            try:
                driver.execute("PRAGMA journal_mode = WAL")
            except self.error as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= until:
                    raise
                time.sleep(random.uniform(0, _MOST_SECONDS_BETWEEN))  # noqa: S311  # jitter

    def begin(self, driver: Any) -> None:  # noqa: ANN401  # the driver's
        """Begin a transaction, and look whether what it writes will be found again.

        Raises:
            sqlite3.Error: If the file or its write-ahead log is not the one that was opened.
        """
        driver.execute("BEGIN IMMEDIATE")
        self._file_number = self._file_number or _number_of(self.path)
        self._log_number = self._log_number or _number_of(self._log)
        self._check()

    def _check(self) -> None:
        known = (self.path, self._file_number), (self._log, self._log_number)
        # For good: a log that is put back would undo what a new one has.
        self._is_lost |= any(number not in {None, _number_of(path)} for path, number in known)
        if self._is_lost:
            raise self.error(_LOST)

    def _check_names(self) -> None:
        file = self.path.resolve()
        with contextlib.suppress(OSError):  # there is no file, or no list of mounts, as on Linux
            has_link = file.is_file() and file.stat().st_nlink > 1
            listed = re.sub(rb"[\s\\]", lambda found: b"\\%03o" % ord(found[0]), os.fsencode(file))
            if has_link or b" %b " % listed in _MOUNTS.read_bytes():
                raise self.error(_TWO_NAMES)


def _number_of(path: Path) -> tuple[int, int] | None:
    """Return the numbers that identify a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


# PostgreSQL

# Above PostgreSQL's own limit for a statement.
_SILENT_SECONDS = 75.0
# A process that is frozen inside a transaction loses its locks before one that waits for them
# gives up; and a commit is on the server's disk, however the server, database or user is
# configured.
_POSTGRES_SETTINGS = (
    "SET statement_timeout = '60s'",
    "SET lock_timeout = '20s'",
    "SET idle_in_transaction_session_timeout = '10s'",
    "SET synchronous_commit = on",
)
# So that no call waits for ever; what the URL says itself goes before.
_POSTGRES_CONNECTION: "dict[str, int | str]" = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "gateway_async",
}


class Postgres:
    """A PostgreSQL database, which many processes share.

    Attributes:
        error: What its driver raises; nothing before it is loaded.
        lock_error: What its driver raises in a transaction that waited too long for a lock.
        shown: The URL as it may be shown: without password, and without parameters, which may hold
            one, too.
        absolute_url: The URL as it was given.

    Args:
        url: The URL as it was given.
        shown: As it may be shown.
    """

    is_sqlite = False
    error: Any = ()
    lock_error: Any = ()

    def __init__(self, url: str, shown: str) -> None:
        self.absolute_url: str = url
        self.shown: str = shown

    def check_absolute(self) -> None:
        """Do nothing: a server is the same wherever it is named."""

    @staticmethod
    @functools.cache
    def adapt(statement: str) -> str:
        """Write a statement as the driver wants it."""
        text = re.sub(r":([a-z_]+)", r"%(\1)s", statement.replace("%", "%%"))
        now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
        return text.replace("NOW_SECONDS", now)

    def connect(self) -> Any:  # noqa: ANN401  # the driver's
        """Connect; what is committed is on the server's disk."""
        import psycopg  # noqa: PLC0415  # an extra

        self.error, self.lock_error = psycopg.Error, psycopg.errors.LockNotAvailable
        url = self.absolute_url
        try:  # as its own tools read it, also where it names SQLAlchemy's driver
            chosen = psycopg.conninfo.conninfo_to_dict(f"postgresql:{url.partition(':')[2]}")
        except psycopg.Error:
            chosen = None
        if chosen is None:
            raise ConfigurationError("journal URL: this postgresql:// URL cannot be read")
        # Any text can be kept, whatever server and URL prefer.
        options = {**_POSTGRES_CONNECTION, **chosen, "client_encoding": "utf8"}
        driver: Any = psycopg.connect(**options)  # type: ignore[arg-type]  # of the URL
        try:
            driver.wait = _bounded_wait(driver, psycopg.OperationalError)
            driver.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            driver.autocommit = True  # else the server's own limit for an idle transaction counts
            for setting in _POSTGRES_SETTINGS:
                driver.execute(setting)
            driver.autocommit = False
        except BaseException:  # raised again
            driver.close()
            raise
        return driver

    def begin(self, driver: Any) -> None:  # noqa: ANN401  # the driver's
        """Begin a transaction: the driver does so with the first statement."""


def _bounded_wait(driver: Any, failure: type[Exception]) -> "Callable[..., Any]":  # noqa: ANN401  # the driver's
    """Return the driver's `wait` for the end of an exchange with the server, with an end.

    It raises `failure` if the server says nothing for so long, and closes the connection, since a
    rollback would wait as long again.
    """
    wait = driver.wait

    def bounded(exchange: "Generator[Any, Any, Any]") -> "Generator[Any, Any, Any]":
        until, ready = time.monotonic() + _SILENT_SECONDS, None
        while True:
            try:
                ready = yield exchange.send(ready)
            except StopIteration as ended:
                return ended.value
            if not ready and time.monotonic() >= until:
                driver.close()
                raise failure(f"the server said nothing for {_SILENT_SECONDS:g} s")

    return lambda exchange, *rest, **named: wait(bounded(exchange), *rest, **named)


Engine = Sqlite | Postgres


def locate(url: object) -> Engine:
    """Read the URL of a journal.

    Raises:
        ConfigurationError: For anything but the URL of a SQLite file or a PostgreSQL database.
    """
    if isinstance(url, str):
        if found := _SQLITE.fullmatch(url):
            return Sqlite(url, found["path"])
        if found := _POSTGRES.fullmatch(url):
            user = f"{found['user']}@" if found["user"] else ""
            return Postgres(url, f"postgresql://{user}{found['place']}")
    raise ConfigurationError(f"journal URL: {_EXPECTED}")  # what is given may hold a password

"""The database of a journal: how it connects, and the one thread on which every statement runs.

A caller hears of its operation only after the commit. Operations that wait together share a
transaction; where one of them fails, each runs alone, so that none gets another's error, and so
does what found its connection lost. A write whose commit failed is not repeated.

Most of what a commit costs is that two threads wake each other: so operations are handed over
together, once the event loop brings no more of them. No wait for PostgreSQL is without an end:
where the server is silent for longer than any statement may take, the connection is closed.

Statements are written in PostgreSQL's SQL, with `:name` for a parameter and `NOW_SECONDS` for the
database's own clock, which is one for all processes; `_Sqlite` and `_Postgres` adapt them.
"""

import asyncio
import contextlib
import functools
import random
import re
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from gateway_async.errors import ConfigurationError, JournalError, hide_given

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from gateway_async.journal.location import Location

T = TypeVar("T")

_MOST_TOGETHER = 32
# After so many turns of the event loop without another operation, those that came go together.
_QUIET_TURNS = 4
_LONGEST_TEXT = 300
_ELSEWHERE = "the journal was entered in another event loop, and can be used only there"


@attrs.frozen
class Transaction:
    """What an operation runs in.

    Attributes:
        driver: The driver's connection.
        engine: What made it.
        leases: Leases that were found to be ours in this transaction, and which of them are live.
    """

    driver: Any
    engine: "_Sqlite | _Postgres"
    leases: dict[object, bool] = attrs.field(factory=dict)

    def run(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401  # the driver's cursor
        """Carry out a statement."""
        return self.driver.execute(self.engine.adapt(statement), parameters)

    def run_many(self, statement: str, parameters: "Sequence[dict[str, Any]]") -> None:
        """Carry out a statement several times."""
        self.driver.cursor().executemany(self.engine.adapt(statement), parameters)

    def lock(self, number: int) -> None:
        """Wait for transactions that asked for this number, and let later ones wait.

        SQLite has one writer anyway.
        """
        if not self.engine.is_sqlite:
            self.run("SELECT pg_advisory_xact_lock(:number)", number=number)


@attrs.frozen(eq=False)
class _Task(Generic[T]):
    """One operation that waits.

    Attributes:
        what: What it does, for an error: "cannot ...".
        operation: The operation; it may run twice, and is then rolled back in between.
        future: Where its caller waits.
    """

    what: str
    operation: "Callable[[Transaction], T]"
    future: "asyncio.Future[T]"


class Database:
    """A thread with one connection, for the operations of one event loop.

    Args:
        engine: How to connect.
    """

    def __init__(self, engine: "_Sqlite | _Postgres") -> None:
        self._engine = engine
        self._driver: Any = None
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._gathered: list[_Task[Any]] = []  # in the present turns of the loop
        self._queue: SimpleQueue[list[_Task[Any]] | None] = SimpleQueue()
        # No executor: Python ends all of them when its main thread does, before other threads.
        self._thread = threading.Thread(target=self._work, name="gateway journal", daemon=True)
        self._is_closed = False
        self._thread.start()

    @property
    def is_at_home(self) -> bool:
        """Whether the running event loop is its own."""
        return asyncio.get_running_loop() is self._loop

    def run(self, what: str, operation: "Callable[[Transaction], T]") -> "asyncio.Future[T]":
        """Carry out an operation.

        Args:
            what: What it does, for an error: "cannot ...".
            operation: The operation. It may run more than once, and only the last counts.

        Returns:
            Its value, once it is committed; or `JournalError` if the database failed, the journal
            was closed, or it is used in another event loop than its own; or what it raised.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._is_closed or not self.is_at_home:
            reason = "the journal was closed" if self._is_closed else _ELSEWHERE
            future.set_exception(JournalError(f"{what}: {reason}"))
        else:
            self._gathered.append(_Task(what, operation, future))
            if len(self._gathered) == 1:
                self._loop.call_soon(self._gather, 1, 1)
        return future

    def post(self, what: str, operation: "Callable[[Transaction], object]") -> None:
        """Have an operation carried out without waiting for it, and without an error; see `run`."""
        if not self._is_closed and self.is_at_home:
            self.run(what, operation).add_done_callback(lambda done: done.exception())
            self._hand_over()  # the loop may end before its next turn

    async def aclose(self) -> None:
        """Carry out what waits, disconnect, and end the thread, also where the caller is cancelled.

        Raises:
            JournalError: In another event loop than its own; the thread ends all the same, later.
        """
        self._is_closed = True
        if not self.is_at_home:
            if self._loop.is_running():
                self._call_in_loop(self._end)  # only there is known what was gathered
            else:
                self._end()
            raise JournalError(f"cannot wait for the end of the journal: {_ELSEWHERE}")
        self._end()
        try:
            await uninterrupted(self._ended)
        finally:
            self._thread.join()

    def _gather(self, known: int, turn: int) -> None:
        """Hand over what came, once nothing more comes for a few turns of the loop."""
        found = len(self._gathered)
        if found >= _MOST_TOGETHER or (found == known and turn == _QUIET_TURNS):
            self._hand_over()
        elif found:
            self._loop.call_soon(self._gather, found, turn + 1 if found == known else 1)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._queue.put(gathered)

    def _end(self) -> None:
        self._hand_over()
        self._queue.put(None)

    # On the thread

    def _work(self) -> None:
        """Take what waits, again and again, until the end is in the queue."""
        is_over = False
        while not is_over:
            found = self._queue.get()
            taken = found or []
            while found is not None and len(taken) < _MOST_TOGETHER and self._queue.qsize():
                found = self._queue.get()
                taken = taken + (found or [])
            is_over = found is None
            if group := [task for task in taken if not task.future.cancelled()]:
                ended = self._transact(group, is_first=True)
                ended = ended or [self._transact([task])[0] for task in group]
                self._call_in_loop(_deliver, group, ended)
        self._disconnect()
        self._call_in_loop(self._ended.set_result, None)

    def _call_in_loop(self, callback: "Callable[..., object]", *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and no caller waits
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _transact(self, group: "Sequence[_Task[Any]]", *, is_first: bool = False) -> "list[Any]":
        """Carry out operations in one transaction.

        Returns:
            The value of each, or its exception; nothing if each is to run alone after this first
            attempt.
        """
        may_repeat = False
        try:
            self._driver = self._driver or self._engine.connect()
            may_repeat = is_first
            self._engine.begin(self._driver)
            made = Transaction(self._driver, self._engine)
            values = [task.operation(made) for task in group]
            may_repeat = False
            self._commit()
        except Exception as error:  # noqa: BLE001  # each is handed to its caller
            is_lost = getattr(self._driver, "broken", False)  # by a server that ends what idles
            self._disconnect()  # which rolls back
            if may_repeat and (is_lost or len(group) > 1):
                return []
            return [self._failure(task.what, error) for task in group]
        return values

    def _commit(self) -> None:
        self._driver.commit()

    def _disconnect(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(self._engine.error):
                driver.close()

    def _failure(self, what: str, error: Exception) -> Exception:
        """Return what the caller gets; nothing of it holds a statement or its parameters."""
        if isinstance(error, self._engine.error):
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return JournalError(f"{what}: {lines[0][:_LONGEST_TEXT]}")
        return error.with_traceback(None)


def _deliver(group: "Sequence[_Task[Any]]", ended: "Sequence[Any]") -> None:
    for task, each in zip(group, ended, strict=True):
        if task.future.done():
            continue
        if isinstance(each, Exception):
            task.future.set_exception(each)
        else:
            task.future.set_result(each)


async def uninterrupted(work: "Awaitable[T]") -> T:
    """Wait for work to its end; a cancellation of the waiting task is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        ended = asyncio.Event()  # not `asyncio.shield`, which may report the error by itself
        task.add_done_callback(lambda _, ended=ended: ended.set())  # type: ignore[misc]  # an Event
        try:
            await ended.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or task.cancelled() or task.exception() is not None:
        return task.result()  # or its error, which a cancellation must not hide
    raise cancelled


@hide_given
def make_engine(location: "Location") -> "_Sqlite | _Postgres":
    """Return how to connect to the database of a journal.

    Raises:
        ConfigurationError: If the URL cannot be read.
        ModuleNotFoundError: If the database's driver is not installed.
    """
    return _Sqlite(location.path) if location.is_sqlite else _Postgres(location.url)


# SQLite

_BUSY_SECONDS = 30.0
_MOST_SECONDS_BETWEEN = 0.02
_NOT_THERE = "was deleted, moved or replaced while the journal was open"


@functools.cache
def _for_sqlite(statement: str) -> str:
    """Write a statement as the driver wants it; SQLite has one writer, and locks no rows."""
    text = re.sub(r"\sFOR (UPDATE|SHARE)\b.*", "", statement)
    return text.replace("NOW_SECONDS", "((julianday('now') - 2440587.5) * 86400.0)")


class _Sqlite:
    """A file; once it goes by another name, no next run finds what is in it.

    Attributes:
        error: What its driver raises.
        adapt: Writes a statement as the driver wants it.

    Args:
        path: Where it is.
    """

    is_sqlite = True
    adapt: "Callable[[str], str]" = staticmethod(_for_sqlite)

    def __init__(self, path: str) -> None:
        import sqlite3  # noqa: PLC0415  # Python may be built without it

        self._module = sqlite3
        self.error: type[Exception] = sqlite3.Error
        self.path: Path = Path(path)
        self._log = Path(f"{self.path.resolve()}-wal")  # SQLite has it beside what a link leads to
        self._file_number: tuple[int, int] | None = None
        self._log_number: tuple[int, int] | None = None
        self._lost_log = False

    def connect(self) -> Any:  # noqa: ANN401  # the driver's
        """Connect; what is committed is on the disk.

        Raises:
            OperationalError: If the file was deleted, moved or replaced since it was opened.
        """
        self._check()
        driver = self._module.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            # The second: on macOS, a plain fsync leaves what was written in the drive's cache.
            driver.execute("PRAGMA synchronous = FULL")
            driver.execute("PRAGMA fullfsync = 1")
            self._keep_log(driver)
        except BaseException:  # raised again
            driver.close()
            raise
        self._log_number = None
        return driver

    def _keep_log(self, driver: Any) -> None:  # noqa: ANN401  # the driver's
        """Have a write-ahead log kept; SQLite does not wait for others that do so in a new file."""
        until = time.monotonic() + _BUSY_SECONDS
        while driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            try:
                driver.execute("PRAGMA journal_mode = WAL")
            except self._module.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= until:
                    raise
                time.sleep(random.uniform(0, _MOST_SECONDS_BETWEEN))  # noqa: S311  # jitter

    def begin(self, driver: Any) -> None:  # noqa: ANN401  # the driver's
        """Begin a transaction, and look whether what it writes will be found again.

        Raises:
            OperationalError: If the file or its write-ahead log is not the one that was opened.
        """
        driver.execute("BEGIN IMMEDIATE")
        self._file_number = self._file_number or _number_of(self.path)
        found = _number_of(self._log)
        self._log_number = self._log_number or found
        self._lost_log |= self._log_number != found
        self._check()

    def _check(self) -> None:
        if self._file_number not in {None, _number_of(self.path)}:
            raise self._module.OperationalError(f"the file {_NOT_THERE}")
        if self._lost_log:  # for good: put back, it would undo what a new one has
            raise self._module.OperationalError(f"the write-ahead log {_NOT_THERE}")


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
    (
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    ),
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


@functools.cache
def _for_postgres(statement: str) -> str:
    """Write a statement as the driver wants it."""
    text = re.sub(r":([a-z_]+)", r"%(\1)s", statement.replace("%", "%%"))
    now = "CAST(EXTRACT(EPOCH FROM clock_timestamp()) AS DOUBLE PRECISION)"
    return text.replace("NOW_SECONDS", now)


class _Postgres:
    """A PostgreSQL database, which many processes share.

    Attributes:
        error: What its driver raises.
        adapt: Writes a statement as the driver wants it.

    Args:
        url: Its URL, with its password.
    """

    is_sqlite = False
    adapt: "Callable[[str], str]" = staticmethod(_for_postgres)

    def __init__(self, url: str) -> None:
        import psycopg  # noqa: PLC0415  # an extra

        self._module = psycopg
        self.error: type[Exception] = psycopg.Error
        try:  # as its own tools read it, also where it names SQLAlchemy's driver
            chosen = psycopg.conninfo.conninfo_to_dict(f"postgresql:{url.partition(':')[2]}")
        except psycopg.Error:
            chosen = None
        if chosen is None:
            raise ConfigurationError("journal URL: this postgresql:// URL cannot be read")
        # Any text can be kept, whatever server and URL prefer.
        self._options: dict[str, Any] = {
            **_POSTGRES_CONNECTION,
            **chosen,
            "client_encoding": "utf8",
        }

    def connect(self) -> Any:  # noqa: ANN401  # the driver's
        """Connect; what is committed is on the server's disk."""
        driver: Any = self._module.connect(**self._options)
        try:
            driver.wait = _bounded_wait(driver, self._module.OperationalError)
            driver.isolation_level = self._module.IsolationLevel.READ_COMMITTED
            for setting in _POSTGRES_SETTINGS:
                driver.execute(setting)
            driver.commit()
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

    def bounded(exchange: "Generator[Any, Any, T]") -> "Generator[Any, Any, T]":
        until, ready = time.monotonic() + _SILENT_SECONDS, None
        while True:
            try:
                ready = yield exchange.send(ready)
            except StopIteration as ended:
                value: T = ended.value
                return value
            if not ready and time.monotonic() >= until:
                driver.close()
                raise failure(f"the server said nothing for {_SILENT_SECONDS:g} s")

    return lambda exchange, *rest, **named: wait(bounded(exchange), *rest, **named)

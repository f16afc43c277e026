"""The database of a journal: how it connects, and the one thread on which every statement runs.

A caller hears of its operation only after the commit. Operations that wait together share a
transaction; where one of them fails, each runs alone, so that none gets another's error, and so
does what found its connection lost. A write whose commit failed is not repeated. What an operation
does is not known here.

Most of what a commit costs is that two threads wake each other: so operations are handed over
together, once the event loop brings no more of them. No wait for PostgreSQL is without an end:
where the server is silent for longer than any statement may take, the connection is closed.
"""

import asyncio
import contextlib
import random
import threading
import time
from operator import itemgetter
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

import attrs
import sqlalchemy as sa
from sqlalchemy import event

from gateway_async.errors import ConfigurationError, GatewayError, JournalError
from gateway_async.journal import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from gateway_async.journal.location import Location

    Text = tuple[str, Callable[[dict[str, object]], Sequence[object]] | None]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_TOGETHER = 32
_QUIET_TURNS = 4
"""After so many turns of the event loop without another operation, those that came go together."""
_LONGEST_TEXT = 300
_ELSEWHERE = "the journal was entered in another event loop, and can be used only there"
_SILENT_SECONDS = 75.0
"""Above PostgreSQL's own limit for a statement."""
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


@attrs.frozen
class Transaction:
    """What an operation runs in.

    Attributes:
        connection: The connection, in its transaction.
        driver: The driver's own connection.
        texts: Statements as the driver wants them, with what picks their parameters.
        leases: Leases that were found to be ours in this transaction, and which of them are live.
    """

    connection: sa.Connection
    driver: Any
    texts: "dict[sa.Executable, Text]"
    leases: dict[object, bool] = attrs.field(factory=dict)

    def execute(self, statement: sa.Executable, parameters: Any = None) -> "sa.CursorResult[Any]":  # noqa: ANN401  # SQLAlchemy's
        """Carry out a statement."""
        return self.connection.execute(statement, parameters)

    def execute_fast(
        self, statement: "sa.UpdateBase | sa.Select[Any]", **parameters: object
    ) -> Any:  # noqa: ANN401  # the driver's cursor
        """Carry out a statement of those that each chunk needs, by the driver itself.

        That is three times as quick, and as good: values are bound as they are.
        """
        known = self.texts.get(statement)
        if known is None:
            known = self.texts[statement] = _text_of(statement, self.connection)
        text, pick = known
        given = parameters if pick is None else pick(parameters)
        try:
            return self.driver.execute(text, given)
        except self.connection.dialect.loaded_dbapi.Error:
            self.connection.invalidate()  # else what a rollback says hides why it was needed
            raise

    def insert(self, statement: sa.Insert, **parameters: object) -> int:
        """Insert a row as `execute_fast` does, and return the number that it got."""
        cursor = self.execute_fast(statement, **parameters)
        number: int = cursor.fetchone()[0] if cursor.description else cursor.lastrowid
        return number


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


@attrs.frozen
class _Failure:
    """How an operation ended that failed."""

    error: Exception


class Database:
    """A thread with one connection, for the operations of one event loop.

    Args:
        make_engine: Makes the engine; called on the thread.
    """

    def __init__(self, make_engine: "Callable[[], sa.Engine]") -> None:
        self._make_engine = make_engine
        self._engine: sa.Engine | None = None
        self._connection: sa.Connection | None = None
        self._texts: dict[sa.Executable, Text] = {}
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._gathered: list[_Task[Any]] = []
        self._queue: SimpleQueue[list[_Task[Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="gateway journal", daemon=True)
        self._is_closed = False
        self._thread.start()

    def run(
        self,
        what: str,
        operation: "Callable[Concatenate[Transaction, P], T]",
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> "asyncio.Future[T]":
        """Carry out an operation.

        Args:
            what: What it does, for an error: "cannot ...".
            operation: The operation. It may run more than once, and only the last counts.
            arguments: What it is called with, behind its transaction.
            named: The same, by name.

        Returns:
            Its value, once it is committed; or `JournalError` if the database failed, the journal
            was closed, or it is used in another event loop than its own; or what it raised.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(JournalError(f"{what}: the journal was closed"))
        elif not self._is_at_home():
            future.set_exception(JournalError(f"{what}: {_ELSEWHERE}"))
        else:
            self._gathered.append(
                _Task(what, lambda transaction: operation(transaction, *arguments, **named), future)
            )
            if len(self._gathered) == 1:
                self._loop.call_soon(self._gather, 1, 1)
        return future

    def post(
        self,
        what: str,
        operation: "Callable[Concatenate[Transaction, P], object]",
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> None:
        """Have an operation carried out without waiting for it, and without an error; see `run`."""
        if not self._is_closed and self._is_at_home():
            done = self.run(what, operation, *arguments, **named)
            done.add_done_callback(lambda done: done.exception())
            self._hand_over()  # the loop may end before its next turn

    async def aclose(self) -> None:
        """Carry out what waits, disconnect, and end the thread, also where the caller is cancelled.

        Raises:
            JournalError: In another event loop than its own; the thread ends all the same, later.
        """
        if self._is_at_home() or not self._loop.is_running():
            self._close()
        else:  # in another thread, where it may be handing over at this moment
            self._tell(self._close)
        if not self._is_at_home():
            raise JournalError(f"cannot wait for the end of the journal: {_ELSEWHERE}")
        interruption: asyncio.CancelledError | None = None
        while not self._ended.done():
            try:
                await asyncio.shield(self._ended)
            except asyncio.CancelledError as error:
                interruption = error
        self._thread.join()
        if interruption is not None:
            raise interruption

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

    def _close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._hand_over()
            self._queue.put(None)

    def _is_at_home(self) -> bool:
        return asyncio.get_running_loop() is self._loop

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
            group = [task for task in taken if not task.future.cancelled()]
            if group:
                self._tell(_deliver, group, self._carry_out(group))
        self._disconnect()
        self._tell(_end, self._ended)

    def _tell(self, callback: "Callable[..., None]", *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and no caller waits
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _carry_out(self, group: "Sequence[_Task[Any]]") -> "list[Any]":
        """Return the value or failure of each."""
        error = self._connect()
        if error is not None:
            return self._failures(group, error)
        return self._transact(group, is_first=True) or self._carry_out_alone(group)

    def _carry_out_alone(self, group: "Sequence[_Task[Any]]") -> "list[Any]":
        ended: list[Any] = []
        for number, task in enumerate(group):
            error = self._connect()
            if error is not None:
                return ended + self._failures(group[number:], error)
            ended += self._transact([task])
        return ended

    def _transact(self, group: "Sequence[_Task[Any]]", *, is_first: bool = False) -> "list[Any]":
        """Carry out operations in one transaction.

        Returns:
            The value or failure of each; nothing if each is to run alone after this first attempt.
        """
        is_committing, driver = False, None
        try:
            with self._connected().begin() as transaction:
                connection = transaction.connection
                driver = connection.connection.driver_connection
                made = Transaction(connection, driver, self._texts)
                values = [task.operation(made) for task in group]
                is_committing = True
                transaction.commit()
        except Exception as error:  # noqa: BLE001  # each is handed to its caller
            is_lost = getattr(driver, "was_ended", False)  # by a server that ends what idles, say
            if not isinstance(error, GatewayError):
                self._disconnect()
            if is_first and not is_committing and (is_lost or len(group) > 1):
                return []
            return self._failures(group, error)
        return values

    def _connect(self) -> Exception | None:
        """Connect, unless it is connected; return why it cannot."""
        try:
            self._connected()
        except Exception as error:  # noqa: BLE001  # each is handed to its caller
            return error
        return None

    def _connected(self) -> sa.Connection:
        if self._engine is None:
            self._engine = self._make_engine()
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                connection.invalidate()
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                connection.close()

    def _failures(self, group: "Sequence[_Task[Any]]", error: Exception) -> "list[Any]":
        return [_Failure(self._failure(task.what, error)) for task in group]

    def _failure(self, what: str, error: Exception) -> Exception:
        """Return what the caller gets; nothing of it holds a statement or its parameters."""
        engine = self._engine
        if isinstance(error, sa.exc.DBAPIError) and error.orig is not None:
            return JournalError(f"{what}: {_short(error.orig)}")
        if isinstance(error, sa.exc.SQLAlchemyError):
            return JournalError(f"{what}: {type(error).__name__}")
        if engine is not None and isinstance(error, engine.dialect.loaded_dbapi.Error):
            return JournalError(f"{what}: {_short(error)}")
        return error.with_traceback(None)


async def open_database(location: "Location", *, create: bool = True) -> Database:
    """Connect, make the tables where there are none, and upgrade those of an earlier version.

    Args:
        location: Where the journal is.
        create: Whether a journal is made where there is none.

    Raises:
        ConfigurationError: If the URL cannot be read.
        ModuleNotFoundError: If the database's driver is not installed.
        JournalError: If the database cannot be opened, or is of a newer version, or there is no
            journal and none is to be made.
    """
    database = Database(lambda: make_engine(location, create=create))
    try:
        copy = await database.run(
            f"cannot open the journal {location.shown}",
            lambda transaction: schema.prepare(transaction.connection, location, create=create),
        )
    except BaseException:
        await database.aclose()
        raise
    if copy is not None:
        copy.unlink()
    return database


def _text_of(statement: "sa.UpdateBase | sa.Select[Any]", connection: sa.Connection) -> "Text":
    """Return a statement as the driver wants it; its parameters go by position, or else by name."""
    compiled = statement.compile(dialect=connection.dialect)
    names: list[str] | None = getattr(compiled, "positiontup", None)
    if names is None:
        return str(compiled), None
    return str(compiled), itemgetter(*names) if len(names) > 1 else lambda given: [given[names[0]]]


def _short(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:_LONGEST_TEXT]


def _deliver(group: "Sequence[_Task[Any]]", ended: "Sequence[Any]") -> None:
    for task, each in zip(group, ended, strict=True):
        if task.future.done():
            continue
        if isinstance(each, _Failure):
            task.future.set_exception(each.error)
        else:
            task.future.set_result(each)


def _end(ended: "asyncio.Future[None]") -> None:
    ended.set_result(None)


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
        """Make sure that its name still leads to it, and that its log is whole.

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
    """Return the numbers that identify a file; None where there is none."""
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


class _Bounded:
    """Mixed in before psycopg's own connection."""

    pgconn: Any
    broken: bool
    failure: type[Exception]
    _is_silent = False

    @property
    def was_ended(self) -> bool:
        """Whether the server ended the connection; not where it only fell silent."""
        return self.broken and not self._is_silent

    def wait(self, gen: "Generator[Any, Any, T]", *arguments: Any, **named: Any) -> T:  # noqa: ANN401  # the driver's
        """Wait for the end of an exchange with the server.

        Raises:
            OperationalError: If the server says nothing for so long; the connection is closed.
        """
        value: T = super().wait(  # type: ignore[misc]  # the driver's
            self._bounded(gen, _SILENT_SECONDS), *arguments, **named
        )
        return value

    def _bounded(self, gen: "Generator[Any, Any, T]", seconds: float) -> "Generator[Any, Any, T]":
        until = time.monotonic() + seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= until:
                    self._is_silent = True
                    self.pgconn.finish()  # else a rollback would wait as long again
                    raise self.failure(f"the server said nothing for {seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as ended:
            value: T = ended.value
            return value


def bounded_connection(driver: Any) -> Any:  # noqa: ANN401  # psycopg, which only SQLAlchemy imports
    """Return a class of psycopg's connections whose every wait for the server ends."""
    return type(
        "BoundedConnection",
        (_Bounded, driver.Connection),
        {"failure": driver.OperationalError},
    )

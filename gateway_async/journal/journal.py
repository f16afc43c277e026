"""The journal: jobs that outlive their process.

Law: what a method says is kept is on the disk when it returns. Every statement runs on the one
thread that a journal owns; nothing of a database is imported before a journal is entered.
"""

from typing import TYPE_CHECKING, Any, Self

from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.journal.job import Job, JobStatus, SliceStatus
from gateway_async.journal.location import locate
from gateway_async.journal.states import JobState
from gateway_async.models.orders import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from gateway_async.batching.results import Outcome
    from gateway_async.journal.location import Location
    from gateway_async.journal.store import Store

_EXTRA = frozenset({"sqlalchemy", "psycopg", "psycopg_binary", "psycopg_c"})
_PAGE = 1000
_LONGEST_NAME = 200
_LONGEST_LEASE_SECONDS = 86_400

_DECISIONS = {
    OutcomeStatus.SUCCEEDED: JobState.SUCCEEDED,
    OutcomeStatus.DECLINED: JobState.DECLINED,
    OutcomeStatus.NOT_SENT: JobState.NEW,
    OutcomeStatus.UNKNOWN: JobState.HELD,
}


class Journal:
    """Where jobs are kept: a SQLite file, or a PostgreSQL database that many processes share.

    Use it as an async context manager, in one event loop:

        async with Journal.open("sqlite:////srv/refunds.db") as journal:
            ...
    """

    def __init__(self, location: "Location", lease_seconds: float, *, create: bool = True) -> None:
        self._location = location
        self._lease_seconds = lease_seconds
        self._create = create
        self._store: Store | None = None

    def __repr__(self) -> str:
        return f"<Journal {self._location.shown}>"

    @classmethod
    def open(cls, url: str, *, lease_seconds: float = 15.0, create: bool = True) -> Self:
        """Make a journal; it connects when it is entered.

        Args:
            url: `sqlite:////path/to/file.db`, with four slashes before the absolute path, or
                `postgresql://user@host/database`.
            lease_seconds: How long a job stays with a process that says nothing more.
            create: Whether a journal is made where there is none.

        Raises:
            ConfigurationError: For another kind of URL, a relative path, which would be another
                journal in another working directory, or a lease that is no such number.
        """
        if not _is_duration(lease_seconds):
            raise ConfigurationError(
                "lease_seconds: expected a number of seconds above 0, and a day at most, "
                f"got {lease_seconds!r}"
            )
        location = locate(url)
        location.check_absolute()
        return cls(location, float(lease_seconds), create=create)

    @property
    def lease_seconds(self) -> float:
        """How long a job stays with a process that says nothing more."""
        return self._lease_seconds

    async def __aenter__(self) -> Self:
        """Connect, and make the tables where there are none.

        Raises:
            ConfigurationError: If the extra is not installed.
            JournalError: If the database cannot be opened, or is of another version, or there is no
                journal and `create` is not set.
        """
        if self._store is not None:
            raise JournalError(f"{self!r} is open already")
        try:
            from gateway_async.journal.store import open_store  # noqa: PLC0415  # an extra

            self._store = await open_store(self._location, self._lease_seconds, create=self._create)
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] not in _EXTRA:
                raise
            raise ConfigurationError(
                f"a journal needs {error.name}: pip install 'gateway-async[journal]'"
            ) from None
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        """Carry out what was asked for, and end the thread."""
        store, self._store = self._store, None
        if store is not None:
            await store.aclose()

    @property
    def store(self) -> "Store":
        """What carries out the statements; for the modules of this package.

        Raises:
            JournalError: If the journal is not open.
        """
        if self._store is None:
            raise JournalError(f"{self!r} is not open: use it as `async with ... as journal`")
        return self._store

    def job(self, name: str) -> Job:
        """Name a job, which may or may not exist.

        Raises:
            ConfigurationError: For a name that is not 1 to 200 printable characters.
        """
        if not _is_name(name):
            raise ConfigurationError(
                f"job: expected a name of 1 to {_LONGEST_NAME} printable characters"
            )
        return Job(name=name, journal=self)

    async def jobs(self) -> list[JobStatus]:
        """Return every job, the oldest first."""
        return await self.store.statuses()

    async def status(self, name: str) -> JobStatus:
        """Return how far a job has come.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        return await self.store.status(self.job(name).name)

    async def slices(self, name: str) -> "list[SliceStatus]":
        """Return how far each slice of a job has come; none where the job is in one piece.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        return await self.store.slices(self.job(name).name)

    async def outcomes(self, name: str) -> "AsyncIterator[Outcome[Any, Any]]":
        """Yield what became of each order of a job, in the order of the input.

        Raises:
            JobNotFoundError: If there is no job of this name.
        """
        name = self.job(name).name
        rows = await self.store.page(name, -1, _PAGE)
        while rows:
            for row in rows:
                yield row.outcome()
            rows = await self.store.page(name, rows[-1].index, _PAGE)

    async def resolve(
        self, name: str, order: object, status: OutcomeStatus | str, note: str
    ) -> None:
        """Keep what an operator decided on orders whose outcome is in doubt.

        Args:
            name: The name of the job.
            order: The order, or its position in the job, from 0; or a list or a range of such, and
                then it is decided on all of them, or on none.
            status: `succeeded`, `declined`, `not_sent` (the next run sends it), or `unknown` (it
                is held, and looked at again by the next run).
            note: Why; it is kept.

        Raises:
            ConfigurationError: For another status, or an empty note.
            JobNotFoundError: If there is no job of this name.
            InvalidOrderError: If `order` is neither an order of the job's operation nor a position.
            JournalError: If there is no such order, more than one, or nothing to decide on it.

        Whichever is raised, nothing was changed.
        """
        if not _is_note(note):
            raise ConfigurationError("note: expected a text that says why")
        try:
            state = _DECISIONS[OutcomeStatus(status)]
        except (ValueError, KeyError):
            raise ConfigurationError(
                f"status: expected one of {', '.join(_DECISIONS)}, got {status!r}"
            ) from None
        await self.store.resolve(self.job(name).name, order, state, note)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable()


def _is_note(note: object) -> bool:
    return isinstance(note, str) and bool(note.strip())


def _is_duration(seconds: object) -> bool:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return is_number and 0 < seconds <= _LONGEST_LEASE_SECONDS  # type: ignore[operator]  # a number

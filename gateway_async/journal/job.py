"""A job: a batch of money orders with a name."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import ConfigurationError, JobNotFoundError
from gateway_async.journal.states import UNFINISHED, JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from datetime import datetime

    from gateway_async.journal.journal import Journal
    from gateway_async.journal.lease import Lease

_SLICES_AT_MOST = 2**31
"""More than any database's column of their numbers holds."""


@attrs.frozen(kw_only=True)
class JobHead:
    """What a job is, however far it has come.

    Attributes:
        name: Its name.
        operation: The name of its operation.
        merchant_id: The merchant that it was submitted for.
        account_id: The account that it was submitted for.
        created_at: When it was first submitted, in UTC.
        imported: Whether the journal has all of its orders.
        is_cut: Whether it was cut into slices.
    """

    name: str
    operation: str
    merchant_id: str
    account_id: str
    created_at: "datetime"
    imported: bool
    is_cut: bool


@attrs.frozen(kw_only=True)
class JobStatus(JobHead):
    """How far a job has come.

    Attributes:
        total: How many orders the journal has of it.
        counts: How many of them are in each state.
        is_running: Whether a process has it.
    """

    total: int
    counts: Mapping[JobState, int]
    is_running: bool

    @property
    def done(self) -> bool:
        """Whether a run has nothing more to do; orders may still be held for an operator."""
        return self.imported and not any(self.counts[state] for state in UNFINISHED)


@attrs.frozen(kw_only=True)
class SliceStatus:
    """How far one slice of a job has come.

    Attributes:
        number: Its number, from 1.
        first: The position of its first order in the job, from 0.
        last: The position of its last; not all between them need be its own.
        total: How many orders it has.
        finished: Whether a run has nothing more to do in it; orders may still be held.
        is_running: Whether a process has it.
    """

    number: int
    first: int
    last: int
    total: int
    finished: bool
    is_running: bool


@attrs.frozen(kw_only=True)
class Job:
    """One job of a journal; whether it exists is not known here.

    Attributes:
        name: Its name.
        journal: Where it is kept.
    """

    name: str
    journal: "Journal"

    async def submit(
        self,
        operation: str,
        merchant_id: str,
        account_id: str,
        pages: "AsyncIterator[Sequence[Any]]",
        *,
        slice_size: int = 0,
    ) -> int:
        """Keep the orders of the job, or find that they are the ones that it has.

        Args:
            operation: The name of the operation.
            merchant_id: The merchant that orders are sent for.
            account_id: The account that orders are sent for.
            pages: The orders, piece by piece.
            slice_size: How many orders a slice has; 0 where the job stays in one piece.

        Returns:
            How many they are; all of them are on the disk.

        Raises:
            ConfigurationError: For an operation that moves no money in a batch.
            InvalidOrderError: For an order of another operation.
            JobConflictError: If the job exists, with other orders or for another operation,
                merchant or account, or was cut and is not to be. Nothing was changed.
            JobBusyError: If another process is submitting it.
            LeaseLostError: If submitting took so long that another process began anew.
        """
        return await self.journal.store.submit(
            self.name, (operation, merchant_id, account_id), pages, slice_size
        )

    async def head(self) -> JobHead:
        """Return what the job is.

        Raises:
            JobNotFoundError: If there is no such job.
        """
        return await self.journal.store.head(self.name)

    async def slice(self, slice_number: int) -> SliceStatus:
        """Return how far a slice of the job has come.

        Raises:
            ConfigurationError: If the number is no int.
            JobNotFoundError: If there is no such job, or no such slice.
        """
        return await self.journal.store.slice(self.name, self._numbered(slice_number))

    async def take(self, owner: str, slice_number: int = 0) -> "Lease":
        """Take the job, or one slice of one that was cut, for this process.

        What was in flight under the lease before, and what is held, becomes `unknown`.

        Args:
            owner: Who takes it, for others to read.
            slice_number: Which slice, from 1; 0 for a job that is in one piece.

        Raises:
            ConfigurationError: If the number is no int.
            JobNotFoundError: If there is no such job, or no such slice of it.
            JobConflictError: If it was cut into slices, and none is named.
            JobBusyError: If another process has it.
            JournalError: If not all of its orders were submitted.
        """
        return await self.journal.store.take(self.name, owner, self._numbered(slice_number))

    def _numbered(self, slice_number: object) -> int:
        """Return the number of a slice; a database would take a text for one, and we would not.

        Raises:
            ConfigurationError: If it is no int.
            JobNotFoundError: If no slice can have it.
        """
        if isinstance(slice_number, bool) or not isinstance(slice_number, int):
            raise ConfigurationError(
                f"slice_number: expected an int, got {slice_number!r} "
                f"({type(slice_number).__name__})"
            )
        if not 0 <= slice_number < _SLICES_AT_MOST:
            raise JobNotFoundError(
                f"the journal has no slice {slice_number} of job {self.name!r}", job=self.name
            )
        return slice_number

"""Where the orders of a job come from: handed in, and stored; then read back, as far as new."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from gateway_async.batching.feed import GivenOrders, OrderChecker, chunk_size_of
from gateway_async.journal.chunk_store import ANYWHERE
from gateway_async.journal.rows import Merchant
from gateway_async.journal.states import OrderState
from gateway_async.journal.submit import Submission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.journal import Job
    from gateway_async.journal.chunk_store import ChunkStore
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.rows import JobOrder
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

_SUBMITTED_AT_ONCE = 1000
# So many that the wait for them, in which another chunk may be sent, counts for little.
_NEW_AT_ONCE = 2000


class JobInput:
    """The orders of a job as they are handed in: checked as a batch does, then submitted.

    Args:
        session: The way to the gateway.
        operation: The operation.
        policy: Its `duplicates` decides whether another job may have a payout, too.
        job: The job.
        orders: The orders; see `check_batch`.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.

    Attributes:
        source: The orders.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # what a job is made of
        self,
        session: "Session",
        operation: "Operation",
        policy: "BatchPolicy",
        job: "Job",
        orders: object,
        slice_size: int = 0,
    ) -> None:
        self.source: GivenOrders = GivenOrders(orders)
        self._checker = OrderChecker(operation, session.dialect, policy)
        self._submission = Submission(
            job=job,
            operation=operation,
            merchant=Merchant.of(session.credentials, session.gateway),
            chunk_size=chunk_size_of(operation, policy),
            slice_size=slice_size,
            repeats=policy.duplicates == "allow",
        )

    async def check(self) -> None:
        """Check a collection whole.

        Raises:
            InvalidOrderError: If any order of it is wrong; nothing is stored.
        """
        await self._checker.check_all(self.source.collection)

    async def submit(self) -> int:
        """Store the orders, or compare them; return how many. See `Submission.carry_out`."""
        return await self._submission.carry_out(self._pages())

    async def aclose(self) -> None:
        """Close the input, if it was not taken to its end."""
        await self.source.aclose()

    async def _pages(self) -> "AsyncIterator[Sequence[Any]]":
        """Yield the orders; those that are not of a collection are checked now."""
        source, position = self.source, 0
        while not source.ended:
            orders: list[Any] = []
            await source.pull(orders, _SUBMITTED_AT_ONCE)
            is_checked = source.collection is not None
            problems = {} if is_checked else self._checker.check_page(position, orders)
            for index, error in problems.items():
                raise type(error)(f"order {index}: {error}; this run sent nothing")
            yield orders
            position += len(orders)
            await asyncio.sleep(0)


class NewOrders:
    """The orders of a job that are new, read page by page.

    Whole chunks are handed over together, as far as they fit: what is written of a chunk as a whole
    is one row.

    Args:
        lease: Under which they are read.
    """

    collection: "tuple[object, ...] | None" = None
    waits = False
    is_stored = True

    def __init__(self, lease: "Lease") -> None:
        self.ended: bool = False
        self._lease = lease
        self._first = 0
        self._chunks: deque[list[JobOrder]] = deque()

    async def pull(self, orders: list[Any], most: int) -> "Sequence[int]":
        """Add the next orders, as many chunks as are at hand and fit; return their positions."""
        if not self._chunks:
            self._chunks.extend(await self._lease.read(self._select))
            if not self._chunks:
                self.ended = True
                return ()
            self._first = self._chunks[-1][-1].index + 1
        pulled: list[JobOrder] = []
        while self._chunks and len(pulled) + len(self._chunks[0]) <= most:
            pulled += self._chunks.popleft()
        if not pulled:  # a smaller `chunk_size` than the job was submitted with
            pulled, self._chunks[0] = self._chunks[0][:most], self._chunks[0][most:]
        orders += [each.order for each in pulled]
        return [each.index for each in pulled]

    def _select(self, orders: "ChunkStore") -> "list[list[JobOrder]]":
        span = range(self._first, ANYWHERE.stop)
        return orders.select((OrderState.NEW,), span, most=_NEW_AT_ONCE)

    async def aclose(self) -> None:
        """Do nothing: the lease is ended elsewhere."""

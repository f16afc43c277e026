"""Where the orders of a job come from: handed in, and stored; then read back, as far as new."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from gateway_async.batching.feed import OrderChecker, chunk_size_of
from gateway_async.journal.rows import Merchant
from gateway_async.journal.submit import Submission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.batching.feed import GivenOrders
    from gateway_async.journal import Job
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.reads import Orders
    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

    # The orders of one chunk that are new, with their positions.
    Group = list[tuple[int, Any]]

_SUBMITTED_AT_ONCE = 1000
# So many that the wait for them, in which another chunk may be sent, counts for little.
_NEW_AT_ONCE = 2000


async def submit_given(  # noqa: PLR0913  # as `submit_orders`
    session: "Session",
    operation: "Operation",
    given: "GivenOrders",
    job: "Job",
    *,
    policy: "BatchPolicy",
    slice_size: int = 0,
) -> int:
    """Store orders that are handed in; return how many. See `Submission.carry_out`.

    Args:
        session: The way to the gateway.
        operation: The operation.
        given: The orders; a collection was checked.
        job: The job.
        policy: Its `duplicates` decides whether another job may have a payout, too.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
    """
    submission = Submission(
        job=job,
        operation=operation,
        merchant=Merchant.of(session.credentials, session.gateway),
        chunk_size=chunk_size_of(operation, policy),
        slice_size=slice_size,
        repeats=policy.duplicates == "allow",
    )
    checker = OrderChecker(operation, session.dialect, policy)
    return await submission.carry_out(_pages(given, checker))


async def _pages(given: "GivenOrders", checker: OrderChecker) -> "AsyncIterator[Sequence[Any]]":
    """Yield the orders; those that are not of a collection are checked now."""
    position = 0
    while not given.ended:
        orders: list[Any] = []
        await given.pull(orders, _SUBMITTED_AT_ONCE)
        problems = checker.check_page(position, orders) if given.collection is None else {}
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
        self._last = -1
        self._page: deque[Group] = deque()

    async def pull(self, orders: list[Any], most: int) -> "Sequence[int]":
        """Add the next orders, as many chunks as are at hand and fit; return their positions."""
        if not self._page:
            self._page.extend(await self._lease.read(self._read))
            if not self._page:
                self.ended = True
                return ()
            self._last = self._page[-1][-1][0]
        pulled: Group = []
        while self._page and len(pulled) + len(self._page[0]) <= most:
            pulled += self._page.popleft()
        if not pulled:  # a smaller `chunk_size` than the job was submitted with
            pulled, self._page[0] = self._page[0][:most], self._page[0][most:]
        orders += [order for _, order in pulled]
        return [index for index, _ in pulled]

    def _read(self, orders: "Orders") -> "list[Group]":
        page = orders.new(after=self._last, limit=_NEW_AT_ONCE)
        return [list(zip(found, orders.at(found), strict=True)) for found in page]

    async def aclose(self) -> None:
        """Do nothing: the lease is ended elsewhere."""

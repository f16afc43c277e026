"""The orders of a job as they are handed in: checked as a batch does, then stored.

Nothing is sent here, and the lease of the job is not needed.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.batch import check_batch
from gateway_async.batching.feed import GivenOrders, OrderChecker, chunk_size_of
from gateway_async.errors import InvalidOrderError
from gateway_async.journal import Job
from gateway_async.journal.codec import job_operation
from gateway_async.journal.rows import Merchant
from gateway_async.journal.submit import submit
from gateway_async.settings import expect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

_SUBMITTED_AT_ONCE = 1000


async def submit_orders(  # noqa: PLR0913  # one keyword a setting
    session: "Session",
    name: str,
    orders: object,
    job: Job,
    *,
    policy: "BatchPolicy",
    slice_size: int,
) -> int:
    """Keep the orders of a job, cut into slices, and send nothing; return how many they are.

    Raises:
        ConfigurationError: If `job` is no `Job`, or the operation cannot be one.
        InvalidOrderError: If any order is wrong; nothing is stored.
    """
    job, operation = expect("job", job, Job), job_operation(name)
    check_batch(operation, orders, policy)
    given = JobInput(session, operation, policy, job, orders, slice_size)
    async with contextlib.aclosing(given.source):
        await given.check()
        return await given.submit()


@attrs.frozen
class JobInput:
    """The orders of a job as they are handed in: checked as a batch does, then submitted.

    Attributes:
        session: The way to the gateway.
        operation: The operation.
        policy: Its `duplicates` decides whether another job may have a payout, too.
        job: The job.
        source: The orders; see `check_batch`.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
    """

    session: "Session"
    operation: "Operation"
    policy: "BatchPolicy"
    job: Job
    source: GivenOrders = attrs.field(converter=GivenOrders)
    slice_size: int = 0
    _checker: OrderChecker = attrs.field(init=False)

    @_checker.default
    def _make_checker(self) -> OrderChecker:
        # In a stream, `submit` finds the duplicates, in a quarter of the memory.
        is_collection = self.source.collection is not None
        return OrderChecker(
            self.operation, self.session.dialect, self.policy, finds_duplicates=is_collection
        )

    async def check(self) -> None:
        """Check a collection whole.

        Raises:
            InvalidOrderError: If any order of it is wrong; nothing is stored.
        """
        await self._checker.check_all(self.source.collection)

    async def submit(self) -> int:
        """Store the orders, or compare them; return how many. See `journal.submit`."""
        refuses = self.source.collection is None and self._checker.refuses_duplicates
        return await submit(
            self.job,
            self._pages(),
            operation=self.operation,
            merchant=Merchant.of(self.session.credentials, self.session.gateway),
            chunk_size=chunk_size_of(self.operation, self.policy),
            slice_size=self.slice_size,
            repeats=self.policy.duplicates == "allow",
            refuse=self._refuse_duplicate if refuses else None,
        )

    async def _pages(self) -> "AsyncIterator[Sequence[Any]]":
        """Yield the orders; those that are not of a collection are checked now."""
        source, position = self.source, 0
        while not source.ended:
            orders: list[Any] = []
            await source.pull(orders, _SUBMITTED_AT_ONCE)
            is_checked = source.collection is not None
            problems = {} if is_checked else self._checker.check_page(position, orders)
            for index, error in problems.items():
                raise _refusal(index, error)
            yield orders
            position += len(orders)
            await asyncio.sleep(0)

    def _refuse_duplicate(self, index: int, order: Any) -> Exception:  # noqa: ANN401  # an order
        return _refusal(index, self._checker.duplicate_error(order))


def _refusal(index: int, error: InvalidOrderError) -> InvalidOrderError:
    """Return the error of a job of which one order, at this position, may not be sent."""
    return type(error)(f"order {index}: {error}; this run sent nothing")

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
    given, checker = GivenOrders(orders), OrderChecker(operation, session.dialect, policy)
    async with contextlib.aclosing(given):
        await checker.check_all(given.collection)
        return await JobInput(session, job, policy, checker, given, slice_size).submit()


@attrs.frozen
class JobInput:
    """The orders of a job as they are handed in: checked as a batch does, then submitted.

    Attributes:
        session: The way to the gateway.
        job: The job.
        policy: Its `duplicates` decides whether another job may have a payout, too.
        checker: Checks the orders; it has checked a collection whole.
        source: The orders; see `check_batch`.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.
    """

    session: "Session"
    job: Job
    policy: "BatchPolicy"
    checker: OrderChecker
    source: GivenOrders
    slice_size: int = 0

    async def submit(self) -> int:
        """Store the orders, or compare them; return how many. See `journal.submit`.

        In a stream, it finds the duplicates, in a quarter of the memory of the checker.
        """
        operation = self.checker.operation
        refuses = self.source.collection is None and self.checker.refuses_duplicates
        return await submit(
            self.job,
            self._pages(),
            operation=operation,
            merchant=Merchant.of(self.session.credentials, self.session.gateway),
            chunk_size=chunk_size_of(operation, self.policy),
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
            problems = {} if is_checked else self.checker.check_page(position, orders)
            for index, error in problems.items():
                raise _refusal(index, error)
            yield orders
            position += len(orders)
            await asyncio.sleep(0)

    def _refuse_duplicate(self, index: int, order: Any) -> Exception:  # noqa: ANN401  # an order
        return _refusal(index, self.checker.duplicate_error(order))


def _refusal(index: int, error: InvalidOrderError) -> InvalidOrderError:
    """Return the error of a job of which one order, at this position, may not be sent."""
    return type(error)(f"order {index}: {error}; this run sent nothing")

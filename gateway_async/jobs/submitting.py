"""How the orders of a job come to its journal: checked one by one, and kept before any is sent.

Law: one wrong order, and nothing of the job is kept.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway_async.jobs.log import ROWS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.batching.feed import OrderFeed
    from gateway_async.journal import Job
    from gateway_async.operations import Operation
    from gateway_async.session import Session


async def submit_job(
    session: "Session",
    operation: "Operation",
    job: "Job",
    feed: "OrderFeed",
    *,
    slice_size: int = 0,
) -> int:
    """Keep the orders of a job, or find that they are the ones that it has.

    Args:
        session: Whose credentials and dialect they are checked for.
        operation: What the job is made of.
        job: The job.
        feed: Its orders; a collection was checked whole.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.

    Returns:
        How many they are.
    """
    who = session.credentials
    return await job.submit(
        operation.name,
        who.merchant_id,
        who.account_id,
        _pages(feed),
        chunk_size=feed.chunk_size,
        slice_size=slice_size,
    )


async def _pages(feed: "OrderFeed") -> "AsyncIterator[Sequence[Any]]":
    collection = feed.source.collection
    if collection is not None:
        for start in range(0, len(collection), ROWS_AT_ONCE):
            yield collection[start : start + ROWS_AT_ONCE]
            await asyncio.sleep(0)
        return
    page: list[Any] = []
    async for index, order in feed.unpulled():
        error = feed.check(order)
        if error is not None:
            raise type(error)(f"order {index}: {error}; this run sent nothing")
        page.append(order)
        if len(page) == ROWS_AT_ONCE:
            yield page
            page = []
            await asyncio.sleep(0)
    yield page

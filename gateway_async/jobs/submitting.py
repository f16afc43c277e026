"""How the orders of a job come to its journal: checked one by one, and kept before any is sent.

Law: one wrong order, and nothing of the job is kept.
"""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway_async.jobs.log import ROWS_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from gateway_async.batching.intake import Intake
    from gateway_async.batching.plans import Plan
    from gateway_async.journal.job import Job
    from gateway_async.session import Session


async def submit_job(
    session: "Session", plan: "Plan", job: "Job", intake: "Intake", *, slice_size: int = 0
) -> int:
    """Keep the orders of a job, or find that they are the ones that it has.

    Args:
        session: Whose credentials and dialect they are checked for.
        plan: What the job is made of.
        job: The job.
        intake: Its orders; a collection was checked whole.
        slice_size: How many orders a slice has; 0 where the job stays in one piece.

    Returns:
        How many they are.
    """
    who = session.credentials
    return await job.submit(
        plan.operation.name,
        who.merchant_id,
        who.account_id,
        _pages(intake),
        slice_size=slice_size,
    )


async def _pages(intake: "Intake") -> "AsyncIterator[Sequence[Any]]":
    collection = intake.source.collection
    if collection is not None:
        for start in range(0, len(collection), ROWS_AT_ONCE):
            yield collection[start : start + ROWS_AT_ONCE]
            await asyncio.sleep(0)
        return
    page: list[Any] = []
    async for index, order in intake.left():
        error = intake.check(order)
        if error is not None:
            raise type(error)(f"order {index}: {error}; this run sent nothing")
        page.append(order)
        if len(page) == ROWS_AT_ONCE:
            yield page
            page = []
            await asyncio.sleep(0)
    yield page

"""Slices that nobody has are handed to the queue again: it only wakes, and may forget.

Law: a slice that is not finished is handed over sooner or later, whatever the queue lost; and once
in its time, however many sweep.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway_async.journal import Journal
    from gateway_async.settings import WorkerPolicy

_HANDED_AT_ONCE = 100
_LONGEST_SECONDS = 10.0
"""How long a queue may take for one slice: one that cannot be reached may never say so."""

_LOG = logging.getLogger("gateway_async.workers")


async def sweep(
    journal: "Journal",
    merchant: tuple[str, str],
    policy: "WorkerPolicy",
    enqueue: "Callable[[str, int], Awaitable[object]]",
) -> int:
    """Hand every slice to the queue that is due, and return how many they were.

    Args:
        journal: Where the jobs are; open.
        merchant: Whose jobs: `merchant_id` and `account_id`.
        policy: For how long they are left to the queue then.
        enqueue: Hands one over.

    Raises:
        JournalError: If the journal cannot be read.
        Exception: What the queue raised; what was not handed over is due again at once.
    """
    count, is_over = 0, False
    while not is_over:
        due = await journal.claim_due(merchant, policy.wake_seconds, _HANDED_AT_ONCE)
        is_over = len(due) < _HANDED_AT_ONCE
        handed = 0
        try:
            for job, slice_number in due:
                async with asyncio.timeout(_LONGEST_SECONDS):
                    await enqueue(job, slice_number)
                handed += 1
        finally:
            if handed < len(due):
                await journal.postpone(due[handed:], 0.0)
        count += handed
    return count


async def keep_sweeping(sweep_once: "Callable[[], Awaitable[int]]", seconds: float) -> None:
    """Sweep again and again, until it is cancelled, whatever journal or queue raise meanwhile."""
    while True:
        await asyncio.sleep(seconds)  # at first, too: the broker connects after this was begun
        try:
            await sweep_once()
        except Exception as error:  # noqa: BLE001  # any queue's; the next sweep tries again
            _LOG.warning("slices were not handed to the queue: %s", type(error).__name__)

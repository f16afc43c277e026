"""How far a job has come that many processes run, and what it came to."""

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult
from gateway_async.errors import JobConflictError
from gateway_async.journal.rows import StoredChunk
from gateway_async.journal.states import UNFINISHED, JobState
from gateway_async.models.orders import OutcomeStatus, count_statuses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from gateway_async.journal import Journal

_ROWS_AT_ONCE = 1000
_SHARE_OF_LOOKING = 10


@attrs.frozen(kw_only=True)
class JobProgress:
    """How far a job has come.

    Attributes:
        job: Its name.
        submitted: Whether the journal has all of its orders.
        total: How many it has.
        counts: How many of them are in each state.
        slices: How many slices it was cut into; 0 while it is being submitted.
        finished: How many of them are finished.
        running: How many of them some process has.
    """

    job: str
    submitted: bool
    total: int
    counts: "Mapping[JobState, int]"
    slices: int
    finished: int
    running: int

    @property
    def settled(self) -> int:
        """How many orders no run has anything more to do with; some may be held."""
        return self.total - sum(self.counts[state] for state in UNFINISHED)

    @property
    def done(self) -> bool:
        """Whether every slice is finished; orders may still be held for an operator."""
        return self.submitted and self.finished == self.slices


async def look(journal: "Journal", job: str) -> JobProgress:
    """Return how far a job has come.

    Raises:
        JobNotFoundError: If there is no such job.
        JobConflictError: If it was not cut into slices.
    """
    slices = await journal.slices(job)
    status = await journal.status(job)
    if not status.is_cut:
        raise JobConflictError(
            f"job {job!r} is in one piece: GatewayClient.resume runs it, not workers", job=job
        )
    return JobProgress(
        job=job,
        # The slices were read before: without any, its import ended only in between.
        submitted=status.imported and (bool(slices) or not status.total),
        total=status.total,
        counts=status.counts,
        slices=len(slices),
        finished=sum(each.finished for each in slices),
        running=sum(each.is_running for each in slices),
    )


async def watch(journal: "Journal", job: str, seconds: float) -> "AsyncIterator[JobProgress]":
    """Yield how far a job has come, now and whenever that changed, until it is done.

    Args:
        journal: Where it is; open.
        job: Its name.
        seconds: How often to look, unless looking takes more than a tenth of that.
    """
    clock = asyncio.get_running_loop().time
    last = None
    while last is None or not last.done:
        began = clock()
        seen = await look(journal, job)
        took = clock() - began
        if seen != last:
            yield seen
            last = seen
        if not seen.done:
            await asyncio.sleep(max(seconds, _SHARE_OF_LOOKING * took))


async def collect(journal: "Journal", job: str) -> "BatchResult[Any, Any]":
    """Return what became of every order of a job, in the order of the input."""
    blocks: list[StoredChunk] = []
    counts = dict.fromkeys(OutcomeStatus, 0)
    last = -1
    while rows := await journal.rows(job, after=last, limit=_ROWS_AT_ONCE):
        last = rows[-1].index
        blocks.append(StoredChunk(tuple(rows)))
        for status, count in count_statuses(blocks[-1].statuses).items():
            counts[status] += count
    return BatchResult(counts=counts, chunks=tuple(blocks))

"""One slice, run by whoever was told of it.

Law: the journal decides. A slice that somebody has is left alone, and one that is finished costs a
look; so being told twice, or late, or of nothing, changes nothing.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from gateway_async.errors import JobBusyError, LeaseLostError

if TYPE_CHECKING:
    from gateway_async.client import GatewayClient
    from gateway_async.journal import Journal


class SliceEnd(StrEnum):
    """How a run of a slice ended."""

    FINISHED = "finished"
    """No run has anything more to do in it; orders may be held for an operator."""

    BUSY = "busy"
    """Another process has it."""

    LOST = "lost"
    """This process was too slow, and another may have it."""

    LEFT = "left"
    """Something is left to do, say because the gateway does not answer; it is due again later."""


async def run_slice(
    journal: "Journal", gateway: "GatewayClient", job: str, slice_number: int
) -> SliceEnd:
    """Run a slice, unless it is finished or somebody has it.

    Args:
        journal: Where the job is; open.
        gateway: The client of the job's merchant.
        job: The name of the job.
        slice_number: The number of the slice, from 1.

    Raises:
        ConfigurationError: If the number is no int.
        JobNotFoundError: If there is no such job or slice.
        JobConflictError: If the job is another merchant's.
        JournalError: If what happens cannot be kept.
    """
    named = journal.job(job)
    if (await named.slice(slice_number)).finished:
        return SliceEnd.FINISHED
    try:
        await gateway.resume(named, slice_number=slice_number)
    except JobBusyError:
        return SliceEnd.BUSY
    except LeaseLostError:
        return SliceEnd.LOST
    is_finished = (await named.slice(slice_number)).finished
    return SliceEnd.FINISHED if is_finished else SliceEnd.LEFT

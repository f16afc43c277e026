"""A cancelled batch leaves its result on the batch and on the error."""

import asyncio

import pytest

from gateway_async import BatchResult, OutcomeStatus
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import refunds


async def test_the_result_hangs_on_the_cancellation() -> None:
    batch = client_over(MemoryTransport(all_done)).refund(refunds(3))
    task = asyncio.create_task(batch)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    outcome = getattr(caught.value, "outcome", None)
    assert isinstance(outcome, BatchResult)
    assert outcome is batch.result
    assert [one.status for one in outcome] == [OutcomeStatus.NOT_SENT] * 3

"""Every refund is made once, whatever befalls workers and broker while a job runs."""

from pathlib import Path

import pytest

from gateway_async.workers import WorkerPolicy
from tests.workers.scenes import play

POLICY = WorkerPolicy(
    slice_size=100, lease_seconds=1.5, sweep_seconds=0.5, wake_seconds=3.0, watch_seconds=0.2
)


@pytest.mark.slow
async def test_no_refund_is_doubled_or_lost(tmp_path: Path) -> None:
    problems, counts, _ = await play(1200, 0.05, POLICY, tmp_path)
    assert (problems, counts) == ({}, {"succeeded": 1200})

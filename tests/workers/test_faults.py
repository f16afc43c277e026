"""Every refund is made once, whatever befalls workers and broker while a job runs."""

from pathlib import Path

import pytest

from tests.postgres import postgres_url
from tests.workers.rabbit import own_node
from tests.workers.scenes import Scale, play

pytestmark = pytest.mark.slow

SCALE = Scale(
    refunds=2000,
    slice_size=100,
    lease_seconds=1.5,
    sweep_seconds=0.5,
    wake_seconds=3.0,
    latency_seconds=0.05,
)


async def test_no_refund_is_doubled_or_lost(tmp_path: Path) -> None:
    faults = {"double": 0.05, "kill": 0.1, "freeze": 0.25, "broker": 0.4}
    with own_node() as node, postgres_url() as url:
        verdict = await play(SCALE, faults, node=node, journal=url, folder=tmp_path)
    assert verdict.is_right, verdict
    assert verdict.counts == {"succeeded": SCALE.refunds}

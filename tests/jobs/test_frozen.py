"""A process that was frozen over its lease wakes up, sends nothing, and says why."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import RESENDING, SUCCEEDED, Make, check_conserved, effects, seeded
from tests.journal.tables import Tables, submitted

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

needs_signals = pytest.mark.skipif(
    not hasattr(signal, "SIGSTOP"), reason="there is no SIGSTOP on this system"
)


@needs_signals
async def test_a_process_that_wakes_up_too_late(
    sandbox: Sandbox, make: Make, journal: Journal, tables: Tables, url: str
) -> None:
    orders = seeded(sandbox, 10)
    await submitted(journal, orders)
    command = [sys.executable, "-m", "tests.jobs.frozen", url, sandbox.base_url]
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220, S603  # our own, and awaited aside
    try:
        await asyncio.to_thread(os.waitid, os.P_PID, worker.pid, os.WSTOPPED | os.WEXITED)
        assert "intent" in tables.states()
        assert sandbox.requests["refund"] == 0
        tables.end_leases()
        result = await make(recovery=RESENDING).resume(journal.job("job"))
        before, requests = tables.snapshot(), sandbox.requests["refund"]
        worker.send_signal(signal.SIGCONT)
        said, _ = await asyncio.to_thread(worker.communicate, timeout=30)
    finally:
        worker.kill()
        await asyncio.to_thread(worker.communicate)
    assert said.split() == ["LeaseLostError", "succeeded"]
    assert result.counts[SUCCEEDED] == 10
    check_conserved(result, orders)
    assert tables.snapshot() == before
    assert sandbox.requests["refund"] == requests
    assert effects(sandbox, orders) == [1] * 10

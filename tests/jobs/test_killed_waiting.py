"""A process dies while its requests wait for the limiter: those have begun nothing."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway_async import JobBusyError, RecoveryPolicy
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import SUCCEEDED, Make, check_conserved, counts, effects, seeded, statuses
from tests.journal.tables import Tables
from tests.support.servers import bind

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("url", ["sqlite"], indirect=True)]

ROOT = Path(__file__).parents[2]
PATIENT = RecoveryPolicy(settle_seconds=3600)
"""Recovery of a single order would take an hour."""


@asynccontextmanager
async def _running(
    url: str, base_url: str, operation: str, orders: list[Any], *, slice_number: int, turns: int
) -> AsyncIterator[asyncio.StreamReader]:
    """Run a job in a process that is killed at the end; give what it prints."""
    names = [f"{order.transaction_id}/{order.order_no}" for order in orders]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.jobs.waiting", url, base_url, operation),
        *(str(slice_number), str(turns), *names),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield process.stdout
        assert process.returncode is None
    finally:
        process.kill()
        await process.communicate()


async def _finish(make: Make, journal: Journal, slice_number: int = 0) -> Any:
    """Resume the job once the lease of the killed process is over."""
    gateway = make(recovery=PATIENT)
    async with asyncio.timeout(30):
        while True:
            try:
                return await gateway.resume(journal.job("job"), slice_number=slice_number)
            except JobBusyError:  # a slice is not waited for
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("slice_number", [0, 1], ids=["a job", "a slice"])
async def test_orders_that_waited_for_their_turn_are_new(
    sandbox: Sandbox, make: Make, journal: Journal, url: str, slice_number: int
) -> None:
    orders = seeded(sandbox, 6)
    running = _running(url, sandbox.base_url, "refund", orders, slice_number=slice_number, turns=4)
    async with running as printed:
        for _ in range(6):  # a look-up and a refund for each of three chunks
            assert await printed.readline()
        while (await counts(journal)).get(JobState.SUCCEEDED, 0) < 2:  # noqa: ASYNC110  # of another process
            await asyncio.sleep(0.01)
    assert await counts(journal) == {JobState.NEW: 4, JobState.SUCCEEDED: 2}
    result = await _finish(make, journal, slice_number)
    check_conserved(result, orders)
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders) == [1] * 6


async def test_orders_that_waited_to_be_tried_again_are_new(
    sandbox: Sandbox, make: Make, journal: Journal, url: str, tables: Tables
) -> None:
    orders = seeded(sandbox, 6, "capture")
    with bind() as refusing:
        nowhere = f"http://127.0.0.1:{refusing.getsockname()[1]}"
        running = _running(url, nowhere, "capture", orders, slice_number=0, turns=3)
        async with running as printed:
            for _ in range(6):  # two attempts at each of three chunks
                assert await printed.readline()
    assert await counts(journal) == {JobState.NEW: 6}
    tables.run(f"UPDATE gateway_jobs SET gateway = '{make().gateway}'")  # noqa: S608  # it listens again
    result = await _finish(make, journal)
    assert set(statuses(result)) == {SUCCEEDED}
    assert effects(sandbox, orders, "capture") == [1] * 6
    assert sandbox.requests["query"] == 0  # nothing was unknown, so nothing was looked up

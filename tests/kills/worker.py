"""The process that is killed: it runs one job, and writes down what it was told."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs

from gateway_async.errors import JobBusyError, LeaseLostError
from gateway_async.journal import Journal
from tests.kills.plans import Steps, count_commits, count_requests
from tests.support.books import told_of
from tests.support.orders import awaited
from tests.support.processes import client_from, read_start

DONE, LOST, BUSY = 0, 3, 4
"""Exit statuses; it lost its lease, or found that another process has it."""

_LONGEST_SECONDS = 300


async def _run(start: dict[str, Any], note: Callable[..., None]) -> None:
    plan = start["plan"]
    journal = Journal.open(start["journal"], lease_seconds=plan.lease_seconds)
    async with journal, client_from(start) as gateway:
        job = journal.job(start["job"])
        kept = [status.name for status in await journal.jobs()]
        if start["resume"] and job.name in kept:
            batch = gateway.resume(job)
        else:
            given = awaited(start["orders"]) if plan.pulled else start["orders"]
            batch = gateway.batch(plan.operation, given, job=job)
        try:
            if plan.streamed:
                async with batch:
                    async for outcome in batch:
                        note("outcome", *attrs.astuple(told_of(outcome)))
            else:
                await batch
        finally:  # a stream keeps what it has not yielded
            with suppress(RuntimeError):  # it was never begun
                for outcome in batch.result:
                    note("outcome", *attrs.astuple(told_of(outcome)))


def main() -> None:
    """Run the job of the start, and exit; what was noted on the way survives a kill."""
    start = read_start()
    signal.alarm(_LONGEST_SECONDS)
    report = os.open(start["report"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(*line: object) -> None:
        os.write(report, json.dumps(line).encode() + b"\n")

    steps = Steps(start["kill"], note)
    count_commits(steps)
    count_requests(steps)
    try:
        asyncio.run(_run(start, note))
    except LeaseLostError:
        sys.exit(LOST)
    except JobBusyError:
        sys.exit(BUSY)
    sys.exit(DONE)

"""The process that is killed: it runs one job, and writes down what it was told."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import attrs

from gateway_async.errors import JobBusyError, JobNotFoundError, LeaseLostError
from gateway_async.journal import Journal
from tests.kills.steps import Steps, count_commits, count_requests
from tests.support.books import told_of
from tests.support.processes import client_from, read_start

DONE, OUSTED = 0, 3
"""Exit statuses; ousted is one that lost its lease, or found it taken."""

_LONGEST_SECONDS = 60


class Report:
    """What a process was told, a line for each thing; what was written survives its death."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *line: object) -> None:
        """Write one line."""
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def tell(self, outcome: Any) -> None:
        """Write down an outcome."""
        self.write("outcome", *attrs.astuple(told_of(outcome)))


async def _pulled(orders: list[Any]) -> AsyncIterator[Any]:
    for order in orders:
        yield order


async def _is_kept(journal: Journal, name: str) -> bool:
    try:
        return (await journal.status(name)).imported
    except JobNotFoundError:
        return False


async def _run(start: dict[str, Any], report: Report) -> None:
    plan = start["plan"]
    journal = Journal.open(start["journal"], lease_seconds=plan.lease_seconds)
    async with journal, client_from(start) as gateway:
        job = journal.job(start["job"])
        if start["resume"] and await _is_kept(journal, job.name):
            batch = gateway.resume(job)
        else:
            given = _pulled(start["orders"]) if plan.pulled else start["orders"]
            batch = gateway.batch(plan.operation, given, job=job)
        if plan.streamed:
            async with batch:
                async for outcome in batch:
                    report.tell(outcome)
        else:
            for outcome in await batch:
                report.tell(outcome)


def main() -> None:
    """Run the job of the start, and exit."""
    start = read_start()
    signal.alarm(_LONGEST_SECONDS)
    report = Report(start["report"])
    steps = Steps(start["kill"], lambda kind: report.write("killed", kind))
    count_commits(steps)
    count_requests(steps)
    try:
        asyncio.run(_run(start, report))
    except (LeaseLostError, JobBusyError) as error:
        report.write("ousted", str(error))
        sys.exit(OUSTED)
    sys.exit(DONE)


if __name__ == "__main__":
    main()

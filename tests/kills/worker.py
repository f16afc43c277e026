"""The process that is killed: it runs one job, and writes down what it was told.

Law: a step is counted before and after each commit of the journal's thread, and for each request
before the check of its first byte, before that byte, once it was sent, and when its reply came.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import attrs

from gateway_async import transport
from gateway_async.errors import JobBusyError, LeaseLostError
from gateway_async.journal import Journal, database
from gateway_async.operations import QUERY, SEARCH_REFUNDS
from tests.kills.plans import Kill
from tests.support.books import told_of
from tests.support.orders import awaited
from tests.support.processes import client_from, read_start

DONE, LOST, BUSY = 0, 3, 4
"""Exit statuses; it lost its lease, or found that another process has it."""

_LONGEST_SECONDS = 300
_LOOK_UP_PATHS = (QUERY.path, SEARCH_REFUNDS.path)


class Steps:
    """The steps of this process, which dies at one.

    It notes that a kind of step is "reached", the first time, and of which kind the one is at which
    it is "killed".
    """

    def __init__(self, kill: Kill | None, note: Callable[[str, str], None]) -> None:
        self._kill = kill
        self._note = note
        self._lock = threading.Lock()
        self.transaction = threading.RLock()  # frozen within one, a process would block a file
        self.counts: Counter[str] = Counter()

    def take(self, kind: str) -> None:
        kill = self._kill
        with self._lock:
            self.counts[kind] += 1
            if self.counts[kind] == 1:
                self._note("reached", kind)
            number = self.counts[kind] if kill and kill.kind else self.counts.total()
        if kill is not None and kill.kind in ("", kind) and number == kill.nth:
            self._end(kind, kill.by)

    def _end(self, kind: str, by: signal.Signals) -> None:
        with self.transaction if by is signal.SIGSTOP else contextlib.nullcontext():
            self._note("killed", kind)
            os.kill(os.getpid(), by)


def count_commits(steps: Steps) -> None:
    current = threading.local()
    transact, commit = database.Database._transact, database.Database._commit

    def counted_transact(self: database.Database, group: Any) -> Any:
        current.work = {task.what.partition("cannot ")[2] for task in group}
        with steps.transaction:
            return transact(self, group)

    def counted_commit(self: database.Database) -> None:
        for work in sorted(current.work):
            steps.take(f"before commit {work}")
        commit(self)
        for work in sorted(current.work):
            steps.take(f"after commit {work}")

    database.Database._transact = counted_transact  # type: ignore[method-assign]
    database.Database._commit = counted_commit  # type: ignore[method-assign]


def count_requests(steps: Steps) -> None:
    client, tracker_class = transport.AiohttpTransport, transport.SendTracker
    begin, send = tracker_class.begin, client.send
    kind = ContextVar("kind", default="")

    def counted_begin(self: transport.SendTracker) -> None:
        steps.take(f"check {kind.get()}")
        begin(self)
        steps.take(f"first byte {kind.get()}")
        # Once the writer has its turn: aiohttp hands headers and body over at the end of it.
        asyncio.get_running_loop().call_soon(steps.take, f"sent {kind.get()}")

    async def counted_send(self: Any, message: Any, *, tracker: Any, seconds: float) -> Any:
        kind.set("look" if message.path in _LOOK_UP_PATHS else "money")
        try:
            return await send(self, message, tracker=tracker, seconds=seconds)
        finally:
            if tracker.started:
                steps.take(f"reply {kind.get()}")

    tracker_class.begin = counted_begin  # type: ignore[method-assign]
    client.send = counted_send  # type: ignore[method-assign, assignment]


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
            with contextlib.suppress(RuntimeError):  # it was never begun
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

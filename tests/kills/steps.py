"""Counts what a process does to its journal and to the network, and kills it at a given step.

Law: a step is counted before and after each commit of the journal's thread, and for each request
before its first byte, once it was sent, and when its reply came.
"""

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from gateway_async import transport
from gateway_async.journal import database
from gateway_async.operations import QUERY, SEARCH_REFUNDS
from tests.kills.plans import JOURNAL_WORK, UNNAMED, Kill

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
        self.counts: Counter[str] = Counter()

    def take(self, kind: str) -> None:
        with self._lock:
            self.counts[kind] += 1
            if self.counts[kind] == 1:
                self._note("reached", kind)
            kill = self._kill
            if kill is None or (kill.kind and kill.kind != kind):
                return
            number = self.counts[kind] if kill.kind else self.counts.total()
            if number == kill.nth:
                self._note("killed", kind)
                os.kill(os.getpid(), signal.SIGKILL)


def work_of(whats: Sequence[str]) -> str:
    """Name a transaction by what its operations say of themselves."""
    for part, name in JOURNAL_WORK.items():
        if any(part in what for what in whats):
            return name
    return f"{UNNAMED}: {whats[0]}"


def count_commits(steps: Steps) -> None:
    current = threading.local()
    transact, commit = database.Database._transact, database.Database._commit

    def counted_transact(self: database.Database, group: Any, *, is_first: bool = False) -> Any:
        current.work = work_of([task.what for task in group])
        return transact(self, group, is_first=is_first)

    def counted_commit(self: database.Database) -> None:
        steps.take(f"before commit {current.work}")
        commit(self)
        steps.take(f"after commit {current.work}")

    database.Database._transact = counted_transact  # type: ignore[method-assign]
    database.Database._commit = counted_commit  # type: ignore[method-assign]


def count_requests(steps: Steps) -> None:
    client, tracker_class = transport.AiohttpTransport, transport.SendTracker
    begin, send = tracker_class.begin, client.send
    kind = ContextVar("kind", default="")

    def counted_begin(self: transport.SendTracker) -> None:
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

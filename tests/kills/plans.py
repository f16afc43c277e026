"""What one run is, drawn from its seed: the orders, the settings, and where its processes die.

Law: a step is counted before and after each commit of the journal's thread, and for each request
before the check of its first byte, before that byte, once it was sent, and when its reply came.
"""

import asyncio
import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import attrs

from gateway_async import transport
from gateway_async.journal import database
from gateway_async.operations import QUERY, SEARCH_REFUNDS

COMMIT, REQUEST = ("before commit", "after commit"), ("first byte", "sent", "reply")
KILLED_AT: Mapping[str, tuple[tuple[str, ...], int]] = {
    "submit it": (COMMIT, 1),
    "take it": (COMMIT, 1),
    "keep what is about to be sent": (COMMIT, 3),
    "keep the outcomes": (COMMIT, 3),
    "keep what was found out": (COMMIT, 2),
    "keep the lease": (COMMIT, 1),
    "money": (REQUEST, 0),
    "look": (REQUEST, 0),
}
"""Kinds of steps at which a process is killed on purpose; others are hit by their number.

What is done, as the journal says of a transaction, or which request is made: at which steps of it,
and how often it is done at most; 0 for once a chunk.
"""

STEPS = frozenset(f"{step} {what}" for what, (steps, _) in KILLED_AT.items() for step in steps)
"""All of these steps."""

_OPERATIONS = ("refund", "refund", "refund", "refund", "capture", "cancel", "payout")
_STEPS_AT_LEAST, _STEPS_A_CHUNK = 20, 10


@attrs.frozen(kw_only=True)
class Kill:
    """When a process dies: at the nth step, from 1, of a kind; of any where it is empty."""

    kind: str = ""
    nth: int
    by: signal.Signals = signal.SIGKILL  # or SIGSTOP, by which it is frozen


class Plan:
    """One run, drawn from its seed; what its sandbox does is drawn from that, too.

    Attributes:
        kills: Where each process dies, in turn; the one after the last lives.
        resumes: Whether each later process uses `resume`, not the same line.
        pulled: Whether orders come from an asynchronous generator rather than a list.
        marked: Whether refunds are told apart by markers rather than references.
        shared: How many orders are of a transaction that another order has too.
    """

    def __init__(self, seed: int) -> None:
        rng = random.Random(f"kills {seed}")
        self.seed = seed
        self.operation = rng.choice(_OPERATIONS)
        is_payout, is_refund = self.operation == "payout", self.operation == "refund"
        self.orders = rng.randint(30, 120) // (4 if is_payout else 1)
        self.chunk_size = 1 if is_payout else rng.choice((5, 8, 10, 20))
        chunks = -(-self.orders // self.chunk_size)
        self.kills = tuple(_draw_kill(rng, chunks) for _ in range(rng.choice((1, 1, 2, 2, 3))))
        self.resumes = tuple(rng.random() < 0.4 for _ in range(len(self.kills) + 8))
        self.streamed = rng.random() < 0.4
        self.pulled = rng.random() < 0.3
        self.marked = is_refund and rng.random() < 0.25
        self.resent = rng.random() < 0.4
        self.shared = rng.randint(2, 8) if is_refund and rng.random() < 0.25 else 0
        self.refused = rng.choice((0, 0, 3))
        self.again = rng.random() < 0.25
        self.lease_seconds = rng.choice((0.6, 0.7, 0.8))

    def __repr__(self) -> str:
        return f"Plan({vars(self)})"


FROZEN_AT = ("check money", "reply money")
"""Steps at which a process is frozen: at neither is a request between its check and first byte."""


class FrozenPlan(Plan):
    """A run of refunds, sent again if need be, whose process is frozen and goes on too late."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.operation, self.orders, self.chunk_size, self.resent = "refund", 30, 5, True
        step = FROZEN_AT[seed // 2 % 2]
        self.kills = (Kill(kind=step, nth=1 + seed // 4 % 4, by=signal.SIGSTOP),)


def _draw_kill(rng: random.Random, chunks: int) -> Kill:
    """Draw a step; rather an early one, since a process has few steps if others went before."""
    if rng.random() < 0.3:
        return Kill(nth=_early(rng, _STEPS_AT_LEAST + _STEPS_A_CHUNK * chunks))
    what = rng.choice(list(KILLED_AT))
    steps, most = KILLED_AT[what]
    return Kill(kind=f"{rng.choice(steps)} {what}", nth=_early(rng, most or chunks))


def _early(rng: random.Random, most: int) -> int:
    return 1 + int(most * rng.random() ** 2)


# What a process does to its journal and to the network is counted, and it dies at a given step


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

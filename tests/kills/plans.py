"""What one run is, drawn from its seed: the orders, the settings, and where its processes die."""

import random
from collections.abc import Mapping

import attrs

JOURNAL_WORK = {
    "keep what is about to be sent": "intent",
    "keep the outcomes": "conclude",
    "keep what was found out": "finding",
    "keep that nothing was sent": "retract",
    "hold orders": "hold",
    "cannot take": "take",
    "cannot submit": "import",
    "keep the lease": "renew",
    "release": "release",
    "cannot open": "open",
    "read": "read",
}
"""What a transaction is called, by what its operations say of themselves; the first that fits."""

UNNAMED = "unnamed"
"""What a transaction is called that none of them fits."""

KILLED_AT: Mapping[str, tuple[tuple[str, ...], int]] = {
    "import": (("before commit", "after commit"), 4),
    "take": (("before commit", "after commit"), 1),
    "intent": (("before commit", "after commit"), 3),
    "conclude": (("before commit", "after commit"), 3),
    "finding": (("before commit", "after commit"), 2),
    "renew": (("before commit", "after commit"), 1),
    "money": (("first byte", "sent", "reply"), 0),
    "look": (("first byte", "sent", "reply"), 0),
}
"""Kinds of steps at which a process is killed on purpose; others are hit by their number.

What is done: at which steps of it, and how often it is done at most; 0 for once a chunk.
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


def _draw_kill(rng: random.Random, chunks: int) -> Kill:
    """Draw a step; rather an early one, since a process has few steps if others went before."""
    if rng.random() < 0.3:
        return Kill(nth=_early(rng, _STEPS_AT_LEAST + _STEPS_A_CHUNK * chunks))
    what = rng.choice(list(KILLED_AT))
    steps, most = KILLED_AT[what]
    return Kill(kind=f"{rng.choice(steps)} {what}", nth=_early(rng, most or chunks))


def _early(rng: random.Random, most: int) -> int:
    return 1 + int(most * rng.random() ** 2)

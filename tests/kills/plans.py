"""What one run is, drawn from its seed: the orders, the settings, and where its processes die."""

import random
from collections.abc import Mapping

import attrs

JOURNAL_WORK = {
    "keep what is about to be sent": "intent",
    "keep the outcomes": "settle",
    "keep what was found out": "finding",
    "keep that nothing was sent": "withdraw",
    "cannot take": "take",
    "cannot submit": "import",
    "keep the lease": "renew",
    "release the lease": "release",
    "cannot open": "open",
    "read": "read",
}
"""What a transaction is called, by what its operations say of themselves; the first that fits."""

KILLED_AT: Mapping[str, tuple[tuple[str, ...], int]] = {
    "import": (("before commit", "after commit"), 4),
    "take": (("before commit", "after commit"), 1),
    "intent": (("before commit", "after commit"), 3),
    "settle": (("before commit", "after commit"), 3),
    "finding": (("before commit", "after commit"), 2),
    "renew": (("before commit", "after commit"), 1),
    "money": (("first byte", "sent", "reply"), 0),
    "look": (("first byte", "sent", "reply"), 0),
}
"""Kinds of steps at which a process is killed on purpose; others are hit by their number.

What is done: at which steps of it, and how often it is done at most; 0 for once a chunk.
"""

_OPERATIONS = ("refund", "refund", "refund", "refund", "capture", "cancel", "payout")
_STEPS_AT_LEAST, _STEPS_A_CHUNK = 20, 10


@attrs.frozen(kw_only=True)
class Kill:
    """When a process dies: at the nth step, from 1, of a kind; of any where it is empty."""

    kind: str = ""
    nth: int


@attrs.frozen(kw_only=True)
class Plan:
    """One run; what its sandbox does is drawn from the seed, too."""

    seed: int
    operation: str
    orders: int
    chunk_size: int
    kills: tuple[Kill, ...]  # where each process dies, in turn; the one after the last lives
    resumes: tuple[bool, ...]  # whether each later process uses `resume`, not the same line
    streamed: bool  # rather than awaited
    pulled: bool  # from an asynchronous generator rather than a list
    marked: bool  # refunds are told apart by markers rather than references
    resent: bool  # absent orders are sent again
    shared: int  # how many orders are of a transaction that another order has too
    refused: int  # how many orders the gateway declines
    again: bool  # the job is run once more at the end
    lease_seconds: float


def draw(seed: int) -> Plan:
    """Draw a run."""
    rng = random.Random(f"kills {seed}")
    operation = rng.choice(_OPERATIONS)
    orders = rng.randint(30, 120) // (4 if operation == "payout" else 1)
    chunk_size = 1 if operation == "payout" else rng.choice((5, 8, 10, 20))
    chunks = -(-orders // chunk_size)
    is_refund = operation == "refund"
    kills = tuple(_draw_kill(rng, chunks) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    return Plan(
        seed=seed,
        operation=operation,
        orders=orders,
        chunk_size=chunk_size,
        kills=kills,
        resumes=tuple(rng.random() < 0.4 for _ in range(len(kills) + 8)),
        streamed=rng.random() < 0.4,
        pulled=rng.random() < 0.3,
        marked=is_refund and rng.random() < 0.25,
        resent=rng.random() < 0.4,
        shared=rng.randint(2, 8) if is_refund and rng.random() < 0.25 else 0,
        refused=rng.choice((0, 0, 3)),
        again=rng.random() < 0.25,
        lease_seconds=rng.choice((0.6, 0.7, 0.8)),
    )


def _draw_kill(rng: random.Random, chunks: int) -> Kill:
    """Draw a step; rather an early one, since a process has few steps if others went before."""
    if rng.random() < 0.3:
        return Kill(nth=_early(rng, _STEPS_AT_LEAST + _STEPS_A_CHUNK * chunks))
    what = rng.choice(list(KILLED_AT))
    steps, most = KILLED_AT[what]
    return Kill(kind=f"{rng.choice(steps)} {what}", nth=_early(rng, most or chunks))


def _early(rng: random.Random, most: int) -> int:
    return 1 + int(most * rng.random() ** 2)

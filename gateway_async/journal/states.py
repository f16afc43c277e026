"""What an order of a job can be, and how that may change: one table. Pure.

Law: a state changes only as `TRANSITIONS` says. An order that may have been sent never becomes
`new` again without somebody's proof or decision.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from gateway_async.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping


class JobState(StrEnum):
    """What the journal knows of one order."""

    NEW = "new"
    """Nothing of it was sent; the next run sends it."""

    INTENT = "intent"
    """It is in flight, or was when its process ended."""

    SUCCEEDED = "succeeded"
    """The gateway says it did it."""

    DECLINED = "declined"
    """The gateway says it did not."""

    UNKNOWN = "unknown"
    """It may have happened, and is to be looked up."""

    HELD = "held"
    """It was looked up, and waits: for the next run, or for an operator."""


IN_DOUBT = frozenset({JobState.UNKNOWN, JobState.HELD})
"""The states on which an operator may decide."""

UNFINISHED = frozenset({JobState.NEW, JobState.INTENT, JobState.UNKNOWN})
"""The states in which a job still has something to do by itself."""


class Move(StrEnum):
    """Why a state changes."""

    INTEND = "intend"
    """The order is about to be sent."""

    WITHDRAW = "withdraw"
    """It is proved that nothing of it was sent."""

    SETTLE = "settle"
    """Its request ended."""

    REOPEN = "reopen"
    """Another lease begins: what was in flight may have happened, what is held is looked at."""

    RESOLVE = "resolve"
    """It was looked up."""

    DECIDE = "decide"
    """An operator decided."""


_NEW, _INTENT, _SUCCEEDED, _DECLINED, _UNKNOWN, _HELD = JobState
_FOUND_OUT = frozenset({_SUCCEEDED, _DECLINED, _HELD, _NEW})

TRANSITIONS: "Mapping[Move, Mapping[JobState, frozenset[JobState]]]" = MappingProxyType(
    {
        Move.INTEND: {_NEW: frozenset({_INTENT})},
        Move.WITHDRAW: {_INTENT: frozenset({_NEW})},
        Move.SETTLE: {_INTENT: frozenset({_SUCCEEDED, _DECLINED, _UNKNOWN})},
        Move.REOPEN: {_INTENT: frozenset({_UNKNOWN}), _HELD: frozenset({_UNKNOWN})},
        Move.RESOLVE: {_UNKNOWN: _FOUND_OUT},
        Move.DECIDE: {_UNKNOWN: _FOUND_OUT, _HELD: _FOUND_OUT},
    }
)
"""For each move, what each state may become by it."""


def sources(move: Move, target: JobState) -> tuple[JobState, ...]:
    """Return the states that this move may turn into the target.

    Raises:
        JournalError: If there is none.
    """
    found = tuple(state for state, targets in TRANSITIONS[move].items() if target in targets)
    if not found:
        raise JournalError(f"no state becomes {str(target)!r} by {str(move)!r}")
    return found

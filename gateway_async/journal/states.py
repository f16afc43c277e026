"""What an order of a job can be, and how that may change: one table. Pure.

A state changes only as `TRANSITIONS` says, and every write checks that inside its transaction. An
order that may have been sent becomes `new` again only by a proof or a decision.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from gateway_async.models.orders import OutcomeStatus


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
    """It waits for a person, or for a look-up of the next run, where one can show more."""


UNFINISHED = frozenset({JobState.NEW, JobState.INTENT, JobState.UNKNOWN})
"""The states in which a run still has something to do; what is held waits for the next one."""

FINAL = frozenset({JobState.SUCCEEDED, JobState.DECLINED})
"""The states that the gateway or a person gave for good: no transition leaves them."""

IN_DOUBT = frozenset({JobState.INTENT, JobState.UNKNOWN, JobState.HELD})
"""The states of an order that was sent, or nearly, and may have been done or not.

It may also be held before it was sent; then its proof is `NEVER_SENT`.
"""

MAY_BE_LISTED = frozenset({JobState.INTENT, JobState.UNKNOWN, JobState.SUCCEEDED})
"""The states of an order that may have made a refund which the gateway lists.

Not what is held: it may never have been sent, and would excuse a refund that was made elsewhere.
"""

DECISIONS: Mapping[str, JobState] = MappingProxyType(
    {
        OutcomeStatus.SUCCEEDED: JobState.SUCCEEDED,
        OutcomeStatus.DECLINED: JobState.DECLINED,
        OutcomeStatus.NOT_SENT: JobState.NEW,
        OutcomeStatus.UNKNOWN: JobState.HELD,
    }
)
"""What a person can decide, and the state of the order after that."""


class Transition(StrEnum):
    """Why a state changes."""

    INTEND = "intend"
    """The order is about to be sent."""

    HOLD = "hold"
    """A person decides first: the gateway lists a refund like it, or another job pays it."""

    WITHDRAW = "withdraw"
    """It is proved that nothing of it was sent."""

    CONCLUDE = "conclude"
    """Its request ended."""

    REOPEN = "reopen"
    """Another lease begins: what was in flight may have happened, what is held is looked at."""

    RECOVER = "recover"
    """It was looked up."""

    RESOLVE = "resolve"
    """A person decided."""


_NEW, _INTENT, _SUCCEEDED, _DECLINED, _UNKNOWN, _HELD = JobState
_RESOLVED = frozenset({_SUCCEEDED, _DECLINED, _HELD, _NEW})

TRANSITIONS: Mapping[Transition, Mapping[JobState, frozenset[JobState]]] = MappingProxyType(
    {
        Transition.INTEND: {_NEW: frozenset({_INTENT})},
        Transition.HOLD: {_NEW: frozenset({_HELD})},
        Transition.WITHDRAW: {_INTENT: frozenset({_NEW})},
        Transition.CONCLUDE: {_INTENT: frozenset({_SUCCEEDED, _DECLINED, _UNKNOWN})},
        Transition.REOPEN: {_INTENT: frozenset({_UNKNOWN}), _HELD: frozenset({_UNKNOWN})},
        Transition.RECOVER: {_UNKNOWN: _RESOLVED},
        Transition.RESOLVE: {_UNKNOWN: _RESOLVED, _HELD: _RESOLVED},
    }
)
"""For each transition, what each state may become by it."""


def sources(transition: Transition, target: JobState) -> tuple[JobState, ...]:
    """Return the states that a transition may turn into the target."""
    return tuple(state for state, to in TRANSITIONS[transition].items() if target in to)

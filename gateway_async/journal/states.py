"""What an order of a job can be, which outcome that is, and how it may change: tables. Pure.

A state changes only as `TRANSITIONS` says, and every write checks that inside its transaction. An
order that may have been sent becomes `new` again only by a proof or a decision.
"""

from collections.abc import Mapping
from enum import StrEnum

from gateway_async.models.orders import OutcomeStatus


class OrderState(StrEnum):
    """What the journal knows of one order."""

    NEW = "new"
    """Nothing of it was sent, or it was proved or decided not to be done; the next run sends it."""

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


UNFINISHED = frozenset({OrderState.NEW, OrderState.INTENT, OrderState.UNKNOWN})
"""The states in which a run still has something to do; what is held waits for the next one."""

FINAL = frozenset({OrderState.SUCCEEDED, OrderState.DECLINED})
"""The states that the gateway or a person gave for good: no transition leaves them."""

IN_DOUBT = frozenset({OrderState.INTENT, OrderState.UNKNOWN, OrderState.HELD})
"""The states of an order that was sent, or nearly, and may have been done or not.

It may also be held before it was sent; then its proof is `Proof.NEVER_SENT`.
"""

MAY_BE_LISTED = frozenset({OrderState.INTENT, OrderState.UNKNOWN, OrderState.SUCCEEDED})
"""The states of an order that may have made a refund which the gateway lists.

Not what is held: it may never have been sent, and would excuse a refund that was made elsewhere.
"""


class Proof(StrEnum):
    """What the journal knows of an order beside its state, as it stands in the database."""

    NOT_DONE = "not done"
    """It is held, and was looked up and not done: it may be sent again once a person says so."""

    NEVER_SENT = "alike"
    """It is held, and was never sent: the gateway lists a refund like it."""

    BY_PERSON = "operator"
    """A person decided on it; if it is new, nothing of it was sent before."""


STATUSES: Mapping[OrderState, OutcomeStatus] = {
    OrderState.NEW: OutcomeStatus.NOT_SENT,
    OrderState.INTENT: OutcomeStatus.UNKNOWN,
    OrderState.SUCCEEDED: OutcomeStatus.SUCCEEDED,
    OrderState.DECLINED: OutcomeStatus.DECLINED,
    OrderState.UNKNOWN: OutcomeStatus.UNKNOWN,
    OrderState.HELD: OutcomeStatus.UNKNOWN,
}
"""The outcome status of an order in each state, unless something is proved; see `status_of`."""

CONCLUSIONS: Mapping[OutcomeStatus, OrderState] = {
    STATUSES[state]: state for state in (*FINAL, OrderState.UNKNOWN)
}
"""What an order becomes when its request ends, by the status of its outcome."""

DECISIONS: Mapping[str, OrderState] = {
    OutcomeStatus.SUCCEEDED: OrderState.SUCCEEDED,
    OutcomeStatus.DECLINED: OrderState.DECLINED,
    OutcomeStatus.NOT_SENT: OrderState.NEW,
    OutcomeStatus.UNKNOWN: OrderState.HELD,
}
"""What an order in doubt becomes when a person or a look-up decides on it, likewise."""


def status_of(state: OrderState, proof: str) -> OutcomeStatus:
    """Return the outcome status of an order; a held one may be proved not to be done."""
    is_not_done = state is OrderState.HELD and proof in {Proof.NOT_DONE, Proof.NEVER_SENT}
    return OutcomeStatus.NOT_SENT if is_not_done else STATUSES[state]


class Transition(StrEnum):
    """Why a state changes."""

    INTEND = "intend"
    """The order is about to be sent."""

    HOLD = "hold"
    """A person decides first: the gateway lists a refund like it."""

    RETRACT = "retract"
    """It is proved that nothing of it was sent."""

    CONCLUDE = "conclude"
    """Its request ended."""

    REOPEN = "reopen"
    """Another lease begins: what was in flight may have happened, what is held is looked at."""

    RECOVER = "recover"
    """It was looked up."""

    RESOLVE = "resolve"
    """A person decided; on a new order, only to change that decision."""


_DECIDED = frozenset(DECISIONS.values())

TRANSITIONS: Mapping[Transition, Mapping[OrderState, frozenset[OrderState]]] = {
    Transition.INTEND: {OrderState.NEW: frozenset({OrderState.INTENT})},
    Transition.HOLD: {OrderState.NEW: frozenset({OrderState.HELD})},
    Transition.RETRACT: {OrderState.INTENT: frozenset({OrderState.NEW})},
    Transition.CONCLUDE: {OrderState.INTENT: frozenset(CONCLUSIONS.values())},
    Transition.REOPEN: {
        OrderState.INTENT: frozenset({OrderState.UNKNOWN}),
        OrderState.HELD: frozenset({OrderState.UNKNOWN}),
    },
    Transition.RECOVER: {OrderState.UNKNOWN: _DECIDED},
    Transition.RESOLVE: dict.fromkeys(
        (OrderState.UNKNOWN, OrderState.HELD, OrderState.NEW), _DECIDED
    ),
}
"""For each transition, what each state may become by it."""


def sources(transition: Transition, target: OrderState) -> tuple[OrderState, ...]:
    """Return the states that a transition may turn into the target."""
    return tuple(state for state, to in TRANSITIONS[transition].items() if target in to)

"""Faults: what may go wrong between the gateway and its client, as data and decisions.

A fault is added to an operation, or to all of them with `"*"`. A request is struck by every fault
that applies to it, but by one *ending* at most (a fault that decides what happens to the
connection): the first that was added and is not used up. This module performs nothing.
"""

import random
from collections import Counter

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.operations import CHECKOUT, OPERATIONS, PAY_APM, PAY_DIRECT, PAYOUT
from gateway_async.sandbox.distortions import (
    AnswerFault,
    ChangedAmount,
    ChangedCurrency,
    ChangedIdentity,
    DoubledItems,
    EmptyLookUp,
    ExtraItems,
    Fault,
    MissingItems,
    NullList,
    NumbersForText,
    ReorderedItems,
    ReturnStatus,
    UnknownFields,
    UnknownItemStatus,
)
from gateway_async.sandbox.endings import (
    CutReply,
    Drip,
    DropReply,
    Ending,
    GzipBomb,
    HtmlErrorPage,
    HugeReply,
    LateEffect,
    NoReply,
    Redirect,
    ResetAfterEffect,
    ResetBeforeEffect,
    Status,
)
from gateway_async.sandbox.garblings import (
    ByteOrderMark,
    Doctype,
    EntityBomb,
    ExternalEntity,
    GzipReply,
    InvalidBody,
    ReplyFault,
    WrongContentType,
)
from gateway_async.sandbox.notices import (
    LateNotification,
    LostNotification,
    NotificationFault,
    OvertakenNotification,
    RepeatedNotification,
)

__all__ = [
    "AnswerFault",
    "ByteOrderMark",
    "ChangedAmount",
    "ChangedCurrency",
    "ChangedIdentity",
    "CutReply",
    "Doctype",
    "DoubledItems",
    "Drip",
    "DropReply",
    "EmptyLookUp",
    "Ending",
    "EntityBomb",
    "ExternalEntity",
    "ExtraItems",
    "Fault",
    "Faults",
    "GzipBomb",
    "GzipReply",
    "HtmlErrorPage",
    "HugeReply",
    "IgnoreSelection",
    "InvalidBody",
    "LateEffect",
    "LateNotification",
    "Latency",
    "LostNotification",
    "MissingItems",
    "NoReply",
    "NotificationFault",
    "NullList",
    "NumbersForText",
    "OvertakenNotification",
    "Plan",
    "Redirect",
    "ReorderedItems",
    "RepeatedNotification",
    "ReplyFault",
    "ResetAfterEffect",
    "ResetBeforeEffect",
    "ReturnStatus",
    "Status",
    "UnknownFields",
    "UnknownItemStatus",
    "WrongContentType",
]

EVERY_OPERATION = "*"
_TOLD = frozenset(op.name for op in (PAY_DIRECT, PAY_APM, CHECKOUT, PAYOUT))


@attrs.frozen
class Latency(Fault):
    """The gateway takes its time, before the effect.

    Attributes:
        seconds: How long.
        jitter: How many seconds more at most, drawn evenly.
    """

    seconds: float = 0.05
    jitter: float = 0.0


@attrs.frozen
class IgnoreSelection(Fault):
    """A look-up answers with the recent records, whatever it was asked for."""


@attrs.frozen(kw_only=True)
class Plan:
    """What strikes one request.

    Attributes:
        faults: All of it, in the order in which it was added.
        delay_seconds: How long to wait before the effect.
    """

    faults: tuple[Fault, ...] = ()
    delay_seconds: float = 0.0

    @property
    def ending(self) -> Ending | None:
        """The fault that decides what becomes of the connection."""
        return next((fault for fault in self.faults if isinstance(fault, Ending)), None)

    @property
    def ignores_selection(self) -> bool:
        """Whether a look-up forgets what it was asked for."""
        return any(isinstance(fault, IgnoreSelection) for fault in self.faults)

    @property
    def refusal(self) -> str:
        """Why the request is refused though nothing is wrong with it; empty text where not."""
        refusing = (f for f in self.faults if isinstance(f, ReturnStatus) and not f.after_effect)
        return next((fault.message or fault.code for fault in refusing), "")

    @property
    def names(self) -> tuple[str, ...]:
        """The faults by their classes."""
        return tuple(type(fault).__name__ for fault in self.faults)

    @property
    def answer_faults(self) -> list[AnswerFault]:
        """The faults that change what is said."""
        return [fault for fault in self.faults if isinstance(fault, AnswerFault)]

    @property
    def reply_faults(self) -> list[ReplyFault]:
        """The faults that change the bytes."""
        return [fault for fault in self.faults if isinstance(fault, ReplyFault)]


@attrs.define
class _Rule:
    operation: str
    fault: Fault
    left: int | None


_NO_FAULTS = Plan()


class Faults:
    """The faults of a sandbox.

    Args:
        random_seed: Makes probabilities and jitter repeatable.

    Attributes:
        struck: How often each kind of fault struck, by the name of its class.
    """

    def __init__(self, *, random_seed: int | None = None) -> None:
        self._random = random.Random(random_seed)  # noqa: S311  # repeatable, not secret
        self._rules: list[_Rule] = []
        self.struck: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<Faults: {[rule.fault for rule in self._rules]}>"

    def add(self, operation: str, fault: Fault) -> None:
        """Let a fault strike an operation, by its name, or `"*"`: every operation.

        Raises:
            ConfigurationError: There is no such operation, the fault is none, or it strikes
                notifications and the operation has none.
        """
        if operation != EVERY_OPERATION and operation not in OPERATIONS:
            raise ConfigurationError(
                f"Faults.add: {operation!r} is no operation; "
                f"the operations are {', '.join(OPERATIONS)}, and '*' for all"
            )
        if not isinstance(fault, Fault):
            raise ConfigurationError(
                f"Faults.add: expected a fault such as DropReply(), got {fault!r}"
            )
        told = {*_TOLD, EVERY_OPERATION}
        if isinstance(fault, NotificationFault) and operation not in told:
            raise ConfigurationError(
                f"Faults.add: nobody is notified of {operation!r}, so {fault!r} cannot strike; "
                f"the operations with notifications are {', '.join(sorted(_TOLD))}"
            )
        self._rules.append(_Rule(operation, fault, fault.times))

    def clear(self) -> None:
        """Take all faults away; held connections stay held."""
        self._rules.clear()

    def plan(self, operation: str) -> Plan:
        """Decide what strikes the next request of an operation, and count it."""
        if not self._rules:
            return _NO_FAULTS
        chosen = self._choose(operation, notifications=False)
        plan = Plan(faults=tuple(chosen), delay_seconds=sum(map(self._delay, chosen)))
        self.struck.update(plan.names)
        return plan

    def plan_notification(self, operation: str) -> tuple[NotificationFault, ...]:
        """Decide what strikes the next notification about an operation, and count it."""
        chosen = self._choose(operation, notifications=True)
        self.struck.update(type(fault).__name__ for fault in chosen)
        return tuple(fault for fault in chosen if isinstance(fault, NotificationFault))

    def _choose(self, operation: str, *, notifications: bool) -> list[Fault]:
        chosen: list[Fault] = []
        for rule in self._rules:
            if isinstance(rule.fault, NotificationFault) is not notifications:
                continue
            taken = isinstance(rule.fault, Ending) and any(isinstance(f, Ending) for f in chosen)
            if not taken and self._strikes(rule, operation):
                chosen.append(rule.fault)
        self._rules = [rule for rule in self._rules if rule.left != 0]
        return chosen

    def _strikes(self, rule: _Rule, operation: str) -> bool:
        if rule.operation not in (EVERY_OPERATION, operation):
            return False
        if rule.fault.probability < 1 and self._random.random() >= rule.fault.probability:
            return False
        if rule.left is not None:
            rule.left -= 1
        return True

    def _delay(self, fault: Fault) -> float:
        if not isinstance(fault, Latency):
            return 0.0
        return fault.seconds + self._random.uniform(0, fault.jitter)

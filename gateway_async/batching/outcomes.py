"""What is kept of a batch, and how it is read.

Law: every order of a result is read exactly once, in input order. Outcomes are made when they are
read, from the bytes of the chunk's reply, which are judged again: that is a third of the memory
that decoded replies take. This module is pure, and does not know how a batch is run.
"""

import contextlib
import functools
import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs
import orjson

from gateway_async.batching.markers import whole_marker
from gateway_async.batching.matching import Judgement, identifier, judge, plain_judgement
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import GatewayError, ReplyUnreadableError
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.wire.decoding import decode_json, decode_surely, may_have_long_integers

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.plans import Plan
    from gateway_async.dialect import Dialect

O_co = TypeVar("O_co", covariant=True)
"""An order."""
R_co = TypeVar("R_co", covariant=True)
"""A record, or a tuple of them."""

_CODES = {status: code for code, status in enumerate(OutcomeStatus)}
_SIGNATURE_NAME = b'"encryption_data"'
_SIGNATURES = re.compile(rb'("encryption_data"\s*:\s*)"[^"\\]*+(?:\\.[^"\\]*+)*+"')
_SIGNED = re.compile(rb'(?<!\\)"encryption_data"\s*:')
_ESCAPED_LETTER = rb"\u00"

NO_REFERENCES: Mapping[str, frozenset[str]] = {}
"""What was noted of refund references where none were looked up: one for all chunks."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Sending:
    """What was noted when a chunk was sent, for recovery to go by.

    Attributes:
        ended_at: When its request ended, in seconds since the epoch; infinite where the process
            ended before.
        references: By transaction, the refund references it had before, where they were recorded.
        marker: What every marker of the batch begins with, where markers were sent.
        alone: Whether no other order of its transaction could be in flight beside it.
    """

    ended_at: float
    references: Mapping[str, frozenset[str]] = NO_REFERENCES
    marker: str | None = None
    alone: bool = True

    def marker_of(self, index: int) -> str | None:
        """Return the whole marker of the order at this position of the input."""
        return None if self.marker is None else whole_marker(self.marker, index)


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReplyEnvelope:
    """What a reply says of a request as a whole; the orders of one request share it.

    Attributes:
        return_status: The overall result, as text; 1 on success. None where the reply has none.
        return_message: The text for it; OK on success. None where the reply has none.
        http_status: The HTTP status.
        received_at: When the reply was there, in UTC.
    """

    return_status: str | None
    return_message: str | None
    http_status: int
    received_at: datetime

    @classmethod
    def of(
        cls, payload: Mapping[str, Any], *, http_status: int, received_at: float
    ) -> "ReplyEnvelope":
        """Take it from a decoded reply, received at this time in seconds since the epoch."""
        code, text = map(identifier, map(payload.get, ("return_status", "return_message")))
        return cls(
            return_status=None if code is None else sys.intern(code),
            return_message=None if text is None else sys.intern(text),
            http_status=http_status,
            received_at=datetime.fromtimestamp(received_at, UTC),
        )


@attrs.frozen(kw_only=True, weakref_slot=False)
class Outcome(Generic[O_co, R_co]):
    """What became of one order.

    Attributes:
        order: The order, as it was handed in.
        index: Its position in the input, from 0.
        status: What became of it.
        error: Why it did not succeed; None where it did, or is absent.
        items: What the reply says of it, as it came.
        record_class: What an item is read as.
        many: Whether `record` is a tuple, as for look-ups.
        sending: What was noted when it was sent; None if it never was.
        reply: What the reply says as a whole; None where no readable reply came, and where the
            outcome was read from a journal. The orders of one request have the same object.
    """

    order: O_co
    index: int
    status: OutcomeStatus
    error: GatewayError | None = None
    items: tuple[Mapping[str, Any], ...] = attrs.field(default=(), repr=False)
    record_class: type[Any] = attrs.field(default=object, repr=False)
    many: bool = attrs.field(default=False, repr=False)
    sending: Sending | None = attrs.field(default=None, repr=False)
    reply: ReplyEnvelope | None = attrs.field(default=None, repr=False)

    @property
    def record(self) -> R_co | None:
        """What the gateway says of the order, typed; None if it says nothing.

        For a look-up it is a tuple, since an order may have several records. It is read anew at
        every access; reading never raises.
        """
        if not self.items:
            return None
        if self.many:
            return tuple([_reader()(self.record_class, item) for item in self.items])  # type: ignore[return-value]  # by operation
        return _reader()(self.record_class, self.items[0])  # type: ignore[no-any-return]  # by operation


@functools.cache
def _reader() -> "Callable[[type[Any], object], Any]":
    from gateway_async.wire.converter import read_record  # noqa: PLC0415  # loaded by a client

    return read_record


_Draft: Any = attrs.make_class(
    "_Draft",
    [field.name for field in attrs.fields(Outcome)],
    bases=(Generic[O_co],),  # type: ignore[index]  # a base, and not a value
    slots=True,
    weakref_slot=False,
)
"""An outcome to fill in one step, then made one: filling a frozen one takes four times as long."""


def without_signatures(reply: bytes, payload: Mapping[str, Any]) -> tuple[bytes, Mapping[str, Any]]:
    """Take the signatures from a JSON reply.

    Args:
        reply: The reply.
        payload: The same decoded.

    Returns:
        The reply with every signature in it emptied, and what it says; the one beside its items
        may still be in that.

    Raises:
        ReplyUnreadableError: Where it has to be written again and is nested too deep for that.
    """
    first, last = reply.find(_SIGNATURE_NAME), reply.rfind(_SIGNATURE_NAME)
    is_escaped = b"\\" in reply and _ESCAPED_LETTER in reply
    if first < 0 and not is_escaped:
        return reply, payload
    found = _SIGNATURES.match(reply, last) if first >= 0 else None
    spliced = reply
    if found and first == last and SIGNATURE_FIELD in payload:
        spliced = b"".join((reply[:first], found[1], b'""', reply[found.end() :]))
        if not is_escaped:
            return spliced, payload
    emptied = _empty_signatures(payload)
    if spliced is not reply and emptied <= 1:
        return spliced, payload
    # A name that comes twice in one object is decoded once: what was not emptied may still stand.
    is_clean = spliced is reply and not emptied and not _SIGNED.search(reply)
    return reply if is_clean else _rewritten(reply, payload), payload


def _empty_signatures(payload: Mapping[str, Any]) -> int:
    """Empty whatever is called a signature, however it was written, and say how many were."""
    emptied = 0
    left: list[Any] = [payload]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get(SIGNATURE_FIELD):
                part[SIGNATURE_FIELD] = ""
                emptied += 1
            left += part.values()
        elif isinstance(part, list):
            left += part
    return emptied


def _rewritten(reply: bytes, payload: Mapping[str, Any]) -> bytes:
    with contextlib.suppress(RecursionError, orjson.JSONEncodeError):
        if may_have_long_integers(reply):  # which orjson does not write
            return json.dumps(payload).encode()
        return orjson.dumps(payload)
    raise ReplyUnreadableError(
        "the reply carries signatures, and is nested too deep to be kept without them"
    )


class Block(Protocol):
    """Outcomes that are kept together."""

    @property
    def indices(self) -> Sequence[int]:
        """The positions of its orders in the input, ascending."""
        ...

    @property
    def orders(self) -> Sequence[Any]:
        """The orders."""
        ...

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        ...

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes, in the order of the indices."""
        ...


def status_code(status: OutcomeStatus) -> int:
    """Write a status as one byte."""
    return _CODES[status]


def status_codes(statuses: "Sequence[OutcomeStatus]") -> bytes:
    """Write statuses as one byte each."""
    return bytes(map(_CODES.__getitem__, statuses))


def verdict_codes(judgement: Judgement) -> bytes:
    """Write the status of each verdict as one byte."""
    if judgement.plain:
        return bytes([_CODES[OutcomeStatus.SUCCEEDED]]) * len(judgement.verdicts)
    return status_codes([status for status, _ in judgement.verdicts])


def count_statuses(codes: bytes) -> dict[OutcomeStatus, int]:
    """Count each status in such bytes."""
    return {status: codes.count(code) for status, code in _CODES.items()}


@attrs.frozen(kw_only=True, weakref_slot=False)
class _ChunkBlock:
    """The orders of a chunk.

    Attributes:
        chunk: The orders.
    """

    chunk: "Chunk"

    @property
    def indices(self) -> Sequence[int]:
        """The positions of its orders in the input."""
        return self.chunk.indices

    @property
    def orders(self) -> Sequence[Any]:
        """The orders."""
        return self.chunk.orders


@attrs.frozen(kw_only=True, weakref_slot=False)
class UniformBlock(_ChunkBlock):
    """Orders that all met the same fate.

    Attributes:
        status: What became of each.
        error: Why.
        sending: What was noted when they were sent, if they were.
        envelope: What the reply says, where its HTTP status alone says what became of them.
    """

    status: OutcomeStatus
    error: GatewayError
    sending: Sending | None = None
    envelope: ReplyEnvelope | None = None

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return bytes([_CODES[self.status]]) * len(self.chunk)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        return [
            Outcome(
                order=order,
                index=index,
                status=self.status,
                error=self.error,
                sending=self.sending,
                reply=self.envelope,
            )
            for index, order in zip(self.chunk.indices, self.chunk.orders, strict=True)
        ]


@attrs.frozen(kw_only=True, weakref_slot=False)
class _AnsweredBlock(_ChunkBlock):
    """Orders of a chunk that got a readable reply.

    Attributes:
        statuses: The status of each, as a code.
        plan: What the batch is made of.
        sending: What was noted when they were sent.
        envelope: What the reply says as a whole.
    """

    statuses: bytes
    plan: "Plan"
    sending: Sending
    envelope: ReplyEnvelope

    def _made(self, judgement: Judgement) -> list[Outcome[Any, Any]]:
        record_class, many, sending = self.plan.record_class, self.plan.is_look_up, self.sending
        envelope = self.envelope
        outcomes: list[Outcome[Any, Any]] = []
        for order, index, (status, error), items in zip(
            self.chunk.orders, self.chunk.indices, judgement.verdicts, judgement.items, strict=True
        ):
            outcome = _Draft(
                order, index, status, error, items, record_class, many, sending, envelope
            )
            outcome.__class__ = Outcome
            outcomes.append(outcome)
        return outcomes


@attrs.frozen(kw_only=True, weakref_slot=False)
class JudgedBlock(_AnsweredBlock):
    """Orders whose outcomes are read at once.

    Attributes:
        judgement: What the reply says.
    """

    judgement: Judgement = attrs.field(repr=False)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        return self._made(self.judgement)


@attrs.frozen(kw_only=True, weakref_slot=False)
class RepliedBlock(_AnsweredBlock):
    """Orders whose outcomes are kept.

    Attributes:
        reply: The reply, without signatures.
        dialect: By which it was judged.
        plain: Whether the judgement was a plain one, so that it need not be made again.
    """

    reply: bytes = attrs.field(repr=False)
    dialect: "Dialect" = attrs.field(repr=False)
    plain: bool = False

    @property
    def is_accepted(self) -> bool:
        """Whether the reply says that the request as a whole was accepted."""
        return self.envelope.return_status in self.dialect.done_return_statuses

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Read the reply once more, and make the outcomes."""
        operation = self.plan.operation
        if self.plain:
            listed = decode_json(self.reply)[operation.list_field or ""]
            return self._made(plain_judgement(listed))
        payload = decode_json(self.reply) if self.plan.is_look_up else decode_surely(self.reply)
        return self._made(judge(operation, self.chunk.orders, payload, self.dialect))


@attrs.frozen
class ListedBlock:
    """Outcomes kept as they are.

    Attributes:
        listed: The outcomes, by ascending index.
    """

    listed: tuple[Outcome[Any, Any], ...]

    @property
    def indices(self) -> Sequence[int]:
        """The positions of its orders in the input."""
        return [outcome.index for outcome in self.listed]

    @property
    def orders(self) -> Sequence[Any]:
        """The orders."""
        return [outcome.order for outcome in self.listed]

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return status_codes([outcome.status for outcome in self.listed])

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Return the outcomes."""
        return list(self.listed)

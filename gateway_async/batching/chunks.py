"""The orders of one request, and their outcomes once it has ended. Pure.

Outcomes are kept as the bytes of the reply, which take a third of the memory of the decoded reply.
The bytes are decoded, and judged again where needed, when outcomes are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.judge import SUCCEEDED, Judge, Judgement, echoed_judgement
from gateway_async.errors import NOTHING_SENT, GatewayError, RejectedError
from gateway_async.models.orders import OutcomeStatus, markers_of, status_codes
from gateway_async.outcomes import (
    EchoingReply,
    Exchange,
    ListedOutcomes,
    Outcome,
    ReplyEnvelope,
    Sending,
    make_outcomes,
)
from gateway_async.wire.decode import decode_json
from gateway_async.wire.encode import EncodedChunk, encode_chunk

if TYPE_CHECKING:
    from gateway_async.batching.judge import Overall, Verdict
    from gateway_async.dialect import Dialect
    from gateway_async.operations import Operation


_NO_REFERENCES: "Mapping[str, frozenset[str]]" = {}  # shared, since it stays with a result


@attrs.define(eq=False, weakref_slot=False)
class Chunk:
    """The orders of one request, or orders side by side that get one error and are never sent.

    Attributes:
        indices: Their positions in the input, ascending.
        orders: The orders.
        encoded: The orders as they go out; None if they are not encoded yet.
        references: By transaction, the references of its earlier refunds. Where they are not known,
            a transaction has no entry.
        claimed: By transaction, a reference that its reply names and an earlier refund has claimed.
    """

    indices: "Sequence[int]"
    orders: "Sequence[Any]"
    encoded: EncodedChunk | None = attrs.field(default=None, repr=False)
    references: "Mapping[str, frozenset[str]]" = _NO_REFERENCES
    claimed: "Mapping[str, frozenset[str]]" = _NO_REFERENCES

    def __len__(self) -> int:
        return len(self.orders)

    def halves(self) -> "tuple[Chunk, Chunk]":
        """Return the chunk as two, neither empty."""
        middle = len(self.orders) // 2
        return self.part(range(middle)), self.part(range(middle, len(self.orders)))

    def part(self, places: "Iterable[int]") -> "Chunk":
        """Return the orders at some places."""
        picked = sorted(places)
        indices, orders = [self.indices[n] for n in picked], tuple(self.orders[n] for n in picked)
        return Chunk(indices, orders, references=self.references)

    def encode(
        self, operation: "Operation", dialect: "Dialect", marker_prefix: str | None
    ) -> EncodedChunk:
        """Write the orders as they go out; their markers begin with `marker_prefix`."""
        return encode_chunk(
            operation, self.orders, dialect, markers_of(marker_prefix, self.indices)
        )

    def failed(self, error: GatewayError, sending: Sending | None = None) -> "FailedChunk":
        """Return one outcome for all orders of the chunk; `sending` where it may have been sent."""
        return FailedChunk(self.indices, self.orders, error, sending)


@attrs.frozen(weakref_slot=False)
class FailedChunk:
    """Orders that share one error: not sent, declined as a whole, or without a readable reply.

    Attributes:
        indices: Their positions in the input, ascending.
        orders: The orders.
        error: The error of each, which says their status.
        sending: What recovery must know of the request; None if it was never sent.
    """

    indices: Sequence[int]
    orders: Sequence[Any]
    error: GatewayError
    sending: Sending | None = None

    @property
    def status(self) -> OutcomeStatus:
        """The status of each."""
        if isinstance(self.error, RejectedError):
            return OutcomeStatus.DECLINED
        is_sent = not isinstance(self.error, NOTHING_SENT)
        return OutcomeStatus.UNKNOWN if is_sent else OutcomeStatus.NOT_SENT

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return status_codes([self.status]) * len(self.orders)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        exchange = Exchange(sending=self.sending)
        verdict = self.status, self.error
        return make_outcomes(self.orders, self.indices, repeat(verdict), repeat(()), exchange)


@attrs.define(eq=False, weakref_slot=False)
class AnsweredChunk:
    """Orders whose reply was readable; the reply is kept as it came, without signatures.

    Attributes:
        indices: Their positions in the input, ascending.
        orders: The orders.
        judge: Judges the reply; it has the operation and the dialect.
        reply: The reply.
        overall: The overall result in the reply.
        sending: What recovery must know of the request.
        statuses: The status of each, as a code.
        is_echoed: Whether all succeeded, and the reply lists them in their order.
        is_glanced: Whether that was proved at a glance alone, and the reply not decoded.
    """

    indices: Sequence[int]
    orders: Sequence[Any]
    judge: Judge
    reply: bytes = attrs.field(repr=False)
    _overall: "Overall"
    sending: Sending
    statuses: bytes
    is_echoed: bool
    is_glanced: bool

    @property
    def is_accepted(self) -> bool:
        """Whether the reply says that the request as a whole was accepted."""
        return self._overall[0] in self.judge.dialect.done_return_statuses

    @cached_property
    def exchange(self) -> Exchange:
        """The request: one object for all outcomes."""
        envelope = ReplyEnvelope(
            return_status=self._overall[0],
            return_message=self._overall[1],
            http_status=200,
            received_at=datetime.fromtimestamp(self.sending.ended_at, UTC),
        )
        return Exchange(
            record_class=self.judge.operation.record_class,
            many=self.judge.operation.is_look_up,
            sending=self.sending,
            reply=envelope,
        )

    def __reduce__(self) -> "tuple[type[ListedOutcomes], tuple[tuple[Outcome[Any, Any], ...]]]":
        """Pickle the outcomes, which leave the secrets of the reply out."""
        return ListedOutcomes, (tuple(self.outcomes()),)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes; those that succeeded in their order decode the reply when read."""
        verdicts: Iterable[Verdict] = repeat(SUCCEEDED)
        items: Iterable[Any]
        if self.is_echoed:
            items = repeat(self._echoing())
        else:
            judgement = self.judgement()
            verdicts, items = judgement.verdicts, judgement.items
        return make_outcomes(self.orders, self.indices, verdicts, items, self.exchange)

    def judgement(self) -> Judgement:
        """Read the reply once more, and judge it as before."""
        if self.is_echoed:
            return echoed_judgement(self._echoing().items)
        sending, payload = self.sending, decode_json(self.reply)
        markers = markers_of(sending.marker_prefix, self.indices)
        references = {**sending.references, **sending.claimed}
        return self.judge.judge_reply(self.orders, payload, references, markers)

    def _echoing(self) -> EchoingReply:
        operation = self.judge.operation
        return EchoingReply(self.indices, self.reply, operation, is_glanced=self.is_glanced)

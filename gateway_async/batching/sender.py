"""Sends a chunk: has the session send it, judges the reply, has the outcomes recorded.

Every order of a chunk gets exactly one outcome, also if a collaborator raises. A recorder records
each chunk before its first byte is written, and its outcomes before they are seen. The one here
records nothing, since only this process remembers a plain batch; that of a job writes a journal.
"""

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import orjson

from gateway_async.batching.chunks import AnsweredChunk, Chunk, FailedChunk
from gateway_async.batching.judge import SUCCEEDED, Judge, Judgement, echoed_judgement, overall_of
from gateway_async.batching.results import Results
from gateway_async.errors import (
    NOTHING_SENT,
    GatewayError,
    NotSentError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import OrderRef, OutcomeStatus, markers_of, status_codes
from gateway_async.operations import OperationClass
from gateway_async.outcomes import Sending
from gateway_async.session import Attempts, Intent, Request
from gateway_async.telemetry import RequestSpan
from gateway_async.wire.decode import decode_json, identifier, without_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gateway_async.batching.judge import Overall
    from gateway_async.batching.results import BatchResult
    from gateway_async.errors import AlikeRefundError
    from gateway_async.models.orders import RefundOrder
    from gateway_async.operations import Operation
    from gateway_async.session import Gate, Session
    from gateway_async.settings import RecoveryPolicy
    from gateway_async.transport import HttpResponse
    from gateway_async.wire.glance import Glance


SECONDS_AN_HOUR = 3600
_DONE = status_codes([OutcomeStatus.SUCCEEDED])
_UNDONE = status_codes([OutcomeStatus.DECLINED, OutcomeStatus.NOT_SENT])


@attrs.define(eq=False)
class Reading:
    """A reply that was read; its repr does not show the reply.

    Attributes:
        reply: What is kept of it.
        overall: Its overall result.
        judgement: Its judgement; None if a glance proved that every order succeeded, and no
            reference was claimed.
    """

    reply: bytes = attrs.field(repr=False)
    overall: "Overall"
    judgement: Judgement | None


class OwnRefunds(NamedTuple):
    """Refunds like an order that its batch or job itself made, or may have made.

    Attributes:
        references: Of those whose reference is known.
        others: How many there may be besides.
    """

    references: "Collection[str]" = ()
    others: int = 0


class Recorder:
    """What a batch remembers of its refunds; that of a job also records each chunk.

    Markers are sent where they are the evidence. Earlier refunds are looked up with
    `record_baseline`; in a job also without it, unless markers are sent. Where a payment may get a
    second refund, each claims its reference, so that one reference proves one refund.

    Args:
        operation: The operation.
        recovery: What is the evidence.
        duplicates: Whether a second refund of a payment may follow.
        marker_prefix: What the refunds' markers begin with, where they are sent.
        began_at: When the orders were handed in, in seconds since the epoch.

    Attributes:
        marker_prefix: What the refunds' markers begin with; None if no markers are sent.
        looks_up: Whether the earlier refunds of a chunk are looked up before it is sent.
        began_at: When the batch, or the run of the job, began, in seconds since the epoch.
        since: From when on a refund counts as recent, in seconds since the epoch; None if alike
            refunds are made again.
        alone: Whether no two orders have the same transaction.
        claims: Whether refunds claim their references.
        alike_advice: What the error of an order adds that is like an earlier refund.
    """

    alike_advice: str = (
        "; if another one is meant, send it by a client with RecoveryPolicy(hold_alike_hours=None)"
    )

    def __init__(
        self,
        operation: "Operation",
        recovery: "RecoveryPolicy",
        duplicates: str = "reject",
        *,
        marker_prefix: str = "",
        began_at: float = 0,
    ) -> None:
        is_refund, hours = operation.allows_several, recovery.hold_alike_hours
        is_marked = is_refund and recovery.refund_evidence == "marker"
        self.marker_prefix: str | None = marker_prefix if is_marked else None
        self.alone: bool = duplicates == "reject"
        self.looks_up: bool = is_refund and recovery.record_baseline
        self.began_at: float = began_at
        self.since: float | None = None if hours is None else began_at - hours * SECONDS_AN_HOUR
        may_claim = {
            "reject": False,  # a payment gets no second refund
            "serialize": self.looks_up or not is_marked,  # a marker proves its refund alone
            "allow": self.looks_up,  # else no memory is kept
        }
        self.claims: bool = is_refund and may_claim[duplicates]
        # Refunds that were made, by hash of payment and reference; those that were sent and may
        # have been made, by hash of payment and amount.
        self._claimed: set[int] = set()
        self._sent: Counter[int] | None = Counter() if self.looks_up and not self.alone else None

    def claim(self, named: "Mapping[str, str]") -> None:
        """Claim references, each by its transaction."""
        self._claimed.update(map(hash, named.items()))

    def claimed_among(self, named: "Mapping[str, str]") -> dict[str, str]:
        """Return which of these were claimed before."""
        return {name: one for name, one in named.items() if hash((name, one)) in self._claimed}

    def intent_for(self, chunk: "Chunk") -> Intent | None:
        """Note that a chunk is to be sent; return the intent to record, or None if none is."""
        if self._sent is not None:
            self._sent.update(map(_hash_of_refund, chunk.orders))
        return None

    def conclude(
        self,
        intent: Any,  # noqa: ANN401  # what `intent_for` returned
        result: AnsweredChunk | FailedChunk,
        judgement: Judgement | None,
        add: "Callable[[AnsweredChunk | FailedChunk], None]",
    ) -> None:
        """Add the outcomes of a chunk to the results, once they are recorded.

        What was not sent, or was declined, explains no refund that is listed: it is forgotten.
        """
        if self._sent is not None:
            each = zip(result.orders, result.statuses, strict=True)
            undone = [order for order, code in each if code in _UNDONE]
            self._sent.subtract(map(_hash_of_refund, undone))
        add(result)

    async def own_refunds(self, chunk: "Chunk") -> "Mapping[int, OwnRefunds]":
        """Return the refunds like each order of a chunk that the batch or job may have made.

        Returns:
            By position. An order is left out if a person has decided that it is to be sent.
        """
        sent = self._sent or Counter()
        each = zip(chunk.indices, map(_hash_of_refund, chunk.orders), strict=True)
        return {index: OwnRefunds(others=sent[refund]) for index, refund in each}

    async def hold(self, chunk: "Chunk", errors: "Sequence[AlikeRefundError]") -> None:
        """Record that the orders of a chunk are not sent before a person decides."""


@attrs.define(eq=False, repr=False)
class Sender:
    """Sends the chunks of one batch.

    Attributes:
        session: The way to the gateway.
        operation: The operation.
        gate: Whether requests may leave.
        results: Where requests and unexpected records are counted.
        add: Called with the outcomes of each chunk.
        recorder: What the batch remembers.
        in_halves: Whether a look-up is made again in halves where its list may be cut short, and
            not only where it is full.
    """

    session: "Session"
    operation: "Operation"
    gate: "Gate"
    results: Results
    add: "Callable[[AnsweredChunk | FailedChunk], None]"
    recorder: Recorder
    in_halves: bool = False
    _glance: "Glance | None" = attrs.field(init=False)
    _judge: Judge = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._glance = self.session.glance(self.operation)
        self._judge = Judge(self.operation, self.session.dialect)

    async def send(self, chunk: "Chunk") -> GatewayError | None:
        """Send one chunk, and add the outcomes of its orders.

        `attempts.run` calls back: `_request` once, to write the request, and `_read` for each reply
        (as `Request.decode`). So the `Reading` is in `attempts.value` once it returns, or the error
        in `attempts.error`. Whatever happens, the `finally` gives the outcomes to the recorder,
        unless the orders are asked for again in two requests.

        Returns:
            The error if there was no readable reply, or one that lists none of the orders, though
            they move money.
        """
        intent = self.recorder.intent_for(chunk)
        attempts: Attempts[Reading] = Attempts(self.session, self.gate, intent)
        is_split = False
        with RequestSpan(
            self.session.instrumentation, self.operation, attempts, len(chunk.orders)
        ) as span:
            try:
                span.begin()
                await attempts.run(functools.partial(self._request, chunk))
                judgement = None if attempts.value is None else attempts.value.judgement
                is_split = judgement is not None and len(chunk) > 1 and self._may_lack(judgement)
            finally:  # also if a collaborator raised, or the judge has a defect
                self.results.requests += attempts.sent
                self.results.retries += max(attempts.tries - 1, 0)
                judgement = None if attempts.value is None else attempts.value.judgement
                if not is_split:
                    result = self._result(chunk, attempts)
                    span.statuses = result.statuses
                    self.recorder.conclude(intent, result, judgement, self.add)
        if is_split:
            return await self._send_halves(chunk)
        if attempts.value is None or judgement is None:
            return attempts.error
        self.results.add_unexpected(judgement.unexpected, len(attempts.value.reply))
        return _find_none_listed(self.operation, judgement)

    def _may_lack(self, judgement: Judgement) -> bool:
        """Return whether a reply may lack records, which smaller chunks would bring."""
        listed = sum(map(len, judgement.items))
        is_short = self.in_halves and self.session.may_be_cut(self.operation, listed)
        return judgement.truncated or is_short

    def _request(self, chunk: "Chunk") -> Request[Reading]:
        """Write the request of a chunk."""
        if chunk.encoded is None:
            dialect = self.session.dialect
            chunk.encoded = chunk.encode(self.operation, dialect, self.recorder.marker_prefix)
        return Request(
            operation=self.operation,
            fields=chunk.encoded.fields,
            decode=functools.partial(self._read, chunk),
            find_refusal=_find_refusal if self.operation.is_keyed else None,
        )

    def _read(self, chunk: "Chunk", response: "HttpResponse") -> Reading:
        """Prove success of every order at a glance, or else decode the reply and judge it."""
        sent, proof = b"" if chunk.encoded is None else chunk.encoded.array, None
        if self._glance is not None and not any(chunk.references.values()):
            proof = self._glance.prove(response.body, sent, len(chunk.orders))
        if proof is not None and not self.recorder.claims:
            return Reading(*proof, None)
        if proof is not None:
            judgement = echoed_judgement(orjson.loads(proof[0])[self.operation.list_field])
            named = self._named(chunk, judgement)
            if not self.recorder.claimed_among(named):
                self.recorder.claim(named)
                return Reading(*proof, judgement)
        return self._read_carefully(chunk, response.body)

    def _read_carefully(self, chunk: "Chunk", body: bytes) -> Reading:
        """Decode and judge a reply; what an earlier refund has claimed proves none of these.

        It is judged twice where a success names a reference that this batch or job was given for an
        earlier refund: the second time, that one counts as there before, so the order is unknown.
        """
        judge, glance = self._judge.judge_reply, self._glance
        reply, payload = without_signatures(body, decode_json(body))
        self.session.check_owner(payload)
        markers = markers_of(self.recorder.marker_prefix, chunk.indices)
        judgement = judge(chunk.orders, payload, chunk.references, markers)
        if self.recorder.claims:
            named = self._named(chunk, judgement)
            if earlier := self.recorder.claimed_among(named):
                chunk.claimed = {name: frozenset({one}) for name, one in earlier.items()}
                before = {**chunk.references, **chunk.claimed}
                judgement = judge(chunk.orders, payload, before, markers)
            self.recorder.claim(named)
        overall = overall_of(payload)
        if glance is not None and judgement.all_echoed:
            glance.learn(reply, payload, overall)
        return Reading(reply, overall, judgement)

    def _named(self, chunk: "Chunk", judgement: Judgement) -> dict[str, str]:
        """Return the references of what succeeded, by transaction."""
        return {
            order.transaction_id: reference
            for order, verdict, items in zip(
                chunk.orders, judgement.verdicts, judgement.items, strict=True
            )
            if verdict is SUCCEEDED
            and (reference := identifier(items[0].get(self.operation.reference_field)))
        }

    async def _send_halves(self, chunk: "Chunk") -> GatewayError | None:
        """Ask again in two requests, since the reply was full and may have been cut."""
        halves = list(chunk.halves())
        errors: list[GatewayError | None] = []
        try:
            while halves:
                errors.append(await self.send(halves.pop(0)))
        finally:  # also if a collaborator raised
            for half in halves:
                self.add(half.failed(NotSentError("nothing was sent: the batch ended before")))
        return next((error for error in errors if error is not None), None)

    def _result(self, chunk: "Chunk", attempts: "Attempts[Reading]") -> AnsweredChunk | FailedChunk:
        """Return the outcomes of a chunk whose request has ended."""
        reading = attempts.value
        sending = Sending(
            ended_at=attempts.ended_at,
            began_at=self.recorder.began_at,
            references=chunk.references,
            claimed=chunk.claimed,
            marker_prefix=self.recorder.marker_prefix,
            alone=self.recorder.alone,
        )
        if reading is not None:
            judgement = reading.judgement
            return AnsweredChunk(
                chunk.indices,
                chunk.orders,
                self._judge,
                reading.reply,
                reading.overall,
                sending,
                _DONE * len(chunk) if judgement is None else judgement.statuses,
                is_echoed=judgement is None or judgement.all_echoed,
                is_glanced=judgement is None,
            )
        error = attempts.error or ReplyUnreadableError("the reply could not be judged")
        if self.operation.is_keyed:
            self._judge.explain(error, chunk.orders[0])
        # Without a `sending`, a journal calls them new.
        return chunk.failed(error, None if isinstance(error, NOTHING_SENT) else sending)


async def look_up(  # noqa: PLR0913  # what is asked, and how
    session: "Session",
    operation: "Operation",
    names: "Sequence[str]",
    gate: "Gate",
    counts: "Results",
    *,
    in_halves: bool = False,
) -> "BatchResult[OrderRef, Any]":
    """Look some transactions up in the task of the caller, in one request unless it may lack some.

    Args:
        session: The way to the gateway.
        operation: The look-up.
        names: The transactions.
        gate: Whether the request may leave; a cancellation is not raised, but stops it.
        counts: Where its requests are counted, too, also if a collaborator raises.
        in_halves: Whether it is made again in halves where its list may be cut short, and not only
            where it is full.
    """
    refs = [OrderRef(transaction_id=name) for name in names]
    found = Results(operation.record_class)
    recorder = Recorder(operation, session.recovery)
    try:
        sender = Sender(session, operation, gate, found, found.add, recorder, in_halves)
        await sender.send(Chunk(range(len(refs)), refs))
    finally:
        counts.add_requests(found)
    return found.result(exhausted=True)


def _hash_of_refund(order: "RefundOrder") -> int:
    return hash((order.transaction_id, order.refund_amount))


def _find_none_listed(operation: "Operation", judgement: Judgement) -> ReplyUnreadableError | None:
    """Return the error of a reply that lists none of its orders, and does not decline them.

    None for a look-up, where it may mean that there is nothing, and for a payout, which may be
    refused so.
    """
    if operation.kind is not OperationClass.MONEY or any(judgement.items):
        return None
    _, error = judgement.verdicts[0]  # without items, all are alike
    return error if isinstance(error, ReplyUnreadableError) else None


def _find_refusal(reading: Reading) -> RejectedError | None:
    """Return why the one order of a request was declined; None if it was not."""
    verdicts = () if reading.judgement is None else reading.judgement.verdicts
    errors = (error for _, error in verdicts)
    return next((error for error in errors if isinstance(error, RejectedError)), None)

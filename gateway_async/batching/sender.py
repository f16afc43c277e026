"""Sends a chunk: has the session send it, judges the reply, has the outcomes recorded.

Every order of a chunk gets exactly one outcome, also if a collaborator raises. A recorder records
each chunk before its first byte is written, and its outcomes before they are seen. The one here
records nothing, since only this process remembers a plain batch; that of a job writes a journal.
"""

import asyncio
import functools
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import attrs
import orjson

from gateway_async.batching.chunks import AnsweredChunk, FailedChunk
from gateway_async.batching.judge import (
    SUCCEEDED,
    Judgement,
    echoed_judgement,
    explain,
    judge,
    overall_of,
)
from gateway_async.batching.results import Results
from gateway_async.errors import GatewayError, NotSentError, RejectedError, ReplyUnreadableError
from gateway_async.models.orders import OutcomeStatus, markers_of
from gateway_async.operations import OperationClass
from gateway_async.outcomes import ReplyEnvelope, Sending
from gateway_async.session import Attempts, Intent, Request
from gateway_async.telemetry import RequestSpan
from gateway_async.wire.decode import decode_json, identifier, without_signatures

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gateway_async.batching.alike import ClaimedRefunds, References
    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.judge import Overall
    from gateway_async.errors import AlikeRefundError
    from gateway_async.operations import Operation
    from gateway_async.session import Gate, Session
    from gateway_async.transport import HttpResponse
    from gateway_async.wire.glance import Glance


class Reading(NamedTuple):
    """A reply that was read.

    Attributes:
        reply: What is kept of it.
        overall: Its overall result.
        judgement: Its judgement; None if a glance proved that every order succeeded.
        references: By transaction, the references that count as those of earlier refunds.
    """

    reply: bytes
    overall: "Overall"
    judgement: Judgement | None
    references: "References"


class ChunkIntent(Intent, Protocol):
    """The intent to send a chunk, whose outcomes are recorded too."""

    def conclude(
        self,
        result: "AnsweredChunk | FailedChunk",
        judgement: "Judgement | None",
        add: "Callable[[AnsweredChunk | FailedChunk], None]",
    ) -> None:
        """Record the outcomes of the chunk in the background, then add them to the results."""


class Recorder:
    """Records the chunks of one batch.

    Attributes:
        alike_advice: What the error of an order adds that is like an earlier refund.
    """

    alike_advice: str = (
        "; if another one is meant, send it by a client with RecoveryPolicy(hold_alike_hours=None)"
    )

    def intent_for(
        self, chunk: "Chunk", references: "References", marker_prefix: str | None
    ) -> ChunkIntent | None:
        """Return the intent to send a chunk, not recorded yet; None if none is recorded.

        Args:
            chunk: The orders.
            references: By transaction, the refund references it has already.
            marker_prefix: What the marker of each refund begins with, if any is sent.
        """
        return None

    async def made_beside(
        self, chunk: "Chunk"
    ) -> "Mapping[int, tuple[Collection[str], int]] | None":
        """Return which refunds like each order of a chunk were made by other runs of the job.

        Returns:
            By position, their references, and how many more there may be. An order is left out if a
            person has decided that it is to be sent. None where nothing else is known.
        """
        return None

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
        recorder: Records each chunk.
        marker_prefix: What the refunds' markers begin with; None if no markers are sent.
        alone: Whether no two orders of the batch have the same transaction.
        claimed: The refunds that succeeded; None where these are not kept.
    """

    _session: "Session"
    _operation: "Operation"
    _gate: "Gate"
    _results: Results
    _add: "Callable[[AnsweredChunk | FailedChunk], None]"
    _recorder: Recorder = attrs.field(factory=Recorder)
    _marker_prefix: str | None = None
    _alone: bool = True
    _claimed: "ClaimedRefunds | None" = None
    _glance: "Glance | None" = attrs.field(init=False)
    # The requests under way, by worker.
    _calls: "dict[asyncio.Task[Any] | None, Attempts[Reading]]" = attrs.field(
        factory=dict, init=False
    )

    def __attrs_post_init__(self) -> None:
        self._glance = self._session.glance(self._operation)

    def is_busy(self, worker: "asyncio.Task[Any]") -> bool:
        """Return whether a worker has a request under way."""
        return worker in self._calls

    def withdraw_unsent(self) -> None:
        """End the requests of which nothing was sent yet."""
        for task, call in list(self._calls.items()):
            if task is not None and call.withdraw():
                task.cancel()

    async def send(self, chunk: "Chunk", references: "References") -> GatewayError | None:
        """Send one chunk, and add the outcomes of its orders.

        `attempts.run` calls back: `_request` once, to write the request, and `_read` for each reply
        (as `Request.decode`). So the `Reading` is in `attempts.value` once it returns, or the error
        in `attempts.error`. Whatever happens, the outcomes are added in the `finally`.

        Args:
            chunk: The orders.
            references: By transaction, the references of its earlier refunds, where known.

        Returns:
            The error if there was no readable reply, or one that lists none of the orders, though
            they move money.
        """
        task, results = asyncio.current_task(), self._results
        intent = self._recorder.intent_for(chunk, references, self._marker_prefix)
        attempts: Attempts[Reading] = Attempts(self._session, self._gate, intent)
        result: AnsweredChunk | FailedChunk | None = None
        judgement, is_truncated, none_listed = None, False, None
        with RequestSpan(
            self._session.instrumentation, self._operation, attempts, len(chunk.orders)
        ) as span:
            try:
                span.begin()
                self._calls[task] = attempts
                await attempts.run(functools.partial(self._request, chunk, references))
                if (reading := attempts.value) is not None:
                    judgement, references = reading.judgement, reading.references
                    if judgement is not None:
                        is_truncated = judgement.truncated and len(chunk) > 1
                        if is_truncated:
                            return await self._send_halves(chunk, references)
                        results.add_unexpected(judgement.unexpected, len(reading.reply))
                        none_listed = _find_none_listed(self._operation, judgement)
                    result = AnsweredChunk(
                        chunk.indices,
                        chunk.orders,
                        self._operation,
                        self._session.dialect,
                        reading.reply,
                        judgement,
                        self._sending(attempts, references),
                        reading.overall,
                    )
            finally:  # also if a collaborator raised, or the judge has a defect
                self._calls.pop(task, None)  # one of its halves may have taken it
                results.requests += attempts.sent
                results.retries += max(attempts.tries - 1, 0)
                if result is None and not is_truncated:
                    result = self._unanswered(chunk, attempts, references)
                if result is not None:
                    span.statuses = result.statuses
                    if intent is None:
                        self._add(result)
                    else:
                        intent.conclude(result, judgement, self._add)
        return attempts.error or none_listed

    def _request(self, chunk: "Chunk", references: "References") -> Request[Reading]:
        """Write the request of a chunk."""
        if chunk.encoded is None:
            dialect = self._session.dialect
            chunk.encoded = chunk.encode(self._operation, dialect, self._marker_prefix)
        return Request(
            operation=self._operation,
            fields=chunk.encoded.fields,
            decode=functools.partial(self._read, chunk, references),
            find_refusal=_find_refusal if self._operation.is_keyed else None,
        )

    def _read(self, chunk: "Chunk", references: "References", response: "HttpResponse") -> Reading:
        """Prove success of every order at a glance, or else decode the reply and judge it."""
        sent = b"" if chunk.encoded is None else chunk.encoded.array
        reading = self._read_at_a_glance(chunk, references, response.body, sent)
        return reading or self._judge(chunk, references, response.body, sent)

    def _read_at_a_glance(
        self, chunk: "Chunk", references: "References", body: bytes, sent: bytes
    ) -> Reading | None:
        """Return the reading of the usual reply; None if it has to be judged."""
        if self._glance is None or any(references.values()):
            return None
        proof = self._glance.prove(body, sent, len(chunk.orders))
        if proof is None:
            return None
        if self._claimed is None:
            return Reading(*proof, None, references)
        judgement = echoed_judgement(orjson.loads(proof[0])[self._operation.list_field])
        named = self._named(chunk, judgement)
        if self._claimed.among(named):
            return None
        self._claimed.add(named)
        return Reading(*proof, judgement, references)

    def _judge(self, chunk: "Chunk", references: "References", body: bytes, sent: bytes) -> Reading:
        """Decode and judge a reply; what an earlier refund has claimed proves none of these.

        It is judged twice where a success names a reference that this batch or job was given for an
        earlier refund: the second time, that one counts as there before, so the order is unknown.
        """
        operation, dialect, glance = self._operation, self._session.dialect, self._glance
        reply, payload = without_signatures(body, decode_json(body))
        self._session.check_owner(payload)
        markers = markers_of(self._marker_prefix, chunk.indices)
        judge_by = functools.partial(
            judge, operation, chunk.orders, payload, dialect, markers=markers
        )
        judgement = judge_by(references)
        if self._claimed is not None:
            named = self._named(chunk, judgement)
            if earlier := self._claimed.among(named):
                nothing: frozenset[str] = frozenset()
                added = {name: references.get(name, nothing) | {earlier[name]} for name in earlier}
                references = {**references, **added}
                judgement = judge_by(references)
            self._claimed.add(named)
        overall = overall_of(payload)
        if glance is not None and judgement.all_echoed:
            glance.learn(reply, payload, sent, overall)
        return Reading(reply, overall, judgement, references)

    def _named(self, chunk: "Chunk", judgement: Judgement) -> dict[str, str]:
        """Return the references of what succeeded, by transaction."""
        return {
            order.transaction_id: reference
            for order, verdict, items in zip(
                chunk.orders, judgement.verdicts, judgement.items, strict=True
            )
            if verdict is SUCCEEDED
            and (reference := identifier(items[0].get(self._operation.reference_field)))
        }

    async def _send_halves(self, chunk: "Chunk", references: "References") -> GatewayError | None:
        """Ask again in two requests, since the reply was full and may have been cut."""
        halves = list(chunk.halves())
        errors: list[GatewayError | None] = []
        try:
            while halves:
                errors.append(await self.send(halves.pop(0), references))
        finally:  # also if a collaborator raised
            for half in halves:
                self._add(half.failed(NotSentError("nothing was sent: the batch ended before")))
        return next((error for error in errors if error is not None), None)

    def _unanswered(
        self, chunk: "Chunk", attempts: "Attempts[Reading]", references: "References"
    ) -> FailedChunk:
        """Return the outcomes of a chunk whose request failed as a whole."""
        problem = attempts.error or ReplyUnreadableError("the reply could not be judged")
        if self._operation.is_keyed:
            explain(problem, self._operation, chunk.orders[0], self._session.dialect)
        envelope = None
        if isinstance(problem, RejectedError):  # its HTTP status means that nothing was done
            envelope = ReplyEnvelope(
                return_status=None,
                return_message=None,
                http_status=attempts.history[-1].http_status or 0,
                received_at=datetime.fromtimestamp(attempts.ended_at, UTC),
            )
        failed = attrs.evolve(chunk.failed(problem), envelope=envelope)
        if failed.status is OutcomeStatus.NOT_SENT:  # without `sending`, a journal calls them new
            return failed
        return attrs.evolve(failed, sending=self._sending(attempts, references))

    def _sending(self, attempts: "Attempts[Any]", references: "References") -> Sending:
        return Sending(
            ended_at=attempts.ended_at,
            references=references,
            marker_prefix=self._marker_prefix,
            alone=self._alone,
        )


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

"""One chunk on its way: written, sent, judged, and recorded as one or more blocks.

Law: every order of the chunk is recorded exactly once, even where sending it raises; where there
is a journal, it is told before the first byte is sent, and again before the outcome is recorded.
How chunks are taken, and when to stop, is not known here.
"""

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.attempts import Call, Exchange
from gateway_async.batching.matching import Judgement, identifier, judge, listed_items
from gateway_async.batching.outcomes import (
    JudgedBlock,
    RepliedBlock,
    ReplyEnvelope,
    Sending,
    UniformBlock,
    verdict_codes,
    without_signatures,
)
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.operations import REFUND
from gateway_async.session import HTTP_OK, Request
from gateway_async.wire.decoding import decode_json, decode_surely

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.log import Fates, JobLog
    from gateway_async.batching.matching import Sent
    from gateway_async.batching.outcomes import Block
    from gateway_async.batching.sheets import Sheet, SheetWriter
    from gateway_async.batching.tally import Tally
    from gateway_async.gate import Gate
    from gateway_async.session import Session
    from gateway_async.transport import RawReply
    from gateway_async.watching import RequestWatch

    References = Mapping[str, frozenset[str]]
    Payload = tuple[bytes, Mapping[str, Any]]
    Known = UniformBlock | JudgedBlock | RepliedBlock

T = TypeVar("T")

_FATES: "tuple[tuple[tuple[type[GatewayError], ...], OutcomeStatus], ...]" = (
    ((NotSentError, ConfigurationError, InvalidOrderError), OutcomeStatus.NOT_SENT),
    ((RejectedError,), OutcomeStatus.DECLINED),
    ((GatewayError,), OutcomeStatus.UNKNOWN),
)
"""What an error of a whole request means for each of its orders; the first that fits counts."""


@attrs.define(kw_only=True, eq=False)
class Sender:
    """Sends the chunks of one batch.

    Attributes:
        session: The way to the gateway.
        writer: Writes what comes without its sheet.
        gate: Whether requests may leave.
        tally: Where requests and retries are counted.
        record: Told what became of a chunk, or of a part of it.
        log: Told before and after each request, if the orders are a job's.
        alone: Whether no two orders of one transaction are in flight together.
        streamed: Whether what is recorded is read at once.
        calls: What is on its way, by the task that waits for it.
        keeping: What the journal was told last and may not have kept yet, by the task that told.
    """

    session: "Session"
    writer: "SheetWriter"
    gate: "Gate"
    tally: "Tally"
    record: "Callable[[Block], None]"
    log: "JobLog | None" = None
    alone: bool = True
    streamed: bool = False
    calls: "dict[asyncio.Task[Any] | None, Call[Payload]]" = attrs.field(factory=dict, init=False)
    keeping: "dict[asyncio.Task[Any] | None, asyncio.Future[None]]" = attrs.field(
        factory=dict, init=False
    )

    async def send(
        self, chunk: "Chunk", references: "References", sheet: "Sheet | None" = None
    ) -> GatewayError | None:
        """Send one chunk and record what became of its orders.

        Args:
            chunk: The orders.
            references: Which refund references their transactions had before, if that is known.
            sheet: The orders written, if they are.

        Returns:
            Why there was no readable reply; None where there was one.
        """
        operation = self.writer.plan.operation
        with self.session.observer.request(operation.name, len(chunk)) as watch:
            return await self._send(chunk, references, sheet, watch)

    async def _send(
        self,
        chunk: "Chunk",
        references: "References",
        sheet: "Sheet | None",
        watch: "RequestWatch",
    ) -> GatewayError | None:
        intent = _Intent(self, chunk, references)
        sent, exchange = await self._exchange(intent, sheet, watch)
        if exchange.value is None:
            return exchange.error
        reply, payload = exchange.value
        sending = self._sending(exchange, references)
        envelope = ReplyEnvelope.of(payload, http_status=HTTP_OK, received_at=exchange.ended_at)
        judgement = None
        try:
            judgement = judge(
                self.writer.plan.operation, chunk.orders, payload, self.session.dialect, sent
            )
        finally:  # no defect in judging may lose an order
            if judgement is None:
                error = ReplyUnreadableError("the reply could not be judged")
                await self._conclude(intent, _uniform(chunk, error, sending))
        if judgement.cut and len(chunk) > 1:
            return await self._send_halves(chunk, references)
        self.tally.note_unexpected(judgement.unexpected)
        block = self._replied(chunk, judgement, reply, sending, envelope)
        watch.statuses = block.statuses
        await self._conclude(intent, block, judgement)
        return None

    def fail(self, chunk: "Chunk", error: GatewayError) -> None:
        """Record a chunk that is not sent."""
        self.record(_uniform(chunk, error))

    async def _send_halves(self, chunk: "Chunk", references: "References") -> GatewayError | None:
        """Ask again in two requests: the reply was full, and may have been cut."""
        halves = list(chunk.halves())
        errors: list[GatewayError | None] = []
        try:
            while halves:
                errors.append(await self.send(halves.pop(0), references))
        finally:  # even where a collaborator of the caller's raised
            for half in halves:
                self.fail(half, NotSentError("nothing was sent: the batch ended before"))
        return next((error for error in errors if error is not None), None)

    def is_busy(self, worker: "asyncio.Task[Any]") -> bool:
        """Say whether a worker has something on its way, or will see to what is being kept."""
        keeping = self.keeping.get(worker)
        return worker in self.calls or (keeping is not None and not keeping.done())

    async def kept(self) -> None:
        """Wait until the journal has kept what this worker concluded last.

        Meanwhile its next chunk may be looked up and intended: the two then share a commit.
        """
        keeping = self.keeping.get(asyncio.current_task())
        if keeping is not None:
            try:
                await uninterrupted(keeping)
            finally:
                self.keeping.pop(asyncio.current_task(), None)

    async def _conclude(
        self, intent: "_Intent", block: "Known", judgement: Judgement | None = None
    ) -> None:
        """Record what became of a chunk, once the journal has kept it."""
        chunk, number = intent.chunk, intent.number
        if self.log is None or number is None:  # no journal knows that it was to be sent
            self.record(block)
            return
        if block.sending is None:
            kept = self.log.withdraw(number, chunk)
        else:
            kept = self.log.settle(
                number, chunk, _fates(chunk, block, judgement), ended_at=block.sending.ended_at
            )
        try:
            await self.kept()
        finally:  # also where what was concluded before could not be kept
            keeping = asyncio.ensure_future(self._record_once_kept(kept, chunk, block))
            self.keeping[asyncio.current_task()] = keeping

    async def _record_once_kept(
        self, kept: "Awaitable[None]", chunk: "Chunk", block: "Known"
    ) -> None:
        is_kept = False
        try:
            await kept
            is_kept = True
        finally:
            said = block if is_kept or block.sending is None else _not_kept(chunk, block.sending)
            self.record(said)

    async def _exchange(
        self, intent: "_Intent", sheet: "Sheet | None", watch: "RequestWatch"
    ) -> "tuple[Sent | None, Exchange[Payload]]":
        task, chunk = asyncio.current_task(), intent.chunk
        call, exchange = None, None
        try:
            watch.begin()
            sheet = sheet or self.writer.write(chunk.orders, chunk.indices)
            call = self.calls[task] = self._call(intent, sheet)
            exchange = await call.run()
        finally:  # even where a collaborator of the caller's raised
            self.calls.pop(task, None)
            made = exchange if exchange is not None else _ended_by_itself(call, intent)
            watch.exchange = made
            self.tally.requests += made.sent
            self.tally.retries += max(0, made.tries - 1)
            if made.error is not None:
                sending = self._sending(made, intent.references)
                block = _uniform(chunk, made.error, sending, _refusal(made))
                watch.statuses = block.statuses
                await self._conclude(intent, block)
        return sheet.sent, exchange

    def _call(self, intent: "_Intent", sheet: "Sheet") -> "Call[Payload]":
        def decode(raw: "RawReply") -> "Payload":
            payload = self._decode(raw)
            if intent.references:
                self._check_is_new(payload[1], intent.references)
            return payload

        request = Request(operation=self.writer.plan.operation, fields=sheet.fields, decode=decode)
        if self.log is None:
            return Call(self.session, request, self.gate)
        return Call(self.session, request, self.gate, intent=intent)

    def _decode(self, raw: "RawReply") -> "Payload":
        """Read a reply as it is kept: judged now and later, it must come to the same."""
        read = decode_json if self.writer.plan.is_look_up else decode_surely
        reply, payload = without_signatures(raw.body, read(raw.body))
        self.session.check_owner(payload)
        return reply, payload

    def _check_is_new(self, payload: "Mapping[str, Any]", references: "References") -> None:
        """Refuse a reply to refunds that is one to an earlier request.

        Raises:
            ReplyUnreadableError: If it is.
        """
        done = self.session.dialect.done_statuses
        if _tells_of_earlier(listed_items(REFUND, payload) or (), references, done):
            raise ReplyUnreadableError("the reply tells only of refunds that were done before")

    def _sending(self, exchange: "Exchange[Any]", references: "References") -> Sending:
        return Sending(
            ended_at=exchange.ended_at,
            references=references,
            marker=self.writer.marker,
            alone=self.alone,
        )

    def _replied(
        self,
        chunk: "Chunk",
        judgement: Judgement,
        reply: bytes,
        sending: Sending,
        envelope: ReplyEnvelope,
    ) -> JudgedBlock | RepliedBlock:
        plan, statuses = self.writer.plan, verdict_codes(judgement)
        if self.streamed:
            return JudgedBlock(
                chunk=chunk,
                statuses=statuses,
                plan=plan,
                sending=sending,
                envelope=envelope,
                judgement=judgement,
            )
        return RepliedBlock(
            chunk=chunk,
            statuses=statuses,
            plan=plan,
            sending=sending,
            envelope=envelope,
            reply=reply,
            dialect=self.session.dialect,
            plain=judgement.plain,
        )


class _Intent:
    """That a chunk is to be sent, which the journal of its job keeps before.

    Attributes:
        chunk: The orders.
        references: Which refund references their transactions had before, if that is known.
        number: What the journal calls the request; None where it has not kept the intent.
        is_refused: The journal was asked, and could not keep it.
    """

    def __init__(self, sender: Sender, chunk: "Chunk", references: "References") -> None:
        self.chunk = chunk
        self.references = references
        self.number: int | None = None
        self.is_refused = False
        self._sender = sender

    async def keep(self) -> None:
        """Let the journal keep it; where that raises, the chunk must not be sent."""
        sender = self._sender
        if sender.log is None:
            return
        intent = asyncio.ensure_future(
            sender.log.intend(
                self.chunk, self.references, marker=sender.writer.marker, alone=sender.alone
            )
        )
        try:
            await uninterrupted(intent)
        finally:  # a cancellation comes once it is kept
            self.is_refused = intent.exception() is not None
            self.number = None if self.is_refused else intent.result()
        await sender.kept()

    async def withdraw(self) -> None:
        """Let the journal keep that nothing was sent: the orders are new again."""
        log, number = self._sender.log, self.number
        if log is None or number is None:
            return
        withdrawn = asyncio.ensure_future(log.withdraw(number, self.chunk))
        try:
            await uninterrupted(withdrawn)
        finally:  # a cancellation comes once it is kept
            self.number = number if withdrawn.exception() is not None else None

    def check(self) -> None:
        """Raise unless the job is still ours."""
        if self._sender.log is not None:
            self._sender.log.check()


async def uninterrupted(work: "Awaitable[T]") -> T:
    """Let work end even where whoever waits for it is cancelled; it is told afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await _end_of(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or task.cancelled() or task.exception() is not None:
        return task.result()  # or its error, which a cancellation must not hide
    raise cancelled


def _end_of(task: "asyncio.Future[Any]") -> "asyncio.Future[None]":
    """Return what is there once it has ended; `asyncio.shield` may report its error by itself."""
    ended = asyncio.get_running_loop().create_future()

    def note(_: object) -> None:
        if not ended.done():
            ended.set_result(None)

    task.add_done_callback(note)
    return ended


def _refusal(made: "Exchange[Any]") -> ReplyEnvelope | None:
    """Return the envelope of a reply whose HTTP status says that nothing was done."""
    if not isinstance(made.error, RejectedError):
        return None
    status = made.attempts[-1].http_status or 0
    return ReplyEnvelope.of({}, http_status=status, received_at=made.ended_at)


def _uniform(
    chunk: "Chunk",
    error: GatewayError,
    sending: Sending | None = None,
    envelope: ReplyEnvelope | None = None,
) -> UniformBlock:
    """Give every order of a chunk the fate that an error of the whole request means.

    Only what is proved not to be sent is without a sending: a journal calls that new again.
    """
    status = next(status for classes, status in _FATES if isinstance(error, classes))
    noted = None if status is OutcomeStatus.NOT_SENT else sending
    return UniformBlock(chunk=chunk, status=status, error=error, sending=noted, envelope=envelope)


def _fates(chunk: "Chunk", block: "Known", judgement: Judgement | None) -> "Fates":
    if isinstance(block, UniformBlock):
        return [(block.status, block.error)] * len(chunk), [()] * len(chunk)
    if judgement is None:
        made = block.outcomes()
        return [(each.status, each.error) for each in made], [each.items for each in made]
    return judgement.verdicts, judgement.items


def _not_kept(chunk: "Chunk", sending: Sending) -> UniformBlock:
    """Say that what became of a chunk was not kept: whoever resumes the job will not know it."""
    error = OutcomeUnknownError("the journal could not keep what became of it; resume the job")
    return _uniform(chunk, error, sending)


def _ended_by_itself(call: "Call[Payload] | None", intent: _Intent) -> "Exchange[Payload]":
    """Say what became of a request whose making raised."""
    if call is not None and not intent.is_refused:
        return call.so_far()
    reason = "the journal could not keep the intent" if call else "the request could not be written"
    return Exchange(error=NotSentError(f"nothing was sent: {reason}"))


def _tells_of_earlier(
    listed: "Sequence[Any]", references: "References", done: "Collection[str]"
) -> bool:
    """Say whether a reply names refunds that it calls done, and all were before its request."""
    found: list[bool] = []
    for item in listed:
        if isinstance(item, dict) and identifier(item.get(REFUND.status_field or "")) in done:
            before = references.get(identifier(item.get("transaction_id")) or "")
            reference = identifier(item.get("refund_reference_id"))
            if before is not None and reference is not None:
                found.append(reference in before)
    return bool(found) and all(found)

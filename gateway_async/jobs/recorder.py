"""What a batch reads from the journal of a job, and writes to it, under the lease of the job.

An intent is durable before the first byte of its request, and an outcome before the caller sees it.
While an outcome is written, its worker prepares the next chunk, so that outcome and next intent
share a commit. No intent is recorded before it is its request's turn: after a kill, its orders
would be held for a person, though they never left. This module does not know how a chunk is sent,
or how the journal stores it.
"""

import asyncio
import json
import time
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.chunks import FailedChunk
from gateway_async.batching.sender import OwnRefunds, Recorder
from gateway_async.errors import JournalError, OutcomeUnknownError
from gateway_async.journal.chunk_store import ANYWHERE, ChunkStore
from gateway_async.journal.database import uninterrupted
from gateway_async.journal.rows import DONE, HELD_UNTIL, Known, known_of, noted
from gateway_async.journal.states import CONCLUSIONS, MAY_BE_LISTED, OrderState, Proof, Transition
from gateway_async.wire.decode import identifier
from gateway_async.wire.records import storable_item

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence

    from gateway_async.batching.chunks import AnsweredChunk, Chunk
    from gateway_async.batching.judge import Judgement
    from gateway_async.errors import AlikeRefundError
    from gateway_async.journal.leases import Lease
    from gateway_async.journal.rows import JobOrder
    from gateway_async.operations import Operation
    from gateway_async.settings import RecoveryPolicy

_NEW_AT_ONCE = 1000
# When so few chunks are left, the next page is read: a worker should not have to wait for it.
_FEW_CHUNKS = 8
_NOT_RECORDED = "the journal could not record the outcome; resume the job"


class NewOrders:
    """The orders of a job that are new, read page by page, each while those before are sent.

    Whole chunks are handed over together, as far as they fit: what is written of a chunk as a whole
    is one row.

    Args:
        lease: Under which they are read.
    """

    collection: "tuple[object, ...] | None" = None
    waits = False
    is_stored = True

    def __init__(self, lease: "Lease") -> None:
        self.ended: bool = False
        self._lease = lease
        self._first = 0
        self._chunks: deque[list[JobOrder]] = deque()
        self._reading: asyncio.Future[list[list[JobOrder]]] | None = None

    async def pull(self, orders: list[Any], most: int) -> "Sequence[int]":
        """Add the next orders, as many chunks as are at hand and fit; return their positions."""
        if not self._chunks:
            reading = self._reading = self._reading or self._lease.read(self._select)
            self._chunks.extend(await reading)
            self._reading = None
            if not self._chunks:
                self.ended = True
                return ()
            self._first = self._chunks[-1][-1].index + 1
        elif len(self._chunks) <= _FEW_CHUNKS and not self._reading:
            self._reading = self._lease.read(self._select)
        pulled: list[JobOrder] = []
        while self._chunks and len(pulled) + len(self._chunks[0]) <= most:
            pulled += self._chunks.popleft()
        if not pulled:  # a smaller `chunk_size` than the job was submitted with
            pulled, self._chunks[0] = self._chunks[0][:most], self._chunks[0][most:]
        orders += [each.order for each in pulled]
        return [each.index for each in pulled]

    def _select(self, orders: ChunkStore) -> "list[list[JobOrder]]":
        span = range(self._first, ANYWHERE.stop)
        return orders.select((OrderState.NEW,), span, most=_NEW_AT_ONCE)


class JournalRecorder(Recorder):
    """Records the chunks of one job.

    Where the journal fails, `own_refunds`, `hold` and intents raise `JournalError`; `conclude`
    keeps why in `failure`, and calls what was sent unknown.

    Args:
        lease: The lease of the job.
        operation: The operation of its orders.
        recovery: What is the evidence of a refund.
        duplicates: Whether a second refund of a payment may follow.

    Attributes:
        failure: Why outcomes could not be recorded, the first time that happened.
        recordings: The outcomes that are being written: few, since the next intent of a worker is
            written behind those of its chunk before.
    """

    alike_advice = ""  # `hold` adds its own

    def __init__(
        self, lease: "Lease", operation: "Operation", recovery: "RecoveryPolicy", duplicates: str
    ) -> None:
        job = lease.job
        prefix, began_at = job.marker_prefix, job.created_at.timestamp()
        is_asked = recovery.record_baseline or recovery.refund_evidence != "marker"
        recovery = attrs.evolve(recovery, record_baseline=is_asked)
        super().__init__(operation, recovery, duplicates, marker_prefix=prefix, began_at=began_at)
        self.began_at: float = time.time()  # of this run; an earlier one noted its own
        self.lease = lease
        self.operation = operation
        self.failure: BaseException | None = None
        self.recordings: set[asyncio.Future[None]] = set()
        self._keys: array[int] | None = None  # read once; `own_refunds` may be called a chunk

    async def recorded(self) -> None:
        """Wait until the outcomes that were concluded are durable."""
        while self.recordings:
            await uninterrupted(asyncio.wait({*self.recordings}))

    def intent_for(self, chunk: "Chunk") -> "JournalIntent":
        """Return the intent to send a chunk."""
        note = noted(chunk.references, self.marker_prefix, self.began_at)
        return JournalIntent(self, chunk.indices, note)

    def conclude(
        self,
        intent: "JournalIntent",
        result: "AnsweredChunk | FailedChunk",
        judgement: "Judgement | None",
        add: "Callable[[AnsweredChunk | FailedChunk], None]",
    ) -> None:
        """Record the outcomes of a chunk in the background, then add them to the results."""
        if not (intent.is_recorded or intent.is_in_doubt):  # the orders are new in the journal
            add(result)
            return

        def add_recorded(recorded: "asyncio.Future[None]") -> None:
            self.recordings.discard(recorded)
            outcome, failure = result, recorded.exception()
            self.failure = self.failure or failure
            if failure is not None and result.sending is not None:
                # The next process that resumes the job will not know it.
                error = OutcomeUnknownError(_NOT_RECORDED)
                outcome = FailedChunk(result.indices, result.orders, error, result.sending)
            add(outcome)

        if result.sending is None:
            recording = intent.start_retraction()
        else:
            recording = self._write_outcomes(result, result.sending.ended_at, judgement)
        recording.add_done_callback(add_recorded)
        self.recordings.add(recording)

    def _write_outcomes(
        self, result: "AnsweredChunk | FailedChunk", ended_at: float, judgement: "Judgement | None"
    ) -> "asyncio.Future[None]":
        indices, operation = result.indices, self.operation
        known, references = [DONE] * len(indices), [""] * len(indices)
        if isinstance(result, FailedChunk):
            known = [known_of(CONCLUSIONS[result.status], result.error)] * len(indices)
        elif operation.reference_field or not result.is_echoed:  # else nothing of it is kept
            judgement = judgement or result.judgement()
            known = [known_of(CONCLUSIONS[status], error) for status, error in judgement.verdicts]
            if field := operation.reference_field:
                listed = (items[0].get(field) if items else None for items in judgement.items)
                references = [identifier(one) or "" for one in listed]
            if operation.is_keyed and (items := judgement.items[0]):
                item = storable_item(operation.record_class, items[0])
                # An integer may have more digits than orjson takes.
                known = [known[0]._replace(item=json.dumps(item))]
        return self.lease.change(
            "keep the outcomes",
            lambda orders: orders.conclude(indices, known, references, ended_at),
        )

    async def own_refunds(self, chunk: "Chunk") -> dict[int, OwnRefunds]:
        """Return which refunds like each order the job may have made for its other orders."""
        names = {order.transaction_id for order in chunk.orders}
        keys = self._keys = self._keys or await self.lease.read(ChunkStore.keys)
        by_transaction = await self.lease.read(lambda orders: orders.orders_of(names, keys))
        own: dict[int, OwnRefunds] = {}
        for index, order in zip(chunk.indices, chunk.orders, strict=True):
            alike = by_transaction[order.transaction_id]
            if any(each.index == index and each.known.proof == Proof.BY_PERSON for each in alike):
                continue
            beside = [each for each in alike if each.index != index]
            others = sum(
                each.order.refund_amount == order.refund_amount
                and each.state in MAY_BE_LISTED
                and not each.known.reference
                for each in beside
            )
            references = {each.known.reference for each in beside if each.known.reference}
            own[index] = OwnRefunds(references, others)
        return own

    async def hold(self, chunk: "Chunk", errors: "Sequence[AlikeRefundError]") -> None:
        """Record that the orders of a chunk are not sent before a person decides."""
        held = {
            index: Known(
                OrderState.HELD,
                text=f"{error}; {HELD_UNTIL}",
                proof=Proof.NEVER_SENT,
                listed_reference=error.reference,
                listed_date="" if error.refund_date is None else error.refund_date.isoformat(),
            )
            for index, error in zip(chunk.indices, errors, strict=True)
        }
        await self.lease.change(
            "hold orders", lambda orders: orders.change(Transition.HOLD, held), alive=True
        )


class JournalIntent:
    """The intent to send a chunk of a job.

    Attributes:
        is_recorded: Whether the journal has it.
        is_in_doubt: Whether the journal may have it: the connection broke in the commit.
    """

    def __init__(self, recorder: JournalRecorder, indices: "Sequence[int]", sent: str) -> None:
        self.is_recorded: bool = False
        self.is_in_doubt: bool = False
        self._recorder = recorder
        self._indices = indices
        self._sent = sent

    async def record(self) -> None:
        """Record the intent, unless that was done.

        Raises:
            JournalError: If it could not be recorded.
        """
        if self.is_recorded:
            return
        recording = self._recorder.lease.change(
            "keep what is about to be sent",
            lambda orders: orders.intend(self._indices, self._sent),
            alive=True,
        )
        try:
            await uninterrupted(recording)
        finally:  # a cancellation comes once it is written
            failure = recording.exception()
            self.is_recorded = failure is None
            self.is_in_doubt = isinstance(failure, JournalError) and failure.is_in_doubt
        if self._recorder.failure is not None:  # of outcomes that went before
            raise self._recorder.failure

    async def retract(self) -> None:
        """Record that nothing was sent: the orders are new again."""
        if not self.is_recorded:
            return
        retraction = self.start_retraction()
        try:
            await uninterrupted(retraction)
        finally:  # likewise
            self.is_recorded = retraction.exception() is not None

    def start_retraction(self) -> "asyncio.Future[None]":
        """Record in the background that the orders are new again, as far as the journal has it."""

        def retract(orders: ChunkStore) -> None:
            found = set(self._indices)
            if self.is_in_doubt:  # what the journal does not have is new already
                span = range(min(found), max(found) + 1)
                listed = chain(*orders.select((OrderState.INTENT,), span, most=len(span)))
                found &= {each.index for each in listed}
            orders.change(Transition.RETRACT, dict.fromkeys(found, Known(OrderState.NEW)))

        return self._recorder.lease.change("keep that nothing was sent", retract)

    def check(self) -> None:
        """Raise if the lease is lost."""
        self._recorder.lease.check()

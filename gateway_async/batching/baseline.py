"""The baseline: the refunds that the gateway lists of a chunk's transactions before it is sent.

Recovery goes by their references. One that is like an order of the chunk shows that the order may
be done already, by a run of which neither this process nor its journal knows.
"""

import functools
from collections import Counter
from datetime import UTC
from typing import TYPE_CHECKING, Any

from gateway_async.batching.feed import Chunk, check_order
from gateway_async.batching.results import AnsweredChunk, FailedChunk, Results
from gateway_async.batching.sender import Sender
from gateway_async.errors import (
    AlikeRefundError,
    GatewayError,
    NotSentError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import OrderRef, OutcomeStatus, reference_of
from gateway_async.operations import SEARCH_REFUNDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gateway_async.batching.recorder import IntentRecorder
    from gateway_async.batching.results import BatchResult, Outcome
    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import RefundOrder
    from gateway_async.models.records import RefundRecord
    from gateway_async.session import Gate, Session

    References = Mapping[str, frozenset[str]]

SECONDS_AN_HOUR = 3600
_NOT_LOOKED_UP = "nothing was sent: its earlier refunds could not be looked up"
_SEND_ANYWAY = (
    "; if another one is meant, send the order with RecoveryPolicy(hold_alike_hours=None)"
)


class Baseline:
    """Looks up the earlier refunds of each chunk, and finds the orders that must not be sent.

    Args:
        session: The way to the gateway.
        gate: Whether requests may leave.
        results: Where its requests are counted.
        recorder: Has alike refunds of a job held; None without a job.
        since: From when on a refund counts as recent, in seconds since the epoch; None if alike
            refunds are made again.
        counts_made: Whether the batch may have several alike refunds of its own.

    Attributes:
        senders: Those of the look-ups under way.
    """

    def __init__(  # noqa: PLR0913  # what a look-up and the guard need
        self,
        session: "Session",
        gate: "Gate",
        results: Results,
        *,
        recorder: "IntentRecorder | None",
        since: float | None,
        counts_made: bool,
    ) -> None:
        self.senders: list[Sender] = []
        self._session = session
        self._gate = gate
        self._results = results
        self._recorder = recorder
        self._since = since
        self._counts_made = counts_made
        self._made: Counter[int] = Counter()

    async def take(
        self, chunk: Chunk
    ) -> "tuple[References, dict[int, GatewayError], GatewayError | None]":
        """Look up the earlier refunds of a chunk.

        Returns:
            Their references, as far as they are known; by place, why orders must not be sent; and,
            where none may be, the problem of the gateway's that is the reason, if one is.
        """
        result = await self._find_refunds(chunk)
        if (cause := _problem_of(result)) is not None:
            error = NotSentError(f"{_NOT_LOOKED_UP} ({cause})")
            return {}, dict.fromkeys(range(len(chunk)), error), cause
        references = _known_references(result)
        barred = await self._find_barred(chunk, result, references)
        asked = {outcome.order.value for outcome in result}
        problems = (
            barred[place]
            for place, order in enumerate(chunk.orders)
            if order.transaction_id in asked
            and not isinstance(barred.get(place), AlikeRefundError | None)
        )
        return references, barred, next(problems, None) if len(barred) == len(chunk) else None

    async def _find_refunds(self, chunk: Chunk) -> "BatchResult[OrderRef, Any]":
        """Look up the refunds of a chunk's transactions, as far as a look-up can name them."""
        refs = [OrderRef(transaction_id=order.transaction_id) for order in chunk.orders]
        dialect = self._session.dialect
        refs = [ref for ref in refs if check_order(SEARCH_REFUNDS, ref, dialect) is None]
        found = Results(SEARCH_REFUNDS.record_class)
        sender = Sender(
            self._session, SEARCH_REFUNDS, gate=self._gate, results=found, add=found.add
        )
        self.senders.append(sender)
        try:
            if refs:
                await sender.send(Chunk(range(len(refs)), refs), {})
        finally:
            self.senders.remove(sender)
            self._results.requests += found.requests
            self._results.retries += found.retries
        return found.result(exhausted=True)

    async def _find_barred(
        self, chunk: Chunk, result: "BatchResult[OrderRef, Any]", references: "References"
    ) -> dict[int, GatewayError]:
        """Return by place why orders must not be sent; a job has alike refunds held."""
        recorder, since = self._recorder, self._since
        barred: dict[int, GatewayError] = {}
        if since is None:
            return barred
        find = functools.partial(
            _find_alike,
            dialect=self._session.dialect,
            since=since,
            advice=_SEND_ANYWAY if recorder is None else "",
        )
        listed = {outcome.order.value: outcome for outcome in result}
        for place, (index, order) in enumerate(zip(chunk.indices, chunk.orders, strict=True)):
            outcome = listed.get(order.transaction_id)
            found = () if outcome is None else outcome.record or ()
            key = hash((order.transaction_id, order.refund_amount))
            unread = None if order.transaction_id in references else _not_looked_up(outcome)
            error = find(order, found, made=self._made[key]) or unread
            if error is not None and recorder is not None:  # which is rare
                if (beside := await recorder.made_beside(index, order)) is None:
                    continue
                own, more = beside
                error = find(order, found, own=own, made=more) or unread
            if error is not None:
                barred[place] = error
            elif self._counts_made:
                self._made[key] += 1
        alike = {n: why for n, why in barred.items() if isinstance(why, AlikeRefundError)}
        if alike and recorder is not None:
            await recorder.hold(chunk.part(alike), list(alike.values()))
        return barred


def _problem_of(result: "BatchResult[OrderRef, Any]") -> GatewayError | None:
    """Return why a look-up shows nothing: no readable reply, or refused as a whole; else None."""
    for chunk in result.chunks:
        if isinstance(chunk, FailedChunk):
            return chunk.error
        if isinstance(chunk, AnsweredChunk) and not chunk.is_accepted:
            errors = [outcome.error for outcome in chunk.outcomes() if outcome.error is not None]
            return errors[0] if errors else ReplyUnreadableError("the gateway refused the look-up")
    return None


def _known_references(result: "BatchResult[OrderRef, Any]") -> "References":
    """Return the refund references of each transaction that a look-up lists.

    A transaction that it does not list is left out: nothing is known about it. Where it also lists
    orders that were not asked for, or was not accepted, it may leave out what was asked for, and
    nothing is known at all.
    """
    answered = [chunk for chunk in result.chunks if isinstance(chunk, AnsweredChunk)]
    if result.unexpected or not all(chunk.is_accepted for chunk in answered):
        return {}
    return {
        outcome.order.value: frozenset(filter(None, map(reference_of, outcome.record or ())))
        for outcome in result
        if outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
    }


def _not_looked_up(outcome: "Outcome[OrderRef, Any] | None") -> NotSentError:
    """Return why a refund must not be sent whose earlier refunds are not known.

    Args:
        outcome: What the look-up says of its transaction; None if it could not be asked for.
    """
    if outcome is None:
        problem = "its transaction_id contains Dialect.selection_separator"
    else:
        problem = str(outcome.error or "the reply also lists refunds that were not asked for")
    return NotSentError(
        f"{_NOT_LOOKED_UP} ({problem}); ask the gateway how a look-up selects refunds "
        "(Dialect.selection_fields), or send it unguarded by RecoveryPolicy(hold_alike_hours=None)"
    )


def _find_alike(  # noqa: PLR0913  # a batch counts what it made, a job knows its references
    order: "RefundOrder",
    listed: "Iterable[RefundRecord]",
    dialect: "Dialect",
    *,
    since: float,
    advice: str = "",
    own: "Collection[str]" = (),
    made: int = 0,
) -> AlikeRefundError | None:
    """Return why a refund must not be sent: the gateway lists one like it. None where it may.

    One like it has its amount, or one that cannot be read, and a date that is recent or cannot be
    read. A refund that the dialect calls declined does not count.

    Args:
        order: The refund that is about to be sent.
        listed: The refunds that the gateway lists of its transaction.
        dialect: What declined is, and the gateway's clock.
        since: From when on a date is recent, in seconds since the epoch.
        advice: What the error says in addition.
        own: The references of refunds that this batch or job has made itself.
        made: How many more like it this batch or job may have made, of unknown references.
    """
    alike = [
        record
        for record in listed
        if (record.refund_amount == order.refund_amount or "refund_amount" in record.unreadable)
        and record.refund_status not in dialect.declined_statuses
        and reference_of(record) not in own
        and _is_recent(record, since, dialect)
    ]
    if len(alike) <= made:
        return None
    reference, date = reference_of(alike[made]), alike[made].refund_date
    return AlikeRefundError(
        f"nothing was sent: the gateway already lists a refund of {order.refund_amount} of this "
        f"transaction, refund_reference_id {reference!r}, refund_date {date or 'unreadable'}"
        f"{advice}",
        reference=reference,
        refund_date=date,
    )


def _is_recent(record: "RefundRecord", since: float, dialect: "Dialect") -> bool:
    date = record.refund_date
    if date is None:
        return True
    if date.tzinfo is not None:
        return date.timestamp() > since
    ahead = dialect.utc_offset_hours * SECONDS_AN_HOUR
    return date.replace(tzinfo=UTC).timestamp() - ahead > since

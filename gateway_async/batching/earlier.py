"""Earlier refunds: those that the gateway lists, and those that the batch has made.

The refunds that the gateway lists of a chunk's transactions before it is sent are its baseline.
Recovery goes by their references. One that is like an order of the chunk shows that the order may
be done already, by a run of which neither this process nor its journal knows.
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

from gateway_async.batching.chunks import AnsweredChunk, Chunk, FailedChunk
from gateway_async.batching.sender import look_up
from gateway_async.errors import AlikeRefundError, GatewayError, NotSentError, ReplyUnreadableError
from gateway_async.models.orders import OutcomeStatus, reference_of
from gateway_async.operations import SEARCH_REFUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway_async.batching.results import BatchResult
    from gateway_async.batching.sender import Sender
    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef, RefundOrder
    from gateway_async.models.records import RefundRecord
    from gateway_async.outcomes import Outcome

_NOT_LOOKED_UP = "nothing was sent: its earlier refunds could not be looked up"


async def look_up_earlier(sender: "Sender", chunk: Chunk) -> "tuple[Chunk, GatewayError | None]":
    """Look up the earlier refunds of a chunk; what must not be sent gets its outcome.

    Returns:
        The orders that may be sent, with the references of their earlier refunds; and the error
        of the look-up, where that is why some may not.
    """
    problem: GatewayError | None = None
    unfinished: GatewayError = NotSentError("nothing was sent: the batch ended before")
    barred = dict.fromkeys(range(len(chunk)), unfinished)
    try:
        names = [order.transaction_id for order in chunk.orders]
        result = await look_up(
            sender.session, SEARCH_REFUNDS, names, sender.gate, sender.results, in_halves=True
        )
        if (problem := _problem_of(result)) is not None:
            barred = dict.fromkeys(barred, NotSentError(f"{_NOT_LOOKED_UP} ({problem})"))
        else:
            chunk.references = _known_references(result)
            barred = await _find_barred(sender, chunk, result)
    finally:  # also if a collaborator raised
        for why in dict.fromkeys(barred.values()):
            places = [place for place, error in barred.items() if error is why]
            sender.add(chunk.part(places).failed(why))
    if not barred:
        return chunk, None
    left = chunk.part({*range(len(chunk))} - {*barred})
    unread = (why for why in barred.values() if not isinstance(why, AlikeRefundError))
    return left, problem or next(unread, None)


async def _find_barred(
    sender: "Sender", chunk: Chunk, result: "BatchResult[OrderRef, Any]"
) -> dict[int, GatewayError]:
    """Return by place why orders must not be sent; in a job, hold those with an alike refund.

    A refund that the batch or job itself made bars no order. Nothing bars an order that a person
    decided to send: `own_refunds` leaves it out.
    """
    recorder, dialect = sender.recorder, sender.session.dialect
    barred: dict[int, GatewayError] = {}
    if (since := recorder.since) is None:
        return barred
    listed = {outcome.order.value: outcome for outcome in result}
    own_refunds = None
    for place, (index, order) in enumerate(zip(chunk.indices, chunk.orders, strict=True)):
        outcome = listed[order.transaction_id]
        alike = list_alike(order, outcome.record or (), dialect, since=since)
        is_read = order.transaction_id in chunk.references
        if is_read and not alike:
            continue
        if own_refunds is None:  # which is rare
            own_refunds = await recorder.own_refunds(chunk)
        if index not in own_refunds:
            continue
        references, others = own_refunds[index]
        named = {(reference_of(r), r.refund_amount, r.refund_date) for r in outcome.record or ()}
        times = Counter(reference for reference, *_ in named)
        own = {one for one in references if times[one] == 1}  # what two share names neither
        foreign = [one for one in alike if reference_of(one) not in own]
        unexplained = foreign[others:]  # so many of them may be ours
        if unexplained:
            barred[place] = _alike_error(unexplained[0], recorder.alike_advice)
        elif not is_read:
            barred[place] = _not_looked_up(outcome)
    alike_errors = {n: why for n, why in barred.items() if isinstance(why, AlikeRefundError)}
    if alike_errors:
        await recorder.hold(chunk.part(alike_errors), list(alike_errors.values()))
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


def _known_references(result: "BatchResult[OrderRef, Any]") -> dict[str, frozenset[str]]:
    """Return the refund references of each transaction that a look-up without a problem lists.

    A transaction that it does not list is left out: nothing is known about it. Where it also lists
    orders that were not asked for, it may leave out what was asked for, and nothing is known at
    all.
    """
    if result.unexpected:
        return {}
    return {
        outcome.order.value: frozenset(filter(None, map(reference_of, outcome.record or ())))
        for outcome in result
        if outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
    }


def _not_looked_up(outcome: "Outcome[OrderRef, Any]") -> NotSentError:
    """Return why a refund must not be sent whose look-up does not show its earlier refunds."""
    problem = str(outcome.error or "the reply also lists refunds that were not asked for")
    return NotSentError(
        f"{_NOT_LOOKED_UP} ({problem}); ask the gateway how a look-up selects refunds "
        "(Dialect.selection_fields), or switch RecoveryPolicy.hold_alike_hours off"
    )


def list_alike(
    order: "RefundOrder", listed: "Iterable[RefundRecord]", dialect: "Dialect", *, since: float
) -> "list[RefundRecord]":
    """Return the refunds of a transaction that the gateway lists and that are like an order.

    One like it has its amount, or none that can be read, and a date that is recent or cannot be
    read. A refund that the dialect calls declined does not count, and neither does an item without
    amount and reference: some list one where there is no refund.

    Args:
        order: The refund that is about to be sent.
        listed: The refunds that the gateway lists of its transaction.
        dialect: What declined is, and the gateway's clock.
        since: From when on a date is recent, in seconds since the epoch.
    """
    amounts = order.refund_amount, -order.refund_amount  # it may be listed as a negative one
    return [
        record
        for record in listed
        if (record.refund_amount in amounts or _lacks_amount(record))
        and record.refund_status not in dialect.declined_statuses
        and _is_recent(record, since, dialect)
    ]


def _alike_error(record: "RefundRecord", advice: str) -> AlikeRefundError:
    reference, date = reference_of(record), record.refund_date
    amount = "an unreadable amount" if record.refund_amount is None else record.refund_amount
    return AlikeRefundError(
        f"nothing was sent: the gateway already lists a refund of {amount} of this transaction, "
        f"refund_reference_id {reference!r}, refund_date {date or 'unreadable'}{advice}",
        reference=reference,
        refund_date=date,
    )


def _lacks_amount(record: "RefundRecord") -> bool:
    """Return whether a record is of a refund, and does not say of how much."""
    is_refund = "refund_amount" in record.unreadable or bool(reference_of(record))
    return record.refund_amount is None and is_refund


def _is_recent(record: "RefundRecord", since: float, dialect: "Dialect") -> bool:
    date = record.refund_date
    if date is None:
        return True
    return dialect.seconds_of(date) > since

"""Which refunds exist already, as the gateway lists them and as a batch has made them. Pure.

Which references they have, which order is like one of them, and where the list says nothing.
"""

from datetime import UTC
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.chunks import AnsweredChunk, FailedChunk
from gateway_async.errors import AlikeRefundError, GatewayError, NotSentError, ReplyUnreadableError
from gateway_async.models.orders import OutcomeStatus, reference_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from gateway_async.batching.results import BatchResult
    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import OrderRef, RefundOrder
    from gateway_async.models.records import RefundRecord
    from gateway_async.operations import Operation
    from gateway_async.outcomes import Outcome
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

    References = Mapping[str, frozenset[str]]

SECONDS_AN_HOUR = 3600
NOT_LOOKED_UP = "nothing was sent: its earlier refunds could not be looked up"


@attrs.frozen(kw_only=True)
class RefundGuards:
    """What a batch does so that its refunds can be told apart, and none is made again.

    Attributes:
        sends_markers: Whether each refund carries a marker of its own.
        looks_up: Whether the earlier refunds of a chunk are looked up before it is sent.
        claims: Whether a reference that one refund has is no proof of another.
        counts_made: Whether the batch may itself have made refunds like the next one.
        alone: Whether no two orders of the batch have the same transaction.
    """

    sends_markers: bool
    looks_up: bool
    claims: bool
    counts_made: bool
    alone: bool


def guards_of(
    operation: "Operation", recovery: "RecoveryPolicy", policy: "BatchPolicy", *, is_job: bool
) -> RefundGuards:
    """Return which guards the refunds of a batch have; other operations have none but `alone`.

    - Markers are sent where they are the evidence.
    - Earlier refunds are looked up with `record_baseline`; in a job in any case, unless markers are
      sent.
    - References are claimed where a second refund of a payment may follow: with "serialize" and
      without markers, which a gateway may need for want of references; and with both "serialize"
      and "allow" where earlier refunds are looked up. Else "allow" is to keep no memory.
    """
    is_refund, may_repeat = operation.allows_several, policy.duplicates != "reject"
    is_marked = is_refund and recovery.refund_evidence == "marker"
    looks_up = is_refund and (recovery.record_baseline or (is_job and not is_marked))
    is_serial = is_refund and policy.duplicates == "serialize" and not is_marked
    return RefundGuards(
        sends_markers=is_marked,
        looks_up=looks_up,
        claims=is_serial or (looks_up and may_repeat),
        counts_made=not is_job and may_repeat,
        alone=not may_repeat,
    )


class ClaimedRefunds:
    """The refunds that a batch or job has made, as hashes of transaction and reference."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()

    def add(self, named: "Mapping[str, str]") -> None:
        """Claim references, each by its transaction."""
        self._hashes.update(map(hash, named.items()))

    def among(self, named: "Mapping[str, str]") -> dict[str, str]:
        """Return which of these were claimed before."""
        return {name: one for name, one in named.items() if hash((name, one)) in self._hashes}


def problem_of(result: "BatchResult[OrderRef, Any]") -> GatewayError | None:
    """Return why a look-up shows nothing: no readable reply, or refused as a whole; else None."""
    for chunk in result.chunks:
        if isinstance(chunk, FailedChunk):
            return chunk.error
        if isinstance(chunk, AnsweredChunk) and not chunk.is_accepted:
            errors = [outcome.error for outcome in chunk.outcomes() if outcome.error is not None]
            return errors[0] if errors else ReplyUnreadableError("the gateway refused the look-up")
    return None


def known_references(result: "BatchResult[OrderRef, Any]") -> "References":
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


def not_looked_up(outcome: "Outcome[OrderRef, Any]") -> NotSentError:
    """Return why a refund must not be sent whose look-up does not show its earlier refunds."""
    problem = str(outcome.error or "the reply also lists refunds that were not asked for")
    return NotSentError(
        f"{NOT_LOOKED_UP} ({problem}); ask the gateway how a look-up selects refunds "
        "(Dialect.selection_fields), or switch RecoveryPolicy.hold_alike_hours off"
    )


def find_alike(  # noqa: PLR0913  # a batch counts what it made, a job knows its references
    order: "RefundOrder",
    listed: "Iterable[RefundRecord]",
    dialect: "Dialect",
    *,
    since: float,
    advice: str = "",
    own: "Collection[str]" = (),
    made: int = 0,
    others: int = 0,
) -> AlikeRefundError | None:
    """Return why a refund must not be sent: the gateway lists one like it. None where it may.

    One like it has its amount, or none that can be read, and a date that is recent or cannot be
    read. A refund that the dialect calls declined does not count, and neither does an item without
    amount and reference: some list one where there is no refund.

    Args:
        order: The refund that is about to be sent.
        listed: The refunds that the gateway lists of its transaction.
        dialect: What declined is, and the gateway's clock.
        since: From when on a date is recent, in seconds since the epoch.
        advice: What the error says in addition.
        own: The references of refunds that this batch or job has made itself.
        made: How many more like it this batch or job may have made, of unknown references.
        others: How many refunds of other amounts the batch has made of its transaction.
    """
    alike = [
        record
        for record in listed
        if (record.refund_amount == order.refund_amount or _lacks_amount(record))
        and record.refund_status not in dialect.declined_statuses
        and reference_of(record) not in own
        and _is_recent(record, since, dialect)
    ]
    unclear = sum(map(_lacks_amount, alike))  # these may be ours, of another amount
    if len(alike) <= (explained := made + min(others, unclear)):
        return None
    unexplained = alike[explained]
    reference, date = reference_of(unexplained), unexplained.refund_date
    return AlikeRefundError(
        f"nothing was sent: the gateway already lists a refund of {order.refund_amount} of this "
        f"transaction, refund_reference_id {reference!r}, refund_date {date or 'unreadable'}"
        f"{advice}",
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
    if date.tzinfo is not None:
        return date.timestamp() > since
    ahead = dialect.utc_offset_hours * SECONDS_AN_HOUR
    return date.replace(tzinfo=UTC).timestamp() - ahead > since

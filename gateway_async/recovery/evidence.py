"""What the gateway's records prove of an order whose outcome is unknown. Pure.

Only a record that can be no other order's proves that an order was done. Only a look-up that is
shown to work proves that it was not: its reply is whole, and lists a refund that is known to exist.
An order with neither stays unknown. This module judges one look-up; `recover` makes two, and waits.
"""

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult
from gateway_async.errors import ConfigurationError, InvalidOrderError
from gateway_async.models.orders import ANY_MARKER, OutcomeStatus, count_statuses, reference_of
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import ListedOutcomes, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import RefundOrder
    from gateway_async.models.records import RefundRecord
    from gateway_async.operations import Operation
    from gateway_async.outcomes import ChunkResult

RECOVERABLE = tuple(row for row in OPERATIONS.values() if row.recovered_by)
"""The operations that are recovered by a look-up."""

_DONE, _NOT_DONE = OutcomeStatus.SUCCEEDED, OutcomeStatus.NOT_SENT
_UNKNOWN = OutcomeStatus.UNKNOWN
_PENDING_WORDS = "the gateway is not done: "
_ZONES_DIFFER_SECONDS = 24 * 3600
"""The dates of the gateway may be of another time zone than the dialect says."""


@attrs.frozen
class Evidence:
    """What one look-up shows of one order.

    Attributes:
        status: Succeeded where it proves that the order was done, not_sent where it proves that it
            was not, else unknown.
        reason: Why.
        item: The record it goes by, as it came.
        is_final: Whether no later look-up can prove more.
    """

    status: OutcomeStatus
    reason: str
    item: "Mapping[str, Any] | None" = attrs.field(default=None, repr=False)
    is_final: bool = False


@attrs.frozen(kw_only=True)
class LookupResult:
    """What a look-up says of one transaction.

    Attributes:
        listed: Its records: each read, and as it came.
        complete: Whether what is not listed is missing at the gateway: the reply was whole, of
            success, about nothing else, and, of a refund search, listed a control.
        keeps_markers: Whether the control came back with its own marker.
        problem: Why the look-up was not answered, if it was not.
    """

    listed: "Sequence[tuple[Any, Mapping[str, Any]]]" = attrs.field(default=(), repr=False)
    complete: bool = False
    keeps_markers: bool = False
    problem: str = ""


@attrs.frozen
class ControlRefund:
    """A refund known to exist: a look-up that does not list it shows nothing.

    Attributes:
        transaction_id: Its transaction.
        reference: Its reference; empty where it has none, or only its transaction is known to be
            listed.
        marker: The marker it was sent with, if any.
    """

    transaction_id: str
    reference: str = ""
    marker: str | None = None


@attrs.define(eq=False)
class Unsettled:
    """An unknown outcome.

    Attributes:
        operation: Its operation.
        outcome: The outcome.
        places: Where it is in the result, by number of the chunk and offset there: it may be given
            more than once.
        evidence: What was found of it in the end.
    """

    operation: "Operation"
    outcome: "Outcome[Any, Any]"
    places: list[tuple[int, int]]
    evidence: Evidence | None = None

    @property
    def references_before(self) -> "set[str] | None":
        """The refund references that its transaction had before; None if not recorded."""
        references = self.outcome.sending.references if self.outcome.sending else {}
        before = references.get(self.outcome.order.transaction_id)
        return None if before is None else {each.strip() for each in before} - {""}

    @property
    def is_pending(self) -> bool:
        """Whether its reply said that the gateway may still do it."""
        error = self.outcome.error  # journals and pickles of earlier releases have its words alone
        return getattr(error, "is_pending", False) or _PENDING_WORDS in str(error)

    def is_shown_by(self, record: "RefundRecord", dialect: "Dialect") -> bool:
        """Say whether a record shows a done refund of its amount."""
        order = self.outcome.order
        return (
            record.refund_status in dialect.done_statuses
            and record.refund_amount == order.refund_amount
            and (record.currency or order.currency).casefold() == order.currency.casefold()
        )

    def is_before(self, record: "RefundRecord", dialect: "Dialect") -> bool:
        """Say whether a record is dated well before the batch, or run of a job, of the order.

        The look-up before the request may have lacked it: a gateway may cut its lists short.
        """
        date = record.refund_date
        # It has none if no sending is known, or if an earlier release pickled it.
        began_at = getattr(self.outcome.sending, "began_at", -math.inf)
        return date is not None and dialect.seconds_of(date) < began_at - _ZONES_DIFFER_SECONDS


@attrs.define(eq=False)
class PaymentOrders:
    """The orders of one operation on one transaction.

    Attributes:
        operation: The operation.
        name: Its `transaction_id`.
        all_known: Whether every outcome of the batch was given, so that no claim is missing.
        unknown: The outcomes that were unknown.
        succeeded: The outcomes beside them that succeeded.
        claimed: The references of its refunds that belong to one of these.
        rivals: Refunds that others may have made meanwhile, of whose outcomes nothing is given.
    """

    operation: "Operation"
    name: str
    all_known: bool
    unknown: list[Unsettled] = attrs.field(factory=list)
    succeeded: "list[Outcome[Any, Any]]" = attrs.field(factory=list)
    claimed: set[str] = attrs.field(factory=set)
    rivals: "Sequence[RefundOrder]" = ()

    def add_unknown(self, outcome: "Outcome[Any, Any]", place: tuple[int, int]) -> None:
        """Note an outcome that is unknown, or one more place of it."""
        known = (outcome.index, outcome.sending, outcome.order)
        for each in self.unknown:
            if (each.outcome.index, each.outcome.sending, each.outcome.order) == known:
                each.places.append(place)
                return
        self.unknown.append(Unsettled(self.operation, outcome, [place]))

    def sees_all_orders(self, one: Unsettled) -> bool:
        """Say whether we see all orders of this transaction: none of its batch is missing."""
        sending = one.outcome.sending
        return self.all_known or (sending is not None and sending.alone)

    @property
    def undecided(self) -> list[Unsettled]:
        """Those of which nothing final was found yet."""
        return [each for each in self.unknown if each.evidence is None]

    def judge(self, lookup: LookupResult, dialect: "Dialect") -> dict[Unsettled, Evidence]:
        """Judge what is left by what a look-up says of the transaction.

        Returns:
            What it shows of each. Only proof that one was done, or what is final, is stored.
        """
        if self.operation.allows_several:
            evidence = self._judge_refunds(lookup, dialect)
        else:
            given = len(self.succeeded) + sum(len(each.places) for each in self.unknown)
            is_only_order = given == 1 and self.sees_all_orders(self.unknown[0])
            found = _by_state(self.operation, lookup, dialect) if is_only_order else _SHARED
            evidence = dict.fromkeys(self.undecided, found)
        for each, found in evidence.items():
            if found.status is _NOT_DONE and each.is_pending:
                evidence[each] = _PENDING
            each.evidence = found if found.status is _DONE or found.is_final else None
        return evidence

    def _judge_refunds(self, lookup: LookupResult, dialect: "Dialect") -> dict[Unsettled, Evidence]:
        """Judge unknown refunds together: no record proves two of them."""

        def precedence(each: Unsettled) -> tuple[bool, bool, int, int]:
            before, outcome = each.references_before or (), each.outcome
            # Those with a marker first: it names one refund. Those that the gateway may still do
            # last. Then those with more refunds before them: they have fewer to choose from.
            return own_marker(outcome) is None, each.is_pending, -len(before), outcome.index

        evidence = {}
        for each in sorted(self.undecided, key=precedence):
            if own_marker(each.outcome) is None:
                found = _by_reference(each, self, lookup, dialect)
            else:
                found = _by_marker(each, lookup, dialect)
            if found.status is _DONE and found.item is not None:
                self.claimed |= {str(found.item.get("refund_reference_id") or "").strip()} - {""}
            elif each.outcome.index in {outcome.index for outcome in self.succeeded}:
                found = _BESIDE_ITSELF  # it is not absent, whatever a look-up lists
            evidence[each] = found
        return evidence


_BESIDE_ITSELF = Evidence(_UNKNOWN, "the same order was also given as one that is settled")
_PENDING = Evidence(_UNKNOWN, "its reply said that the gateway may still do it")
_SHARED = Evidence(
    _UNKNOWN, "what is shown may be the work of another order of the same transaction"
)
_NO_LOOK = "the look-up does not prove that the gateway would have listed it"


def _by_state(operation: "Operation", lookup: LookupResult, dialect: "Dialect") -> Evidence:
    """Judge a capture or cancel by the `payment_status` of its transaction."""
    if len(lookup.listed) != 1:
        reason = lookup.problem or f"the gateway lists {len(lookup.listed)} records of it"
        return Evidence(_UNKNOWN, reason)
    ((record, item),) = lookup.listed
    status = record.payment_status or ""
    state = dialect.payment_states.get(status)
    if state is None:
        reason = f"payment_status {status!r} has no meaning in Dialect.payment_states"
        return Evidence(_UNKNOWN, reason, item, is_final=not dialect.payment_states)
    proved = _NOT_DONE if lookup.complete else _UNKNOWN
    if state == operation.done_state:
        proved = _DONE
    return Evidence(proved, f"payment_status {status!r} means {state}", item)


def _by_marker(unsettled: Unsettled, lookup: LookupResult, dialect: "Dialect") -> Evidence:
    """Judge a refund by its marker, which one order alone has sent, whatever else claims it."""
    marker = own_marker(unsettled.outcome) or ""
    for record, item in lookup.listed:
        is_refused = record.refund_status in dialect.declined_statuses
        if marker in (record.refund_reason or "") and not is_refused:
            if unsettled.is_shown_by(record, dialect):
                return Evidence(_DONE, "a refund carries its marker", item)
            return Evidence(_UNKNOWN, "a refund carries its marker, and is not done", item)
    if lookup.complete and lookup.keeps_markers:
        return Evidence(_NOT_DONE, "no refund carries its marker")
    return Evidence(_UNKNOWN, lookup.problem or _NO_LOOK)


def _by_reference(
    unsettled: Unsettled, transaction: PaymentOrders, lookup: LookupResult, dialect: "Dialect"
) -> Evidence:
    """Judge a refund by those of its transaction that were not there before its request."""
    order, before = unsettled.outcome.order, unsettled.references_before
    if before is None:
        reason = (
            "which refunds there were before was not recorded; for the next time, set "
            "RecoveryPolicy(record_baseline=True) before sending"
        )
        item = lookup.listed[0][1] if lookup.listed else None
        return Evidence(_UNKNOWN, reason, item, is_final=True)
    if not transaction.sees_all_orders(unsettled):
        reason = (
            "its batch or job may have other refunds of its transaction, which were not given; "
            "recover the whole result, or run the job again"
        )
        return Evidence(_UNKNOWN, reason)
    known = {*transaction.claimed, *before}
    listed = Counter(reference_of(record) for record, _ in lookup.listed)
    candidates = [  # records that may be this refund
        (record, item)
        for record, item in lookup.listed
        # A reference that two records share may be a placeholder.
        if (reference_of(record) not in known or listed[reference_of(record)] > 1)
        and not _is_marked_for_another(record, order.refund_reason)
        and record.refund_status not in dialect.declined_statuses
    ]
    proving = {  # by reference, new refunds of its amount: one may be listed twice
        reference_of(record): item
        for record, item in candidates
        if reference_of(record) not in {*known, ""}
        and unsettled.is_shown_by(record, dialect)
        and not unsettled.is_before(record, dialect)
    }
    nameless = sum(  # other orders that were done, of which no reference is known
        outcome.order.refund_amount == order.refund_amount and not reference_of(outcome.record)
        for outcome in transaction.succeeded
    )
    rivals = sum(rival.refund_amount == order.refund_amount for rival in transaction.rivals)
    if not candidates and lookup.complete and not nameless:
        return Evidence(_NOT_DONE, "the gateway lists no refund that could be it")
    if not candidates:
        return Evidence(_UNKNOWN, lookup.problem or _NO_LOOK)
    if len(proving) <= nameless + rivals:
        reason = "a refund is listed that may be this one, or another order's"
        return Evidence(_UNKNOWN, reason, candidates[0][1])
    # More were made than others can claim, so one of them is this one. They are alike, so any will
    # do; the first are left for the nameless.
    reason = "a refund of this amount is listed that was not there before its request"
    return Evidence(_DONE, reason, [*proving.values()][nameless])


def own_marker(outcome: "Outcome[Any, Any]") -> str | None:
    """Return the marker that an order was sent with; None if it was sent with none."""
    return outcome.sending.marker_of(outcome.index) if outcome.sending else None


def _is_marked_for_another(record: "RefundRecord", own_reason: str) -> bool:
    found = ANY_MARKER.search(record.refund_reason or "")
    return found is not None and found[0] not in own_reason  # one sent again has its own there


# Inputs: the outcomes that are given


def as_result(given: object) -> BatchResult[Any, Any]:
    """Make a result of outcomes, in the order given.

    Raises:
        InvalidOrderError: For anything else.
    """
    outcomes = tuple(given) if hasattr(given, "__iter__") else (given,)
    for outcome in outcomes:
        if not isinstance(outcome, Outcome):
            raise InvalidOrderError(
                f"recover: expected a BatchResult or outcomes, got {type(outcome).__name__}"
            )
    listed = ListedOutcomes(outcomes)
    return BatchResult(counts=count_statuses(listed.statuses), chunks=(listed,), of_one_batch=False)


def is_whole_batch(result: BatchResult[Any, Any]) -> bool:
    """Say whether a result still has every outcome of its batch; one made of a list never counts.

    Raises:
        ConfigurationError: If unknown outcomes were yielded by a stream: nothing would be settled.
    """
    if len(result.unknown) < result.counts[_UNKNOWN]:
        raise ConfigurationError(
            "recover: the stream has yielded unknown outcomes, which this result no longer holds; "
            "keep outcomes as they are yielded, and give those to recover"
        )
    return result.of_one_batch and len(result) == sum(result.counts.values())


def find_transactions(chunks: "Sequence[ChunkResult]", *, all_known: bool) -> list[PaymentOrders]:
    """Find the transactions with an unknown outcome that a look-up can settle."""
    found: dict[tuple[str, str], PaymentOrders] = {}
    for number, chunk in enumerate(chunks):
        for offset, operation, outcome in _outcomes_of(chunk, _UNKNOWN):
            name = outcome.order.transaction_id
            key = operation.name, name
            transaction = found.setdefault(key, PaymentOrders(operation, name, all_known))
            transaction.add_unknown(outcome, (number, offset))
    names = {name for _, name in found}
    for chunk in chunks:  # only those that touch these transactions
        if any(getattr(order, "transaction_id", None) in names for order in chunk.orders):
            for _, operation, outcome in _outcomes_of(chunk, _DONE):
                beside = found.get((operation.name, outcome.order.transaction_id))
                if beside is not None:
                    beside.succeeded.append(outcome)
                    if operation.allows_several:
                        beside.claimed |= {reference_of(outcome.record)} - {""}
    return list(found.values())


def find_control(chunks: "Sequence[ChunkResult]") -> ControlRefund | None:
    """Find a refund that the gateway said it did: one with a reference, or else with a marker."""
    marked = None
    for chunk in chunks:
        for _, operation, outcome in _outcomes_of(chunk, _DONE):
            if operation.allows_several:
                name, marker = outcome.order.transaction_id, own_marker(outcome)
                if reference := reference_of(outcome.record):
                    return ControlRefund(name, reference, marker)
                if marker and marked is None:
                    marked = ControlRefund(name, marker=marker)
    return marked


def _outcomes_of(
    chunk: "ChunkResult", status: OutcomeStatus
) -> "Iterator[tuple[int, Operation, Outcome[Any, Any]]]":
    """Yield the outcomes of one status that a look-up can show, with offset and operation."""
    if not count_statuses(chunk.statuses)[status]:
        return
    for offset, outcome in enumerate(chunk.outcomes()):
        order = outcome.order
        operation = next((row for row in RECOVERABLE if isinstance(order, row.order_class)), None)
        if operation is not None and outcome.status is status:
            yield offset, operation, outcome

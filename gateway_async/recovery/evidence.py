"""What the gateway's records prove of an order whose outcome is unknown. Pure.

Only a record that can be no other order's proves that an order was done. Only a look-up that is
shown to work proves that it was not: its reply is whole, and lists a refund that is known to exist.
An order with neither stays unknown. This module judges one look-up; `recover` makes two, and waits.
"""

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult, ListedOutcomes, Outcome
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import (
    ANY_MARKER,
    OutcomeStatus,
    count_status,
    count_statuses,
    reference_of,
)
from gateway_async.operations import OPERATIONS, REFUND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gateway_async.batching.results import ChunkResult
    from gateway_async.dialect import Dialect
    from gateway_async.models.orders import RefundOrder
    from gateway_async.models.records import RefundRecord
    from gateway_async.operations import Operation

    Place = tuple[int, int]
    """Where an outcome is: the number of its chunk, and its offset there."""


class Proof(Enum):
    """What one look-up proves of one order."""

    DONE = "done"
    NOT_DONE = "not done"
    NOTHING = "nothing"


@attrs.frozen
class Finding:
    """What one look-up found of one order.

    Attributes:
        proof: What it proves.
        reason: Why.
        item: The record it goes by, as it came.
        is_final: Whether no later look-up can prove more.
    """

    proof: Proof
    reason: str
    item: "Mapping[str, Any] | None" = None
    is_final: bool = False

    @property
    def reference(self) -> str | None:
        """The reference of the refund that it goes by, if it goes by a record."""
        return None if self.item is None else str(self.item.get("refund_reference_id")).strip()


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

    listed: "Sequence[tuple[Any, Mapping[str, Any]]]" = ()
    complete: bool = False
    keeps_markers: bool = False
    problem: str = ""


@attrs.frozen
class ControlRefund:
    """A refund known to exist: a look-up that does not list it shows nothing.

    Attributes:
        transaction_id: Its transaction.
        reference: Its reference; empty where only the transaction is known to be listed.
        marker: The marker it was sent with, if any.
    """

    transaction_id: str
    reference: str = ""
    marker: str | None = None

    def is_listed(self, lookup: LookupResult) -> bool:
        """Say whether a look-up lists it."""
        references = {reference_of(record) for record, _ in lookup.listed}
        return self.reference in references if self.reference else bool(references)

    def kept_its_marker(self, lookup: LookupResult) -> bool:
        """Say whether a look-up lists it with its marker."""
        return self.marker is not None and any(
            self.marker in (record.refund_reason or "") for record, _ in lookup.listed
        )


@attrs.define(eq=False)
class Unsettled:
    """An unknown outcome.

    Attributes:
        outcome: The outcome.
        places: Where it is in the result: it may be given more than once.
    """

    outcome: "Outcome[Any, Any]"
    places: "list[Place]"

    @property
    def marker(self) -> str | None:
        """The marker that the order was sent with; None if it was sent with none."""
        return own_marker(self.outcome)

    @property
    def references_before(self) -> "set[str] | None":
        """The refund references that its transaction had before; None if not recorded."""
        references = self.outcome.sending.references if self.outcome.sending else {}
        before = references.get(self.outcome.order.transaction_id)
        return None if before is None else {each.strip() for each in before} - {""}

    @property
    def was_alone(self) -> bool:
        """Whether its batch had no other order of the transaction."""
        return self.outcome.sending is not None and self.outcome.sending.alone

    def is_shown_by(self, record: "RefundRecord", dialect: "Dialect") -> bool:
        """Say whether a record shows a done refund of its amount."""
        order = self.outcome.order
        return (
            record.refund_status in dialect.done_statuses
            and record.refund_amount == order.refund_amount
            and (record.currency or order.currency).casefold() == order.currency.casefold()
        )


@attrs.define(eq=False)
class Transaction:
    """The orders of one operation on one transaction.

    Attributes:
        operation: The operation.
        name: Its `transaction_id`.
        all_known: Whether every outcome of the batch was given, so that no claim is missing.
        unknown: The outcomes that nothing has shown to be done.
        settled: The indices of settled outcomes.
        claimed: The references of its refunds that belong to settled outcomes.
        unreferenced: The amounts of settled refunds whose reference is not known.
    """

    operation: "Operation"
    name: str
    all_known: bool
    unknown: list[Unsettled] = attrs.field(factory=list)
    settled: set[int] = attrs.field(factory=set)
    claimed: set[str] = attrs.field(factory=set)
    unreferenced: list[Any] = attrs.field(factory=list)

    def add_unknown(self, outcome: "Outcome[Any, Any]", place: "Place") -> None:
        """Note an outcome that is unknown, or one more place of it."""
        for each in self.unknown:
            same = each.outcome
            if (same.index, same.sending) == (outcome.index, outcome.sending) and (
                same.order == outcome.order
            ):
                each.places.append(place)
                return
        self.unknown.append(Unsettled(outcome, [place]))

    def add_settled(self, outcome: "Outcome[Any, Any]") -> None:
        """Note an outcome that is settled."""
        self.settled.add(outcome.index)
        if reference := _reference(self.operation, outcome):
            self.claimed.add(reference)
        elif self.operation is REFUND:
            self.unreferenced.append(outcome.order.refund_amount)

    def judge(self, lookup: LookupResult, dialect: "Dialect") -> dict[Unsettled, Finding]:
        """Judge what is unknown by what a look-up says of the transaction.

        What is shown to be done leaves `unknown`, and no other order may claim the same refund.
        """
        if self.operation is REFUND:
            findings = prove_refunds(self, lookup, dialect)
        else:
            is_its_own = sum(len(each.places) for each in self.unknown) == 1 and not self.settled
            is_alone = self.all_known or self.unknown[0].was_alone
            found = prove_state(self.operation, lookup, dialect)
            findings = dict.fromkeys(self.unknown, found if is_its_own and is_alone else SHARED)
        done = [found for found in findings.values() if found.proof is Proof.DONE]
        self.claimed.update(found.reference for found in done if found.reference is not None)
        self.unknown = [each for each in self.unknown if findings[each].proof is not Proof.DONE]
        return findings


NOT_ASKED = Finding(Proof.NOTHING, "it cannot be looked up")
BESIDE_ITSELF = Finding(Proof.NOTHING, "the same order was also given as one that is settled")
SHARED = Finding(
    Proof.NOTHING, "what is shown may be the work of another order of the same transaction"
)
_NO_LOOK = "the look-up does not prove that the gateway would have listed it"


def prove_state(operation: "Operation", lookup: LookupResult, dialect: "Dialect") -> Finding:
    """Judge a capture or cancel by the `payment_status` of its transaction.

    Args:
        operation: One that is recovered by a look-up of payments.
        lookup: What a query says of the transaction; nothing, where the query was not answered.
        dialect: Whose `payment_states` give the values a meaning.
    """
    if len(lookup.listed) != 1:
        reason = lookup.problem or f"the gateway lists {len(lookup.listed)} records of it"
        return Finding(Proof.NOTHING, reason)
    ((record, item),) = lookup.listed
    status = record.payment_status or ""
    state = dialect.payment_states.get(status)
    if state is None:
        reason = f"payment_status {status!r} has no meaning in Dialect.payment_states"
        return Finding(Proof.NOTHING, reason, item)
    proof = Proof.NOT_DONE if lookup.complete else Proof.NOTHING
    if state == operation.done_state:
        proof = Proof.DONE
    return Finding(proof, f"payment_status {status!r} means {state}", item)


def prove_refunds(
    transaction: Transaction, lookup: LookupResult, dialect: "Dialect"
) -> dict[Unsettled, Finding]:
    """Judge the unknown refunds of one transaction together: no record proves two of them.

    Those with a marker choose first, then those that had the most refunds before them: a refund
    that is left over for one of them can belong to no other.

    Args:
        transaction: The transaction.
        lookup: What a refund search says of it.
        dialect: Whose `done_statuses` say what a done refund is, and whose `declined_statuses`
            what is none; a record of any other status proves nothing.
    """

    def precedence(each: Unsettled) -> tuple[bool, int, int]:
        return each.marker is None, -len(each.references_before or ()), each.outcome.index

    taken, findings = {*transaction.claimed}, {}
    for each in sorted(transaction.unknown, key=precedence):
        marker = each.marker
        found = (
            _by_reference(each, transaction, lookup, taken, dialect)
            if marker is None
            else _by_marker(marker, each, lookup, dialect)
        )
        if found.proof is not Proof.DONE and each.outcome.index in transaction.settled:
            found = BESIDE_ITSELF  # it is not absent, whatever a look-up lists
        elif found.proof is Proof.DONE and found.reference is not None:
            taken.add(found.reference)
        findings[each] = found
    return findings


def _by_marker(
    marker: str, unsettled: Unsettled, lookup: LookupResult, dialect: "Dialect"
) -> Finding:
    """Judge a refund by its marker, which one order alone has sent, whatever else claims it."""
    for record, item in lookup.listed:
        is_refused = record.refund_status in dialect.declined_statuses
        if marker in (record.refund_reason or "") and not is_refused:
            if unsettled.is_shown_by(record, dialect):
                return Finding(Proof.DONE, "a refund carries its marker", item)
            return Finding(Proof.NOTHING, "a refund carries its marker, and is not done", item)
    if lookup.complete and lookup.keeps_markers:
        return Finding(Proof.NOT_DONE, "no refund carries its marker")
    return Finding(Proof.NOTHING, lookup.problem or _NO_LOOK)


def _by_reference(
    unsettled: Unsettled,
    transaction: Transaction,
    lookup: LookupResult,
    taken: set[str],
    dialect: "Dialect",
) -> Finding:
    order, before = unsettled.outcome.order, unsettled.references_before
    if before is None:
        reason = (
            "which refunds there were before was not recorded; for the next time, set "
            "RecoveryPolicy(record_baseline=True) before sending"
        )
        item = lookup.listed[0][1] if lookup.listed else None
        return Finding(Proof.NOTHING, reason, item, is_final=True)
    if not (transaction.all_known or unsettled.was_alone):
        reason = "another refund of its transaction may have been in flight; recover the result"
        return Finding(Proof.NOTHING, reason)
    known = {*taken, *before}
    listed = Counter(reference_of(record) for record, _ in lookup.listed)
    unexplained = [
        (record, item)
        for record, item in lookup.listed
        # What two refunds are called may be what a gateway writes for no reference.
        if (reference_of(record) not in known or listed[reference_of(record)] > 1)
        and not _is_marked_for_another(record, order)
        and record.refund_status not in dialect.declined_statuses
    ]
    others = transaction.unreferenced.count(order.refund_amount)
    if not unexplained:
        if lookup.complete and not others:
            return Finding(Proof.NOT_DONE, "the gateway lists no refund that could be it")
        return Finding(Proof.NOTHING, lookup.problem or _NO_LOOK)
    own = {  # by its reference: what is listed twice is one refund
        reference_of(record): item
        for record, item in unexplained
        if reference_of(record) not in {*known, ""} and unsettled.is_shown_by(record, dialect)
    }
    if len(own) <= others:
        reason = "a refund is listed that may be this one, or another order's"
        return Finding(Proof.NOTHING, reason, unexplained[0][1])
    reason = "a refund of this amount is listed that was not there before its request"
    return Finding(Proof.DONE, reason, list(own.values())[others])


def own_marker(outcome: "Outcome[Any, Any]") -> str | None:
    """Return the marker that an order was sent with; None if it was sent with none."""
    return outcome.sending.marker_of(outcome.index) if outcome.sending else None


def _is_marked_for_another(record: "RefundRecord", order: "RefundOrder") -> bool:
    found = ANY_MARKER.search(record.refund_reason or "")
    return found is not None and found[0] not in order.refund_reason


# Inputs: the outcomes that are given

RECOVERABLE = tuple(row for row in OPERATIONS.values() if row.recovered_by)
"""The operations that are recovered by a look-up."""


def as_result(given: object) -> BatchResult[Any, Any]:
    """Make a result of outcomes, in the order given.

    Raises:
        TypeError: For anything else.
    """
    outcomes = tuple(given) if hasattr(given, "__iter__") else (given,)
    for outcome in outcomes:
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"recover: expected a BatchResult or outcomes, got {type(outcome).__name__}"
            )
    block = ListedOutcomes(outcomes)
    return BatchResult(
        counts=count_statuses(block.statuses),
        chunks=(block,) if outcomes else (),
        of_one_batch=False,
    )


def is_whole_batch(result: BatchResult[Any, Any]) -> bool:
    """Say whether a result still has every outcome of its batch.

    Raises:
        ConfigurationError: If unknown outcomes were yielded by a stream: nothing would be settled.
    """
    if len(result.unknown) < result.counts[OutcomeStatus.UNKNOWN]:
        raise ConfigurationError(
            "recover: the stream has yielded unknown outcomes, which this result no longer holds; "
            "keep outcomes as they are yielded, and give those to recover"
        )
    return result.of_one_batch and len(result) == sum(result.counts.values())


def find_transactions(chunks: "Sequence[ChunkResult]", *, all_known: bool) -> list[Transaction]:
    """Find the transactions with an unknown outcome that a look-up can settle."""
    found: dict[tuple[str, str], Transaction] = {}
    for number, chunk in enumerate(chunks):
        for offset, operation, outcome in _outcomes_of(chunk, OutcomeStatus.UNKNOWN):
            key = operation.name, outcome.order.transaction_id
            if key not in found:
                found[key] = Transaction(operation, key[1], all_known)
            found[key].add_unknown(outcome, (number, offset))
    names = {name for _, name in found}
    for chunk in chunks:
        if any(getattr(order, "transaction_id", None) in names for order in chunk.orders):
            for _, operation, outcome in _outcomes_of(chunk, OutcomeStatus.SUCCEEDED):
                beside = found.get((operation.name, outcome.order.transaction_id))
                if beside is not None:
                    beside.add_settled(outcome)
    return list(found.values())


def find_control(
    chunks: "Sequence[ChunkResult]", is_askable: "Callable[[str], bool]"
) -> ControlRefund | None:
    """Find a refund that the gateway said it did, with its reference."""
    for chunk in chunks:
        for _, operation, outcome in _outcomes_of(chunk, OutcomeStatus.SUCCEEDED):
            transaction_id = outcome.order.transaction_id
            reference = _reference(operation, outcome)
            if reference and is_askable(transaction_id):
                return ControlRefund(transaction_id, reference, own_marker(outcome))
    return None


def _outcomes_of(
    chunk: "ChunkResult", status: OutcomeStatus
) -> "Iterator[tuple[int, Operation, Outcome[Any, Any]]]":
    """Yield the outcomes of one status that a look-up can show, with offset and operation."""
    if not count_status(chunk.statuses, status):
        return
    for offset, outcome in enumerate(chunk.outcomes()):
        order = outcome.order
        operation = next((row for row in RECOVERABLE if isinstance(order, row.order_class)), None)
        if operation is not None and outcome.status is status:
            yield offset, operation, outcome


def _reference(operation: "Operation", outcome: "Outcome[Any, Any]") -> str:
    """Return the gateway's reference of a refund that was done; "" where it is not known."""
    return reference_of(outcome.record) if operation is REFUND and outcome.record else ""

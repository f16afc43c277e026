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
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gateway_async.batching.results import ChunkResult
    from gateway_async.dialect import Dialect
    from gateway_async.models.records import RefundRecord, TransactionRecord
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
        records: Its records, read.
        items: The same, as they came.
        complete: Whether what is missing from `records` is missing at the gateway: the reply was
            whole, of success, about nothing else, and, of a refund search, listed a control.
        keeps_markers: Whether the control came back with its own marker.
        problem: Why the look-up was not answered, if it was not.
    """

    records: "tuple[Any, ...]" = ()
    items: "tuple[Mapping[str, Any], ...]" = ()
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
        references = {reference_of(record) for record in lookup.records}
        return self.reference in references if self.reference else bool(references)

    def kept_its_marker(self, lookup: LookupResult) -> bool:
        """Say whether a look-up lists it with its marker."""
        return self.marker is not None and any(
            self.marker in (record.refund_reason or "") for record in lookup.records
        )


@attrs.frozen(kw_only=True)
class ClaimedRefunds:
    """Which refunds of one transaction belong to outcomes that are settled.

    Attributes:
        references: Their references.
        unreferenced: The amounts of those whose reference is not known.
        all_known: Whether every outcome of the batch was given, so that no claim is missing.
    """

    references: "Collection[str]" = frozenset()
    unreferenced: "tuple[Any, ...]" = ()
    all_known: bool = True


NOT_ASKED = Finding(Proof.NOTHING, "it cannot be looked up")
BESIDE_ITSELF = Finding(Proof.NOTHING, "the same order was also given as one that is settled")
SHARED = Finding(
    Proof.NOTHING, "what is shown may be the work of another order of the same transaction"
)
_NO_LOOK = "the look-up does not prove that the gateway would have listed it"


def prove_state(operation: str, lookup: LookupResult, dialect: "Dialect") -> Finding:
    """Judge a capture or cancel by the `payment_status` of its transaction.

    Args:
        operation: One that is recovered by a look-up of payments, such as ``"capture"``.
        lookup: What a query says of the transaction; nothing, where the query was not answered.
        dialect: Whose `payment_states` give the values a meaning.
    """
    records: Sequence[TransactionRecord] = lookup.records
    if len(records) != 1:
        reason = lookup.problem or f"the gateway lists {len(records)} records of it"
        return Finding(Proof.NOTHING, reason)
    status = records[0].payment_status or ""
    state = dialect.payment_states.get(status)
    if state is None:
        reason = f"payment_status {status!r} has no meaning in Dialect.payment_states"
        return Finding(Proof.NOTHING, reason, lookup.items[0])
    reason = f"payment_status {status!r} means {state}"
    if state == OPERATIONS[operation].done_state:
        return Finding(Proof.DONE, reason, lookup.items[0])
    return Finding(Proof.NOT_DONE if lookup.complete else Proof.NOTHING, reason, lookup.items[0])


def prove_refunds(
    outcomes: "Sequence[Outcome[Any, Any]]",
    lookup: LookupResult,
    claims: ClaimedRefunds,
    dialect: "Dialect",
) -> list[Finding]:
    """Judge the unknown refunds of one transaction together: no record proves two of them.

    Those with a marker choose first, then those that had the most refunds before them: a refund
    that is left over for one of them can belong to no other.

    Args:
        outcomes: The unknown outcomes.
        lookup: What a refund search says of the transaction.
        claims: Which refunds belong to other outcomes.
        dialect: Whose `done_statuses` say what a done refund is, and whose `declined_statuses`
            what is none; a record of any other status proves nothing.

    Returns:
        A finding for each outcome, in the same order.
    """
    taken = set(claims.references)
    findings: dict[int, Finding] = {}
    for position in sorted(range(len(outcomes)), key=lambda n: _precedence(outcomes[n])):
        outcome = outcomes[position]
        twin = next((n for n in findings if are_one(outcomes[n], outcome)), None)
        if twin is not None:
            findings[position] = findings[twin]
            continue
        marker = own_marker(outcome)
        finding = findings[position] = (
            _by_reference(outcome, lookup, taken, claims, dialect)
            if marker is None
            else _by_marker(marker, outcome, lookup, dialect)
        )
        if finding.proof is Proof.DONE and finding.reference is not None:
            taken.add(finding.reference)
    return [findings[position] for position in range(len(outcomes))]


def _precedence(outcome: "Outcome[Any, Any]") -> tuple[bool, int, int]:
    return (
        own_marker(outcome) is None,
        -len(_references_before(outcome) or ()),
        outcome.index,
    )


def are_one(one: "Outcome[Any, Any]", other: "Outcome[Any, Any]") -> bool:
    """Say whether two outcomes are the same outcome, given twice."""
    return one.index == other.index and one.sending == other.sending and one.order == other.order


def _by_marker(
    marker: str, outcome: "Outcome[Any, Any]", lookup: LookupResult, dialect: "Dialect"
) -> Finding:
    """Judge a refund by its marker, which one order alone has sent, whatever else claims it."""
    for record, item in zip(lookup.records, lookup.items, strict=True):
        is_refused = record.refund_status in dialect.declined_statuses
        if marker in (record.refund_reason or "") and not is_refused:
            if _is_done(record, outcome, dialect):
                return Finding(Proof.DONE, "a refund carries its marker", item)
            return Finding(Proof.NOTHING, "a refund carries its marker, and is not done", item)
    if lookup.complete and lookup.keeps_markers:
        return Finding(Proof.NOT_DONE, "no refund carries its marker")
    return Finding(Proof.NOTHING, lookup.problem or _NO_LOOK)


def _by_reference(
    outcome: "Outcome[Any, Any]",
    lookup: LookupResult,
    taken: "Collection[str]",
    claims: ClaimedRefunds,
    dialect: "Dialect",
) -> Finding:
    before = _references_before(outcome)
    if before is None:
        item = lookup.items[0] if lookup.items else None
        reason = (
            "which refunds there were before was not recorded; for the next time, set "
            "RecoveryPolicy(record_baseline=True) before sending"
        )
        return Finding(Proof.NOTHING, reason, item, is_final=True)
    if not (claims.all_known or _is_alone(outcome)):
        reason = "another refund of its transaction may have been in flight; recover the result"
        return Finding(Proof.NOTHING, reason)
    known = {*taken, *before}
    listed = Counter(map(reference_of, lookup.records))
    unexplained = [
        (record, item)
        for record, item in zip(lookup.records, lookup.items, strict=True)
        # What two refunds are called may be what a gateway writes for no reference.
        if (reference_of(record) not in known or listed[reference_of(record)] > 1)
        and not _is_marked_for_another(record, outcome)
        and record.refund_status not in dialect.declined_statuses
    ]
    others = claims.unreferenced.count(outcome.order.refund_amount)
    if not unexplained:
        if lookup.complete and not others:
            return Finding(Proof.NOT_DONE, "the gateway lists no refund that could be it")
        return Finding(Proof.NOTHING, lookup.problem or _NO_LOOK)
    own = {  # by its reference: what is listed twice is one refund
        reference_of(record): item
        for record, item in unexplained
        if reference_of(record) not in {*known, ""} and _is_done(record, outcome, dialect)
    }
    if len(own) <= others:
        return Finding(
            Proof.NOTHING,
            "a refund is listed that may be this one, or another order's",
            unexplained[0][1],
        )
    item = list(own.values())[others]
    return Finding(
        Proof.DONE, "a refund of this amount is listed that was not there before its request", item
    )


def own_marker(outcome: "Outcome[Any, Any]") -> str | None:
    """Return the marker that an order was sent with; None if it was sent with none."""
    return outcome.sending.marker_of(outcome.index) if outcome.sending else None


def _is_marked_for_another(record: "RefundRecord", outcome: "Outcome[Any, Any]") -> bool:
    found = ANY_MARKER.search(record.refund_reason or "")
    return found is not None and found[0] not in outcome.order.refund_reason


def _is_alone(outcome: "Outcome[Any, Any]") -> bool:
    return outcome.sending is not None and outcome.sending.alone


def _references_before(outcome: "Outcome[Any, Any]") -> "set[str] | None":
    """Return the refund references that its transaction had before; None if not recorded."""
    references = outcome.sending.references if outcome.sending else {}
    before = references.get(outcome.order.transaction_id)
    return None if before is None else {each.strip() for each in before} - {""}


def _is_done(record: "RefundRecord", outcome: "Outcome[Any, Any]", dialect: "Dialect") -> bool:
    currency = record.currency or outcome.order.currency
    return (
        record.refund_status in dialect.done_statuses
        and record.refund_amount == outcome.order.refund_amount
        and currency.casefold() == outcome.order.currency.casefold()
    )


# Inputs: the outcomes that are given

RECOVERABLE = tuple(row for row in OPERATIONS.values() if row.recovered_by)
"""The operations that are recovered by a look-up."""


@attrs.define
class Transaction:
    """The orders of one operation on one transaction.

    Attributes:
        operation: The operation.
        name: Its `transaction_id`.
        unknown: The outcomes that nothing has shown to be done.
        claims: Which of its refunds belong to settled outcomes.
        settled: The indices of settled outcomes.
    """

    operation: "Operation"
    name: str
    claims: ClaimedRefunds
    unknown: "dict[Place, Outcome[Any, Any]]" = attrs.field(factory=dict)
    settled: set[int] = attrs.field(factory=set)

    def judge(self, lookup: LookupResult, dialect: "Dialect") -> "dict[Place, Finding]":
        """Judge what is unknown by what a look-up says of the transaction."""
        outcomes = list(self.unknown.values())
        if self.operation is REFUND:
            findings = [
                # An order that is also given settled is not absent, whatever a look-up lists.
                BESIDE_ITSELF
                if found.proof is not Proof.DONE and o.index in self.settled
                else found
                for o, found in zip(
                    outcomes, prove_refunds(outcomes, lookup, self.claims, dialect), strict=True
                )
            ]
        else:
            is_its_own = len(outcomes) == 1 and not self.settled
            is_alone = self.claims.all_known or _is_alone(outcomes[0])
            found = prove_state(self.operation.name, lookup, dialect)
            findings = [found if is_its_own and is_alone else SHARED] * len(outcomes)
        return dict(zip(self.unknown, findings, strict=True))

    def settle(self, done: "Mapping[Place, Finding]") -> None:
        """Note what is shown to be done: no other order may claim the same refund."""
        claimed = {found.reference for found in done.values() if found.reference is not None}
        references = frozenset({*self.claims.references, *claimed})
        self.claims = attrs.evolve(self.claims, references=references)
        for place in done:
            del self.unknown[place]

    def add_settled(self, outcome: "Outcome[Any, Any]") -> None:
        """Note an outcome that is settled."""
        self.settled.add(outcome.index)
        claims, reference = self.claims, _reference(outcome)
        if reference:
            self.claims = attrs.evolve(
                claims, references=frozenset({*claims.references, reference})
            )
        elif self.operation is REFUND:
            amounts = (*claims.unreferenced, outcome.order.refund_amount)
            self.claims = attrs.evolve(claims, unreferenced=amounts)


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


def find_transactions(chunks: "Sequence[ChunkResult]", *, all_known: bool) -> "list[Transaction]":
    """Find the transactions with an unknown outcome that a look-up can settle."""
    found: dict[tuple[str, str], Transaction] = {}
    for number, chunk in enumerate(chunks):
        if not count_status(chunk.statuses, OutcomeStatus.UNKNOWN):
            continue
        for offset, outcome in enumerate(chunk.outcomes()):
            operation = _operation_of(outcome)
            if outcome.status is OutcomeStatus.UNKNOWN and operation is not None:
                name = outcome.order.transaction_id
                claims = ClaimedRefunds(all_known=all_known)
                transaction = Transaction(operation, name, claims)
                transaction = found.setdefault((operation.name, name), transaction)
                transaction.unknown[number, offset] = outcome
    names = {name for _, name in found}
    for chunk in chunks:
        if not any(getattr(order, "transaction_id", None) in names for order in chunk.orders):
            continue
        for outcome in chunk.outcomes():
            operation = _operation_of(outcome)
            if outcome.status is OutcomeStatus.SUCCEEDED and operation is not None:
                beside = found.get((operation.name, outcome.order.transaction_id))
                if beside is not None:
                    beside.add_settled(outcome)
    return list(found.values())


def find_control(
    chunks: "Sequence[ChunkResult]", is_askable: "Callable[[str], bool]"
) -> ControlRefund | None:
    """Find a refund that the gateway said it did, with its reference."""
    for chunk in chunks:
        if not count_status(chunk.statuses, OutcomeStatus.SUCCEEDED):
            continue
        for outcome in chunk.outcomes():
            is_done = outcome.status is OutcomeStatus.SUCCEEDED
            if is_done and _operation_of(outcome) is REFUND and (name := _reference(outcome)):
                transaction_id = outcome.order.transaction_id
                if is_askable(transaction_id):
                    return ControlRefund(transaction_id, name, own_marker(outcome))
    return None


def _operation_of(outcome: "Outcome[Any, Any]") -> "Operation | None":
    """Return the operation of an order, if it can be recovered by look-up."""
    order = outcome.order
    return next((row for row in RECOVERABLE if isinstance(order, row.order_class)), None)


def _reference(outcome: "Outcome[Any, Any]") -> str:
    """Return the gateway's reference of a refund that was done; "" where it is not known."""
    is_refund = _operation_of(outcome) is REFUND
    return reference_of(outcome.record) if is_refund and outcome.record else ""

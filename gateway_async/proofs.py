"""What the gateway's records prove of an order whose outcome is unknown.

Law: only a record that can be nobody else's proves that an order was done, and only a look-up that
demonstrably works proves that it was not. What is neither stays unknown. This module is pure: it
judges one look; that two looks must agree, and when, is known to `recovery`.
"""

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.markers import ANY_MARKER, reference_of
from gateway_async.dialect import PaymentState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from gateway_async.batching.outcomes import Outcome
    from gateway_async.dialect import Dialect
    from gateway_async.models.records import RefundRecord, TransactionRecord


class Proof(Enum):
    """What one look proves of one order."""

    DONE = "done"
    NOT_DONE = "not done"
    NOTHING = "nothing"


@attrs.frozen
class Finding:
    """What one look found of one order.

    Attributes:
        proof: What it proves.
        reason: Why.
        item: The record it goes by, as it came.
        is_final: Whether no later look can prove more.
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
class Look:
    """What a look-up says of one transaction.

    Attributes:
        records: Its records, read.
        items: The same, as they came.
        complete: Whether what is missing from `records` is missing at the gateway: the reply was
            whole, of success, about nothing else, and, of a refund search, listed a witness.
        keeps_markers: Whether the witness came back with its own marker.
        problem: Why the look-up was not answered, if it was not.
    """

    records: "tuple[Any, ...]" = ()
    items: "tuple[Mapping[str, Any], ...]" = ()
    complete: bool = False
    keeps_markers: bool = False
    problem: str = ""


@attrs.frozen(kw_only=True)
class Claims:
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

_STATE_DONE = {"capture": PaymentState.CAPTURED, "cancel": PaymentState.CANCELLED}


def prove_state(operation: str, look: Look, dialect: "Dialect") -> Finding:
    """Judge a capture or cancel by the `payment_status` of its transaction.

    Args:
        operation: ``"capture"`` or ``"cancel"``.
        look: What a query says of the transaction; nothing, where the query was not answered.
        dialect: Whose `payment_states` give the values a meaning.
    """
    records: Sequence[TransactionRecord] = look.records
    if len(records) != 1:
        reason = look.problem or f"the gateway lists {len(records)} records of it"
        return Finding(Proof.NOTHING, reason)
    status = records[0].payment_status or ""
    state = dialect.payment_states.get(status)
    if state is None:
        reason = f"payment_status {status!r} has no meaning in Dialect.payment_states"
        return Finding(Proof.NOTHING, reason, look.items[0])
    reason = f"payment_status {status!r} means {state}"
    if state is _STATE_DONE[operation]:
        return Finding(Proof.DONE, reason, look.items[0])
    return Finding(Proof.NOT_DONE if look.complete else Proof.NOTHING, reason, look.items[0])


def prove_refunds(
    outcomes: "Sequence[Outcome[Any, Any]]", look: Look, claims: Claims, dialect: "Dialect"
) -> list[Finding]:
    """Judge the unknown refunds of one transaction together: no record proves two of them.

    Those with a marker choose first, then those that had the most refunds before them: a refund
    that is left over for one of them could be nobody else's.

    Args:
        outcomes: The unknown outcomes.
        look: What a refund search says of the transaction.
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
            _by_reference(outcome, look, taken, claims, dialect)
            if marker is None
            else _by_marker(marker, outcome, look, dialect)
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
    marker: str, outcome: "Outcome[Any, Any]", look: Look, dialect: "Dialect"
) -> Finding:
    """Judge a refund by its marker, whoever else claims what carries it: it is of this order."""
    for record, item in zip(look.records, look.items, strict=True):
        is_refused = record.refund_status in dialect.declined_statuses
        if marker in (record.refund_reason or "") and not is_refused:
            if _is_done(record, outcome, dialect):
                return Finding(Proof.DONE, "a refund carries its marker", item)
            return Finding(Proof.NOTHING, "a refund carries its marker, and is not done", item)
    if look.complete and look.keeps_markers:
        return Finding(Proof.NOT_DONE, "no refund carries its marker")
    return Finding(Proof.NOTHING, look.problem or _NO_LOOK)


def _by_reference(
    outcome: "Outcome[Any, Any]",
    look: Look,
    taken: "Collection[str]",
    claims: Claims,
    dialect: "Dialect",
) -> Finding:
    before = _references_before(outcome)
    if before is None:
        item = look.items[0] if look.items else None
        reason = (
            "which refunds there were before was not recorded; for the next time, set "
            "RecoveryPolicy(record_baseline=True) before sending"
        )
        return Finding(Proof.NOTHING, reason, item, is_final=True)
    if not (claims.all_known or _is_alone(outcome)):
        reason = "another refund of its transaction may have been in flight; recover the result"
        return Finding(Proof.NOTHING, reason)
    known = {*taken, *before}
    listed = Counter(map(reference_of, look.records))
    unexplained = [
        (record, item)
        for record, item in zip(look.records, look.items, strict=True)
        # What two refunds are called may be what a gateway writes for no reference.
        if (reference_of(record) not in known or listed[reference_of(record)] > 1)
        and not _is_marked_for_another(record, outcome)
        and record.refund_status not in dialect.declined_statuses
    ]
    others = claims.unreferenced.count(outcome.order.refund_amount)
    if not unexplained:
        if look.complete and not others:
            return Finding(Proof.NOT_DONE, "the gateway lists no refund that could be it")
        return Finding(Proof.NOTHING, look.problem or _NO_LOOK)
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

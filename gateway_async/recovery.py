"""Unknown outcomes, settled from the gateway's own records.

Law: an order is settled as done by a record that proves it, and as not done by two looks that
agree, both after the settle time. Nothing is resent unless the policy says so. What outcomes tell
beforehand is known to `givens`, and what the looks prove to `proofs`; this module asks, waits and
counts.
"""

import asyncio
import logging
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.batch import plain_batch
from gateway_async.batching.markers import marked
from gateway_async.batching.outcomes import ListedBlock, count_statuses
from gateway_async.batching.plans import PLANS
from gateway_async.batching.results import BatchResult
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import NotDoneError, OutcomeUnknownError
from gateway_async.givens import (
    as_result,
    find_claims,
    find_unknown,
    find_witness,
    is_of,
    is_whole_batch,
    name_of,
    operation_of,
    settled_of,
)
from gateway_async.looks import LOOK_UPS, Looks
from gateway_async.proofs import (
    BESIDE_ITSELF,
    NOT_ASKED,
    SHARED,
    Claims,
    Finding,
    Look,
    Proof,
    are_one,
    own_marker,
    prove_refunds,
    prove_state,
)
from gateway_async.settings import BatchPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway_async.batching.outcomes import Block, Outcome
    from gateway_async.givens import Place
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy

_log = logging.getLogger("gateway_async.recovery")

_WORTH_SAYING_SECONDS = 1.0
_NOT_SETTLED = "; recovery does not settle it: "
_BEFORE = "; before: "


class Recovery:
    """One recovery: what is unknown, and what the looks have proved so far."""

    def __init__(self, session: "Session", policy: "RecoveryPolicy", batch: BatchPolicy) -> None:
        self._session = session
        self._policy = policy
        self._batch = batch
        self._blocks: list[Block] = []
        self._unknown: dict[Place, Outcome[Any, Any]] = {}
        self._findings: dict[Place, Finding] = {}
        self._claims: dict[str, Claims] = {}
        self._settled: set[tuple[str, str]] = set()
        self._settled_names: set[tuple[int, str]] = set()
        self._looks = Looks(session, policy)
        self._requests = 0
        self._all_known = False

    async def recover(
        self, given: "BatchResult[Any, Any] | Iterable[Outcome[Any, Any]]"
    ) -> BatchResult[Any, Any]:
        """Settle what can be settled; see `GatewayClient.recover`."""
        with self._session.observer.recovery(self._batch) as watch:
            result = await self._recover(given)
            watch.over(result.counts, self._requests + self._looks.requests)
        return result

    async def _recover(
        self, given: "BatchResult[Any, Any] | Iterable[Outcome[Any, Any]]"
    ) -> BatchResult[Any, Any]:
        result = given if isinstance(given, BatchResult) else as_result(given)
        self._all_known = isinstance(given, BatchResult) and is_whole_batch(given)
        started = time.time()
        self._blocks = list(result.blocks)
        self._unknown = dict(find_unknown(self._blocks))
        self._claims = find_claims(self._blocks, self._unknown.values(), all_known=self._all_known)
        wanted = {outcome.order.transaction_id for outcome in self._unknown.values()}
        for outcome in settled_of(self._blocks, wanted):
            self._settled.add((operation_of(outcome) or "", outcome.order.transaction_id))
            self._settled_names.add(name_of(outcome))
        self._looks.witness = find_witness(self._blocks, self._looks.is_askable)
        try:
            await self._settle(started)
            await self._conclude()
        except asyncio.CancelledError as cancelled:  # not with the outcome of a look or a resend
            cancelled.outcome = result  # type: ignore[attr-defined]  # as for a single call
            raise
        return self._merged(result)

    # Looks

    async def _settle(self, started: float) -> None:
        """Look at once; then, after the settle time, twice more at what is left."""
        first = await self._look(self._unknown)
        self._keep_done(first)
        self._findings |= {place: found for place, found in first.items() if found.is_final}
        left = self._left()
        if not left:
            return
        # Where absences are resent, an earlier recovery may have: its request ended by now, too.
        ended = [started] if self._policy.resend_absent else []
        # None ended after this began: a later time is of a clock that is ahead, or is not known.
        ended += [min(o.sending.ended_at, started) if o.sending else started for o in left.values()]
        seconds = max(ended) + self._policy.settle_seconds - time.time()
        if seconds >= _WORTH_SAYING_SECONDS:
            _log.info(
                "recovery: %d unknown so far; the gateway's records are looked at again in %.0f s, "
                "as settle_seconds says",
                len(left),
                seconds,
            )
        await asyncio.sleep(seconds)
        second = await self._look(left)
        self._keep_done(second)
        third = await self._look(self._left())
        self._keep_done(third)
        for place in self._left():
            agree = second[place].proof is third[place].proof
            finding = third[place] if agree else _disagreement(second[place], third[place])
            self._findings[place] = finding

    def _left(self) -> "dict[Place, Outcome[Any, Any]]":
        return {
            place: outcome
            for place, outcome in self._unknown.items()
            if place not in self._findings
        }

    def _keep_done(self, findings: "Mapping[Place, Finding]") -> None:
        """Settle what a look proves to be done, and let nobody else claim the same refund."""
        for place, finding in findings.items():
            if finding.proof is not Proof.DONE:
                continue
            self._findings[place] = finding
            outcome = self._unknown[place]
            if is_of(outcome, "refund") and finding.reference is not None:
                name = outcome.order.transaction_id
                claims = self._claims[name]
                self._claims[name] = attrs.evolve(
                    claims, references=frozenset({*claims.references, finding.reference})
                )

    async def _look(self, cases: "Mapping[Place, Outcome[Any, Any]]") -> "dict[Place, Finding]":
        """Ask the gateway about some unknown orders, and judge what it says."""
        grouped: dict[tuple[str, str], list[Place]] = defaultdict(list)
        for place, outcome in cases.items():
            grouped[operation_of(outcome) or "", outcome.order.transaction_id].append(place)
        findings: dict[Place, Finding] = {}
        for operation in dict.fromkeys(operation for operation, _ in grouped):
            names = [name for which, name in grouped if which == operation]
            looks = await self._looks.look_up(
                operation, [name for name in names if self._looks.is_askable(name)]
            )
            for name in names:
                if name not in looks:
                    findings |= dict.fromkeys(grouped[operation, name], NOT_ASKED)
                    continue
                places = grouped[operation, name]
                findings |= self._judge(operation, name, places, looks[name])
        return findings

    def _judge(
        self, operation: str, name: str, places: "Sequence[Place]", look: Look
    ) -> "dict[Place, Finding]":
        dialect = self._session.dialect
        outcomes = [self._unknown[place] for place in places]
        if operation != "refund":
            is_shared = len(places) > 1 or not self._has_to_itself(operation, outcomes[0])
            found = SHARED if is_shared else prove_state(operation, look, dialect)
            return dict.fromkeys(places, found)
        findings = prove_refunds(outcomes, look, self._claims[name], dialect)
        return {
            place: finding if finding.proof is Proof.DONE else self._beside(place) or finding
            for place, finding in zip(places, findings, strict=True)
        }

    def _beside(self, place: "Place") -> Finding | None:
        """Say that an order is also given settled: then its absence is no reason to resend it."""
        return BESIDE_ITSELF if name_of(self._unknown[place]) in self._settled_names else None

    def _has_to_itself(self, operation: str, outcome: "Outcome[Any, Any]") -> bool:
        """Say whether no other order can have brought a transaction into its state."""
        if not self._all_known and (outcome.sending is None or not outcome.sending.alone):
            return False
        return (operation, outcome.order.transaction_id) not in self._settled

    # What comes of it

    async def _conclude(self) -> None:
        """Put what was found in the place of what was unknown, and resend where that is asked."""
        changed: dict[Place, Outcome[Any, Any]] = {
            place: _settled(outcome, self._findings[place])
            for place, outcome in self._unknown.items()
        }
        if self._policy.resend_absent:
            changed |= await self._resend(
                {p: o for p, o in changed.items() if o.status is OutcomeStatus.NOT_SENT}
            )
        by_block: dict[int, dict[int, Outcome[Any, Any]]] = defaultdict(dict)
        for (number, offset), outcome in changed.items():
            by_block[number][offset] = outcome
        for number, outcomes in by_block.items():
            old = self._blocks[number].outcomes()
            self._blocks[number] = ListedBlock(
                tuple(outcomes.get(offset, outcome) for offset, outcome in enumerate(old))
            )

    async def _resend(
        self, absent: "Mapping[Place, Outcome[Any, Any]]"
    ) -> "dict[Place, Outcome[Any, Any]]":
        """Send again what was proved not to be done."""
        sent: dict[Place, Outcome[Any, Any]] = {}
        for operation in dict.fromkeys(operation_of(o) or "" for o in absent.values()):
            groups = _twins({p: o for p, o in absent.items() if is_of(o, operation)})
            batch = plain_batch(
                self._session,
                PLANS[operation],
                [_as_sent(absent[twins[0]]) for twins in groups],
                policy=attrs.evolve(self._batch, duplicates="serialize", chunk_size=None),
                recovery=attrs.evolve(self._policy, refund_evidence="references"),
            )
            result = await batch
            self._requests += result.requests
            for twins, outcome in zip(groups, result, strict=True):
                sent |= {place: _as_given(outcome, absent[place]) for place in twins}
        return sent

    def _merged(self, result: BatchResult[Any, Any]) -> BatchResult[Any, Any]:
        """Return the result with what was settled, its counts moved accordingly."""
        counts = dict(result.counts)
        for before, after in zip(result.blocks, self._blocks, strict=True):
            for status, count in count_statuses(before.statuses).items():
                counts[status] -= count
            for status, count in count_statuses(after.statuses).items():
                counts[status] += count
        return attrs.evolve(
            result,
            counts=counts,
            blocks=tuple(self._blocks),
            requests=result.requests + self._requests + self._looks.requests,
        )


def _as_sent(outcome: "Outcome[Any, Any]") -> Any:  # noqa: ANN401  # any order
    """Return an order with the marker it had before: one marker an order, however often sent."""
    marker = own_marker(outcome)
    if marker is None:
        return outcome.order
    return attrs.evolve(outcome.order, refund_reason=marked(outcome.order.refund_reason, marker))


def _as_given(outcome: "Outcome[Any, Any]", before: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Return the outcome of an order that was sent again under its own name and marker."""
    sending = outcome.sending or before.sending
    if sending is not None and before.sending is not None:
        sending = attrs.evolve(sending, marker=before.sending.marker)
    return attrs.evolve(outcome, order=before.order, index=before.index, sending=sending)


def _twins(absent: "Mapping[Place, Outcome[Any, Any]]") -> "list[list[Place]]":
    """Put the places of one outcome together: it may have been given more than once."""
    groups: dict[tuple[int, str], list[list[Place]]] = defaultdict(list)
    for place, outcome in absent.items():
        for twins in groups[name_of(outcome)]:
            if are_one(absent[twins[0]], outcome):
                twins.append(place)
                break
        else:
            groups[name_of(outcome)].append([place])
    return [twins for of_one_name in groups.values() for twins in of_one_name]


def _disagreement(second: Finding, third: Finding) -> Finding:
    reason = f"two looks disagree: {second.reason}; {third.reason}"
    return Finding(Proof.NOTHING, reason, third.item or second.item)


def _settled(outcome: "Outcome[Any, Any]", finding: Finding) -> "Outcome[Any, Any]":
    """Return an unknown outcome with what was found of it."""
    record_class = LOOK_UPS[operation_of(outcome) or ""].record_class
    if finding.item is not None:
        outcome = attrs.evolve(outcome, items=(finding.item,), record_class=record_class)
    if finding.proof is Proof.DONE:
        return attrs.evolve(outcome, status=OutcomeStatus.SUCCEEDED, error=None)
    before = str(outcome.error).partition(_NOT_SETTLED)[0]  # an earlier recovery's reason is stale
    said = {name: getattr(outcome.error, name, "") for name in ("code", "text")}
    if finding.proof is Proof.NOT_DONE:
        cause = before.rpartition(_BEFORE)[2]  # an earlier recovery's proof is stale, too
        told = f"recovery proved that it was not done: {finding.reason}{_BEFORE}{cause}"
        error = NotDoneError(told, **said)
        return attrs.evolve(outcome, status=OutcomeStatus.NOT_SENT, error=error)
    told = f"{before}{_NOT_SETTLED}{finding.reason}"
    return attrs.evolve(outcome, error=OutcomeUnknownError(told, **said))

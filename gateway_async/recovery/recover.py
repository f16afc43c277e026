"""Unknown outcomes, settled from the gateway's own records.

An order is settled as done by a record that proves it, and as not done by two look-ups that agree,
both after the settle time. Nothing is sent again unless the policy says so. `evidence` decides what
records prove; this module makes the look-ups, waits, and puts the outcomes in place.
"""

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.batch import plain_batch
from gateway_async.batching.feed import check_order
from gateway_async.batching.results import AnsweredChunk, BatchResult, ListedOutcomes
from gateway_async.batching.runner import BatchRunner
from gateway_async.errors import ConfigurationError, NotDoneError, OutcomeUnknownError
from gateway_async.models.orders import OrderRef, OutcomeStatus, count_statuses, marked
from gateway_async.operations import OPERATIONS, QUERY
from gateway_async.recovery.evidence import (
    BESIDE_ITSELF,
    NOT_ASKED,
    SHARED,
    ClaimedRefunds,
    ControlRefund,
    Finding,
    LookupResult,
    Proof,
    are_one,
    as_result,
    find_claims,
    find_control,
    find_unknown,
    is_of,
    is_whole_batch,
    name_of,
    operation_of,
    own_marker,
    prove_refunds,
    prove_state,
    settled_of,
)
from gateway_async.session import steady_time
from gateway_async.settings import BatchPolicy
from gateway_async.wire.decode import decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway_async.batching.results import ChunkResult, Outcome
    from gateway_async.recovery.evidence import Place
    from gateway_async.session import Session
    from gateway_async.settings import RecoveryPolicy

_log = logging.getLogger("gateway_async.recovery")

LOOK_UPS = {
    name: OPERATIONS[row.recovered_by] for name, row in OPERATIONS.items() if row.recovered_by
}
"""By which look-up an operation is recovered."""

_NO_CONTROL = (
    "no refund that is known to be done was looked up with it, so it may be done although it is "
    "not listed; recover it together with one that succeeded"
)

_REQUESTED_AT_ONCE = 90
"""Orders in one look-up: below the limit of 100, so that a few more records leave it whole."""


_WORTH_SAYING_SECONDS = 1.0
_NOT_SETTLED = "; recovery does not settle it: "
_BEFORE = "; before: "


class Lookups:
    """Makes the look-ups of one recovery.

    Attributes:
        control: What every refund search must list; where none is known, a search may find one.
        requests: Requests made so far.
    """

    def __init__(self, session: "Session", policy: "RecoveryPolicy") -> None:
        self.control: ControlRefund | None = None
        self.requests: int = 0
        self._session = session
        self._policy = policy

    def is_askable(self, name: str) -> bool:
        """Say whether a look-up can ask for a transaction: its name may hold the separator."""
        ref = OrderRef(transaction_id=name)
        return check_order(QUERY, ref, self._session.dialect) is None

    async def look_up(self, operation: str, names: "Sequence[str]") -> "dict[str, LookupResult]":
        """Look up transactions, a request's worth at a time, each with the control."""
        parts = [
            names[start : start + _REQUESTED_AT_ONCE]
            for start in range(0, len(names), _REQUESTED_AT_ONCE)
        ]
        lookups: dict[str, LookupResult] = {}
        for part in parts:
            lookups |= await self._ask(operation, part)
        return lookups

    async def _ask(self, operation: str, names: "Sequence[str]") -> "dict[str, LookupResult]":
        """Make one look-up; where its reply had to be split, ask again in halves."""
        control = self.control if operation == "refund" else None
        asked = dict.fromkeys([*([control.transaction_id] if control else []), *names])
        run = BatchRunner(
            self._session,
            LOOK_UPS[operation],
            [OrderRef(transaction_id=name) for name in asked],
            policy=BatchPolicy(concurrency=1, drain_seconds=0),
            recovery=self._policy,
        )
        result = await run.complete()
        self.requests += result.requests
        if len(result.chunks) > 1 and len(names) > 1:
            middle = len(names) // 2
            return {
                **await self._ask(operation, names[:middle]),
                **await self._ask(operation, names[middle:]),
            }
        is_whole = self._is_whole(result)
        lookups = {outcome.order.value: _seen(operation, outcome, is_whole) for outcome in result}
        if operation == "refund":
            lookups = _completed(lookups, control, is_whole=is_whole)
        if operation == "refund" and self.control is None:
            self.control = next(
                (ControlRefund(n) for n, lookup in lookups.items() if lookup.records), None
            )
        return lookups

    def _is_whole(self, result: "BatchResult[Any, Any]") -> bool:
        """Say whether a look-up's one reply is of success, about nothing else, and not cut."""
        if len(result.chunks) != 1 or result.unexpected or result.unknown:
            return False
        block = result.chunks[0]
        if not isinstance(block, AnsweredChunk):
            return False
        operation = block.operation
        listed = decode_json(block.reply).get(operation.list_field or "") or ()
        return block.is_accepted and len(listed) < (operation.limit or 0)


def _seen(operation: str, outcome: "Outcome[Any, Any]", is_whole: bool) -> LookupResult:  # noqa: FBT001  # one caller
    """Make a look-up of one outcome of a look-up; a query that was not answered shows nothing."""
    if operation != "refund" and outcome.status is not OutcomeStatus.SUCCEEDED:
        return LookupResult(problem=_problem_of(outcome))
    return LookupResult(
        records=outcome.record or (),
        items=tuple(outcome.items),
        complete=is_whole,
        problem=_problem_of(outcome),
    )


def _problem_of(outcome: "Outcome[Any, Any]") -> str:
    return "" if outcome.error is None else f"the look-up failed: {outcome.error}"


def _completed(
    lookups: "dict[str, LookupResult]", control: ControlRefund | None, *, is_whole: bool
) -> "dict[str, LookupResult]":
    """Let a refund search prove absences only if it lists the control."""
    if control is None or not is_whole:
        problem = _NO_CONTROL if is_whole else ""
        return {
            name: attrs.evolve(lookup, complete=False, problem=lookup.problem or problem)
            for name, lookup in lookups.items()
        }
    of_control = lookups[control.transaction_id]
    return {
        name: attrs.evolve(
            lookup,
            complete=control.is_listed(of_control),
            keeps_markers=control.kept_its_marker(of_control),
        )
        for name, lookup in lookups.items()
    }


class Recovery:
    """One recovery: what is unknown, and what the look-ups have proved so far."""

    def __init__(self, session: "Session", policy: "RecoveryPolicy", batch: BatchPolicy) -> None:
        self._session = session
        self._policy = policy
        self._batch = batch
        self._blocks: list[ChunkResult] = []
        self._unknown: dict[Place, Outcome[Any, Any]] = {}
        self._findings: dict[Place, Finding] = {}
        self._claims: dict[str, ClaimedRefunds] = {}
        self._settled: set[tuple[str, str]] = set()
        self._settled_names: set[tuple[int, str]] = set()
        self._lookups = Lookups(session, policy)
        self._requests = 0
        self._all_known = False

    async def recover(
        self, given: "BatchResult[Any, Any] | Iterable[Outcome[Any, Any]]"
    ) -> BatchResult[Any, Any]:
        """Settle what can be settled; see `GatewayClient.recover`."""
        span = self._session.observer.recovery(self._batch)
        try:
            result = await self._recover(given)
        except BaseException as error:
            span.end(dict.fromkeys(OutcomeStatus, 0), 0, error=error)
            raise
        span.end(result.counts, self._requests + self._lookups.requests)
        return result

    async def _recover(
        self, given: "BatchResult[Any, Any] | Iterable[Outcome[Any, Any]]"
    ) -> BatchResult[Any, Any]:
        result = given if isinstance(given, BatchResult) else as_result(given)
        self._all_known = isinstance(given, BatchResult) and is_whole_batch(given)
        started = steady_time()
        self._blocks = list(result.chunks)
        self._unknown = dict(find_unknown(self._blocks))
        self._claims = find_claims(self._blocks, self._unknown.values(), all_known=self._all_known)
        wanted = {outcome.order.transaction_id for outcome in self._unknown.values()}
        for outcome in settled_of(self._blocks, wanted):
            self._settled.add((operation_of(outcome) or "", outcome.order.transaction_id))
            self._settled_names.add(name_of(outcome))
        self._lookups.control = find_control(self._blocks, self._lookups.is_askable)
        resent = self._claim_resends()
        try:
            await self._settle(started)
            await self._conclude()
        except asyncio.CancelledError as cancelled:  # not with the outcome of a look-up or a resend
            cancelled.outcome = result  # type: ignore[attr-defined]  # as for a single call
            raise
        finally:
            self._session.resending.difference_update(resent)
        return self._merged(result)

    def _claim_resends(self) -> "set[tuple[str, str]]":
        """Note what may be sent again: two recoveries would prove the same absence, and send it.

        Raises:
            ConfigurationError: If another recovery of this client may be sending some of it.
        """
        if not self._policy.resend_absent:
            return set()
        names = {(operation_of(o) or "", o.order.transaction_id) for o in self._unknown.values()}
        if taken := names & self._session.resending:
            operation, name = min(taken)
            raise ConfigurationError(
                f"recover: another call recovers the {operation} of transaction_id {name!r} now, "
                "and resend_absent would let both send it; await that call first"
            )
        self._session.resending.update(names)
        return names

    # Lookups

    async def _settle(self, started: float) -> None:
        """Look up at once; then, after the settle time, twice more at what is left."""
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
        seconds = max(ended) + self._policy.settle_seconds - steady_time()
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
        """Settle what a look-up proves to be done, and let no other order claim the same refund."""
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
            lookups = await self._lookups.look_up(
                operation, [name for name in names if self._lookups.is_askable(name)]
            )
            for name in names:
                if name not in lookups:
                    findings |= dict.fromkeys(grouped[operation, name], NOT_ASKED)
                    continue
                places = grouped[operation, name]
                findings |= self._judge(operation, name, places, lookups[name])
        return findings

    def _judge(
        self, operation: str, name: str, places: "Sequence[Place]", lookup: LookupResult
    ) -> "dict[Place, Finding]":
        dialect = self._session.dialect
        outcomes = [self._unknown[place] for place in places]
        if operation != "refund":
            is_shared = len(places) > 1 or not self._has_to_itself(operation, outcomes[0])
            found = SHARED if is_shared else prove_state(operation, lookup, dialect)
            return dict.fromkeys(places, found)
        findings = prove_refunds(outcomes, lookup, self._claims[name], dialect)
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
            self._blocks[number] = ListedOutcomes(
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
                OPERATIONS[operation],
                [_as_sent(absent[twins[0]]) for twins in groups],
                policy=attrs.evolve(self._batch, duplicates="serialize", chunk_size=None),
                # Two look-ups have just proved that none of the refunds listed is one of these.
                recovery=attrs.evolve(
                    self._policy, refund_evidence="references", hold_alike_hours=None
                ),
            )
            result = await batch
            self._requests += result.requests
            for twins, outcome in zip(groups, result, strict=True):
                sent |= {place: _as_given(outcome, absent[place]) for place in twins}
        return sent

    def _merged(self, result: BatchResult[Any, Any]) -> BatchResult[Any, Any]:
        """Return the result with what was settled, its counts moved accordingly."""
        counts = dict(result.counts)
        for before, after in zip(result.chunks, self._blocks, strict=True):
            for status, count in count_statuses(before.statuses).items():
                counts[status] -= count
            for status, count in count_statuses(after.statuses).items():
                counts[status] += count
        return attrs.evolve(
            result,
            counts=counts,
            chunks=tuple(self._blocks),
            requests=result.requests + self._requests + self._lookups.requests,
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
    exchange = attrs.evolve(outcome.exchange, sending=sending)
    return attrs.evolve(outcome, order=before.order, index=before.index, exchange=exchange)


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
    reason = f"two look-ups disagree: {second.reason}; {third.reason}"
    return Finding(Proof.NOTHING, reason, third.item or second.item)


def _settled(outcome: "Outcome[Any, Any]", finding: Finding) -> "Outcome[Any, Any]":
    """Return an unknown outcome with what was found of it."""
    record_class = LOOK_UPS[operation_of(outcome) or ""].record_class
    if finding.item is not None:
        exchange = attrs.evolve(outcome.exchange, record_class=record_class)
        outcome = attrs.evolve(outcome, items=(finding.item,), exchange=exchange)
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

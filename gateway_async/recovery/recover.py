"""Unknown outcomes, settled from the gateway's own records.

An order is settled as done by a record that proves it, and as not done by two look-ups that agree,
both after the settle time. Nothing is sent again unless the policy says so. `evidence` decides what
records prove; this module makes the look-ups, waits, and puts the outcomes in place.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, cast

import attrs

from gateway_async.batching.batch import plain_batch
from gateway_async.batching.chunks import AnsweredChunk
from gateway_async.batching.results import BatchResult, Results
from gateway_async.batching.sender import look_up
from gateway_async.errors import ConfigurationError, NotDoneError, OutcomeUnknownError
from gateway_async.models.orders import OutcomeStatus, marked, reference_of
from gateway_async.models.records import RefundRecord
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import ListedOutcomes
from gateway_async.recovery.evidence import (
    RECOVERABLE,
    ControlRefund,
    Evidence,
    LookupResult,
    as_result,
    find_control,
    find_transactions,
    is_whole_batch,
    own_marker,
)
from gateway_async.session import Gate, steady_time
from gateway_async.telemetry import Log

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gateway_async.models.orders import RefundOrder
    from gateway_async.operations import Operation
    from gateway_async.outcomes import Outcome
    from gateway_async.recovery.evidence import PaymentOrders, Unsettled
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

    Changed = dict[Unsettled, Outcome[Any, Any]]
    Lookups = dict[str, LookupResult]  # by transaction

_log = Log("recovery")

_NO_CONTROL = (
    "no refund that is known to be done was looked up with it, so it may be done although it is "
    "not listed; recover it together with one that succeeded; of a job, look it up in the merchant "
    "portal and decide (`resolve`)"
)
_MAY_BE_CUT = "no longer list came before, so this one may be cut short"
_ASKED_AT_ONCE = 90
_MAY_BE_DONE = frozenset(OutcomeStatus) - {OutcomeStatus.NOT_SENT}
_WORTH_SAYING_SECONDS = 1.0
# A journal keeps an error's text only, so what an earlier recovery wrote is found in the text.
_NOT_SETTLED = "; recovery does not settle it: "
_BEFORE = "; before: "


@attrs.define(eq=False, repr=False)
class Recovery:
    """One recovery: what is unknown, and what the look-ups have proved so far.

    Attributes:
        session: The way to the gateway.
        policy: How it is reported, and how what is absent is sent again.
        rivals: Refunds that others may have made meanwhile: what is listed may be theirs.
        counts: Where its requests are counted.
    """

    _session: "Session"
    _policy: "BatchPolicy"
    _rivals: "Sequence[RefundOrder]" = ()
    _transactions: "list[PaymentOrders]" = attrs.field(factory=list, init=False)
    _control: ControlRefund | None = attrs.field(default=None, init=False)
    counts: Results = attrs.field(factory=lambda: Results(object), init=False)

    async def recover(
        self, given: "BatchResult[Any, Any] | Iterable[Outcome[Any, Any]]"
    ) -> BatchResult[Any, Any]:
        """Settle what can be settled; see `GatewayClient.recover`."""
        span = self._session.instrumentation.batch("recover", given, self._policy, in_copy=False)
        try:
            result = given if isinstance(given, BatchResult) else as_result(given)
            self._transactions = find_transactions(result.chunks, all_known=is_whole_batch(result))
            for each in self._transactions:
                each.rivals = [one for one in self._rivals if one.transaction_id == each.name]
            self._control = find_control(result.chunks)
            changed = await self._change(result)
        except BaseException as error:
            nothing = dict.fromkeys(OutcomeStatus, 0)
            span.end(nothing, self.counts.requests, retries=self.counts.retries, error=error)
            raise
        recovered = self._merged(result, changed)
        span.end(recovered.counts, self.counts.requests, retries=self.counts.retries)
        return recovered

    async def _change(self, result: BatchResult[Any, Any]) -> "Changed":
        """Return the outcomes that were unknown, as they are now."""
        resent = self._claim_resends()
        again: Changed = {}
        try:
            await self._settle()
            changed = {one: _settled(one) for each in self._transactions for one in each.unknown}
            if resent:
                for operation in RECOVERABLE:
                    await self._resend(operation, changed, again)
        except BaseException as error:  # its `outcome` would be that of a look-up, or of the resend
            sent = {one: new for one, new in again.items() if new.status in _MAY_BE_DONE}
            if resent or isinstance(error, asyncio.CancelledError):
                vars(error)["outcome"] = self._merged(result, sent)
            raise
        finally:
            self._session.resending.difference_update(resent)
        return changed | again

    def _claim_resends(self) -> "set[tuple[str, str]]":
        """Note what may be sent again: two recoveries would prove the same absence, and send it.

        Raises:
            ConfigurationError: If another recovery of this client may be sending some of it.
        """
        if not self._session.recovery.resend_absent:
            return set()
        names = {(each.operation.name, each.name) for each in self._transactions}
        if taken := names & self._session.resending:
            operation, name = min(taken)
            raise ConfigurationError(
                f"recover: another call recovers the {operation} of transaction_id {name!r} now, "
                "and resend_absent would let both send it; await that call first"
            )
        self._session.resending.update(names)
        return names

    async def _settle(self) -> None:
        """Look up at once; then, after the settle time, twice more at what is left."""
        started = steady_time()
        await self._look()
        left = [one.outcome for each in self._transactions for one in each.undecided]
        if not left:
            return
        recovery = self._session.recovery
        ended = [each.sending.ended_at if each.sending else started for each in left]
        if recovery.resend_absent:  # an earlier recovery may have sent them again, just before this
            ended.append(started)
        # All requests ended before this began. A later time is not known, or of a clock ahead.
        last_end = min(max(ended), started)
        # Never longer than from now on, also where the clock is set back during the look-up.
        seconds = min(last_end - steady_time(), 0) + recovery.settle_seconds
        if seconds >= _WORTH_SAYING_SECONDS:
            _log.info(
                "recovery: %d unknown so far; the gateway's records are looked at again in %.0f s, "
                "as settle_seconds says",
                len(left),
                seconds,
            )
        await asyncio.sleep(seconds)
        second = await self._look()
        third = await self._look()  # only at what the second left undecided
        for one, found in third.items():
            if one.evidence is None:
                before = second[one]
                reason = f"two look-ups disagree: {before.reason}; {found.reason}"
                disagreement = Evidence(OutcomeStatus.UNKNOWN, reason, found.item or before.item)
                one.evidence = found if before.status is found.status else disagreement

    # Look-ups

    async def _look(self) -> "dict[Unsettled, Evidence]":
        """Look up what is left, and settle what is shown to be done."""
        evidence: dict[Unsettled, Evidence] = {}
        for operation in RECOVERABLE:
            asked = [t for t in self._transactions if t.operation is operation and t.undecided]
            names = [each.name for each in asked]
            lookups: Lookups = {}
            for start in range(0, len(names), _ASKED_AT_ONCE):
                lookups |= await self._ask(operation, names[start : start + _ASKED_AT_ONCE])
            for each in asked:
                evidence |= each.judge(lookups[each.name], self._session.dialect)
        return evidence

    async def _ask(self, operation: "Operation", names: "Sequence[str]") -> "Lookups":
        """Make one look-up, with the control; where its reply may have been cut, ask in halves."""
        is_refund = operation.allows_several
        control = self._control if is_refund else None
        # The control is the last: a list that is cut short lacks it, and so proves no absence.
        last = [control.transaction_id] if control else []
        asked = [name for name in names if name not in last] + last
        row, gate = OPERATIONS[operation.recovered_by], Gate()
        result = await look_up(self._session, row, asked, gate, self.counts)
        if gate.stop_reason is not None:  # cancelled, which `look_up` does not raise
            raise asyncio.CancelledError
        listed = [len(one.items) for one in result]
        may_lack = is_refund or not all(listed)  # a payment has one record
        is_cut = may_lack and self._session.may_be_cut(row, sum(listed))
        if (is_cut or len(result.chunks) > 1) and len(names) > 1:
            middle = len(names) // 2
            lookups = await self._ask(operation, names[:middle])
            return lookups | await self._ask(operation, names[middle:])
        shared = LookupResult(problem=_MAY_BE_CUT) if is_cut else _judge_reply(result, control)
        lookups = _read_lookups(result, shared)
        if is_refund and self._control is None:
            # A transaction whose refunds are listed now is the control of the look-ups to come.
            controls = (ControlRefund(name) for name, lookup in lookups.items() if lookup.listed)
            self._control = next(controls, None)
        return lookups

    # Outcomes

    async def _resend(self, operation: "Operation", changed: "Changed", again: "Changed") -> None:
        """Send again what was proved not to be done; add the outcomes to `again`."""
        absent = [
            one
            for one, outcome in changed.items()
            if one.operation is operation and outcome.status is OutcomeStatus.NOT_SENT
        ]
        if not absent:
            return
        # Two look-ups have just proved that none of the refunds listed is one of these.
        recovery = attrs.evolve(
            self._session.recovery, refund_evidence="references", hold_alike_hours=None
        )
        batch = plain_batch(
            attrs.evolve(self._session, recovery=recovery),
            operation,
            [_as_sent(one.outcome) for one in absent],
            attrs.evolve(self._policy, duplicates="serialize", chunk_size=None),
        )
        try:
            await batch
        finally:  # also if it is cancelled, or a collaborator raised
            self.counts.add_requests(batch.progress)
            result: Iterable[Outcome[Any, Any]] = ()
            with contextlib.suppress(RuntimeError):  # an order cannot be written: nothing was sent
                result = batch.result
            for one, outcome in zip(absent, result, strict=False):
                again[one] = _as_given(outcome, one.outcome)

    def _merged(self, result: BatchResult[Any, Any], changed: "Changed") -> BatchResult[Any, Any]:
        """Return a result with the outcomes that changed in the place of unknown ones."""
        counts, chunks = dict(result.counts), list(result.chunks)
        placed = {place: outcome for one, outcome in changed.items() for place in one.places}
        for outcome in placed.values():
            counts[OutcomeStatus.UNKNOWN] -= 1
            counts[outcome.status] += 1
        for number in {number for number, _ in placed}:
            old = enumerate(chunks[number].outcomes())
            new = tuple(placed.get((number, offset), outcome) for offset, outcome in old)
            chunks[number] = ListedOutcomes(new)
        return attrs.evolve(
            result,
            counts=counts,
            chunks=tuple(chunks),
            requests=result.requests + self.counts.requests,
            retries=result.retries + self.counts.retries,
        )


def _read_lookups(result: BatchResult[Any, Any], shared: LookupResult) -> "Lookups":
    """Read what one look-up says of each transaction; `shared` holds of all of them."""
    lookups = {}
    for outcome in result:
        # A refund that is listed was made, also where others of its transaction may be missing.
        is_read = outcome.status is OutcomeStatus.SUCCEEDED or result.record_class is RefundRecord
        lookups[outcome.order.value] = attrs.evolve(
            shared,
            listed=[*zip(outcome.record or (), outcome.items, strict=True)] if is_read else (),
            problem=f"the look-up failed: {outcome.error}" if outcome.error else shared.problem,
        )
    return lookups


def _judge_reply(result: BatchResult[Any, Any], control: ControlRefund | None) -> LookupResult:
    """Judge how complete the reply to a look-up is: what holds of every transaction in it."""
    chunk = result.chunks[0] if len(result.chunks) == 1 else None
    if not isinstance(chunk, AnsweredChunk) or not chunk.is_accepted:
        return LookupResult()
    if result.unexpected or result.unknown:  # such as those of a full reply, which may be cut
        return LookupResult()
    if result.record_class is not RefundRecord:
        return LookupResult(complete=True)
    if control is None:
        return LookupResult(problem=_NO_CONTROL)
    records = next(o.record or () for o in result if o.order.value == control.transaction_id)
    references = {reference_of(record) for record in records}
    marked = [r for r in records if control.marker and control.marker in (r.refund_reason or "")]
    return LookupResult(
        complete=control.reference in references if control.reference else bool(references),
        keeps_markers=bool(marked),
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
        prefix, alone = before.sending.marker_prefix, before.sending.alone
        sending = attrs.evolve(sending, marker_prefix=prefix, alone=alone)
    exchange = attrs.evolve(outcome.exchange, sending=sending)
    # Its items are found by its index in the resend, so they are taken out before that changes.
    items = tuple(outcome.items)
    return attrs.evolve(
        outcome, order=before.order, index=before.index, items=items, exchange=exchange
    )


def _settled(unsettled: "Unsettled") -> "Outcome[Any, Any]":
    """Return an unknown outcome with what was found of it."""
    outcome, evidence = unsettled.outcome, cast("Evidence", unsettled.evidence)
    if evidence.item is not None:
        record_class = OPERATIONS[unsettled.operation.recovered_by].record_class
        exchange = attrs.evolve(outcome.exchange, record_class=record_class)
        outcome = attrs.evolve(outcome, items=(evidence.item,), exchange=exchange)
    if evidence.status is OutcomeStatus.SUCCEEDED:
        return attrs.evolve(outcome, status=evidence.status, error=None)
    before = str(outcome.error).partition(_NOT_SETTLED)[0]  # an earlier recovery's reason is stale
    said = {name: getattr(outcome.error, name, "") for name in ("code", "text")}
    if evidence.status is OutcomeStatus.NOT_SENT:
        cause = before.rpartition(_BEFORE)[2]  # an earlier recovery's proof is stale, too
        text = f"recovery proved that it was not done: {evidence.reason}{_BEFORE}{cause}"
        return attrs.evolve(outcome, status=evidence.status, error=NotDoneError(text, **said))
    error = OutcomeUnknownError(f"{before}{_NOT_SETTLED}{evidence.reason}", **said)
    error.is_pending = unsettled.is_pending
    return attrs.evolve(outcome, error=error)

"""What is unknown of a job: looked up, and then succeeded, new again, or held for a person."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult
from gateway_async.journal import JobState
from gateway_async.journal.reads import Orders
from gateway_async.journal.rows import NOT_DONE, Known, known_of
from gateway_async.models.orders import OutcomeStatus, count_statuses
from gateway_async.outcomes import ListedOutcomes
from gateway_async.recovery.recover import Recovery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.leases import Lease
    from gateway_async.journal.rows import Row
    from gateway_async.journal.writes import OrderChanges
    from gateway_async.outcomes import Outcome
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

    # What was found out of one transaction, by position; and the states, before, of all its orders:
    # an operator may decide on one of them meanwhile, and then another claims what was found.
    Finding = tuple[dict[int, Known], dict[int, JobState]]


@attrs.frozen(eq=False, repr=False)
class UnknownOrders:
    """Looks the unknown orders of a job up, and records what is found out.

    Attributes:
        session: The way to the gateway.
        policy: How look-ups are sent.
        lease: Under which it is recorded.
        taken_at: When the lease was taken, in seconds since the epoch.
    """

    _session: "Session"
    _policy: "BatchPolicy"
    _lease: "Lease"
    _taken_at: float

    async def look_up(
        self, rows: "Sequence[Row]", *, hold: bool
    ) -> "tuple[BatchResult[Any, Any], list[Finding]]":
        """Look some unknown orders up.

        What must be known besides goes with them: a control refund, and the other orders of their
        transactions, which may claim a refund.

        Args:
            rows: The orders.
            hold: Whether what stays unclear is held for a person; else it stays unknown.

        Returns:
            The result, with the requests that took, and what was found out.
        """
        names = {row.order.transaction_id for row in rows}
        seen: dict[str, dict[int, JobState]] = defaultdict(dict)
        known = {row.index: row for row in rows}
        for row in await self._lease.read(lambda orders: orders.of(names)):
            known[row.index] = row
            seen[row.order.transaction_id][row.index] = row.state
        if (control := await self._lease.read(Orders.control_refund)) is not None:
            known[control.index] = control
        rows_by_index = (known[index] for index in sorted(known))
        listed = ListedOutcomes(
            tuple(row.outcome(taken_at=self._taken_at) for row in rows_by_index)
        )
        given = BatchResult[Any, Any](counts=count_statuses(listed.statuses), chunks=(listed,))
        # The run resends by itself: it records an intent first.
        recovery = self._session.recovery
        cautious = attrs.evolve(recovery, resend_absent=False)
        session = attrs.evolve(self._session, recovery=cautious)
        result = await Recovery(session, self._policy).recover(given)
        wanted = {row.index for row in rows}
        found: dict[str, dict[int, Known]] = defaultdict(dict)
        for outcome in result:
            name, index = outcome.order.transaction_id, outcome.index
            if index in wanted and seen[name].get(index) is JobState.UNKNOWN:
                one = _found(outcome, hold=hold, resend=recovery.resend_absent)
                if one is not None:
                    found[name][index] = one
        return result, [(found[name], seen[name]) for name in found]

    async def hold(self, rows: "Sequence[Row]") -> None:
        """Hold orders that no look-up shows for a person."""
        places = ((row, row.index) for row in rows)
        await self.record(
            [({at: _for_a_person(row)}, {at: JobState.UNKNOWN}) for row, at in places]
        )

    async def record(self, findings: "Sequence[Finding]") -> int:
        """Record what was found out of orders that are as they were seen; return how many are new.

        What was found out of one transaction is recorded as a whole, or not at all.
        """

        def keep(orders: "OrderChanges") -> int:
            kept = [found for found, seen in findings if orders.recover(found, seen)]
            return sum(one.state is JobState.NEW for found in kept for one in found.values())

        return await self._lease.change("keep what was found out", keep)


def _for_a_person(row: "Row") -> Known:
    """Hold an unknown order that no look-up shows: a payout, or a review."""
    operation = row.operation
    name = getattr(row.order, operation.identity_field)
    return Known(
        JobState.HELD,
        code=row.known.code,
        text=f"ask the gateway about {operation.identity_field} {name!r}, since a {operation} "
        f"cannot be looked up, and decide (`resolve`); {row.known.text}",
        said=row.known.said,
    )


def _found(outcome: "Outcome[Any, Any]", *, hold: bool, resend: bool) -> Known | None:
    """Return what the journal keeps of an order that was looked up; None where it stays as it is.

    Args:
        outcome: What the look-up says of it.
        hold: Whether what stays unclear is held for a person.
        resend: Whether what was proved not to be done is new again.
    """
    if outcome.status is OutcomeStatus.SUCCEEDED:
        reference = getattr(outcome.record, "refund_reference_id", None) or ""
        return Known(JobState.SUCCEEDED, reference=reference.strip())
    is_absent = outcome.status is OutcomeStatus.NOT_SENT
    if is_absent and resend:
        return known_of(JobState.NEW, outcome.error)
    held = known_of(JobState.HELD, outcome.error)
    return held._replace(proof=NOT_DONE if is_absent else "") if hold else None

"""What a job asks the gateway about orders that it does not know the fate of.

Law: as for any recovery; what the gateway's records prove is kept, and what they leave unclear is
held for a person, with the reason.
"""

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import BatchResult, ListedOutcomes
from gateway_async.journal.rows import NOT_DONE, Settlement
from gateway_async.journal.states import JobState
from gateway_async.models.orders import OutcomeStatus, count_statuses
from gateway_async.recovery.recover import Recovery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway_async.batching.results import Outcome
    from gateway_async.journal.lease import Lease
    from gateway_async.journal.rows import Row
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy


@attrs.frozen
class Found:
    """What a look at some unknown orders found.

    Attributes:
        outcomes: What is known of them now.
        beside: The states, before, of all orders of their transactions: an operator may decide
            on one of them meanwhile, and then another claims what was found.
        requests: How many requests it took.
    """

    outcomes: "list[Outcome[Any, Any]]"
    beside: "Mapping[str, Mapping[int, JobState]]"
    requests: int


@attrs.frozen
class JobRecovery:
    """Settles the unknown orders of one job.

    Attributes:
        session: The way to the gateway.
        lease: Under which the journal is read and written.
        policy: How unknown outcomes are settled.
        batch: How batches are run.
        started_at: When this process took the job over: a request whose end was not kept had
            begun by then. In seconds since the epoch.
    """

    session: "Session"
    lease: "Lease"
    policy: "RecoveryPolicy"
    batch: "BatchPolicy"
    started_at: float

    async def look(self, rows: "Sequence[Row]") -> Found:
        """Look some unknown orders up, and say what is known of them now."""
        beside = await self._beside(rows)
        known = {row.index: row for row in [*rows, *beside]}
        outcomes = [self._outcome(known[index]) for index in sorted(known)]
        block = ListedOutcomes(tuple(outcomes))
        given: BatchResult[Any, Any] = BatchResult(
            counts=count_statuses(block.statuses), chunks=(block,)
        )
        # Resending is the run's own business: it keeps an intent first.
        policy = attrs.evolve(self.policy, resend_absent=False)
        found = await Recovery(self.session, policy, self.batch).recover(given)
        wanted = {row.index for row in rows}
        return Found(
            outcomes=[outcome for outcome in found if outcome.index in wanted],
            beside=_states(beside),
            requests=found.requests,
        )

    async def keep(self, found: Found, *, hold: bool) -> int:
        """Keep what was found.

        Args:
            found: What is known now.
            hold: Whether what stays unclear is held for a person; else it stays unknown.

        Returns:
            How many orders are to be sent again.
        """
        together: dict[str, list[Settlement]] = defaultdict(list)
        for outcome in found.outcomes:
            name, settlement = outcome.order.transaction_id, self._settlement(outcome, hold=hold)
            was_unknown = found.beside[name].get(outcome.index) is JobState.UNKNOWN
            if settlement is not None and was_unknown:
                together[name].append(settlement)
        kept = await asyncio.gather(
            *(
                self.lease.recover(settlements, beside=found.beside[name])
                for name, settlements in together.items()
            )
        )
        return sum(
            settlement.state is JobState.NEW
            for is_kept, settlements in zip(kept, together.values(), strict=True)
            if is_kept
            for settlement in settlements
        )

    async def _beside(self, rows: "Sequence[Row]") -> "list[Row]":
        """Read what a recovery must know besides: a witness, and who else may claim a refund."""
        names = {row.order.transaction_id for row in rows}
        beside = await self.lease.rows_of(names, tuple(JobState))
        witness = await self.lease.witness()
        return [*beside, *([witness] if witness else [])]

    def _outcome(self, row: "Row") -> "Outcome[Any, Any]":
        """Make an outcome whose request ended no earlier than this process took the job over.

        What an earlier process noted is of a clock that may have been behind.
        """
        outcome = row.outcome(ended_at=self.started_at)
        if outcome.sending is None or outcome.sending.ended_at >= self.started_at:
            return outcome
        return attrs.evolve(
            outcome, sending=attrs.evolve(outcome.sending, ended_at=self.started_at)
        )

    def _settlement(self, outcome: "Outcome[Any, Any]", *, hold: bool) -> Settlement | None:
        index, error = outcome.index, outcome.error
        if outcome.status is OutcomeStatus.SUCCEEDED:
            reference = getattr(outcome.record, "refund_reference_id", None) or ""
            return Settlement(index=index, state=JobState.SUCCEEDED, reference=reference.strip())
        is_absent = outcome.status is OutcomeStatus.NOT_SENT
        again = is_absent and self.policy.resend_absent
        if not (again or hold):
            return None
        return Settlement(
            index=index,
            state=JobState.NEW if again else JobState.HELD,
            code=getattr(error, "code", ""),
            text=str(error or ""),
            said=getattr(error, "text", ""),
            proof=NOT_DONE if is_absent and not again else "",
        )


def _states(rows: "Sequence[Row]") -> "dict[str, dict[int, JobState]]":
    """Return, by transaction, the state of each of its orders."""
    states: dict[str, dict[int, JobState]] = defaultdict(dict)
    for row in rows:
        states[row.order.transaction_id][row.index] = row.state
    return states

"""What a job asks the gateway about orders that it does not know the fate of.

Law: as for any recovery; what the gateway's records prove is kept, and what they leave unclear is
held for a person, with the reason.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.outcomes import ListedBlock, count_statuses
from gateway_async.batching.results import BatchResult
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.journal.rows import Settlement
from gateway_async.journal.states import JobState
from gateway_async.recovery import Recovery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.batching.outcomes import Outcome
    from gateway_async.journal.lease import Lease
    from gateway_async.journal.rows import Row
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy, RecoveryPolicy

NOT_DONE = "not done"
"""The proof of a row whose order was shown not to be done."""

_MAY_BE_OURS = (JobState.SUCCEEDED, JobState.UNKNOWN, JobState.HELD, JobState.INTENT)


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

    async def look(self, rows: "Sequence[Row]") -> "dict[int, Outcome[Any, Any]]":
        """Look some unknown orders up, and return what is known of them now, by index."""
        known = {row.index: row for row in await self._beside(rows)}
        known |= {row.index: row for row in rows}
        outcomes = [known[index].outcome(ended_at=self.started_at) for index in sorted(known)]
        block = ListedBlock(tuple(outcomes))
        given: BatchResult[Any, Any] = BatchResult(
            counts=count_statuses(block.statuses), blocks=(block,)
        )
        # Resending is the run's own business: it keeps an intent first.
        policy = attrs.evolve(self.policy, resend_absent=False)
        found = await Recovery(self.session, policy, self.batch).recover(given)
        wanted = {row.index for row in rows}
        return {outcome.index: outcome for outcome in found if outcome.index in wanted}

    async def keep(self, found: "dict[int, Outcome[Any, Any]]", *, hold: bool) -> int:
        """Keep what was found.

        Args:
            found: What is known now, by index.
            hold: Whether what stays unclear is held for a person; else it stays unknown.

        Returns:
            How many orders are to be sent again.
        """
        made = [self._settlement(outcome, hold=hold) for outcome in found.values()]
        settlements = [settlement for settlement in made if settlement is not None]
        changed = await asyncio.gather(*map(self.lease.resolve_unknown, settlements))
        return sum(
            is_changed and settlement.state is JobState.NEW
            for is_changed, settlement in zip(changed, settlements, strict=True)
        )

    async def _beside(self, rows: "Sequence[Row]") -> "list[Row]":
        """Read what a recovery must know besides: a witness, and who else may claim a refund."""
        names = {row.order.transaction_id for row in rows}
        beside = await self.lease.rows_of(names, _MAY_BE_OURS)
        witness = await self.lease.witness()
        return [*beside, *([witness] if witness else [])]

    def _settlement(self, outcome: "Outcome[Any, Any]", *, hold: bool) -> Settlement | None:
        index, text = outcome.index, str(outcome.error or "")
        if outcome.status is OutcomeStatus.SUCCEEDED:
            reference = getattr(outcome.record, "refund_reference_id", None)
            return Settlement(index=index, state=JobState.SUCCEEDED, reference=reference or "")
        is_absent = outcome.status is OutcomeStatus.NOT_SENT
        if is_absent and self.policy.resend_absent:
            return Settlement(index=index, state=JobState.NEW, text=text)
        proof = NOT_DONE if is_absent else ""
        return (
            Settlement(index=index, state=JobState.HELD, text=text, proof=proof) if hold else None
        )

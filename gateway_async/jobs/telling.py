"""Which orders of a job were told, and what is told of those that are left.

Law: each is told once. What succeeded or was declined is told as soon as it is kept; what is
unknown, once the gateway's records were asked; that something was not sent, at the very end and
under the lease, since another process may be sending it otherwise. Pure.
"""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import FailedChunk, ListedOutcomes
from gateway_async.errors import GatewayError, LeaseLostError, NotSentError, OutcomeUnknownError
from gateway_async.journal.rows import StoredChunk
from gateway_async.journal.states import JobState
from gateway_async.models.orders import OutcomeStatus, count_statuses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gateway_async.batching.results import ChunkResult, Outcome
    from gateway_async.journal.rows import Row

_FINAL = (OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED)
_NOT_OURS = (
    "the lease of the job was lost, and another process may be at it; resume the job, or ask "
    "journal.outcomes() what became of it"
)
_NOT_READ = "the journal was not read to its end; resume the job, or ask journal.outcomes()"


class Telling:
    """What was told of the orders of a job.

    Args:
        span: From the first position to the last.
        total: How many of the orders there are ours.
    """

    def __init__(self, span: range, total: int) -> None:
        self._told = bytearray(len(span))
        self._first = span.start
        self._total = total
        self._unsent: list[tuple[Sequence[int], GatewayError]] = []

    @property
    def is_whole(self) -> bool:
        """Whether every order was told."""
        return self._told.count(1) == self._total

    def is_told(self, index: int) -> bool:
        """Say whether an order was told."""
        return bool(self._told[index - self._first])

    def note(self, block: "ChunkResult") -> None:
        """Note that a block is told."""
        for index in block.indices:
            self._told[index - self._first] = 1

    def settled(self, block: "ChunkResult") -> "ChunkResult | None":
        """Return what of a block may be told at once, and remember why the rest was not sent."""
        counts = count_statuses(block.statuses)
        final = sum(counts[status] for status in _FINAL)
        if final == len(block.indices):
            return block
        if isinstance(block, FailedChunk) and block.status is OutcomeStatus.NOT_SENT:
            self._unsent.append((block.indices, block.error))
        if not final:
            return None
        return ListedOutcomes(tuple(o for o in block.outcomes() if o.status in _FINAL))

    def gaps(self, most: int) -> "Iterator[tuple[int, int]]":
        """Yield first and last position of stretches that hold orders not told yet."""
        first = -1 if self.is_whole else self._told.find(0)
        while first >= 0:
            last = min(first + most, len(self._told)) - 1
            yield self._first + first, self._first + last
            first = self._told.find(0, last + 1)

    def left(
        self,
        rows: "Sequence[Row]",
        *,
        ours: "Callable[[], bool]",
        unsent: bool,
        reason: str | None,
    ) -> "Iterator[ChunkResult]":
        """Yield what is told at the end of orders that were not told yet.

        Args:
            rows: The orders, as they stand in the journal.
            ours: Says whether the lease is ours still; asked anew before each block, since whoever
                takes them may take their time.
            unsent: Whether those are told, too, that nobody has sent.
            reason: Why nothing more was sent, if something was the reason.
        """
        rows = [row for row in rows if not self.is_told(row.index)]
        new = [row for row in rows if row.state is JobState.NEW and unsent]
        blocks: list[ChunkResult] = [
            StoredChunk(tuple(r for r in rows if r.state is not JobState.NEW))
        ]
        blocks.extend(self._not_sent(new, reason))
        for block in blocks:
            if ours():
                yield block
            else:
                yield ListedOutcomes(tuple(map(_not_ours, block.outcomes())))

    def _not_sent(self, rows: "Sequence[Row]", reason: str | None) -> "Iterator[ChunkResult]":
        reasons = self._reasons(rows)
        default = NotSentError(f"nothing was sent: {reason or 'the job ended before'}")
        alike: dict[GatewayError, list[Row]] = defaultdict(list)
        for row in rows:
            alike[reasons.get(row.index, default)].append(row)
        for error, group in alike.items():
            yield FailedChunk(
                indices=[row.index for row in group],
                orders=[row.order for row in group],
                status=OutcomeStatus.NOT_SENT,
                error=error,
            )

    def _reasons(self, rows: "Sequence[Row]") -> "dict[int, GatewayError]":
        if not rows:
            return {}
        first, last = rows[0].index, rows[-1].index
        return {
            index: error
            for indices, error in self._unsent
            if indices[0] <= last and indices[-1] >= first
            for index in indices
        }

    def unread(self, orders: "Sequence[Any]", most: int) -> "Iterator[ChunkResult]":
        """Yield the orders that were not told, as unknown: the journal could not be read."""
        error = OutcomeUnknownError(_NOT_READ)
        for first, last in self.gaps(most):
            indices = [index for index in range(first, last + 1) if not self.is_told(index)]
            yield FailedChunk(
                indices=indices,
                orders=[orders[index] for index in indices],
                status=OutcomeStatus.UNKNOWN,
                error=error,
            )


def _not_ours(outcome: "Outcome[Any, Any]") -> "Outcome[Any, Any]":
    """Call what is not settled unknown: another process may be at it now."""
    if outcome.status in _FINAL:
        return outcome
    return attrs.evolve(outcome, status=OutcomeStatus.UNKNOWN, error=LeaseLostError(_NOT_OURS))

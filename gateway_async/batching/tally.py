"""What has been settled so far: blocks, counts, and what came back unasked. Pure."""

from collections import deque
from typing import TYPE_CHECKING, Any

from gateway_async.batching.outcomes import (
    Block,
    ListedBlock,
    Outcome,
    count_statuses,
)
from gateway_async.batching.results import BatchResult, Progress, UnexpectedRecords
from gateway_async.batching.statuses import OutcomeStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UNEXPECTED_KEPT = 1000


class Tally:
    """Counts everything, and keeps what nobody took yet.

    Attributes:
        finished: What is settled and not yet taken.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        told: Told the counts of what is settled, if anybody is.
    """

    def __init__(self, record_class: type[Any]) -> None:
        self.finished: deque[Block] = deque()
        self.requests = 0
        self.retries = 0
        self.told: Callable[[Mapping[OutcomeStatus, int]], None] | None = None
        self._record_class = record_class
        self._counts = dict.fromkeys(OutcomeStatus, 0)
        self._unexpected: list[Any] = []
        self._unexpected_count = 0

    def record(self, block: Block, *, again: bool = False) -> None:
        """Note what became of some orders, or `again` what an earlier process has told."""
        self.finished.append(block)
        counts = count_statuses(block.statuses)
        for status, count in counts.items():
            self._counts[status] += count
        if self.told is not None and not again:
            self.told(counts)

    def note_unexpected(self, items: "Sequence[object]") -> None:
        """Note items of a reply that belong to no order; the first thousand are kept."""
        if not items:
            return
        from gateway_async.wire.converter import (  # noqa: PLC0415  # a client has loaded it
            read_record,
            without_secrets,
        )

        self._unexpected_count += len(items)
        room = UNEXPECTED_KEPT - len(self._unexpected)
        self._unexpected += [
            read_record(self._record_class, item)
            if isinstance(item, dict)
            else without_secrets(item)
            for item in items[:room]
        ]

    def put_back(self, outcomes: "Sequence[Outcome[Any, Any]]") -> None:
        """Keep outcomes that were taken and not yielded; they are counted already."""
        if outcomes:
            self.finished.appendleft(ListedBlock(tuple(outcomes)))

    def absorb(self, result: BatchResult[Any, Any]) -> None:
        """Count the requests of a run that was a part of this one, and what came back unasked."""
        self.requests += result.requests
        self.retries += result.retries
        self._unexpected_count += result.unexpected.count
        room = UNEXPECTED_KEPT - len(self._unexpected)
        self._unexpected += result.unexpected.records[:room]

    def progress(self, total: int | None) -> Progress:
        """Return how far it has come, out of `total` orders."""
        return Progress(
            counts=dict(self._counts), requests=self.requests, retries=self.retries, total=total
        )

    def result(self, *, exhausted: bool) -> BatchResult[Any, Any]:
        """Return all of it."""
        return BatchResult(
            counts=dict(self._counts),
            unexpected=UnexpectedRecords(self._unexpected_count, tuple(self._unexpected)),
            exhausted=exhausted,
            requests=self.requests,
            retries=self.retries,
            blocks=tuple(self.finished),
            record_class=self._record_class,
        )

"""A listener that writes everything down."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import attrs

from gateway_async.telemetry import BatchEnd, BatchStart, RequestEnd, RequestStart, Telemetry


@attrs.define
class Diary(Telemetry):
    """Writes everything down.

    Attributes:
        batches: Each batch, with its end once it has ended.
        requests: Each request, with its end once it has ended.
        settled: The outcomes of orders, as they were reported.
    """

    batches: list[tuple[BatchStart, BatchEnd | None]] = attrs.field(factory=list)
    requests: list[tuple[RequestStart, RequestEnd | None]] = attrs.field(factory=list)
    settled: list[tuple[BatchStart, Mapping[Any, int]]] = attrs.field(factory=list)

    def batch_began(self, batch: BatchStart) -> int:
        return _note(self.batches, batch)

    def batch_ended(self, batch: BatchStart, end: BatchEnd, token: Any) -> None:
        assert self.batches[token] == (batch, None)
        self.batches[token] = batch, end

    def request_began(self, request: RequestStart) -> int:
        return _note(self.requests, request)

    def request_ended(self, request: RequestStart, end: RequestEnd, token: Any) -> None:
        assert self.requests[token] == (request, None)
        self.requests[token] = request, end

    def orders_settled(self, batch: BatchStart, counts: Mapping[Any, int]) -> None:
        self.settled.append((batch, dict(counts)))

    @property
    def is_closed(self) -> bool:
        """Whether all that began has ended."""
        return all(end is not None for _, end in (*self.batches, *self.requests))

    def totals(self, batch: BatchStart) -> Counter[Any]:
        """Return the reported outcomes of a batch."""
        totals: Counter[Any] = Counter()
        for start, counts in self.settled:
            totals.update(counts if start is batch else {})
        return totals


def _note(began: list[Any], start: object) -> int:
    began.append((start, None))
    return len(began) - 1

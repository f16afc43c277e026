"""The result of a batch: the outcomes of its chunks in input order, and their counts. Pure."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Generic, overload

import attrs

from gateway_async.batching.table import make_rows
from gateway_async.errors import BatchIncompleteError
from gateway_async.models.orders import OutcomeStatus, count_status, present_statuses
from gateway_async.outcomes import ChunkResult, ListedOutcomes, O_co, Outcome, R_co
from gateway_async.wire.records import read_record, without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable


UNEXPECTED_KEPT = 1000
UNEXPECTED_BYTES_KEPT = 16 * 1024 * 1024


@attrs.frozen
class UnexpectedRecords(Generic[R_co]):
    """Records that belong to no order of ours.

    Attributes:
        count: How many came.
        records: The first thousand of them, of replies of 16 MiB together at most: typed, or as
            they came where they are no records.
    """

    count: int = 0
    records: tuple[R_co, ...] = ()

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[R_co]:
        return iter(self.records)

    def __getitem__(self, position: int) -> R_co:
        return self.records[position]


class OutcomeView(Sequence[Outcome[O_co, R_co]]):
    """The outcomes of a result, or those of one status, in input order.

    They are made when they are read; iterate rather than pick single ones.

    Args:
        chunks: Where they are kept.
        status: Which are read; None for all of them.
    """

    _status: OutcomeStatus | None = None

    def __init__(self, chunks: Sequence[ChunkResult], status: OutcomeStatus | None = None) -> None:
        self.chunks = chunks
        self._status = status

    @cached_property
    def _last_read(self) -> list[Any]:
        """The number of the group that was read last, and its outcomes."""
        return [-1, []]

    @cached_property
    def _groups(self) -> list[list[ChunkResult]]:
        """The chunks by their first index, those whose indices interleave together."""
        groups: list[list[ChunkResult]] = []
        last = -1
        for chunk in sorted(
            (one for one in self.chunks if one.indices), key=lambda chunk: chunk.indices[0]
        ):
            if groups and chunk.indices[0] < last:
                groups[-1].append(chunk)
            else:
                groups.append([chunk])
            last = max(last, chunk.indices[-1])
        return groups

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(self._count, self._groups)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Outcome[O_co, R_co]]:
        return chain.from_iterable(map(self._outcomes, self._groups))

    @overload
    def __getitem__(self, position: int) -> Outcome[O_co, R_co]: ...
    @overload
    def __getitem__(self, position: slice) -> list[Outcome[O_co, R_co]]: ...
    def __getitem__(self, position: int | slice) -> Outcome[O_co, R_co] | list[Outcome[O_co, R_co]]:
        if isinstance(position, slice):
            return [self[n] for n in range(*position.indices(len(self)))]
        wanted = position + len(self) if position < 0 else position
        if not 0 <= wanted < len(self):
            raise IndexError(f"no outcome at {position}: there are {len(self)}")
        number = bisect_right(self._ends, wanted)
        if self._last_read[0] != number:
            self._last_read[:] = number, self._outcomes(self._groups[number])
        found: Outcome[O_co, R_co] = self._last_read[1][wanted - self._ends[number]]
        return found

    def __repr__(self) -> str:
        return f"<{len(self)} {self._status or 'outcomes'}>"

    def _count(self, group: list[ChunkResult]) -> int:
        if self._status is None:
            return sum(len(chunk.indices) for chunk in group)
        return sum(count_status(chunk.statuses, self._status) for chunk in group)

    def _outcomes(self, group: list[ChunkResult]) -> list[Outcome[Any, Any]]:
        if not self._count(group):
            return []
        outcomes = [outcome for chunk in group for outcome in chunk.outcomes()]
        if len(group) > 1:
            outcomes.sort(key=lambda outcome: outcome.index)
        if self._status is None:
            return outcomes
        return [outcome for outcome in outcomes if outcome.status is self._status]


@attrs.frozen(kw_only=True)
class Progress:
    """How far a batch has come.

    Attributes:
        counts: Orders settled so far, by status.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        total: Orders in all; None where the input does not tell.
    """

    counts: Mapping[OutcomeStatus, int]
    requests: int
    retries: int
    total: int | None

    @property
    def done(self) -> int:
        """Orders settled so far."""
        return sum(self.counts.values())


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class BatchResult(OutcomeView[O_co, R_co]):
    """The outcome of every order of a batch, in input order.

    After a stream, `counts` covers every order, and the sequence holds the outcomes that were
    known and not yet yielded.

    Attributes:
        counts: Orders by status, each status present.
        unexpected: Records that belong to no order of ours.
        exhausted: Whether every order of the input was taken.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        chunks: Where the outcomes are kept.
        of_one_batch: Whether it is the result of one batch, and not put together of outcomes.
        record_class: The class of its records, where that is known.
    """

    counts: Mapping[OutcomeStatus, int]
    unexpected: UnexpectedRecords[Any] = attrs.field(factory=UnexpectedRecords)
    exhausted: bool = True
    requests: int = 0
    retries: int = 0
    chunks: tuple[ChunkResult, ...] = ()
    of_one_batch: bool = True
    record_class: type[Any] | None = None

    def __repr__(self) -> str:
        return f"<BatchResult {', '.join(self._parts) or 'no orders'}>"

    @property
    def ok(self) -> bool:
        """Whether every order succeeded, none was left, and nothing unexpected came back."""
        succeeded = self.counts[OutcomeStatus.SUCCEEDED] == sum(self.counts.values())
        return succeeded and self.exhausted and not self.unexpected

    @property
    def succeeded(self) -> OutcomeView[O_co, R_co]:
        """The orders that the gateway says it did."""
        return OutcomeView(self.chunks, OutcomeStatus.SUCCEEDED)

    @property
    def declined(self) -> OutcomeView[O_co, R_co]:
        """The orders that the gateway says it did not do."""
        return OutcomeView(self.chunks, OutcomeStatus.DECLINED)

    @property
    def absent(self) -> OutcomeView[O_co, R_co]:
        """Look-ups only: the orders that the gateway did not list."""
        return OutcomeView(self.chunks, OutcomeStatus.ABSENT)

    @property
    def unknown(self) -> OutcomeView[O_co, R_co]:
        """The orders that may have been done: recover them, never resend."""
        return OutcomeView(self.chunks, OutcomeStatus.UNKNOWN)

    @property
    def not_sent(self) -> OutcomeView[O_co, R_co]:
        """The orders that this run did not do, proved: resend them; of a job, by running it again.

        After an `AlikeRefundError`, look first: another run may have done it.
        """
        return OutcomeView(self.chunks, OutcomeStatus.NOT_SENT)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the outcomes as flat rows, for a data frame of polars, pandas or DuckDB.

        Every row has the same keys: `index`, `status`, `error` (its text), `error_type`,
        `error_code` and `error_text` (the gateway's own code and text where it declined); the
        fields of the order under their names; and the fields of the record under `record_` and
        their names. What has no value is None. A nested object has a key for each of its fields
        (`record_delivery_information_delivery_city`); a list is JSON text, and so are a record's
        `extra` and `unreadable`. Amounts are `Decimal`, all of a key with the same decimal places;
        dates and times as on the record; all else `str` or `int`. Secrets are `***`.

        There is a row for each order, in input order. Of a look-up, an order with several records
        has a row for each of them, with the same `index`.
        """
        return make_rows(self, self.record_class)

    def raise_for_problems(self) -> None:
        """Do nothing if `ok`.

        Raises:
            BatchIncompleteError: Otherwise, carrying this result.
        """
        if not self.ok:
            said = ", ".join(self._parts)
            raise BatchIncompleteError(f"the batch is incomplete: {said}", result=self)

    @property
    def _parts(self) -> list[str]:
        """Its counts in words."""
        parts = [f"{count} {status}" for status, count in self.counts.items() if count]
        if self.unexpected:
            parts.append(f"{self.unexpected.count} unexpected records")
        if not self.exhausted:
            parts.append("the input was not taken to its end")
        return parts


class Results:
    """Counts the outcomes of a batch as they come, and keeps those that were not yet taken.

    Attributes:
        finished: The chunks that were not yet taken.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
    """

    def __init__(
        self,
        record_class: type[Any],
        on_counts: "Callable[[Mapping[OutcomeStatus, int]], None] | None" = None,
    ) -> None:
        self.finished: deque[ChunkResult] = deque()
        self.requests: int = 0
        self.retries: int = 0
        self._on_counts = on_counts
        self._record_class = record_class
        self._counts = dict.fromkeys(OutcomeStatus, 0)
        self._unexpected: list[Any] = []
        self._unexpected_count = 0
        self._unexpected_bytes = 0

    def add(self, chunk: ChunkResult, *, is_reported: bool = False) -> None:
        """Add the outcomes of a chunk; an earlier process may have reported them."""
        self.finished.append(chunk)
        counts = present_statuses(chunk.statuses)
        for status, count in counts.items():
            self._counts[status] += count
        if self._on_counts is not None and not is_reported:
            self._on_counts(counts)

    def add_unexpected(self, items: "Sequence[object]", size: int) -> None:
        """Add items of a reply that belong to no order.

        The first thousand are kept, of replies of 16 MiB together at most.

        Args:
            items: The items.
            size: How many bytes their reply has.
        """
        if not items:
            return
        self._unexpected_count += len(items)
        self._unexpected_bytes += size
        is_full = self._unexpected_bytes > UNEXPECTED_BYTES_KEPT
        room = 0 if is_full else UNEXPECTED_KEPT - len(self._unexpected)
        self._unexpected += [
            read_record(self._record_class, item)
            if isinstance(item, dict)
            else without_secrets(item)
            for item in items[:room]
        ]

    def add_requests(self, made: "Results | Progress") -> None:
        """Count the requests that a look-up or another batch has made for this one."""
        self.requests += made.requests
        self.retries += made.retries

    def put_back(self, outcomes: "Sequence[Outcome[Any, Any]]") -> None:
        """Keep outcomes that were taken and not yielded; they are counted already."""
        if outcomes:
            self.finished.appendleft(ListedOutcomes(tuple(outcomes)))

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
            chunks=tuple(self.finished),
            record_class=self._record_class,
        )

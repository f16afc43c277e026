"""What a batch comes to, as its caller reads it. Pure.

Law: every order of a result is read exactly once, in input order; outcomes are made when they are
read.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, chain
from typing import Any, Generic, TypeVar, overload

import attrs

from gateway_async.batching.outcomes import Block, Outcome, status_code
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.batching.table import make_rows
from gateway_async.errors import BatchIncompleteError

O_co = TypeVar("O_co", covariant=True)
"""An order."""
R_co = TypeVar("R_co", covariant=True)
"""A record, or a tuple of them."""


@attrs.frozen
class UnexpectedRecords(Generic[R_co]):
    """Records that belong to no order of ours.

    Attributes:
        count: How many came.
        records: The first thousand of them: typed, or as they came where they are no records.
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
    """

    def __init__(self, blocks: "Sequence[Block]", status: OutcomeStatus | None = None) -> None:
        self._status = status
        self._blocks = blocks
        self._read: tuple[int, list[Outcome[Any, Any]]] = (-1, [])

    @cached_property
    def _runs(self) -> "list[list[Block]]":
        return list(_runs(self._blocks))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(self._count, self._runs)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Outcome[O_co, R_co]]:
        return chain.from_iterable(map(self._outcomes, self._runs))

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
        if self._read[0] != number:
            self._read = number, self._outcomes(self._runs[number])
        return self._read[1][wanted - self._ends[number]]

    def __repr__(self) -> str:
        return f"<{len(self)} {self._status or 'outcomes'}>"

    def _count(self, run: "list[Block]") -> int:
        if self._status is None:
            return sum(len(block.indices) for block in run)
        return sum(block.statuses.count(status_code(self._status)) for block in run)

    def _outcomes(self, run: "list[Block]") -> list[Outcome[Any, Any]]:
        if not self._count(run):
            return []
        outcomes = [outcome for block in run for outcome in block.outcomes()]
        if len(run) > 1:
            outcomes.sort(key=lambda outcome: outcome.index)
        if self._status is None:
            return outcomes
        return [outcome for outcome in outcomes if outcome.status is self._status]


def _runs(blocks: "Sequence[Block]") -> "Iterator[list[Block]]":
    """Group blocks, sorted by their first index, into those whose indices interleave."""
    run: list[Block] = []
    last = -1
    for block in sorted(
        (block for block in blocks if block.indices), key=lambda block: block.indices[0]
    ):
        if run and block.indices[0] > last:
            yield run
            run = []
        run.append(block)
        last = max(last, block.indices[-1])
    if run:
        yield run


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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BatchResult(Sequence[Outcome[O_co, R_co]]):
    """What became of every order of a batch, in input order.

    After a stream, `counts` covers every order, and the sequence holds the outcomes that were
    known and not yet yielded.

    Attributes:
        counts: Orders by status, each status present.
        unexpected: Records that belong to no order of ours.
        exhausted: Whether every order of the input was taken.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        blocks: Where the outcomes are kept.
        of_one_batch: Whether it is what one batch came to, and not put together of outcomes.
        record_class: What the records of its outcomes are read as; None where it was put together.
    """

    counts: Mapping[OutcomeStatus, int]
    unexpected: UnexpectedRecords[Any] = attrs.field(factory=UnexpectedRecords)
    exhausted: bool = True
    requests: int = 0
    retries: int = 0
    blocks: "tuple[Block, ...]" = ()
    of_one_batch: bool = True
    record_class: type[Any] | None = None
    _view: OutcomeView[O_co, R_co] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_view", OutcomeView(self.blocks))

    def __repr__(self) -> str:
        return f"<BatchResult {', '.join(self._parts) or 'no orders'}>"

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[Outcome[O_co, R_co]]:
        return iter(self._view)

    @overload
    def __getitem__(self, position: int) -> Outcome[O_co, R_co]: ...
    @overload
    def __getitem__(self, position: slice) -> list[Outcome[O_co, R_co]]: ...
    def __getitem__(self, position: int | slice) -> Outcome[O_co, R_co] | list[Outcome[O_co, R_co]]:
        return self._view[position]

    @property
    def ok(self) -> bool:
        """Whether every order succeeded, none was left, and nothing unexpected came back."""
        succeeded = self.counts[OutcomeStatus.SUCCEEDED] == sum(self.counts.values())
        return succeeded and self.exhausted and not self.unexpected

    @property
    def succeeded(self) -> OutcomeView[O_co, R_co]:
        """The orders that the gateway says it did."""
        return self._of(OutcomeStatus.SUCCEEDED)

    @property
    def declined(self) -> OutcomeView[O_co, R_co]:
        """The orders that the gateway says it did not do."""
        return self._of(OutcomeStatus.DECLINED)

    @property
    def absent(self) -> OutcomeView[O_co, R_co]:
        """Look-ups only: the orders that the gateway did not list."""
        return self._of(OutcomeStatus.ABSENT)

    @property
    def unknown(self) -> OutcomeView[O_co, R_co]:
        """The orders that may have been done: recover them, never resend."""
        return self._of(OutcomeStatus.UNKNOWN)

    @property
    def not_sent(self) -> OutcomeView[O_co, R_co]:
        """The orders that were not done, proved: resend freely; of a job, by running it again."""
        return self._of(OutcomeStatus.NOT_SENT)

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
        """What it came to, in words."""
        parts = [f"{count} {status}" for status, count in self.counts.items() if count]
        if self.unexpected:
            parts.append(f"{self.unexpected.count} unexpected records")
        if not self.exhausted:
            parts.append("the input was not taken to its end")
        return parts

    def _of(self, status: OutcomeStatus) -> OutcomeView[O_co, R_co]:
        return OutcomeView(self.blocks, status)

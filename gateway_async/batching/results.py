"""Outcomes: kept chunk by chunk, and made in input order when they are read. Pure.

A chunk keeps the bytes of its reply, which take a third of the memory of the decoded reply. They
are decoded, and judged again where needed, when outcomes are read.
"""

import functools
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, chain, repeat
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import attrs
import orjson

from gateway_async.batching.judge import SUCCEEDED, Judgement, all_echoed, judge
from gateway_async.batching.table import make_rows
from gateway_async.errors import (
    BatchIncompleteError,
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    NotSentError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import (
    OutcomeStatus,
    count_status,
    present_statuses,
    status_codes,
    statuses_of,
    whole_marker,
)
from gateway_async.wire.decode import decode_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.batching.judge import Overall, Verdict
    from gateway_async.dialect import Dialect
    from gateway_async.operations import Operation

O_co = TypeVar("O_co", covariant=True)
"""An order."""
R_co = TypeVar("R_co", covariant=True)
"""A record, or a tuple of them."""

UNEXPECTED_KEPT = 1000
UNEXPECTED_BYTES_KEPT = 16 * 1024 * 1024
_SUCCEEDED = status_codes([OutcomeStatus.SUCCEEDED])
_WITHOUT_ERROR = (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
_NOT_SENT = (NotSentError, ConfigurationError, InvalidOrderError)


@attrs.frozen(kw_only=True, weakref_slot=False)
class Sending:
    """What recovery must know of the request that an order was in.

    Attributes:
        ended_at: When the request ended, in seconds since the epoch; infinite if the process ended
            before.
        references: By transaction, the references of its earlier refunds, where recorded.
        marker: The beginning that the markers of the batch share, where markers were sent.
        alone: Whether the batch had no other order of the transaction.
    """

    ended_at: float
    references: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    marker: str | None = None
    alone: bool = True

    def marker_of(self, index: int) -> str | None:
        """Return the whole marker of the order at this position of the input."""
        return None if self.marker is None else whole_marker(self.marker, index)


@attrs.frozen(kw_only=True, weakref_slot=False)
class ReplyEnvelope:
    """The overall result of a reply; the orders of one request share it.

    Attributes:
        return_status: The overall result, as text; 1 on success. None where the reply has none.
        return_message: The text for it; OK on success. None where the reply has none.
        http_status: The HTTP status.
        received_at: When the reply was there, in UTC.
    """

    return_status: str | None
    return_message: str | None
    http_status: int
    received_at: datetime


@attrs.frozen(kw_only=True, weakref_slot=False)
class Exchange:
    """One request and its reply; the outcomes of its orders share it.

    Attributes:
        record_class: The class of its records.
        many: Whether an order may have several records, as in a look-up.
        sending: What recovery must know of it; None if it was never sent.
        reply: The overall result; None if no readable reply came, and for outcomes from a journal.
    """

    record_class: type[Any] = object
    many: bool = False
    sending: Sending | None = None
    reply: ReplyEnvelope | None = None


NO_EXCHANGE = Exchange()
"""The exchange of an order that was in no request."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Outcome(Generic[O_co, R_co]):
    """The outcome of one order.

    Attributes:
        order: The order, as it was handed in.
        index: Its position in the input, from 0.
        status: Whether it was done.
        error: Why it did not succeed; None where it did, or is absent.
        exchange: The request that it was in.
    """

    order: O_co
    index: int
    status: OutcomeStatus
    error: GatewayError | None = None
    _items: "Sequence[Mapping[str, Any]] | _EchoingReply" = attrs.field(default=(), repr=False)
    exchange: Exchange = attrs.field(default=NO_EXCHANGE, repr=False)

    @property
    def sending(self) -> Sending | None:
        """What recovery must know of its request; None if it was never sent."""
        return self.exchange.sending

    @property
    def reply(self) -> ReplyEnvelope | None:
        """The overall result of the reply; one object for all orders of a request.

        None if no readable reply came, and for an outcome from a journal.
        """
        return self.exchange.reply

    @property
    def items(self) -> Sequence[Mapping[str, Any]]:
        """The order's items of the reply as they came; from a journal, as far as it kept them."""
        found: Any = self._items
        return (found.items[found.place(self.index)],) if type(found) is _EchoingReply else found

    @property
    def record(self) -> R_co | None:
        """The order's record in the reply, typed; None if there is none.

        A look-up has a tuple, since an order may have several records. Reading never raises.
        """
        items: Any = self._items
        if type(items) is _EchoingReply:
            return items.records[items.place(self.index)]  # type: ignore[no-any-return]  # by operation
        if not items:
            return None
        records = _reader()(self.exchange.record_class, items)
        return tuple(records) if self.exchange.many else records[0]  # type: ignore[return-value]  # likewise

    def __reduce__(self) -> "tuple[Callable[..., Any], tuple[()]]":
        """Pickle the items of this order without secrets, and not the whole reply."""
        from gateway_async.wire.records import storable_item  # noqa: PLC0415  # a client has it

        kept = {field.alias or "": getattr(self, field.name) for field in attrs.fields(Outcome)}
        items = tuple([storable_item(self.exchange.record_class, item) for item in self.items])
        return functools.partial(Outcome, **{**kept, "items": items}), ()


@functools.cache
def _reader() -> "Callable[[type[Any], Sequence[object]], list[Any]]":
    from gateway_async.wire.records import read_records  # noqa: PLC0415  # a client has loaded it

    return read_records


class _Draft(Outcome[Any, Any]):
    """An outcome to fill, then made one: filling a frozen one takes twice as long."""

    __slots__ = ()
    __init__, __setattr__ = object.__init__, object.__setattr__
    __delattr__ = object.__delattr__  # else Python code sets each field


class ChunkResult(Protocol):
    """The outcomes of some orders, kept together."""

    @property
    def indices(self) -> Sequence[int]:
        """The positions of the orders in the input, ascending."""
        ...

    @property
    def orders(self) -> Sequence[Any]:
        """The orders."""
        ...

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        ...

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes, in the order of the indices."""
        ...


@attrs.frozen(kw_only=True, weakref_slot=False)
class FailedChunk:
    """Orders that share one error: not sent, declined as a whole, or without a readable reply.

    Attributes:
        indices: Their positions in the input, ascending.
        orders: The orders.
        error: The error of each, which says their status.
        sending: What recovery must know of the request; None if it was never sent.
        envelope: The reply, where its HTTP status alone says that nothing was done.
    """

    indices: Sequence[int]
    orders: Sequence[Any]
    error: GatewayError
    sending: Sending | None = None
    envelope: ReplyEnvelope | None = None

    @property
    def status(self) -> OutcomeStatus:
        """The status of each."""
        if isinstance(self.error, RejectedError):
            return OutcomeStatus.DECLINED
        is_sent = not isinstance(self.error, _NOT_SENT)
        return OutcomeStatus.UNKNOWN if is_sent else OutcomeStatus.NOT_SENT

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return status_codes([self.status]) * len(self.orders)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        exchange = Exchange(sending=self.sending, reply=self.envelope)
        verdict = self.status, self.error
        return _outcomes(self.orders, self.indices, repeat(verdict), repeat(()), exchange)


class AnsweredChunk:
    """Orders whose reply was readable; the reply is kept as it came, without signatures.

    Args:
        indices: Their positions in the input, ascending.
        orders: The orders.
        operation: The operation.
        dialect: What the interface leaves open.
        reply: The reply.
        judgement: Its judgement; None if a glance proved that all succeeded, in their order.
        sending: What recovery must know of the request.
        overall: The overall result in the reply.
    """

    __slots__ = (
        *("_dialect", "_exchange", "_overall", "indices", "is_echoed", "is_glanced"),
        *("operation", "orders", "reply", "sending", "statuses"),
    )

    def __init__(  # noqa: PLR0913, PLR0917  # what a chunk is made of
        self,
        indices: Sequence[int],
        orders: Sequence[Any],
        operation: "Operation",
        dialect: "Dialect",
        reply: bytes,
        judgement: Judgement | None,
        sending: Sending,
        overall: "Overall",
    ) -> None:
        self.indices = indices
        self.orders = orders
        self.operation = operation
        self.reply = reply
        self.sending = sending
        self.is_glanced: bool = judgement is None
        self.is_echoed: bool = judgement is None or judgement.all_echoed
        self.statuses: bytes = (
            _SUCCEEDED * len(orders)
            if judgement is None or judgement.all_echoed
            else status_codes([status for status, _ in judgement.verdicts])
        )
        self._dialect = dialect
        self._overall = overall
        self._exchange: Exchange | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether the reply says that the request as a whole was accepted."""
        return self._overall[0] in self._dialect.done_return_statuses

    @property
    def exchange(self) -> Exchange:
        """The request: one object for all outcomes."""
        if self._exchange is None:
            envelope = ReplyEnvelope(
                return_status=self._overall[0],
                return_message=self._overall[1],
                http_status=200,
                received_at=datetime.fromtimestamp(self.sending.ended_at, UTC),
            )
            self._exchange = Exchange(
                record_class=self.operation.record_class,
                many=self.operation.is_look_up,
                sending=self.sending,
                reply=envelope,
            )
        return self._exchange

    def __reduce__(self) -> "tuple[type[ListedOutcomes], tuple[tuple[Outcome[Any, Any], ...]]]":
        """Pickle the outcomes, which leave the secrets of the reply out."""
        return ListedOutcomes, (tuple(self.outcomes()),)

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes; those that succeeded in their order decode the reply when read."""
        verdicts: Iterable[Verdict] = repeat(SUCCEEDED)
        items: Iterable[Any] = repeat(_EchoingReply(self))
        if not self.is_echoed:
            judgement = self.judgement()
            verdicts, items = judgement.verdicts, judgement.items
        return _outcomes(self.orders, self.indices, verdicts, items, self.exchange)

    def judgement(self) -> Judgement:
        """Read the reply once more, and judge it as before."""
        if self.is_echoed:
            return all_echoed(_EchoingReply(self).items)
        try:
            payload = decode_json(self.reply)
        except ReplyUnreadableError as error:  # nested so deep that this stack cannot take it
            bare = error.with_traceback(None)
            verdicts: list[tuple[OutcomeStatus, GatewayError | None]] = [
                (status, None if status in _WITHOUT_ERROR else bare)
                for status in statuses_of(self.statuses)
            ]
            return Judgement(verdicts, [()] * len(verdicts), [])
        references = self.sending.references
        return judge(self.operation, self.orders, payload, self._dialect, references)


class _EchoingReply:
    """A reply that repeats the orders of its chunk; it is decoded when the first of them is read.

    Attributes:
        place: Finds an order among them, by its position in the input.
    """

    def __init__(self, chunk: AnsweredChunk) -> None:
        self.place: Callable[[int], int] = chunk.indices.index
        self._reply = chunk.reply
        self._list_field = chunk.operation.list_field or ""
        self._record_class = chunk.operation.record_class
        # What was proved at a glance adds nothing but texts, so no integer that orjson would round.
        self._load = orjson.loads if chunk.is_glanced else decode_json

    @cached_property
    def items(self) -> list[Any]:
        """The items, one for each order."""
        listed: list[Any] = self._load(self._reply)[self._list_field]
        return listed

    @cached_property
    def records(self) -> list[Any]:
        """The items, read as records."""
        return _reader()(self._record_class, self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _EchoingReply) and self._reply == other._reply

    def __hash__(self) -> int:
        return hash(self._reply)


def _outcomes(
    orders: Sequence[Any],
    indices: Sequence[int],
    verdicts: "Iterable[Verdict]",
    items: Iterable[Any],
    exchange: Exchange,
) -> list[Outcome[Any, Any]]:
    """Make the outcomes of the orders of one request."""
    made: list[Any] = [_Draft() for _ in orders]
    values = zip(made, orders, indices, verdicts, items, strict=False)
    for outcome, order, index, verdict, found in values:
        outcome.order, outcome.index = order, index
        outcome.status, outcome.error = verdict
        outcome._items, outcome.exchange = found, exchange  # noqa: SLF001  # in this module
        outcome.__class__ = Outcome  # a draft, until here
    return made


@attrs.frozen
class ListedOutcomes:
    """Outcomes kept as they are.

    Attributes:
        listed: The outcomes, by ascending index.
    """

    listed: tuple[Outcome[Any, Any], ...]

    @property
    def indices(self) -> Sequence[int]:
        """The positions of the orders in the input."""
        return [outcome.index for outcome in self.listed]

    @property
    def orders(self) -> Sequence[Any]:
        """The orders."""
        return [outcome.order for outcome in self.listed]

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return status_codes([outcome.status for outcome in self.listed])

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Return the outcomes."""
        return list(self.listed)


def unknown_orders(chunk: ChunkResult) -> list[Any]:
    """Return the orders of a chunk whose outcome is unknown."""
    if not count_status(chunk.statuses, OutcomeStatus.UNKNOWN):
        return []
    outcomes = zip(chunk.orders, chunk.statuses, strict=True)
    return [order for order, code in outcomes if count_status(bytes([code]), OutcomeStatus.UNKNOWN)]


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
        for chunk in sorted((one for one in self.chunks if one.indices), key=_first_index):
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


def _first_index(chunk: ChunkResult) -> int:
    return chunk.indices[0]


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
        """The orders that were not done, proved: resend freely; of a job, by running it again."""
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
        on_counts: Called with the counts of each new chunk, if set.
    """

    def __init__(self, record_class: type[Any]) -> None:
        self.finished: deque[ChunkResult] = deque()
        self.requests: int = 0
        self.retries: int = 0
        self.on_counts: Callable[[Mapping[OutcomeStatus, int]], None] | None = None
        self._record_class = record_class
        self._counts = dict.fromkeys(OutcomeStatus, 0)
        self._unexpected: list[Any] = []
        self._unexpected_count = 0
        self._unexpected_bytes = 0

    def add(self, chunk: ChunkResult, *, known: bool = False) -> None:
        """Add the outcomes of a chunk; `known` where an earlier process has reported them."""
        self.finished.append(chunk)
        counts = present_statuses(chunk.statuses)
        for status, count in counts.items():
            self._counts[status] += count
        if self.on_counts is not None and not known:
            self.on_counts(counts)

    def add_unexpected(self, items: "Sequence[object]", size: int) -> None:
        """Add items of a reply that belong to no order.

        The first thousand are kept, of replies of 16 MiB together at most.

        Args:
            items: The items.
            size: How many bytes their reply has.
        """
        from gateway_async.wire.records import read_record, without_secrets  # noqa: PLC0415  # likewise

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

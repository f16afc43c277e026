"""The outcomes of a chunk: kept as the bytes of its reply, and made when they are read. Pure.

The bytes take a third of the memory of the decoded reply. They are decoded, and judged again where
needed, when outcomes are read.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs
import orjson

from gateway_async.batching.judge import SUCCEEDED, Judgement, all_echoed, judge
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    NotSentError,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.models.orders import OutcomeStatus, status_codes, statuses_of, whole_marker
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
        marker_prefix: What the markers of the batch begin with, where markers were sent.
        alone: Whether the batch had no other order of the transaction.
    """

    ended_at: float
    references: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    marker_prefix: str | None = None
    alone: bool = True

    def marker_of(self, index: int) -> str | None:
        """Return the whole marker of the order at this position of the input."""
        return None if self.marker_prefix is None else whole_marker(self.marker_prefix, index)


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

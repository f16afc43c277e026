"""The outcome of an order, and what it shares with the others of its request. Pure.

It knows nothing of batches and jobs: both make outcomes, one from a reply, the other from its rows.
"""

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs
import orjson

from gateway_async.errors import GatewayError
from gateway_async.models.orders import OutcomeStatus, status_codes, whole_marker
from gateway_async.models.values import unfrozen
from gateway_async.wire.decode import decode_json
from gateway_async.wire.records import read_records, storable_item

if TYPE_CHECKING:
    from gateway_async.operations import Operation

O_co = TypeVar("O_co", covariant=True)
"""An order."""
R_co = TypeVar("R_co", covariant=True)
"""A record, or a tuple of them."""


@attrs.frozen(kw_only=True, weakref_slot=False)
class Sending:
    """What recovery must know of the request that an order was in.

    Attributes:
        ended_at: When the request ended, in seconds since the epoch; infinite if the process ended
            before.
        began_at: When its batch, or the run of its job, began, in seconds since the epoch; minus
            infinity if that was not noted.
        references: By transaction, the references of its earlier refunds, where recorded.
        claimed: By transaction, a reference that the reply names and an earlier refund has claimed.
        marker_prefix: What the markers of the batch begin with, where markers were sent.
        alone: Whether the batch refused a second order of the transaction; a job does not.
    """

    ended_at: float
    began_at: float = -math.inf
    references: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    claimed: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
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
    _items: "Sequence[Mapping[str, Any]] | EchoingReply" = attrs.field(default=(), repr=False)
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
        return (found.items[found.place(self.index)],) if type(found) is EchoingReply else found

    @property
    def record(self) -> R_co | None:
        """The order's record in the reply, typed; None if there is none.

        A look-up has a tuple, since an order may have several records. Reading never raises.
        """
        items: Any = self._items
        if type(items) is EchoingReply:
            return items.records[items.place(self.index)]  # type: ignore[no-any-return]  # by operation
        if not items:
            return None
        records = read_records(self.exchange.record_class, items)
        return tuple(records) if self.exchange.many else records[0]  # type: ignore[return-value]  # likewise

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        """Pickle the items of this order without secrets, and not the whole reply."""
        kept = {field.alias or "": getattr(self, field.name) for field in attrs.fields(Outcome)}
        items = tuple([storable_item(self.exchange.record_class, item) for item in self.items])
        return functools.partial(Outcome, **{**kept, "items": items}), ()


class EchoingReply:
    """A reply that repeats the orders of its chunk; it is decoded when the first of them is read.

    Attributes:
        place: Finds an order among them, by its position in the input.
    """

    def __init__(
        self, indices: Sequence[int], reply: bytes, operation: "Operation", *, is_glanced: bool
    ) -> None:
        self.place: Callable[[int], int] = indices.index
        self._reply = reply
        self._list_field = operation.list_field
        self._record_class = operation.record_class
        # What was proved at a glance adds nothing but texts, so no integer that orjson would round.
        self._load = orjson.loads if is_glanced else decode_json

    @cached_property
    def items(self) -> list[Any]:
        """The items, one for each order."""
        listed: list[Any] = self._load(self._reply)[self._list_field]
        return listed

    @cached_property
    def records(self) -> list[Any]:
        """The items, read as records."""
        return read_records(self._record_class, self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EchoingReply) and self._reply == other._reply

    def __hash__(self) -> int:
        return hash(self._reply)


_Draft = unfrozen(Outcome)


def make_outcomes(
    orders: Sequence[Any],
    indices: Sequence[int],
    verdicts: Iterable[tuple[OutcomeStatus, GatewayError | None]],
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

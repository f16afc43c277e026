"""Orders in, chunks out: orders are pulled, checked, encoded, and cut into chunks.

Every order that is pulled leaves once: in a chunk, or refused with its error. Orders of equal
identity never share a chunk and keep their order. This module does not know how a chunk is sent.
"""

import asyncio
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from gateway_async.batching.chunks import Chunk, FailedChunk
from gateway_async.errors import DuplicateOrderError, GatewayError, InvalidOrderError, NotSentError
from gateway_async.models.orders import OutcomeStatus, count_status
from gateway_async.models.values import describe
from gateway_async.operations import identity_of
from gateway_async.wire.encode import check_amounts, selection_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.dialect import Dialect
    from gateway_async.operations import Operation
    from gateway_async.outcomes import ChunkResult
    from gateway_async.settings import BatchPolicy

    Identity = str | tuple[str, str]

_CHECKED_AT_ONCE = 200
_LEFT_IN_A_CHUNK = 1000
_PROBLEMS_SHOWN = 20


def name_of(operation: "Operation", identity: "Identity") -> tuple[str, str]:
    """Return the field of an identity, and its value."""
    return (operation.identity_field, identity) if isinstance(identity, str) else identity


def check_order(
    operation: "Operation", order: object, dialect: "Dialect"
) -> InvalidOrderError | None:
    """Return why an order cannot be sent, or None."""
    wanted = operation.order_class
    if type(order) is not wanted:  # a subclass may have fields that the interface does not know
        got = type(order).__name__ + (", a subclass" if isinstance(order, wanted) else "")
        return InvalidOrderError(f"expected {wanted.__name__}, got {got}")
    try:
        _check_values(operation, [order], dialect)
    except InvalidOrderError as error:
        return error.with_traceback(None)
    return None


def _check_values(operation: "Operation", orders: "Sequence[Any]", dialect: "Dialect") -> None:
    """Check that orders of the right class can be written.

    Raises:
        InvalidOrderError: If one cannot.
    """
    if operation.is_look_up:
        selection_fields(orders, dialect)
        return
    check_amounts(orders, dialect)
    separator = dialect.selection_separator
    for order in orders if operation.recovered_by else ():
        if separator in order.transaction_id:
            raise InvalidOrderError(
                f"{describe(order)}.transaction_id: contains {separator!r}, which separates two "
                "references in a look-up, so that its outcome could not be looked up; if the "
                "gateway separates them otherwise, set Dialect.selection_separator"
            )


class Source(Protocol):
    """Where the orders of a batch come from.

    Attributes:
        ended: Whether every order was pulled.
        collection: All orders, where the input is a collection; None where it is not.
        waits: Whether pulling may wait for the caller's code.
        is_stored: Whether a journal has the orders: each pull gives those of one request, which
            others may not join, and what was not pulled need not become an outcome.
    """

    ended: bool
    collection: tuple[object, ...] | None
    waits: bool
    is_stored: bool

    async def pull(self, orders: list[Any], most: int) -> "Sequence[int] | None":
        """Add the next orders, `most` of them at most; set `ended` at the end of the input.

        Returns:
            Their positions, ascending; None where they follow those before.

        Raises:
            Exception: What the input raised; the orders before it are added.
        """
        ...


class GivenOrders:
    """Orders as the caller gives them; a collection is copied, so that it stays the same.

    Args:
        orders: An iterable or asynchronous iterable; see `check_orders`.
    """

    is_stored = False

    def __init__(self, orders: Any) -> None:  # noqa: ANN401  # one of two kinds
        self.ended: bool = False
        self.waits: bool = isinstance(orders, AsyncIterable)
        self.collection: tuple[object, ...] | None = None
        if isinstance(orders, Collection) and not self.waits:
            self.collection = orders = tuple(orders)
        self._iterator = aiter(orders) if self.waits else iter(orders)

    async def pull(self, orders: list[Any], most: int) -> None:
        """Add the next orders."""
        try:
            if self.waits:
                while len(orders) < most:
                    orders.append(await anext(self._iterator))
            else:
                orders.extend(islice(self._iterator, most))  # what came stays, if the next raises
                self.ended = len(orders) < most
        except StopAsyncIteration as error:
            if not self.waits:  # a stream would end as if all were well
                raise RuntimeError("the input raised StopAsyncIteration") from error
            self.ended = True

    async def aclose(self) -> None:
        """Close an iterator that was not taken to its end, if it can be closed."""
        if self.ended:
            return
        close = getattr(self._iterator, "aclose" if self.waits else "close", lambda: None)
        closing = close()
        if self.waits and closing is not None:
            await closing


def is_cancelled() -> bool:
    """Return whether the running task is to be cancelled: it may still finish the present step."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def check_orders(orders: object, order_class: type[Any], name: str = "orders") -> None:
    """Check the input of a batch.

    Raises:
        InvalidOrderError: For anything but an iterable or asynchronous iterable of orders.
    """
    is_wrong_kind = isinstance(orders, str | bytes | Mapping)
    if is_wrong_kind or not isinstance(orders, Iterable | AsyncIterable):
        raise InvalidOrderError(
            f"{name}: expected an iterable or asynchronous iterable of {order_class.__name__}, "
            f"got {type(orders).__name__}; put a single order into a list"
        )


class OrderChecker:
    """Checks the orders of one batch, each once; it remembers them while it finds duplicates.

    Duplicates are found by 64-bit hashes: some 70 bytes an order, however long identifiers are.
    Two different identities are taken for equal once in some 10^7 jobs of a million orders; the
    later one is then refused, which loses no order and moves no money.

    Args:
        operation: The operation.
        dialect: What the interface leaves open.
        policy: Its `duplicates`; two payouts of one `request_id` are always refused.

    Attributes:
        refuses_duplicates: Whether an order may stand in the batch only once.
    """

    def __init__(self, operation: "Operation", dialect: "Dialect", policy: "BatchPolicy") -> None:
        self.operation = operation
        self.dialect = dialect
        self._identity = identity_of(operation)
        self._order_classes = {operation.order_class}
        self._is_payout = operation.is_keyed
        self.refuses_duplicates: bool = self._is_payout or policy.duplicates == "reject"
        self._seen: set[int] | None = None

    def find_duplicates(self) -> None:
        """Where duplicates are refused, remember orders from now on, so that they are found."""
        self._seen = set() if self.refuses_duplicates else None

    async def check_all(self, orders: "Sequence[object] | None") -> None:
        """Check a collection whole, so that one bad order means that nothing is sent.

        Args:
            orders: The collection; None where each order is checked when it is pulled.

        Raises:
            InvalidOrderError: Listing every bad order with its position.
        """
        if orders is None:
            return
        self.find_duplicates()
        problems: dict[int, InvalidOrderError] = {}
        for start in range(0, len(orders), _CHECKED_AT_ONCE):
            problems |= self.check_page(start, orders[start : start + _CHECKED_AT_ONCE])
            await asyncio.sleep(0)
        if problems:
            raise refusal(problems, f"of {len(orders)} orders are wrong, so nothing was sent")
        self._seen = None  # each was checked

    def check_page(self, start: int, orders: "Sequence[Any]") -> dict[int, InvalidOrderError]:
        """Return why orders side by side may not be sent, by position."""
        with suppress(InvalidOrderError):  # of all of them together; `check` finds the order
            if self.are_all_orders(orders):
                _check_values(self.operation, orders, self.dialect)
                if self.note_new(list(map(self._identity, orders))):
                    return {}
        checked = enumerate(map(self.check, orders), start)
        return {index: error for index, error in checked if error is not None}

    def check(self, order: Any) -> InvalidOrderError | None:  # noqa: ANN401  # anything may come in
        """Return why an order may not be sent, or None."""
        error = check_order(self.operation, order, self.dialect)
        if error is not None or self._seen is None:
            return error
        identity = self._identity(order)
        return None if self.note_new([identity]) else self.duplicate_error(order)

    def duplicate_error(self, order: Any) -> DuplicateOrderError:  # noqa: ANN401  # an order
        """Return the error of an order that stands in the batch already."""
        kind, value = name_of(self.operation, self._identity(order))
        advice = (
            f"give each its own {kind}"
            if self._is_payout
            else 'merge the two, or choose duplicates="serialize" or "allow"'
        )
        return DuplicateOrderError(
            f"{describe(order)}: {kind} {value!r} stands in this batch already; {advice}"
        )

    def are_all_orders(self, orders: "Sequence[object]") -> bool:
        """Return whether all are of the operation's class."""
        return set(map(type, orders)) == self._order_classes

    def note_new(self, identities: "Collection[Identity]") -> bool:
        """If duplicates are refused: note identities if all are new, else none of them."""
        if self._seen is None:
            return True
        hashes = set(map(hash, identities))
        if len(hashes) < len(identities) or not hashes.isdisjoint(self._seen):
            return False
        self._seen |= hashes
        return True


class OrderFeed:
    """The orders of one batch that are not yet on their way.

    What is pulled at once nearly always becomes the next chunk as it is, encoded (`_ready`). Where
    an order is wrong, or equal to another or to one in flight, each is looked at alone: it is
    `refused`, or is put into `_waiting`, of which `_fitting` names those that make the next chunk.

    Args:
        orders: The input.
        checker: Checks them.
        policy: Its `chunk_size`, `concurrency` and `duplicates`.
        marker_prefix: What the refunds' markers begin with; None if no markers are sent.

    Attributes:
        source: Where the orders come from.
        is_broken: Whether the input raised, so that no more is taken from it.
        refused: Orders that may not be sent, each with its error.
    """

    def __init__(
        self,
        orders: Source,
        checker: OrderChecker,
        policy: "BatchPolicy",
        *,
        marker_prefix: str | None,
    ) -> None:
        operation, dialect = checker.operation, checker.dialect
        self.source: Source = orders
        self.is_broken: bool = False
        # A source that neither waits nor reads a journal gives its orders in one step.
        self._lock = asyncio.Lock() if orders.waits or orders.is_stored else None
        self._marker_prefix = marker_prefix
        self._operation = operation
        self._dialect = dialect
        # Duplicates in a journal were found when it got the orders. All else is checked again:
        # the dialect may have changed.
        self._checker = checker
        if orders.collection is None and not orders.is_stored:
            checker.find_duplicates()
        self._chunk_size = chunk_size_of(operation, policy)
        self._identity = identity_of(operation)
        self._is_look_up = operation.is_look_up
        self._separator = dialect.selection_separator if operation.recovered_by else None
        is_payout = operation.is_keyed
        self._is_serial: bool = policy.duplicates == "serialize" and not is_payout
        self._pulled = 0
        self.refused: list[FailedChunk] = []
        # Orders pulled together mostly leave together, in `_ready`. Else each waits until no order
        # of its identity is before it or in flight.
        self._ready: Chunk | None = None
        self._waiting: list[tuple[int, Any]] = []
        self._most_waiting = self._chunk_size * policy.concurrency
        self._in_flight: set[Identity] = set()
        self._unknown: set[Identity] = set()

    # The input

    @property
    def room(self) -> int:
        """How many orders to pull now: as many as the next chunk lacks.

        It is 0 while a chunk or refused orders are ready to leave. An order waits while an equal
        one is before it or in flight; `_most_waiting` orders wait at most. From a journal, none is
        pulled while any order can leave: one pull gives whole rows, which leave together.
        """
        if self._ready is not None or self.refused or self.source.ended or self.is_broken:
            return 0
        fitting = len(self._fitting()) if self._waiting else 0
        if self.source.is_stored and fitting:
            return 0
        others = len(self._waiting) - fitting
        return min(self._chunk_size - fitting, self._most_waiting - others)

    @property
    def is_exhausted(self) -> bool:
        """Whether every order of the input was taken; an input that raised may have held more."""
        return self.source.ended and not self.is_broken

    @property
    def is_done(self) -> bool:
        """Whether every order has left."""
        return self.source.ended and self._ready is None and not self._waiting

    # Chunks

    async def fill(self) -> None:
        """Pull orders until a chunk is full or an order is refused; one caller at a time."""
        if self._lock is not None:
            await self._lock.acquire()
        try:
            while (room := self.room) > 0:
                orders: list[Any] = []
                indices = None
                try:
                    indices = await self.source.pull(orders, room)
                finally:  # also those before an error of the input
                    first = self._pulled
                    self._take_in(indices or range(first, first + len(orders)), orders)
        except BaseException:  # raised again; also a cancellation leaves orders behind
            self.is_broken = True
            raise
        finally:
            if self._lock is not None:
                self._lock.release()

    def take(self) -> Chunk | None:
        """Return the next chunk, full or not; None if no order can leave now."""
        chunk = self._ready
        if chunk is not None:
            self._ready = None
        elif places := self._fitting():
            picked = set(places)
            chunk = _chunk_of([self._waiting[place] for place in places])
            rest = enumerate(self._waiting)
            self._waiting = [order for place, order in rest if place not in picked]
        if self._is_serial and chunk is not None:
            self._in_flight.update(map(self._identity, chunk.orders))
        return chunk

    def take_refused(self) -> list[FailedChunk]:
        """Return the orders that may not be sent, each with its error."""
        refused, self.refused = self.refused, []
        return refused

    def release(self, result: "ChunkResult") -> None:
        """With "serialize": note that the orders of a chunk are no longer in flight."""
        if not self._is_serial:
            return
        self._in_flight.difference_update(map(self._identity, result.orders))
        if count_status(result.statuses, OutcomeStatus.UNKNOWN):
            outcomes = result.outcomes()
            unknown = [one.order for one in outcomes if one.status is OutcomeStatus.UNKNOWN]
            self.note_unknown(unknown)

    def note_unknown(self, orders: "Sequence[Any]") -> None:
        """With "serialize": refuse further orders of these identities."""
        if self._is_serial and orders:
            self._unknown.update(map(self._identity, orders))
            waiting, self._waiting = self._waiting, []
            for index, order in waiting:
                self._let_wait(index, order)

    def give_up(self, error: NotSentError) -> "list[FailedChunk]":
        """End the feed, and return the orders that were taken and never sent.

        The rest of a collection counts as taken.
        """
        left = self.take_refused()
        chunks = [self._ready, _chunk_of(self._waiting) if self._waiting else None]
        left += [chunk.failed(error) for chunk in chunks if chunk]
        self._ready, self._waiting = None, []
        if not self.source.ended and self.source.collection is not None:
            self.source.ended = True
            orders = self.source.collection
            for start in range(self._pulled, len(orders), _LEFT_IN_A_CHUNK):
                part = orders[start : start + _LEFT_IN_A_CHUNK]
                chunk = Chunk(range(start, start + len(part)), part)
                left.append(chunk.failed(error))
        return left

    def _take_in(self, indices: "Sequence[int]", orders: "Sequence[Any]") -> None:
        """Check orders that were pulled; nearly always all are right and make the next chunk."""
        if not orders:
            return
        self._pulled += len(orders)
        if not self._waiting and self._make_ready(indices, orders):
            return
        for index, order in zip(indices, orders, strict=True):
            if (problem := self._checker.check(order)) is not None:
                self._refuse(index, order, problem)
            else:
                self._let_wait(index, order)

    def _make_ready(self, indices: "Sequence[int]", orders: "Sequence[Any]") -> bool:
        """Make orders the next chunk, if all are right and no identity occurs twice."""
        if not self._checker.are_all_orders(orders):
            return False
        identities = set(map(self._identity, orders))
        others = self._in_flight, self._unknown
        if (
            len(identities) < len(orders)
            or (self._is_serial and not all(map(identities.isdisjoint, others)))
            # A request looks orders up by one of the two fields of `OrderRef`.
            or (self._is_look_up and len({order.kind for order in orders}) > 1)
            # With the separator in it, an identity cannot be looked up; `check` finds the order.
            or (self._separator and self._separator in "\n".join(identities))
        ):
            return False
        indices = indices if type(indices) is range else _compact(indices)
        chunk = Chunk(indices, tuple(orders))
        try:
            chunk.encoded = chunk.encode(self._operation, self._dialect, self._marker_prefix)
        except GatewayError:  # `check` finds the order
            return False
        if not self._checker.note_new(identities):
            return False
        self._ready = chunk
        return True

    def _let_wait(self, index: int, order: Any) -> None:  # noqa: ANN401  # an order
        """Let an order wait for its chunk; refuse it if its identity has an unknown outcome."""
        identity = self._identity(order)
        if identity not in self._unknown:
            self._waiting.append((index, order))
            return
        name, _ = name_of(self._operation, identity)
        text = f"an earlier order of the same {name} has an unknown outcome"
        self._refuse(index, order, NotSentError(f"{describe(order)} was not sent: {text}"))

    def _fitting(self) -> list[int]:
        """Return the places of the waiting orders that make the next chunk."""
        places: list[int] = []
        passed: set[Identity] = set()
        kind = None
        for place, (_, order) in enumerate(self._waiting):
            identity = self._identity(order)
            is_of_kind = not self._is_look_up or kind in (None, order.kind)
            if is_of_kind and identity not in passed and identity not in self._in_flight:
                places.append(place)
                kind = order.kind if self._is_look_up else None
                if len(places) == self._chunk_size:
                    break
            passed.add(identity)
        return places

    def _refuse(self, index: int, order: object, error: InvalidOrderError | NotSentError) -> None:
        chunk = Chunk(range(index, index + 1), (order,))
        self.refused.append(chunk.failed(error))


def chunk_size_of(operation: "Operation", policy: "BatchPolicy") -> int:
    """Return how many orders a request has at most."""
    limit = operation.limit or 1
    return min(policy.chunk_size or limit, limit)


def _chunk_of(numbered: "Sequence[tuple[int, Any]]") -> Chunk:
    indices, orders = zip(*numbered, strict=True)
    return Chunk(_compact(indices), orders)


def _compact(indices: "Sequence[int]") -> "Sequence[int]":
    """Return ascending indices as a range where they are without a gap."""
    span = range(indices[0], indices[-1] + 1)
    return span if len(span) == len(indices) else indices


def refusal(problems: "Mapping[int, InvalidOrderError]", text: str) -> InvalidOrderError:
    """Make one error of all problems of a collection, of which there are so many."""
    shown = [f"  [{index}] {error}" for index, error in list(problems.items())[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        shown.append(f"  and {len(problems) - _PROBLEMS_SHOWN} more, in `problems`")
    only_duplicates = all(isinstance(error, DuplicateOrderError) for error in problems.values())
    error_class = DuplicateOrderError if only_duplicates else InvalidOrderError
    return error_class("\n".join([f"{len(problems)} {text}:", *shown]), problems=problems)

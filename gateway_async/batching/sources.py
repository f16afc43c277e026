"""Where a batch takes its orders from: a sequence, an iterable, or an asynchronous iterable."""

import abc
import asyncio
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from gateway_async.errors import InvalidOrderError
from gateway_async.gate import is_cancelled

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gateway_async.batching.chunks import Page


_CANCELLED_WITHIN = "the input was cancelled from within"


class Source(abc.ABC):
    """Orders, one by one.

    Attributes:
        ended: Whether every order was taken.
        collection: All orders, where the input is a collection; None where it is not.
        waits: Whether pulling an order may take time that is not ours.
    """

    ended: bool = False
    collection: tuple[object, ...] | None = None
    waits: bool = False

    @abc.abstractmethod
    async def pull(self) -> tuple[int, object]:
        """Take the next order, with its index.

        Raises:
            StopAsyncIteration: At the end.
        """

    async def pull_some(self, most: int, into: "Page") -> None:
        """Add the next orders to an empty page; at the end of the input, set `ended`.

        Whatever is raised, and a cancellation, too: what was added before counts as taken.
        """
        try:
            while len(into) < most:
                into.append(*await self.pull())
        except StopAsyncIteration:
            return

    @abc.abstractmethod
    async def aclose(self) -> None:
        """Close what is left."""


class _Iterated(Source):
    """Orders from an iterable."""

    def __init__(
        self, iterator: "Iterator[object]", collection: tuple[object, ...] | None = None
    ) -> None:
        self.collection = collection
        self._iterator = iterator
        self._index = 0
        self._close = getattr(iterator, "close", None)

    async def pull(self) -> tuple[int, object]:
        try:
            for order in self._iterator:
                self._index += 1
                return self._index - 1, order
        except asyncio.CancelledError as error:
            raise RuntimeError(_CANCELLED_WITHIN) from error
        self.ended = True
        raise StopAsyncIteration

    async def pull_some(self, most: int, into: "Page") -> None:
        first, orders = self._index, into.orders
        try:
            orders.extend(islice(self._iterator, most))  # what came stays, if the next raises
        except asyncio.CancelledError as error:  # nothing is awaited: nobody else can cancel here
            raise RuntimeError(_CANCELLED_WITHIN) from error
        finally:
            self._index += len(orders)
            into.indices = range(first, self._index)
        self.ended = len(orders) < most

    async def aclose(self) -> None:
        if self._close is not None:
            self._close()


class _Awaited(Source):
    """Orders from an asynchronous iterable."""

    waits = True

    def __init__(self, iterator: "AsyncIterator[object]") -> None:
        self._iterator = iterator
        self._index = 0

    async def pull(self) -> tuple[int, object]:
        try:
            async for order in self._iterator:
                self._index += 1
                return self._index - 1, order
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise RuntimeError(_CANCELLED_WITHIN) from error
        self.ended = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        aclose = getattr(self._iterator, "aclose", None)
        if aclose is not None:
            await aclose()


def check_orders(orders: object, order_class: type[Any]) -> None:
    """Check that something can be a batch's input.

    Raises:
        InvalidOrderError: For anything but an iterable or asynchronous iterable of orders.
    """
    is_wrong_kind = isinstance(orders, str | bytes | Mapping)
    if is_wrong_kind or not isinstance(orders, Iterable | AsyncIterable):
        raise InvalidOrderError(
            f"orders: expected an iterable or asynchronous iterable of {order_class.__name__}, "
            f"got {type(orders).__name__}; put a single order into a list"
        )


def open_source(orders: object) -> Source:
    """Return the orders as a source; a collection is copied, so that it stays the same."""
    if isinstance(orders, Source):
        return orders
    if isinstance(orders, AsyncIterable):
        return _Awaited(aiter(orders))
    if isinstance(orders, Collection):
        collection = tuple(orders)
        return _Iterated(iter(collection), collection)
    return _Iterated(iter(orders))  # type: ignore[call-overload]  # checked before

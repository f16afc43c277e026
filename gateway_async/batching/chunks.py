"""How orders are cut into chunks.

Law: every order that is added leaves once, in a chunk or refused; equal identities never share a
chunk, and keep their order. This module is pure, and does not know what a chunk is sent for.
"""

from collections import deque
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import DuplicateOrderError, NotSentError
from gateway_async.models.values import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    Identity = str | tuple[str, str]
    Identify = Callable[[Any], Identity]


@attrs.frozen(weakref_slot=False)
class Chunk:
    """The orders of one request.

    Attributes:
        indices: Their positions in the input, ascending.
        orders: The orders.
    """

    indices: "Sequence[int]"
    orders: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.orders)

    def halves(self) -> "tuple[Chunk, Chunk]":
        """Return the chunk as two, neither empty."""
        middle = len(self.orders) // 2
        return (
            Chunk(self.indices[:middle], self.orders[:middle]),
            Chunk(self.indices[middle:], self.orders[middle:]),
        )


@attrs.define
class Page:
    """Orders with their positions in the input.

    Attributes:
        indices: The positions; a range where they are without a gap.
        orders: The orders.
    """

    indices: list[int] | range = attrs.field(factory=list)
    orders: list[Any] = attrs.field(factory=list)

    def __len__(self) -> int:
        return len(self.orders)

    def append(self, index: int, order: object) -> None:
        """Add an order."""
        if isinstance(self.indices, range):
            self.indices = list(self.indices)
        self.indices.append(index)
        self.orders.append(order)

    def to_chunk(self) -> Chunk:
        """Return the orders as a chunk."""
        if isinstance(self.indices, range):
            return Chunk(self.indices, tuple(self.orders))
        numbered = sorted(zip(self.indices, self.orders, strict=True), key=itemgetter(0))
        indices, orders = zip(*numbered, strict=True)
        return Chunk(_compact(indices), orders)


transaction_identity: "Identify" = attrgetter("transaction_id")
"""Names what moves when an order is executed: its transaction."""

reference_identity: "Identify" = attrgetter("kind", "value")
"""Names what a look-up asks for: the kind of the reference, and the reference."""


def name_of(identity: "Identity") -> tuple[str, str]:
    """Return the field that an identity is the value of, and the value."""
    return ("transaction_id", identity) if isinstance(identity, str) else identity


class SeenIdentities:
    """Finds duplicates by 64-bit hashes: some 70 bytes an order, whatever its identifiers are.

    Two different identities are taken for equal once in some 10^7 jobs of a million orders; the
    later one is then refused, which loses no order and moves no money.
    """

    def __init__(self, identity: "Identify") -> None:
        self._identity = identity
        self._hashes: set[int] = set()

    def add(self, identities: "Collection[Identity]") -> bool:
        """Add identities if all of them are new; else none, and say so."""
        hashes = set(map(hash, identities))
        if len(hashes) < len(identities) or not hashes.isdisjoint(self._hashes):
            return False
        self._hashes |= hashes
        return True

    def refuse(self, order: object) -> DuplicateOrderError | None:
        """Return why the order is refused; None for the first of its identity."""
        identity = self._identity(order)
        key = hash(identity)
        if key not in self._hashes:
            self._hashes.add(key)
            return None
        kind, value = name_of(identity)
        return DuplicateOrderError(
            f"{describe(order)}: {kind} {value!r} stands in this batch already; merge the two, or "
            'choose duplicates="serialize" or "allow"'
        )


class Chunker:
    """Collects orders into one open chunk, and holds back those that must not share it.

    The orders of one chunk are of one kind, where `kind` tells kinds apart.

    Attributes:
        refused: Orders that may no longer be sent, with index and reason; the caller takes them.
        serializes: Whether chunks must be released, since equal identities wait for each other.
    """

    def __init__(
        self,
        *,
        size: int,
        identity: "Identify",
        look_ahead: int,
        serialize: bool,
        kind: "Callable[[Any], str] | None" = None,
    ) -> None:
        self.refused: list[tuple[int, Any, NotSentError]] = []
        self._size = size
        self._identity = identity
        self._kind = kind
        self._look_ahead = look_ahead
        self.serializes = serialize
        self._open = Page()
        self._open_identities: set[Identity] = set()
        self._held: deque[tuple[int, Any]] = deque()
        self._held_identities: set[Identity] = set()
        self._in_flight: set[Identity] = set()
        self._unknown: set[Identity] = set()

    @property
    def room(self) -> int:
        """How many more orders may be added, be it into the chunk or held back."""
        return min(self._size - len(self._open), self._look_ahead - len(self._held))

    @property
    def holds(self) -> bool:
        """Whether any order waits."""
        return bool(self._open or self._held)

    def add(self, index: int, order: object) -> None:
        """Take in an order: into the open chunk, or held back, or refused."""
        identity = self._identity(order)
        if identity in self._unknown:
            self.refused.append((index, order, _after_unknown(order, name_of(identity)[0])))
        elif self._may_join(identity, order):
            self._open.append(index, order)
            self._open_identities.add(identity)
        else:
            self._held.append((index, order))
            self._held_identities.add(identity)

    def fitting(self, orders: "Sequence[object]") -> "set[Identity] | None":
        """Return the identities of orders that make up one chunk as they are; else None."""
        identities = set(map(self._identity, orders))
        fits = (
            not self._open
            and len(identities) == len(orders)
            and (self._kind is None or len(set(map(self._kind, orders))) == 1)
            and identities.isdisjoint(self._held_identities)
            and identities.isdisjoint(self._in_flight)
            and identities.isdisjoint(self._unknown)
        )
        return identities if fits else None

    def open_with(self, page: Page, identities: "set[Identity]") -> None:
        """Take in orders that are `fitting`, all at once."""
        self._open_identities = identities
        self._open = page

    def is_open_with(self, page: Page) -> bool:
        """Say whether the open chunk began as this page."""
        return self._open is page

    def take(self) -> Chunk | None:
        """Close the open chunk and return it; None if it has no order."""
        if not self._open:
            return None
        page, self._open = self._open, Page()
        if self.serializes:
            self._in_flight |= self._open_identities
        self._open_identities = set()
        self._reconsider()
        return page.to_chunk()

    def release(self, orders: "Sequence[Any]", unknown: "Sequence[Any]") -> None:
        """Note that orders have come back, and which orders have an unknown outcome."""
        self._in_flight.difference_update(map(self._identity, orders))
        self._unknown.update(map(self._identity, unknown))
        self._reconsider()

    def empty(self) -> Chunk | None:
        """Give up everything that waits, as one chunk that is not to be sent."""
        left, self._open = self._open, Page()
        for index, order in self._held:
            left.append(index, order)
        self._held.clear()
        return left.to_chunk() if left else None

    def _may_join(self, identity: "Identity", order: object) -> bool:
        return (
            len(self._open) < self._size
            and self._is_of_its_kind(order)
            and identity not in self._open_identities
            and identity not in self._held_identities
            and identity not in self._in_flight
        )

    def _is_of_its_kind(self, order: object) -> bool:
        first = self._open.orders[:1]
        return self._kind is None or not first or self._kind(order) == self._kind(first[0])

    def _reconsider(self) -> None:
        """Add what was held back once more, in its order."""
        held, self._held, self._held_identities = self._held, deque(), set()
        for index, order in held:
            self.add(index, order)


def _after_unknown(order: object, kind: str) -> NotSentError:
    return NotSentError(
        f"{describe(order)} was not sent: an earlier order of the same {kind} has an unknown "
        "outcome"
    )


def _compact(indices: tuple[int, ...]) -> "Sequence[int]":
    """Return ascending indices as a range where they are without a gap."""
    span = range(indices[0], indices[-1] + 1)
    return span if len(span) == len(indices) else indices

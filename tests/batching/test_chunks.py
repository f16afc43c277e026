"""Whatever is added to a chunker leaves it once."""

from operator import attrgetter
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from gateway_async import DuplicateOrderError, NotSentError, OrderRef
from gateway_async.batching.chunks import (
    Chunk,
    Chunker,
    SeenIdentities,
    reference_identity,
    transaction_identity,
)

Identity = str | tuple[str, str]


@attrs.frozen
class _Order:
    transaction_id: str
    order_no: str = "N"


@attrs.frozen
class _Ref:
    """Stands for an `OrderRef` of either kind."""

    kind: str
    value: str


def _chunker(*, size: int, serialize: bool, look_ahead: int = 10) -> Chunker:
    return Chunker(
        size=size, identity=transaction_identity, look_ahead=look_ahead, serialize=serialize
    )


class _Driver:
    """Adds, takes and releases in any order, as workers would."""

    def __init__(self, chunker: Chunker, orders: list[Any], data: st.DataObject) -> None:
        self.chunker = chunker
        self.waiting = list(enumerate(orders))[::-1]
        self.data = data
        self.in_flight: list[Chunk] = []
        self.taken: list[Chunk] = []
        self.unknown: set[Identity] = set()
        self.left: Chunk | None = None

    def run(self) -> None:
        while self.waiting or self.chunker.holds or self.in_flight:
            if not self.step():
                break
        self.left = self.chunker.empty()

    def step(self) -> bool:
        choices = []
        if self.waiting and self.chunker.room > 0:
            choices.append(self.add)
        if self.chunker.holds:
            choices.append(self.take)
        if self.in_flight:
            choices.append(self.release)
        if not choices:
            return False
        return self.data.draw(st.sampled_from(choices))() or bool(self.in_flight or self.waiting)

    def add(self) -> bool:
        self.chunker.add(*self.waiting.pop())
        return True

    def take(self) -> bool:
        chunk = self.chunker.take()
        if chunk is None:
            return False
        self.taken.append(chunk)
        self.in_flight.append(chunk)
        return True

    def release(self) -> bool:
        number = self.data.draw(st.integers(0, len(self.in_flight) - 1))
        chunk = self.in_flight.pop(number)
        unknown = [order for order in chunk.orders if self.data.draw(st.booleans())]
        self.unknown.update(map(self.chunker._identity, unknown))
        if self.chunker.serializes:
            self.chunker.release(chunk.orders, unknown)
        return True

    @property
    def indices(self) -> list[int]:
        """Every index that left, and those that have not come in."""
        chunks = [*self.taken, *([self.left] if self.left else [])]
        return sorted(
            [index for chunk in chunks for index in chunk.indices]
            + [index for index, _, _ in self.chunker.refused]
            + [index for index, _ in self.waiting]
        )


_ORDERS = st.lists(st.sampled_from("abcdefg").map(_Order), max_size=40)
_REFS = st.lists(
    st.builds(
        _Ref, kind=st.sampled_from(["order_no", "transaction_id"]), value=st.sampled_from("abcd")
    ),
    max_size=40,
)


@given(orders=_ORDERS, size=st.integers(1, 6), serialize=st.booleans(), data=st.data())
def test_every_order_leaves_once(
    orders: list[_Order], size: int, serialize: bool, data: st.DataObject
) -> None:
    driver = _Driver(_chunker(size=size, serialize=serialize), orders, data)
    driver.run()
    assert driver.indices == list(range(len(orders)))


@given(orders=_ORDERS, size=st.integers(1, 6), serialize=st.booleans(), data=st.data())
def test_a_chunk_is_not_too_large_and_has_no_identity_twice(
    orders: list[_Order], size: int, serialize: bool, data: st.DataObject
) -> None:
    driver = _Driver(_chunker(size=size, serialize=serialize), orders, data)
    driver.run()
    for chunk in driver.taken:
        assert 1 <= len(chunk) <= size
        assert len({order.transaction_id for order in chunk.orders}) == len(chunk)
        assert list(chunk.indices) == sorted(chunk.indices)
        assert [orders[index] for index in chunk.indices] == list(chunk.orders)


@given(orders=_ORDERS, size=st.integers(1, 6), serialize=st.booleans(), data=st.data())
def test_equal_identities_leave_in_their_order(
    orders: list[_Order], size: int, serialize: bool, data: st.DataObject
) -> None:
    driver = _Driver(_chunker(size=size, serialize=serialize), orders, data)
    driver.run()
    last: dict[str, int] = {}
    for chunk in driver.taken:
        for index, order in zip(chunk.indices, chunk.orders, strict=True):
            assert index > last.get(order.transaction_id, -1)
            last[order.transaction_id] = index


@given(orders=_ORDERS, size=st.integers(1, 6), data=st.data())
def test_serialized_identities_are_never_in_flight_together_nor_after_an_unknown(
    orders: list[_Order], size: int, data: st.DataObject
) -> None:
    chunker = _chunker(size=size, serialize=True)
    driver = _Driver(chunker, orders, data)
    while driver.step():
        flying = [order.transaction_id for chunk in driver.in_flight for order in chunk.orders]
        assert len(flying) == len(set(flying))
        if driver.taken and driver.taken[-1] in driver.in_flight:
            newest = {transaction_identity(order) for order in driver.taken[-1].orders}
            started_before = driver.unknown - newest
            assert not newest & started_before
    assert {transaction_identity(order) for _, order, _ in chunker.refused} <= driver.unknown
    assert all(isinstance(error, NotSentError) for _, _, error in chunker.refused)


@given(refs=_REFS, size=st.integers(1, 6), data=st.data())
def test_a_chunk_of_references_is_of_one_kind(
    refs: list[_Ref], size: int, data: st.DataObject
) -> None:
    chunker = Chunker(
        size=size,
        identity=reference_identity,
        look_ahead=10,
        serialize=False,
        kind=attrgetter("kind"),
    )
    driver = _Driver(chunker, refs, data)
    driver.run()
    assert driver.indices == list(range(len(refs)))
    for chunk in driver.taken:
        assert len({ref.kind for ref in chunk.orders}) == 1


@pytest.mark.parametrize("size", [2, 3, 50, 99])
def test_halves_are_the_whole(size: int) -> None:
    chunk = Chunk(range(5, 5 + size), tuple(f"order {n}" for n in range(size)))
    first, second = chunk.halves()
    assert [*first.indices, *second.indices] == list(chunk.indices)
    assert first.orders + second.orders == chunk.orders
    assert first.orders
    assert second.orders


def test_indices_without_a_gap_take_no_memory() -> None:
    chunker = _chunker(size=50, serialize=False)
    for index in range(50):
        chunker.add(index, _Order(str(index)))
    chunk = chunker.take()
    assert chunk is not None
    assert chunk.indices == range(50)


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (OrderRef(order_no="1"), OrderRef(order_no="1"), True),
        (OrderRef(order_no="1"), OrderRef(transaction_id="1"), False),
        (OrderRef(order_no="1"), OrderRef(order_no="2"), False),
    ],
)
def test_an_identity_is_its_kind_and_its_value(
    first: OrderRef, second: OrderRef, refused: bool
) -> None:
    seen = SeenIdentities(reference_identity)
    assert seen.refuse(first) is None
    assert isinstance(seen.refuse(second), DuplicateOrderError) is refused

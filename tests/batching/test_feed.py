"""Every order that is pulled leaves the feed once, and none in another's way."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_async import (
    BatchPolicy,
    CaptureOrder,
    Dialect,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
    RejectedError,
)
from gateway_async.batching.feed import Chunk, OrderFeed, Source
from gateway_async.batching.results import ChunkResult, FailedChunk, ListedOutcomes, Outcome
from gateway_async.operations import CAPTURE, QUERY, REFUND, Operation, identity_of
from tests.orders import made_up, orders_for, refunds

LEFT = NotSentError("nothing was sent: the batch ended before")
UNKNOWN, DECLINED = OutcomeStatus.UNKNOWN, OutcomeStatus.DECLINED


class _Portions(Source):
    """Gives orders in portions of any size, as readily as is drawn."""

    def __init__(self, orders: list[Any], sizes: list[int]) -> None:
        self._left = list(enumerate(orders))
        self._sizes = itertools.cycle(sizes)

    async def pull(self, most: int, indices: list[int], orders: list[Any]) -> None:
        size = min(next(self._sizes), most)
        for index, order in self._left[:size]:
            indices.append(index)
            orders.append(order)
        del self._left[:size]
        self.ended = not self._left

    @property
    def never_pulled(self) -> list[int]:
        return [index for index, _ in self._left]


def fill(feed: OrderFeed) -> None:
    """Fill a feed whose source keeps nothing waiting."""
    with contextlib.suppress(StopIteration):
        feed.fill().send(None)


class _Workers:
    """Fills, takes and releases in any order, as workers would, and checks every step."""

    def __init__(
        self, operation: Operation, policy: BatchPolicy, orders: list[Any], data: st.DataObject
    ) -> None:
        sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
        self.source = _Portions(orders, sizes)
        self.feed = OrderFeed(operation, Dialect(), policy, self.source)
        self.operation = operation
        self.identity = identity_of(operation)
        self.orders = orders
        self.policy = policy
        self.data = data
        self.taken: list[Chunk] = []
        self.in_flight: list[Chunk] = []
        self.refused: list[FailedChunk] = []
        self.unknown: set[Any] = set()

    def run(self) -> None:
        """Go on until every order has left."""
        while not self.feed.is_done:
            self.step()
        self.refused += self.feed.take_refused()  # by what came back last

    def step(self) -> None:
        is_full = len(self.in_flight) >= self.policy.concurrency
        if is_full or (self.in_flight and self.data.draw(st.booleans())):
            self._release()
            return
        fill(self.feed)
        if self.data.draw(st.booleans()) and self.in_flight:
            self._release()  # while a worker waits for more
        self._take()

    def _take(self) -> None:
        refused = self.feed.take_refused()
        self.refused += refused
        chunk = self.feed.take()
        if chunk is not None:
            self._check(chunk)
            self.taken.append(chunk)
            self.in_flight.append(chunk)
        elif not refused and not self.feed.is_done:
            assert self.in_flight, "nothing can leave, and nothing is to come back"
            self._release()

    def _check(self, chunk: Chunk) -> None:
        identities = set(map(self.identity, chunk.orders))
        assert 1 <= len(chunk) <= (self.policy.chunk_size or 0)
        assert len(identities) == len(chunk)
        assert list(chunk.indices) == sorted(chunk.indices)
        assert [self.orders[index] for index in chunk.indices] == list(chunk.orders)
        assert chunk.encoded is None or chunk.encoded == chunk.encode(
            self.operation, Dialect(), None
        )
        assert len({getattr(order, "kind", None) for order in chunk.orders}) == 1
        if self.policy.duplicates == "serialize":
            flying = {self.identity(o) for other in self.in_flight for o in other.orders}
            assert identities.isdisjoint(flying | self.unknown)

    def _release(self) -> None:
        chunk = self.in_flight.pop(self.data.draw(st.integers(0, len(self.in_flight) - 1)))
        codes = self.data.draw(
            st.lists(st.booleans(), min_size=len(chunk), max_size=len(chunk)), "are unknown"
        )
        self.unknown |= {
            self.identity(order)
            for order, is_unknown in zip(chunk.orders, codes, strict=True)
            if is_unknown
        }
        self.feed.release(_came_back(chunk, codes))

    @property
    def left_once(self) -> list[int]:
        """Every index that left, by chunk, refused or given up, and those never pulled."""
        left = [chunk.indices for chunk in self.taken]
        left += [one.indices for one in (*self.refused, *self.feed.give_up(LEFT))]
        return sorted([*itertools.chain.from_iterable(left), *self.source.never_pulled])


def _came_back(chunk: Chunk, codes: list[bool]) -> ChunkResult:
    return ListedOutcomes(
        tuple(
            Outcome(order=order, index=index, status=UNKNOWN if is_unknown else DECLINED)
            for order, index, is_unknown in zip(chunk.orders, chunk.indices, codes, strict=True)
        )
    )


def _refund(name: str, reason: str) -> RefundOrder:
    return RefundOrder(
        transaction_id=name,
        order_no="N1",
        currency="EUR",
        amount="10.00",
        refund_amount="1.00",
        refund_reason=reason,
    )


_NAMES = st.sampled_from("abcdefg")
_ORDERS = st.lists(
    st.builds(_refund, name=_NAMES, reason=st.sampled_from(["", "late"])), max_size=40
)
_WRONG = st.one_of(
    st.sampled_from(["text", None, 7]),
    st.just(orders_for("capture", made_up(1))[0]),
    st.just(orders_for("refund", made_up(1), refund_amount="0.001")[0]),
)
_MIXED = st.lists(
    st.one_of(st.builds(_refund, name=_NAMES, reason=st.just("")), _WRONG), max_size=40
)
_REFS = st.lists(
    st.one_of(
        st.builds(lambda name: OrderRef(order_no=name), st.sampled_from("abcd")),
        st.builds(lambda name: OrderRef(transaction_id=name), st.sampled_from("abcd")),
    ),
    max_size=40,
)
_RULES = st.sampled_from(["reject", "serialize", "allow"])


def _policies(rules: "st.SearchStrategy[str]") -> "st.SearchStrategy[BatchPolicy]":
    return st.builds(
        BatchPolicy, chunk_size=st.integers(1, 6), concurrency=st.integers(1, 3), duplicates=rules
    )


@given(
    orders=_MIXED,
    policy=_policies(_RULES),
    steps=st.none() | st.integers(0, 9),
    data=st.data(),
)
def test_every_order_leaves_once_also_where_the_feed_is_given_up(
    orders: list[Any], policy: BatchPolicy, steps: int | None, data: st.DataObject
) -> None:
    workers = _Workers(REFUND, policy, orders, data)
    if steps is None:
        workers.run()
        assert workers.source.never_pulled == []
    for _ in range(steps or 0):
        if not workers.feed.is_done:
            workers.step()
    assert workers.left_once == list(range(len(orders)))
    assert workers.feed.take() is None


@given(orders=_ORDERS, policy=_policies(st.sampled_from(["serialize", "allow"])), data=st.data())
def test_equal_identities_leave_in_their_order_unless_an_earlier_one_is_unknown(
    orders: list[Any], policy: BatchPolicy, data: st.DataObject
) -> None:
    workers = _Workers(REFUND, policy, orders, data)
    workers.run()
    last: dict[str, int] = {}
    for chunk in workers.taken:
        for index, order in zip(chunk.indices, chunk.orders, strict=True):
            assert index > last.get(order.transaction_id, -1)
            last[order.transaction_id] = index
    assert policy.duplicates == "serialize" or not workers.refused
    for one in workers.refused:
        assert {order.transaction_id for order in one.orders} <= workers.unknown
        assert isinstance(one.error, NotSentError)
        assert "earlier order of the same transaction_id has an unknown outcome" in str(one.error)
    assert len(workers.refused) + sum(map(len, workers.taken)) == len(orders)


@given(orders=_MIXED, policy=_policies(st.just("reject")), data=st.data())
def test_the_first_of_equal_identities_leaves_and_each_later_one_is_refused(
    orders: list[Any], policy: BatchPolicy, data: st.DataObject
) -> None:
    workers = _Workers(REFUND, policy, orders, data)
    workers.run()
    first: dict[str, int] = {}
    for index, order in enumerate(orders):
        if isinstance(order, RefundOrder) and order.refund_amount >= 1:
            first.setdefault(order.transaction_id, index)
    assert sorted(n for c in workers.taken for n in c.indices) == sorted(first.values())
    for one in workers.refused:
        assert isinstance(one.error, InvalidOrderError)
        is_right = one.orders[0] in [orders[n] for n in first.values()]
        assert isinstance(one.error, DuplicateOrderError) is is_right or is_right


@given(refs=_REFS, policy=_policies(_RULES), data=st.data())
def test_a_chunk_of_references_is_of_one_kind(
    refs: list[Any], policy: BatchPolicy, data: st.DataObject
) -> None:
    workers = _Workers(QUERY, policy, refs, data)
    workers.run()
    assert workers.left_once == list(range(len(refs)))


@given(orders=_ORDERS, policy=_policies(_RULES), data=st.data())
def test_what_waits_is_bounded(orders: list[Any], policy: BatchPolicy, data: st.DataObject) -> None:
    workers = _Workers(REFUND, policy, orders, data)
    size = policy.chunk_size or 0
    while not workers.feed.is_done:
        workers.step()
        pulled = len(orders) - len(workers.source.never_pulled)
        gone = sum(map(len, workers.taken)) + len(workers.refused)
        assert pulled - gone <= size * (policy.concurrency + 1)


@given(orders=_ORDERS, size=st.integers(1, 6))
async def test_a_collection_is_taken_as_it_was_checked(orders: list[Any], size: int) -> None:
    feed = OrderFeed(CAPTURE, Dialect(), BatchPolicy(chunk_size=size), orders)
    if orders:  # they are refunds
        with pytest.raises(InvalidOrderError) as caught:
            await feed.check_all()
        assert sorted(caught.value.problems) == list(range(len(orders)))
    captures = orders_for("capture", made_up(len(orders)))
    feed = OrderFeed(CAPTURE, Dialect(), BatchPolicy(chunk_size=size), captures)
    await feed.check_all()
    taken: list[CaptureOrder] = []
    while not feed.is_done:
        fill(feed)
        taken += (feed.take() or Chunk((), ())).orders
    assert taken == captures
    assert feed.take_refused() == []


async def test_what_a_collection_still_held_is_given_up_too() -> None:
    feed = OrderFeed(REFUND, Dialect(), BatchPolicy(chunk_size=10), refunds(2500))
    fill(feed)
    assert feed.take() is not None
    fill(feed)
    left = feed.give_up(LEFT)
    assert [n for chunk in left for n in chunk.indices] == list(range(10, 2500))
    assert {chunk.error for chunk in left} == {LEFT}
    assert feed.is_done


async def test_what_was_not_pulled_of_another_input_is_yielded_with_its_index() -> None:
    async def endless() -> AsyncIterator[RefundOrder]:
        for order in refunds(5):
            yield order

    feed = OrderFeed(REFUND, Dialect(), BatchPolicy(chunk_size=2), endless())
    await feed.fill()
    assert [index async for index, _ in feed.unpulled()] == [2, 3, 4]
    assert [n for chunk in feed.give_up(LEFT) for n in chunk.indices] == [0, 1]


def test_one_like_an_unknown_one_of_before_is_refused() -> None:
    first, second = refunds(2)
    policy = BatchPolicy(duplicates="serialize", chunk_size=10)
    feed = OrderFeed(REFUND, Dialect(), policy, [first, second])
    feed.note_unknown([first])
    fill(feed)
    chunk = feed.take()
    assert chunk is not None
    assert list(chunk.orders) == [second]
    assert [list(one.indices) for one in feed.take_refused()] == [[0]]


def test_a_declined_one_lets_the_next_of_its_identity_follow() -> None:
    one = refunds(1)[0]
    feed = OrderFeed(REFUND, Dialect(), BatchPolicy(duplicates="serialize"), [one, one])
    fill(feed)
    chunk = feed.take()
    assert chunk is not None
    fill(feed)
    assert feed.take() is None
    feed.release(chunk.failed(RejectedError("no"), DECLINED))
    fill(feed)
    later = feed.take()
    assert later is not None
    assert list(later.indices) == [1]


@pytest.mark.parametrize("size", [2, 3, 50, 99])
def test_halves_are_the_whole(size: int) -> None:
    chunk = Chunk(range(5, 5 + size), tuple(f"order {n}" for n in range(size)))
    first, second = chunk.halves()
    assert [*first.indices, *second.indices] == list(chunk.indices)
    assert (*first.orders, *second.orders) == chunk.orders
    assert first.orders
    assert second.orders


def test_indices_without_a_gap_take_no_memory() -> None:
    feed = OrderFeed(REFUND, Dialect(), BatchPolicy(), iter(refunds(50)))
    fill(feed)
    chunk = feed.take()
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
    feed = OrderFeed(QUERY, Dialect(), BatchPolicy(), ())
    assert feed.check(first) is None
    assert isinstance(feed.check(second), DuplicateOrderError) is refused


def test_what_joins_a_chunk_while_it_is_filled_is_written_with_it() -> None:
    a, b, c, d, e = refunds(5)
    policy = BatchPolicy(duplicates="serialize", chunk_size=2)
    feed = OrderFeed(REFUND, Dialect(), policy, [a, b, a, c, d, e])
    fill(feed)
    ahead = feed.take()
    fill(feed)  # the second `a` is held back
    beside = feed.take()
    fill(feed)
    assert ahead is not None
    assert beside is not None
    assert list(beside.orders) == [c, d]
    feed.release(ahead.failed(RejectedError("no"), DECLINED))
    chunk = feed.take()
    assert chunk is not None
    assert list(chunk.orders) == [a, e]
    assert chunk.encoded in (None, chunk.encode(REFUND, Dialect(), None))

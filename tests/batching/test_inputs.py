"""What may be handed in, what is refused, and what becomes of an input that breaks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest

from gateway_async import (
    Batch,
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    InvalidOrderError,
    OutcomeStatus,
    RefundOrder,
)
from tests.memory import Asked, HttpResponse, MemoryTransport, all_done, client_over
from tests.orders import made_up, orders_for, refunds

ONE_AT_A_TIME = BatchPolicy(concurrency=1, chunk_size=10)


class _BrokenError(Exception):
    """What an input raises."""


def _generator(orders: list[Any]) -> Iterator[Any]:
    yield from orders


async def _async_generator(orders: list[Any]) -> AsyncIterator[Any]:
    for order in orders:
        await asyncio.sleep(0)
        yield order


class _Iterable:
    def __init__(self, orders: list[Any]) -> None:
        self._orders = orders

    def __iter__(self) -> Iterator[Any]:
        return iter(self._orders)


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict keys": lambda orders: dict.fromkeys(orders).keys(),
    "dict values": lambda orders: dict(enumerate(orders)).values(),
    "iterator": iter,
    "generator": _generator,
    "map": lambda orders: map(attrs.evolve, orders),
    "iterable": _Iterable,
    "async generator": _async_generator,
}
COLLECTIONS = {"list", "tuple", "set", "frozenset", "dict keys", "dict values"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 1, 49, 50, 51, 120])
async def test_every_kind_of_input_is_taken_whole(kind: str, count: int) -> None:
    transport = MemoryTransport(all_done)
    orders = refunds(count)
    given = KINDS[kind](orders)
    expected = list(given) if kind in COLLECTIONS else orders
    result = await client_over(transport).refund(given)
    assert [outcome.order for outcome in result] == expected
    assert result.ok
    assert result.exhausted
    assert sorted(len(asked.transactions) for asked in transport.asked) == sorted(
        [50] * (count // 50) + ([count % 50] if count % 50 else [])
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_input_is_streamed_whole(kind: str) -> None:
    orders = refunds(120)
    given = KINDS[kind](orders)
    expected = list(given) if kind in COLLECTIONS else orders
    async with client_over(MemoryTransport(all_done)).refund(given) as batch:
        outcomes = [outcome async for outcome in batch]
        total = batch.progress.total
    assert sorted(outcome.index for outcome in outcomes) == list(range(120))
    assert all(outcome.order == expected[outcome.index] for outcome in outcomes)
    assert total == (120 if kind in COLLECTIONS else None)


@pytest.mark.parametrize(
    ("orders", "named"),
    [
        ("T1", "str"),
        (b"T1", "bytes"),
        ({"T1": refunds(1)[0]}, "dict"),
        (refunds(1)[0], "RefundOrder"),
        (None, "NoneType"),
        (7, "int"),
    ],
)
def test_what_is_no_iterable_of_orders_is_refused_at_the_call(orders: Any, named: str) -> None:
    gateway = client_over(MemoryTransport(all_done))
    with pytest.raises(InvalidOrderError, match=f"RefundOrder, got {named}; put a single order"):
        gateway.refund(orders)


def test_the_caller_may_change_the_list_afterwards() -> None:
    async def run() -> None:
        orders = refunds(3)
        task = asyncio.create_task(client_over(MemoryTransport(all_done)).refund(orders))
        await asyncio.sleep(0)
        orders.clear()
        assert len(await task) == 3

    asyncio.run(run())


def _with_bad_ones(orders: list[Any]) -> list[Any]:
    """Put a wrong class, a too precise amount and a duplicate at 3, 5 and 8."""
    orders[3] = orders_for("capture", made_up(1))[0]
    orders[5] = orders_for("refund", made_up(6)[5:], refund_amount="1.005")[0]
    orders[8] = orders[1]
    return orders


async def test_a_bad_order_in_a_collection_means_that_nothing_is_sent() -> None:
    transport = MemoryTransport(all_done)
    with pytest.raises(InvalidOrderError, match="3 of 200 orders are wrong") as caught:
        await client_over(transport).refund(_with_bad_ones(refunds(200)))
    assert sorted(caught.value.problems) == [3, 5, 8]
    assert isinstance(caught.value.problems[8], DuplicateOrderError)
    for part in ("[3] expected RefundOrder", "[5] ", "1.005", "[8] "):
        assert part in str(caught.value)
    assert transport.asked == []


async def test_many_bad_orders_are_all_listed_and_some_are_shown() -> None:
    orders = orders_for("refund", made_up(100), refund_amount="0.001")
    with pytest.raises(InvalidOrderError, match="and 80 more") as caught:
        await client_over(MemoryTransport(all_done)).refund(orders)
    assert sorted(caught.value.problems) == list(range(100))


@pytest.mark.parametrize("kind", ["generator", "async generator"])
async def test_a_bad_order_in_a_stream_is_not_sent_and_the_others_go_on(kind: str) -> None:
    transport = MemoryTransport(all_done)
    given = KINDS[kind](_with_bad_ones(refunds(200)))
    result = await client_over(transport).refund(given)
    assert [outcome.index for outcome in result.not_sent] == [3, 5, 8]
    assert [type(outcome.error) for outcome in result.not_sent] == [
        InvalidOrderError,
        InvalidOrderError,
        DuplicateOrderError,
    ]
    assert result.counts[OutcomeStatus.SUCCEEDED] == 197
    assert [outcome.index for outcome in result] == list(range(200))


async def _read(batch: Batch[Any, Any], seen: list[int]) -> None:
    """Stream a batch, noting each outcome's index."""
    async with batch:
        async for outcome in batch:
            seen.append(outcome.index)  # noqa: PERF401  # to be kept when the stream breaks


def _breaking(orders: list[RefundOrder], after: int) -> Iterator[Any]:
    yield from orders[:after]
    raise _BrokenError


async def _breaking_async(orders: list[RefundOrder], after: int) -> AsyncIterator[Any]:
    for order in orders[:after]:
        yield order
    raise _BrokenError


@pytest.mark.parametrize("after", [0, 1, 10, 35])
@pytest.mark.parametrize("breaking", [_breaking, _breaking_async])
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_input_that_raises_leaves_a_result(
    breaking: Callable[[list[RefundOrder], int], Any], after: int, *, streamed: bool
) -> None:
    transport, seen = MemoryTransport(all_done), list[int]()
    batch = client_over(transport, policy=ONE_AT_A_TIME).refund(breaking(refunds(100), after))
    with pytest.raises(_BrokenError):
        await (_read(batch, seen) if streamed else batch)
    result = batch.result
    assert sorted(seen + [outcome.index for outcome in result]) == list(range(after))
    assert not result.exhausted
    sent = sum(len(asked.transactions) for asked in transport.asked)
    assert result.counts[OutcomeStatus.SUCCEEDED] == sent
    assert result.counts[OutcomeStatus.NOT_SENT] == after - sent


class _Breaking(str):
    """Raises when it is looked up for the n-th time, as a signal handler may, anywhere."""

    __slots__ = ("left",)
    left: int

    def __hash__(self) -> int:
        self.left -= 1
        if self.left == 0:
            raise _BrokenError
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
@pytest.mark.parametrize("left", [1, 3])
async def test_what_raises_while_orders_are_taken_in_neither_loses_nor_repeats_one(
    duplicates: str, left: int
) -> None:
    orders = refunds(60)
    name = _Breaking(orders[25].transaction_id)
    name.left = left
    object.__setattr__(orders[25], "transaction_id", name)
    transport = MemoryTransport(all_done)
    client = client_over(transport, policy=BatchPolicy(duplicates=duplicates, chunk_size=10))
    batch = client.refund(iter(orders))
    with contextlib.suppress(_BrokenError):
        await batch
    sent = [name for asked in transport.asked for name in asked.transactions]
    told = [outcome.index for outcome in batch.result]
    assert len(sent) == len(set(sent))
    assert told == list(range(len(told)))
    assert len(told) >= max(20, len(sent))
    assert batch.result.exhausted is (len(told) == 60)


async def test_the_array_of_a_batch_has_the_name_that_the_dialect_gives_it() -> None:
    fields: list[str] = []

    def answer(asked: Asked) -> Any:
        fields.extend(asked.fields)
        return {"return_status": "1"}

    dialect = Dialect(wire_names={"refund_orders": "orders"})
    await client_over(MemoryTransport(answer), dialect=dialect).refund(refunds(2))
    assert fields == ["merchant_id", "account_id", "orders", "encryption_data"]


async def _cancelled_awaiting() -> AsyncIterator[RefundOrder]:
    for order in refunds(15):
        yield order
    raise asyncio.CancelledError


def _cancelled_at_once() -> Iterator[RefundOrder]:
    yield from refunds(15)
    raise asyncio.CancelledError  # as by the result of a task that was cancelled


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("orders", [_cancelled_awaiting, _cancelled_at_once])
async def test_an_input_that_is_cancelled_from_within_is_no_end(
    orders: Callable[[], Any], streamed: bool
) -> None:
    batch = client_over(MemoryTransport(all_done), policy=ONE_AT_A_TIME).refund(orders())
    with pytest.raises(RuntimeError, match="cancelled from within"):
        await (_read(batch, []) if streamed else batch)
    assert not batch.result.exhausted
    assert not batch.result.ok


@pytest.mark.parametrize("wrong", ["every order is wrong", "nothing may be sent any more"])
async def test_a_long_input_of_which_nothing_is_sent_lets_others_run(wrong: str) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def handler(asked: Asked) -> Any:
        return HttpResponse(500, {}, b"") if asked.operation.name == "refund" else asked.done()

    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=1)
    gateway = client_over(MemoryTransport(handler), policy=policy)
    counter = asyncio.create_task(count_turns())
    if wrong.startswith("every"):
        await gateway.capture(iter(refunds(2000)))  # type: ignore[arg-type]  # on purpose
    else:
        await gateway.refund(iter(refunds(2000)))
    counter.cancel()
    assert turns >= 100


@attrs.frozen(kw_only=True)
class _TaggedOrder(RefundOrder):
    tag: str = "internal"


@pytest.mark.parametrize("amount", ["10.00", "10.0"])
async def test_a_field_that_a_subclass_adds_is_not_sent(amount: str) -> None:
    order = _TaggedOrder(
        transaction_id="T1", order_no="N1", currency="EUR", amount=amount, refund_amount=1
    )
    transport = MemoryTransport(all_done)
    result = await client_over(transport).refund([order])
    assert result.ok
    assert [outcome.order for outcome in result] == [order]
    (sent,) = transport.asked[0].fields["refund_orders"]
    assert "tag" not in sent
    assert (sent["amount"], sent["refund_amount"]) == ("10.00", "1.00")


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_an_order_that_cannot_be_checked_loses_none(duplicates: str) -> None:
    """Its class has a slot that is not set, as one that another version pickled may have."""
    orders: list[Any] = refunds(12)
    orders[7] = object.__new__(RefundOrder)
    policy = BatchPolicy(duplicates=duplicates, chunk_size=5, concurrency=1)
    batch = client_over(MemoryTransport(all_done), policy=policy).refund(iter(orders))
    with pytest.raises(AttributeError):
        await batch
    told = [outcome.index for outcome in batch.result]
    assert told == list(range(len(told)))
    assert len(told) >= 10
    assert batch.result.counts[OutcomeStatus.NOT_SENT] >= 5
    assert not batch.result.exhausted

"""What may be handed in, what is refused, and what becomes of inputs and limiters that break."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import attrs
import pytest

from gateway_async import (
    Batch,
    BatchPolicy,
    DuplicateOrderError,
    InvalidOrderError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
)
from tests.memory import Asked, HttpResponse, MemoryTransport, all_done, client_over
from tests.orders import made_up, orders_for, references, refunds, reply_to

ONE_AT_A_TIME = BatchPolicy(concurrency=1, chunk_size=10)


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


COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "dict keys": lambda orders: dict.fromkeys(orders).keys(),
    "dict values": lambda orders: dict(enumerate(orders)).values(),
}
STREAMS: dict[str, Callable[[list[Any]], Any]] = {
    "iterator": iter,
    "generator": _generator,
    "map": lambda orders: map(attrs.evolve, orders),
    "iterable": _Iterable,
    "async generator": _async_generator,
}
KINDS = COLLECTIONS | STREAMS


async def _read(batch: Batch[Any, Any], seen: list[Any]) -> None:
    """Stream a batch, keeping each outcome."""
    async with batch:
        async for outcome in batch:
            seen.append(outcome)  # noqa: PERF401  # to be kept when the stream breaks


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_of_input_is_taken_whole(kind: str) -> None:
    orders = refunds(120)
    given = KINDS[kind](orders)
    expected = list(given) if kind in COLLECTIONS else orders
    result = await client_over(MemoryTransport(all_done)).refund(given)
    assert [outcome.order for outcome in result] == expected
    assert result.ok
    batch, seen = client_over(MemoryTransport(all_done)).refund(KINDS[kind](orders)), list[Any]()
    await _read(batch, seen)
    assert {outcome.index: outcome.order for outcome in seen} == dict(enumerate(expected))
    assert batch.progress.total == (120 if kind in COLLECTIONS else None)


@pytest.mark.parametrize(
    ("orders", "named"),
    [("T1", "str"), ({"T1": refunds(1)[0]}, "dict"), (refunds(1)[0], "RefundOrder"), (7, "int")],
)
def test_what_is_no_iterable_of_orders_is_refused_at_the_call(orders: Any, named: str) -> None:
    gateway = client_over(MemoryTransport(all_done))
    with pytest.raises(InvalidOrderError, match=f"RefundOrder, got {named}; put a single order"):
        gateway.refund(orders)


async def test_the_caller_may_change_the_list_afterwards() -> None:
    orders = refunds(3)
    task = asyncio.create_task(client_over(MemoryTransport(all_done)).refund(orders))
    await asyncio.sleep(0)
    orders.clear()
    assert len(await task) == 3


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
    with pytest.raises(DuplicateOrderError, match=r"(?s)100 of 200 .*and 80 more") as caught:
        await client_over(MemoryTransport(all_done)).refund(refunds(100) * 2)
    assert sorted(caught.value.problems) == list(range(100, 200))


@pytest.mark.parametrize("kind", ["generator", "async generator"])
async def test_a_bad_order_in_a_stream_is_not_sent_and_the_others_go_on(kind: str) -> None:
    given = KINDS[kind](_with_bad_ones(refunds(200)))
    result = await client_over(MemoryTransport(all_done)).refund(given)
    errors = {outcome.index: type(outcome.error) for outcome in result.not_sent}
    assert errors == {3: InvalidOrderError, 5: InvalidOrderError, 8: DuplicateOrderError}
    assert result.counts[OutcomeStatus.SUCCEEDED] == 197


@pytest.mark.parametrize(
    ("second", "refused"),
    [
        (OrderRef(order_no="1"), True),
        (OrderRef(transaction_id="1"), False),
        (OrderRef(order_no="2"), False),
    ],
)
async def test_the_identity_of_a_reference_is_its_kind_and_its_value(
    second: OrderRef, refused: bool
) -> None:
    gateway = client_over(MemoryTransport(lambda _: reply_to("query", [])))
    batch = gateway.query([OrderRef(order_no="1"), second])
    with pytest.raises(DuplicateOrderError) if refused else contextlib.nullcontext():
        assert len((await batch).absent) == 2


@pytest.mark.parametrize("duplicates", ["serialize", "allow"])
async def test_equal_identities_leave_in_their_order(duplicates: str) -> None:
    orders = [
        order
        for number, name in enumerate("aabacbdaebcf" * 5)
        for order in orders_for(
            "refund", made_up(1), transaction_id=name, refund_reason=str(number)
        )
    ]
    transport = MemoryTransport(all_done)
    policy = BatchPolicy(duplicates=duplicates, chunk_size=2, concurrency=3)
    assert (await client_over(transport, policy=policy).refund(iter(orders))).ok
    sent = [item for asked in transport.asked for item in asked.fields["refund_orders"]]
    for name in "abcdef":
        numbers = [int(one["refund_reason"]) for one in sent if one["transaction_id"] == name]
        assert numbers == [n for n, one in enumerate("aabacbdaebcf" * 5) if one == name]


# Inputs that break


class _Breaking(str):
    """Raises when it is looked up for the n-th time, as a signal handler may, anywhere."""

    __slots__ = ("left",)
    left: int

    def __hash__(self) -> int:
        self.left -= 1
        if self.left == 0:
            raise LookupError
        return super().__hash__()

    __eq__ = str.__eq__


def _breaking(orders: list[Any], left: int) -> None:
    """Let the order at 25 raise when it is looked at, each time or at one of them."""
    if not left:
        orders[25] = object.__new__(RefundOrder)  # as one that another version pickled may be
        return
    name = _Breaking(orders[25].transaction_id)
    name.left = left
    object.__setattr__(orders[25], "transaction_id", name)


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
@pytest.mark.parametrize("left", [0, 1, 3])
async def test_what_raises_while_orders_are_taken_in_neither_loses_nor_repeats_one(
    duplicates: str, left: int
) -> None:
    _breaking(orders := refunds(60), left)
    transport = MemoryTransport(all_done)
    client = client_over(transport, policy=BatchPolicy(duplicates=duplicates, chunk_size=10))
    batch = client.refund(iter(orders))
    with pytest.raises(AttributeError) if not left else contextlib.suppress(LookupError):
        await batch
    sent = [name for asked in transport.asked for name in asked.transactions]
    known = [outcome.index for outcome in batch.result]
    assert len(sent) == len(set(sent))
    assert known == list(range(len(known)))
    assert len(known) >= max(20, len(sent))
    assert batch.result.exhausted is (len(known) == 60)


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


async def test_a_worker_that_failed_is_looked_at_though_the_closing_raises() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail(_asked: Asked) -> Any:
        raise LookupError

    async def orders() -> AsyncIterator[RefundOrder]:
        try:
            for order in refunds(100):
                yield order
        finally:
            raise OSError("closed")

    with contextlib.suppress(OSError):
        await client_over(MemoryTransport(fail), policy=ONE_AT_A_TIME).refund(orders())
    gc.collect()
    assert told == []


class _Limiter:
    """Breaks when it is entered, or left, for the second time."""

    def __init__(self, breaks: str) -> None:
        self._breaks = breaks
        self._entered = 0

    async def __aenter__(self) -> None:
        self._entered += 1
        self._break("entered")

    async def __aexit__(self, *_: object) -> None:
        self._break("left")

    def _break(self, what: str) -> None:
        if (what, self._entered) == (self._breaks, 2):
            raise LookupError("the limiter broke")


@pytest.mark.parametrize(
    ("breaks", "status", "requests"),
    [("entered", OutcomeStatus.NOT_SENT, 1), ("left", OutcomeStatus.UNKNOWN, 2)],
)
async def test_a_limiter_that_breaks(breaks: str, status: OutcomeStatus, requests: int) -> None:
    transport = MemoryTransport(all_done)
    gateway = client_over(transport, policy=ONE_AT_A_TIME, limiter=_Limiter(breaks))
    batch = gateway.refund(refunds(30))
    with pytest.raises(LookupError, match="the limiter broke"):
        await batch
    expected = [OutcomeStatus.SUCCEEDED] * 10 + [status] * 10 + [OutcomeStatus.NOT_SENT] * 10
    assert [outcome.status for outcome in batch.result] == expected
    assert batch.result.requests == len(transport.asked) == requests
    noted = [outcome.sending is not None for outcome in batch.result]
    assert noted == [True] * 10 * requests + [False] * 10 * (3 - requests)


async def test_a_limiter_that_breaks_between_two_halves_of_a_look_up() -> None:
    """The first reply may have been cut; the limiter breaks before the first half is asked for."""

    def answer(asked: Asked) -> dict[str, Any]:
        items = [{"transaction_id": one, "query_result": "1"} for one in asked.transactions * 2]
        return reply_to("query", items[:100])

    batch = client_over(MemoryTransport(answer), limiter=_Limiter("entered")).query(references(64))
    with pytest.raises(LookupError, match="the limiter broke"):
        await batch
    assert [outcome.index for outcome in batch.result] == list(range(64))
    assert not batch.result.counts[OutcomeStatus.ABSENT]


# What else is taken


@pytest.mark.parametrize("wrong", [True, False])
async def test_a_long_input_of_which_nothing_is_sent_lets_others_run(*, wrong: bool) -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    policy = BatchPolicy(concurrency=1, chunk_size=10, stop_after_unknown=1)
    gateway = client_over(MemoryTransport(lambda _: HttpResponse(500, {}, b"")), policy=policy)
    counter = asyncio.create_task(count_turns())
    await gateway.batch("capture" if wrong else "refund", iter(refunds(2000)))
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
    assert (await client_over(transport).refund([order])).ok
    (sent,) = transport.asked[0].fields["refund_orders"]
    assert "tag" not in sent
    assert (sent["amount"], sent["refund_amount"]) == ("10.00", "1.00")

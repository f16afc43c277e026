"""Batches: what may be handed in, what breaks and loses nothing, and what is bounded."""

import asyncio
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import orjson
import pytest

import gateway_async
from gateway_async import (
    Batch,
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    InvalidOrderError,
    OrderRef,
    RefundOrder,
)
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, statuses
from tests.support.clock import Clock
from tests.support.collaborators import Limiter, raising
from tests.support.memory import Asked, HttpResponse, MemoryTransport, client_over
from tests.support.orders import awaited, made_up, orders_for, refunds

TEN = BatchPolicy(concurrency=1, chunk_size=10)
BROKEN = HttpResponse(500, {}, b"")
PACKAGE = str(Path(gateway_async.__file__).parent)


COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "set": set,
    "dict keys": lambda orders: dict.fromkeys(orders).keys(),
    "dict values": lambda orders: dict(enumerate(orders)).values(),
}
STREAMS: dict[str, Callable[[list[Any]], Any]] = {
    "iterator": iter,
    "map": lambda orders: map(attrs.evolve, orders),
    "async generator": awaited,
}


async def read(
    batch: Batch[Any, Any], *, streamed: bool, seen: list[Any] | None = None
) -> list[Any]:
    """Return the outcomes in the order of the input; what a stream yields is put into `seen`."""
    if not streamed:
        return list(await batch)
    seen = [] if seen is None else seen
    async with batch:
        async for outcome in batch:
            seen.append(outcome)  # to be kept when the stream breaks
    return sorted(seen, key=lambda outcome: outcome.index)


# What may be handed in


@pytest.mark.parametrize("kind", COLLECTIONS | STREAMS)
async def test_every_kind_of_input_is_taken_whole(kind: str) -> None:
    orders = refunds(120)
    given = (COLLECTIONS | STREAMS)[kind](orders)
    expected = list(given) if kind in COLLECTIONS else orders
    batch = client_over(MemoryTransport()).refund(given)
    outcomes = await read(batch, streamed=True)
    assert [outcome.order for outcome in outcomes] == expected
    assert statuses(outcomes) == [SUCCEEDED] * 120
    assert batch.progress.total == (120 if kind in COLLECTIONS else None)


@pytest.mark.parametrize(
    ("orders", "named"),
    [("T1", "str"), ({"T1": refunds(1)[0]}, "dict"), (refunds(1)[0], "RefundOrder"), (7, "int")],
)
def test_what_is_no_iterable_of_orders_is_refused_at_the_call(orders: Any, named: str) -> None:
    """There is no batch then that could be dropped, and warn."""
    with pytest.raises(InvalidOrderError, match=f"RefundOrder, got {named}; put a single order"):
        client_over(MemoryTransport()).refund(orders)


async def test_the_caller_may_change_the_list_afterwards() -> None:
    orders = refunds(3)
    task = asyncio.create_task(client_over(MemoryTransport()).refund(orders))
    await asyncio.sleep(0)
    orders.clear()
    assert len(await task) == 3


@attrs.frozen(kw_only=True)
class OwnRefund(RefundOrder):
    """A refund with a field that the interface does not know."""

    ticket: str = "a merchant's own"


async def test_bad_orders_are_not_sent_and_in_a_collection_no_others_either() -> None:
    orders, gateway = refunds(200), client_over(transport := MemoryTransport())
    orders[3] = orders_for("capture", made_up(1))[0]
    orders[5] = attrs.evolve(orders[5], refund_amount="1.005")
    orders[8] = orders[1]
    orders[9] = attrs.evolve(orders[9], transaction_id="T,9")  # no look-up could ask for it
    orders[11] = OwnRefund(**attrs.asdict(orders[11]))
    with pytest.raises(InvalidOrderError, match="5 of 200 orders are wrong") as caught:
        await gateway.refund(orders)
    said = ("[3] expected RefundOrder", "[5] ", "1.005", "[8] ", "contains ',', which sep")
    for part in (*said, "[11] expected RefundOrder, got OwnRefund, a subclass"):
        assert part in str(caught.value)
    with pytest.raises(DuplicateOrderError, match=r"(?s)100 of 200 .*and 80 more") as doubled:
        await gateway.refund(refunds(100) * 2)
    assert sorted(doubled.value.problems) == list(range(100, 200))
    assert transport.asked == []
    result = await gateway.refund(iter(orders))
    errors = {outcome.index: type(outcome.error) for outcome in result.not_sent}
    assert errors == {**dict.fromkeys((3, 5, 9, 11), InvalidOrderError), 8: DuplicateOrderError}
    assert errors == {at: type(error) for at, error in caught.value.problems.items()}
    assert result.counts[SUCCEEDED] == 195


async def test_the_identity_of_a_reference_is_its_kind_and_its_value() -> None:
    gateway, first = client_over(MemoryTransport()), OrderRef(order_no="1")
    assert (await gateway.query([first, OrderRef(transaction_id="1")])).ok
    with pytest.raises(DuplicateOrderError):
        await gateway.query([first, first])


# What breaks, and loses no order


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_an_unreadable_order_neither_loses_nor_repeats_another(duplicates: str) -> None:
    orders = refunds(60)
    orders[25] = object.__new__(RefundOrder)  # as one that another version pickled may be
    transport = MemoryTransport()
    policy = BatchPolicy(duplicates=duplicates, chunk_size=10)
    batch = client_over(transport, policy=policy).refund(iter(orders))
    with pytest.raises(AttributeError):
        await batch
    known = [outcome.index for outcome in batch.result]
    assert known == list(range(len(known)))
    assert len(known) >= max(20, transport.effects.total())
    assert set(transport.effects.values()) == {1}
    assert not batch.result.exhausted


def _ending(error: type[BaseException]) -> Iterator[RefundOrder]:
    yield from refunds(15)
    raise error  # as by the result of a task that was cancelled


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("orders", "raised"),
    [
        (lambda error: awaited(_ending(error)), asyncio.CancelledError),
        (_ending, asyncio.CancelledError),
        (_ending, StopAsyncIteration),
    ],
)
async def test_an_input_that_is_cancelled_from_within_is_no_end(
    orders: Callable[..., Any], raised: type[BaseException], streamed: bool
) -> None:
    batch = client_over(MemoryTransport(), policy=TEN).refund(orders(raised))
    with pytest.raises(RuntimeError, match=f"the input raised {raised.__name__}"):
        await read(batch, streamed=streamed)
    assert not batch.result.exhausted
    assert not batch.result.ok


class _Broken(str):
    """A currency that cannot be compared."""

    __slots__ = ()

    def casefold(self) -> str:
        raise LookupError("broke")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("breaks", ["limiter", "judge"])
async def test_a_failure_behind_a_request_loses_no_order(breaks: str, streamed: bool) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        items = asked.done()["refund_orders"]
        return asked.done(refund_orders=[{**item, "currency": "eur"} for item in items])

    limiter, orders, seen = Limiter(), refunds(40), list[Any]()
    if breaks == "judge":
        object.__setattr__(orders[15], "currency", _Broken("EUR"))
    else:
        limiter = Limiter(leave=raising(LookupError("broke"), at=2))
    transport = MemoryTransport(answer)
    batch = client_over(transport, policy=TEN, limiter=limiter).refund(orders)
    with pytest.raises(LookupError, match="broke"):
        await read(batch, streamed=streamed, seen=seen)
    outcomes = sorted([*seen, *batch.result], key=lambda outcome: outcome.index)
    second = UNKNOWN if breaks == "judge" else SUCCEEDED  # a limiter fails behind the reply
    assert statuses(outcomes) == [SUCCEEDED] * 10 + [second] * 10 + [NOT_SENT] * 20
    assert batch.result.requests == len(transport.asked) == 2
    assert [outcome.sending is None for outcome in outcomes] == [False] * 20 + [True] * 20


async def test_a_failure_of_one_worker_ends_another_that_waits_for_the_input() -> None:
    async def endless() -> AsyncIterator[RefundOrder]:
        yield refunds(1)[0]
        await asyncio.Event().wait()

    policy = attrs.evolve(TEN, chunk_size=1, concurrency=2, drain_seconds=3600)
    limiter = Limiter(enter=raising(LookupError("broke")))
    batch = client_over(MemoryTransport(), policy=policy, limiter=limiter).refund(endless())
    with pytest.raises(LookupError, match="broke"):
        async with asyncio.timeout(600):
            await batch
    assert statuses(batch.result) == [NOT_SENT]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_deadline_that_ends_every_request_ends_no_worker(
    streamed: bool, clock: Clock
) -> None:
    """Each worker waits for the limiter then; the orders after its chunk still get an outcome."""

    async def wait(number: int) -> None:
        clock.advance(30 * (number == 2))
        await asyncio.Event().wait()

    policy = attrs.evolve(TEN, concurrency=2, deadline_seconds=30)
    transport, orders = MemoryTransport(), refunds(60)
    batch = client_over(transport, policy=policy, limiter=Limiter(wait)).refund(iter(orders))
    outcomes = await read(batch, streamed=streamed)
    assert statuses(outcomes) == [NOT_SENT] * 60
    assert batch.result.exhausted
    assert not transport.asked


# What is bounded


async def test_of_a_long_text_of_the_gateway_each_order_has_the_beginning() -> None:
    said = "4" * 1_000_000  # of digits, in each of which a card number may begin
    transport = MemoryTransport(lambda _: {"return_status": "7", "return_message": said})
    for outcome in await client_over(transport).refund(refunds(50)):
        assert 1_000 < len(str(outcome.error)) < 2_000
        assert said[:7] not in str(outcome.error)


@pytest.mark.parametrize(
    ("given", "concurrency", "workers"), [(iter(refunds(5000)), 5, 5), (refunds(1), 100, 1)]
)
async def test_a_batch_takes_no_more_tasks_than_it_has_requests_in_flight(
    given: Any, concurrency: int, workers: int
) -> None:
    most = 0

    async def handler(asked: Asked) -> dict[str, Any]:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        await asyncio.sleep(0)
        return asked.done()

    before = len(asyncio.all_tasks())
    gateway = client_over(MemoryTransport(handler), policy=BatchPolicy(concurrency=concurrency))
    assert len(await read(gateway.refund(given), streamed=True)) == (5000 if workers > 1 else 1)
    assert most <= before + 1 + workers


@pytest.mark.parametrize("operation", ["capture", "refund"])
async def test_a_long_input_of_which_nothing_is_sent_lets_others_run(operation: str) -> None:
    """As captures, refunds are wrong; as refunds, they come to a batch that stops."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    policy = attrs.evolve(TEN, stop_after_unknown=1)
    gateway = client_over(MemoryTransport(lambda _: BROKEN), policy=policy)
    counter = asyncio.create_task(count_turns())
    await gateway.batch(operation, iter(refunds(2000)))
    counter.cancel()
    assert turns >= 100


async def test_a_readable_reply_starts_the_count_of_those_without_one_anew() -> None:
    """That a batch stops is shown by the simulation, and in the log."""

    def answer(asked: Asked) -> Any:
        return BROKEN if int(asked.transactions[0][1:]) % 30 else asked.done()

    policy = attrs.evolve(TEN, stop_after_unknown=3)
    result = await client_over(MemoryTransport(answer), policy=policy).refund(iter(refunds(300)))
    assert (result.requests, len(result.succeeded)) == (30, 100)


async def test_a_batch_stops_after_replies_that_name_no_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a gateway may answer a wrong signature."""
    refusal = {"return_status": "9", "return_message": "encryption_data does not match"}
    policy = attrs.evolve(TEN, stop_after_unknown=3)
    orders = orders_for("capture", made_up(100))
    gateway = client_over(MemoryTransport(lambda _: refusal), policy=policy)
    result = await gateway.capture(orders)
    assert (result.requests, len(result.unknown), len(result.not_sent)) == (3, 30, 70)
    async with gateway.capture(orders) as batch:
        streamed = [outcome async for outcome in batch]
    assert Counter(statuses(streamed)) == {UNKNOWN: 30, NOT_SENT: 70}
    assert "capture sends nothing more" in caplog.text
    caplog.clear()
    assert len((await gateway.capture(orders[:25])).unknown) == 25
    assert "sends nothing more" not in caplog.text  # there was nothing more
    found = await gateway.query(orders_for("query", made_up(100)))
    assert len(found.unknown) == 100  # which leaves no order in doubt
    certain = Dialect(nothing_done_return_statuses=frozenset({"9"}))
    gateway = client_over(MemoryTransport(lambda _: refusal), policy=policy, dialect=certain)
    assert len((await gateway.capture(orders)).declined) == 100


async def calls_of_a_second_batch(answer: Callable[[Asked], Any], count: int) -> int:
    """Count the calls that our code makes for refunds; the first batch compiles, and learns."""
    heard = 0

    def hear(frame: FrameType, event: str, _: object) -> None:
        nonlocal heard
        is_ours = frame.f_code.co_filename.startswith(PACKAGE)
        heard += is_ours and event in ("call", "c_call")

    client, orders = client_over(MemoryTransport(answer)), refunds(count)
    await client.refund(orders)
    sys.setprofile(hear)
    try:
        await client.refund(orders)
    finally:
        sys.setprofile(None)
    return heard


async def test_a_reply_takes_a_time_in_proportion_to_its_size() -> None:
    """One object of it has many values of one name, all different."""

    async def calls(size: int) -> int:
        body = b"{%s}" % b",".join(b'"a":%d' % number for number in range(size))
        return await calls_of_a_second_batch(lambda _: body, 1)

    assert 0 < await calls(4000) < 3 * await calls(2000)


@pytest.mark.parametrize(("note", "most"), [("as usual", 5), ("\N{SNOWMAN}", 150)])
async def test_an_order_takes_few_calls(note: str, most: int) -> None:
    """The usual reply is recognised at a glance; another is judged item by item."""

    def answer(asked: Asked) -> Any:
        reply = asked.done()
        for number, item in enumerate(reply["refund_orders"]):
            item |= {"refund_reference_id": f"R{number}", "note": note}
        return reply

    assert 0 < await calls_of_a_second_batch(answer, 1000) < most * 1000


async def test_no_pattern_grows_with_the_rest_of_a_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of a megabyte takes a second to compile, in which nothing else runs."""
    sizes, compiled = list[int](), re.compile

    def noted(pattern: Any, *flags: Any) -> Any:
        sizes.append(len(pattern))
        return compiled(pattern, *flags)

    def answer(padding: int, asked: Asked) -> bytes:
        return orjson.dumps(asked.done(note="x" * padding)) + b" " * padding

    monkeypatch.setattr(re, "compile", noted)
    for padding in (10, 1_000_000):
        client = client_over(MemoryTransport(partial(answer, padding)))
        assert (await client.refund(refunds(3))).ok
    assert 0 < max(sizes) < 10_000


# A batch as an object


async def test_a_batch_is_used_once_and_knows_nothing_before() -> None:
    batch = client_over(MemoryTransport()).refund(refunds(1))
    assert (batch.progress.done, batch.progress.requests, batch.progress.total) == (0, 0, None)
    with pytest.raises(RuntimeError, match="no result"):
        _ = batch.result
    with pytest.raises(RuntimeError, match="async with"):
        await anext(batch)
    await batch
    for streamed in (False, True):
        with pytest.raises(RuntimeError, match="once"):
            await read(batch, streamed=streamed)


async def test_what_a_stream_has_not_yielded_is_in_the_result_alone() -> None:
    async with client_over(MemoryTransport()).refund(refunds(9)) as batch:
        await anext(batch)
    assert len(batch.result) == 8
    assert [outcome async for outcome in batch] == []


async def test_a_batch_that_is_not_awaited_warns() -> None:
    gateway: Any = client_over(MemoryTransport())
    with pytest.warns(RuntimeWarning, match="Batch refund new.* never awaited"):
        gateway.refund(refunds(1))

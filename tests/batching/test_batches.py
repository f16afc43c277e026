"""Batches: what may be handed in, what breaks and loses nothing, what is bounded, results."""

import asyncio
import json
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import (
    Batch,
    BatchIncompleteError,
    BatchPolicy,
    BatchResult,
    Dialect,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
    RefundRecord,
    RetryPolicy,
    UnexpectedRecords,
)
from tests.support.books import DECLINED, NOT_SENT, SUCCEEDED, UNKNOWN, statuses
from tests.support.clock import Clock
from tests.support.collaborators import Limiter, raising
from tests.support.memory import Asked, HttpResponse, MemoryTransport, client_over
from tests.support.orders import awaited, made_up, orders_for, refunds, reply_to

TEN = BatchPolicy(concurrency=1, chunk_size=10)
BROKEN = HttpResponse(500, {}, b"")
CHUNK = 5


async def read(batch: Batch[Any, Any], *, streamed: bool) -> list[Any]:
    """Return the outcomes in the order of the input."""
    if not streamed:
        return list(await batch)
    async with batch:
        return sorted([outcome async for outcome in batch], key=attrgetter("index"))


# What may be handed in


@pytest.mark.parametrize("kind", [set, iter, awaited])
async def test_every_kind_of_input_is_taken_whole(kind: Callable[[list[Any]], Any]) -> None:
    given = kind(orders := refunds(120))
    expected = list(given) if kind is set else orders
    batch = client_over().refund(given)
    outcomes = await read(batch, streamed=True)
    assert [outcome.order for outcome in outcomes] == expected
    assert statuses(outcomes) == [SUCCEEDED] * 120
    assert batch.progress.total == (120 if kind is set else None)


@pytest.mark.parametrize(
    ("orders", "named"),
    [("T1", "str"), ({"T1": refunds(1)[0]}, "dict"), (refunds(1)[0], "RefundOrder"), (7, "int")],
)
def test_what_is_no_iterable_of_orders_is_refused_at_the_call(orders: Any, named: str) -> None:
    """There is no batch then that could be dropped, and warn."""
    with pytest.raises(InvalidOrderError, match=f"RefundOrder, got {named}; put a single order"):
        client_over().refund(orders)


async def test_the_caller_may_change_the_list_afterwards() -> None:
    orders = refunds(3)
    task = asyncio.create_task(client_over().refund(orders))
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
    gateway, first = client_over(), OrderRef(order_no="1")
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
    ("orders", "raised", "said"),
    [
        (lambda error: awaited(_ending(error)), asyncio.CancelledError, "other code cancelled"),
        (_ending, asyncio.CancelledError, "other code cancelled"),
        (_ending, StopAsyncIteration, "the input raised StopAsyncIteration"),
    ],
)
async def test_an_input_that_is_cancelled_from_within_is_no_end(
    orders: Callable[..., Any], raised: type[BaseException], said: str, streamed: bool
) -> None:
    batch = client_over(policy=TEN).refund(orders(raised))
    with pytest.raises(RuntimeError, match=said):
        await read(batch, streamed=streamed)
    assert not batch.result.exhausted
    assert not batch.result.ok


class _Broken(str):
    """A currency that cannot be compared."""

    __slots__ = ()

    def casefold(self) -> str:
        raise LookupError("broke")


async def test_a_failure_of_the_judge_loses_no_order() -> None:
    """The simulation shows it of a limiter that fails behind the reply."""

    def answer(asked: Asked) -> dict[str, Any]:
        items = asked.done()["refund_orders"]
        return asked.done(refund_orders=[{**item, "currency": "eur"} for item in items])

    orders = refunds(40)
    object.__setattr__(orders[15], "currency", _Broken("EUR"))
    batch = client_over(transport := MemoryTransport(answer), policy=TEN).refund(orders)
    with pytest.raises(LookupError, match="broke"):
        await batch
    assert statuses(batch.result) == [SUCCEEDED] * 10 + [UNKNOWN] * 10 + [NOT_SENT] * 20
    assert batch.result.requests == len(transport.asked) == 2
    assert [one.sending is None for one in batch.result] == [False] * 20 + [True] * 20


async def test_a_failure_of_one_worker_ends_another_that_waits_for_the_input() -> None:
    async def endless() -> AsyncIterator[RefundOrder]:
        yield refunds(1)[0]
        await asyncio.Event().wait()

    policy = attrs.evolve(TEN, chunk_size=1, concurrency=2, drain_seconds=3600)
    limiter = Limiter(enter=raising(LookupError("broke")))
    batch = client_over(policy=policy, limiter=limiter).refund(endless())
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


async def test_a_stream_yields_what_the_deadline_left_of_its_input(clock: Clock) -> None:
    async def orders() -> AsyncIterator[RefundOrder]:
        for order in refunds(3):
            yield order
        clock.advance(30)
        await asyncio.Event().wait()

    policy = attrs.evolve(TEN, deadline_seconds=30)
    async with client_over().refund(orders(), policy=policy) as batch:
        assert statuses([outcome async for outcome in batch]) == [NOT_SENT] * 3


# What is bounded


async def test_of_a_long_text_of_the_gateway_each_order_has_the_beginning() -> None:
    said = "4" * 1_000_000  # of digits, in each of which a card number may begin
    client = client_over(lambda _: {"return_status": "7", "return_message": said})
    for outcome in await client.refund(refunds(50)):
        assert 1_000 < len(str(outcome.error)) < 2_000
        assert said[:7] not in str(outcome.error)


@pytest.mark.parametrize(
    ("given", "concurrency", "workers"), [(iter(refunds(1000)), 5, 5), (refunds(1), 100, 1)]
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
    gateway = client_over(handler, policy=BatchPolicy(concurrency=concurrency))
    assert len(await read(gateway.refund(given), streamed=True)) == (1000 if workers > 1 else 1)
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
    gateway = client_over(lambda _: BROKEN, policy=policy)
    counter = asyncio.create_task(count_turns())
    await gateway.batch(operation, iter(refunds(2000)))
    counter.cancel()
    assert turns >= 100


async def test_a_readable_reply_starts_the_count_of_those_without_one_anew() -> None:
    """That a batch stops is shown by the simulation, and in the log."""

    def answer(asked: Asked) -> Any:
        return BROKEN if int(asked.transactions[0][1:]) % 30 else asked.done()

    policy = attrs.evolve(TEN, stop_after_unknown=3)
    result = await client_over(answer, policy=policy).refund(iter(refunds(300)))
    assert (result.requests, len(result.succeeded)) == (30, 100)


async def test_a_batch_stops_after_replies_that_name_no_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a gateway may answer a wrong signature."""
    refusal = {"return_status": "9", "return_message": "encryption_data does not match"}
    policy = attrs.evolve(TEN, stop_after_unknown=3)
    orders = orders_for("capture", made_up(100))
    gateway = client_over(lambda _: refusal, policy=policy)
    result = await gateway.capture(orders)
    assert (result.requests, len(result.unknown), len(result.not_sent)) == (3, 30, 70)
    assert "capture sends nothing more" in caplog.text
    caplog.clear()
    assert len((await gateway.capture(orders[:25])).unknown) == 25
    assert "sends nothing more" not in caplog.text  # there was nothing more
    found = await gateway.query(orders_for("query", made_up(100)))
    assert len(found.unknown) == 100  # which leaves no order in doubt
    gateway = client_over(
        lambda asked: reply_to("capture", asked.done()["capture_orders"][1:]), policy=policy
    )
    assert len((await gateway.capture(orders)).succeeded) == 90  # each reply names nine of ten
    certain = Dialect(nothing_done_return_statuses=frozenset({"9"}))
    gateway = client_over(lambda _: refusal, policy=policy, dialect=certain)
    assert len((await gateway.capture(orders)).declined) == 100


# A batch as an object


async def test_a_batch_is_used_once_and_knows_nothing_before() -> None:
    batch = client_over().refund(refunds(1))
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
    async with client_over().refund(iter(refunds(2000))) as batch:
        await anext(batch)
    assert 0 < len(batch.result) == batch.progress.done - 1 < 1999
    assert [outcome async for outcome in batch] == []
    with pytest.raises(BatchIncompleteError, match="not taken to its end") as caught:
        batch.result.raise_for_problems()
    assert caught.value.result is batch.result


async def test_a_batch_that_is_not_awaited_warns() -> None:
    gateway: Any = client_over()
    with pytest.warns(RuntimeWarning, match="Batch refund new.* never awaited"):
        gateway.refund(refunds(1))


# What a result holds, and how it is read


async def result_of(wanted: list[OutcomeStatus], *, strangers: int = 0) -> BatchResult[Any, Any]:
    """Return the result of orders that come to these statuses, with chunks of several at once."""
    orders = refunds(len(wanted))
    by_name = {order.transaction_id: one for order, one in zip(orders, wanted, strict=True)}
    marks = {SUCCEEDED: "1", DECLINED: "0", UNKNOWN: "?"}

    async def answer(asked: Asked) -> dict[str, Any]:
        if NOT_SENT in (by_name[one] for one in asked.transactions):
            raise NotSentError("as if the connection were refused")
        for _ in range(int(asked.transactions[0][1:]) % 4):
            await asyncio.sleep(0)
        reply = asked.done()
        for item in reply["refund_orders"]:
            item["refund_status"] = marks[by_name[item["transaction_id"]]]
            item["refund_message"] = "2001:no" if item["refund_status"] == "0" else ""
        reply["refund_orders"] += [{"transaction_id": "T9"}] * strangers
        return reply

    gateway = client_over(
        answer,
        policy=BatchPolicy(chunk_size=CHUNK, concurrency=3, stop_after_unknown=100),
        dialect=Dialect(declined_statuses={"0"}),
        retry=RetryPolicy(attempts=1),
    )
    return await gateway.refund(orders)


CHUNKS = st.lists(
    st.just([NOT_SENT] * CHUNK)
    | st.lists(st.sampled_from([SUCCEEDED, DECLINED, UNKNOWN]), min_size=CHUNK, max_size=CHUNK),
    max_size=6,
).map(lambda chunks: [status for chunk in chunks for status in chunk])


def _seen(outcomes: Any) -> list[tuple[object, ...]]:
    return [(repr(o), o.order, o.record, type(o.error), str(o.error), o.reply) for o in outcomes]


@settings(max_examples=20)
@given(wanted=CHUNKS, strangers=st.integers(0, 1), data=st.data())
async def test_outcomes_are_in_input_order_read_like_a_list_and_survive_pickling(
    wanted: list[OutcomeStatus], strangers: int, data: st.DataObject
) -> None:
    made = await result_of(wanted, strangers=strangers)
    again, alone = (pickle.loads(pickle.dumps(one)) for one in (made, list(made)))  # noqa: S301  # our own
    assert _seen(again) == _seen(alone) == _seen(made)
    assert list(again.unexpected) == list(made.unexpected)
    result = data.draw(st.sampled_from([made, again]))
    assert "T000001" not in repr(result)
    assert repr(result.succeeded) == f"<{len(result.succeeded)} succeeded>"
    assert statuses(result) == wanted
    assert [outcome.order for outcome in result] == refunds(len(wanted))
    views = (result, result.succeeded, result.declined, result.unknown, result.not_sent)
    for view in views:
        whole = [outcome.index for outcome in view]
        bounds = st.none() | st.integers(-50, 50)
        steps = st.none() | st.sampled_from([-3, -1, 1, 2])
        part = slice(data.draw(bounds), data.draw(bounds), data.draw(steps))
        assert [outcome.index for outcome in view[part]] == whole[part]
        at = [view[n].index for n in range(-len(whole), len(whole))]
        assert at == [*whole, *whole]
        assert [outcome.index for outcome in reversed(view)] == whole[::-1]
        for beyond in (len(whole), -len(whole) - 1):
            with pytest.raises(IndexError, match="no outcome"):
                _ = view[beyond]
    assert sorted(o.index for view in views[1:] for o in view) == list(range(len(result)))
    assert result.counts == {status: wanted.count(status) for status in OutcomeStatus}
    assert result.ok == (len(result.succeeded) == len(result) and not result.unexpected)


@pytest.mark.parametrize(("records", "size", "kept"), [(600, 10, 1000), (1, 1_000_000, 32)])
async def test_all_unexpected_are_counted_some_kept(records: int, size: int, kept: int) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        strangers = [{"transaction_id": "T9"}, *["x" * size] * records]
        return reply_to("refund", [*asked.done()["refund_orders"], *strangers])

    policy = BatchPolicy(chunk_size=1)
    result = await client_over(answer, policy=policy).refund(refunds(20))
    unexpected: UnexpectedRecords[Any] = result.unexpected
    assert len(unexpected) == unexpected.count == 20 * (records + 1)
    assert f"{unexpected.count} unexpected records" in repr(result)
    assert len(list(unexpected)) == kept
    assert sum(len(str(one)) for one in unexpected) <= 16 * 2**20
    assert unexpected[0].transaction_id == "T9"
    assert unexpected[1] == "x" * size


# `BatchResult.to_dicts`: flat rows for data frames

PLAIN = {str, int, Decimal, datetime, date, type(None)}


async def looked_up(items: list[dict[str, Any]], *more: str) -> list[dict[str, Any]]:
    """Return the rows of a look-up of these records, and of more references, 20 a request."""

    def answer(asked: Asked) -> dict[str, Any]:
        names = str(asked.fields["order_no"]).split(",")
        return reply_to("query", [item for item in items if item["order_no"] in names])

    gateway = client_over(answer, policy=BatchPolicy(chunk_size=20))
    found = dict.fromkeys([*(item["order_no"] for item in items), *more])
    return (await gateway.query([OrderRef(order_no=name) for name in found])).to_dicts()


async def test_a_row_for_each_order_in_the_order_of_the_input() -> None:
    sent = [SUCCEEDED, DECLINED, SUCCEEDED, DECLINED, UNKNOWN]
    result = await result_of([*sent, *[NOT_SENT] * 5])
    rows = result.to_dicts()
    columns = ["index", "status", "error", "error_type", "error_code", "error_text"]
    columns += [field.name for field in attrs.fields(RefundOrder)]
    columns += [f"record_{field.name}" for field in attrs.fields(RefundRecord)]
    assert all(list(row) == columns for row in rows)
    assert {type(value) for row in rows for value in row.values()} <= PLAIN
    for index, (outcome, row) in enumerate(zip(result, rows, strict=True)):
        record, error = outcome.record, outcome.error
        assert (row["index"], row["status"]) == (index, str(outcome.status))
        assert row["transaction_id"] == outcome.order.transaction_id
        assert row["error"] == (str(error) if error else None)
        assert row["error_type"] == (type(error).__name__ if error else None)
        assert row["record_refund_amount"] == (record.refund_amount if record else None)
    assert (rows[1]["error_code"], rows[1]["error_text"]) == ("2001", "no")


async def test_polars_makes_a_frame_of_a_row_for_each_record_and_rounds_no_amount() -> None:
    polars = pytest.importorskip("polars")
    texts = [*["3"] * 150, "2.505", "0.1", "100"]
    items = [
        {"order_no": f"N{number // 3}", "query_result": "1", "amount": text}
        for number, text in enumerate(texts)
    ]
    rows = await looked_up(items, "none")
    assert [row["index"] for row in rows] == [number // 3 for number in range(154)]
    assert (rows[-1]["status"], rows[-1]["record_amount"]) == ("absent", None)
    for frame in (polars.DataFrame(rows, infer_schema_length=None), polars.DataFrame(rows)):
        assert frame["record_amount"].to_list() == [*map(Decimal, texts), None]
        assert frame["order_no"].to_list() == [*(item["order_no"] for item in items), "none"]


async def test_nested_parts_and_what_the_interface_does_not_list() -> None:
    record = {
        "order_no": "A-1",
        "query_result": "1",
        "amount": "9.90",
        "transaction_date": "20260131120000",
        "delivery_information": {"delivery_city": "Köln", "floor": 3},
        "fraud_check_result": [{"check_items": "ip", "status": "ACCEPT"}],
        "subscription_result": {"contract_name": "monthly"},
        "card_number": "4111111111111111",
        "risk": {"score": 7, "cvv": "123"},
    }
    wrong = {"order_no": "A-2", "query_result": "1", "amount": "ten"}
    row, unreadable = await looked_up([record, wrong])
    shown = {
        "transaction_date": datetime(2026, 1, 31, 12),  # noqa: DTZ001  # as it came
        "delivery_information_delivery_city": "Köln",
        "delivery_information_extra": '{"floor": 3}',
        "subscription_result_contract_name": "monthly",
        "fraud_check_result": '[{"check_items": "ip", "status": "ACCEPT"}]',
        "extra": '{"card_number": "***", "risk": {"score": 7, "cvv": "***"}}',
        "unreadable": None,
    }
    assert {name: row[f"record_{name}"] for name in shown} == shown
    assert (unreadable["record_amount"], unreadable["record_fraud_check_result"]) == (None, None)
    assert json.loads(unreadable["record_unreadable"]) == {"amount": "ten"}
    assert {type(value) for value in (*row.values(), *unreadable.values())} <= PLAIN

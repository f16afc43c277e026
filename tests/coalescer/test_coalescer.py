"""Single awaits of many tasks leave as few requests, and each gets the outcome of its own order."""

import asyncio
import gc
import itertools
import logging
import weakref
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    BatchResult,
    ConfigurationError,
    DuplicateOrderError,
    GatewayClient,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
)
from gateway_async.sandbox import Sandbox
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN
from tests.support.clock import on_virtual_time
from tests.support.collaborators import Limiter, raising
from tests.support.memory import (
    HeldReplies,
    MemoryTransport,
    all_done,
    client_over,
    sent,
    settle_down,
)
from tests.support.orders import (
    LOOK_UPS,
    MONEY_OPERATIONS,
    client_at,
    made_up,
    orders_for,
    references,
    refunds,
)

FIFTY = ("capture", "cancel", "refund")
"""Operations that take 50 orders a request; the others take 100."""


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, *LOOK_UPS])
async def test_every_operation_gives_each_its_own_outcome(operation: str) -> None:
    """A full request leaves at once, the rest when it has lingered, or at the end."""
    transport, limit = MemoryTransport(all_done), 50 if operation in FIFTY else 100
    orders = orders_for(operation, made_up(2 * limit + 20))
    async with client_over(transport).coalesced(linger_seconds=3600) as single:
        tasks = [asyncio.create_task(getattr(single, operation)(order)) for order in orders]
        await asyncio.wait(tasks[: 2 * limit])
        await settle_down()
        assert [len(names) for names in sent(transport)] == [limit] * 2
        assert not any(task.done() for task in tasks[2 * limit :])
    outcomes = [task.result() for task in tasks]
    assert [len(names) for names in sent(transport)] == [limit, limit, 20]
    assert {asked.operation.name for asked in transport.asked} == {operation}
    assert [outcome.order for outcome in outcomes] == orders
    assert {outcome.status for outcome in outcomes} == {SUCCEEDED}
    records = [o.record[0] if isinstance(o.record, tuple) else o.record for o in outcomes]
    assert [r.transaction_id for r in records] == [o.transaction_id for o in orders]


async def test_operations_and_kinds_of_reference_do_not_share_a_request_nor_an_error(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    one, other = sandbox.seed(2)
    captured = orders_for("refund", sandbox.seed(2, status="captured"))
    wrong = orders_for("refund", sandbox.seed(1), refund_amount="1.001")
    async with gateway.coalesced() as single:
        outcomes: list[Any] = await asyncio.gather(
            single.query(OrderRef(order_no=one.order_no)),
            single.query(OrderRef(transaction_id=other.transaction_id)),
            single.search_refunds(OrderRef(transaction_id=other.transaction_id)),
            *(single.refund(order) for order in [*captured, *orders_for("refund", [one]), *wrong]),
            single.refund(OrderRef(order_no="1")),  # type: ignore[arg-type]  # on purpose
            return_exceptions=True,
        )
    by_number, by_transaction, refunds_of, *came, declined, precise, odd = outcomes
    assert by_number.record[0].transaction_id == one.transaction_id
    assert by_transaction.record[0].order_no == other.order_no
    assert refunds_of.status is OutcomeStatus.ABSENT
    assert [outcome.status for outcome in came] == [SUCCEEDED] * 2
    assert "not captured" in str(declined.error)
    assert [type(precise), type(odd)] == [InvalidOrderError] * 2
    assert sandbox.requests == {"query": 2, "search_refunds": 1, "refund": 1}


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, *LOOK_UPS])
async def test_money_that_is_under_way_is_not_moved_again(operation: str) -> None:
    """A look-up is shared while it waits; later, its answer may be older than the question."""
    held, policy = HeldReplies(), BatchPolicy(drain_seconds=0)
    (order,) = orders_for(operation, made_up(1))
    async with held.client(policy=policy).coalesced(linger_seconds=0) as single:
        ask = getattr(single, operation)
        first = asyncio.create_task(ask(order))
        await asyncio.sleep(0)
        while_it_waits = asyncio.create_task(ask(order))
        await held.asked.wait()
        when_it_has_left = asyncio.create_task(ask(order))
        await settle_down()
        held.goes_on.set()
        for second in (while_it_waits, when_it_has_left):
            if operation in LOOK_UPS:
                assert (await second).status is SUCCEEDED
                continue
            with pytest.raises(DuplicateOrderError, match="'T000000' is under way"):
                second.result()
        assert (await first).status is SUCCEEDED
        assert (await ask(order)).status is SUCCEEDED  # a second one, once the first is settled
    assert sent(held.transport) == [["T000000"]] * (3 if operation in LOOK_UPS else 2)


async def test_requests_in_flight_are_limited_and_the_others_fill_up_meanwhile() -> None:
    held = HeldReplies()
    policy = BatchPolicy(concurrency=2, chunk_size=10)
    async with held.client().coalesced(linger_seconds=0, policy=policy) as single:
        tasks = []
        for order in refunds(30):
            tasks.append(asyncio.create_task(single.refund(order)))
            await settle_down()
        held.goes_on.set()
        assert {(await task).status for task in tasks} == {SUCCEEDED}
    assert held.most == 2
    assert [len(names) for names in sent(held.transport)] == [1, 1, 10, 10, 8]
    assert single._requests == set()  # none is kept once it has ended


async def test_records_nobody_asked_for_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def with_another(asked: Any) -> dict[str, Any]:
        reply: dict[str, Any] = asked.done()
        reply["refund_orders"].append({"transaction_id": "T9", "refund_status": "1"})
        return reply

    async with client_over(with_another).coalesced() as single:
        assert (await single.refund(refunds(1)[0])).status is SUCCEEDED
    assert "the reply to a refund listed 1 records" in caplog.text


async def test_wrong_settings_are_refused_where_they_matter() -> None:
    gateway = client_over()
    wrong: Any
    for wrong in (-1, float("nan"), float("inf"), True, "5ms", None):
        with pytest.raises(ConfigurationError, match="linger_seconds: expected a number of secon"):
            gateway.coalesced(linger_seconds=wrong)
    async with gateway.coalesced(policy=BatchPolicy(chunk_size=100)) as single:
        with pytest.raises(ConfigurationError, match="chunk_size: 100 is above the 50 orders"):
            await single.refund(refunds(1)[0])
        assert (await single.query(references(1)[0])).status is SUCCEEDED


# Awaiters are cancelled, something fails, or the coalescer ends: no order is lost, none hangs


LONG = 3600.0
"""A linger time that no test waits for."""
KEPT = 1000
"""How many outcomes nobody waited for are kept."""


async def _cancel(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)


def _named(outcomes: list[Any]) -> list[str]:
    return [outcome.order.transaction_id for outcome in outcomes]


# Awaiters


@pytest.mark.parametrize(("name", "others"), [("refund", 0), ("query", 0), ("query", 1)])
def test_an_order_is_asked_again_in_the_step_that_cancels_it(name: str, others: int) -> None:
    """Equal look-ups wait for one answer, and one of them may be withdrawn."""

    async def work() -> None:
        async with client_over(transport).coalesced(linger_seconds=1) as single:
            ask = getattr(single, name)
            (order,) = orders_for(name, made_up(1))
            first, *equal = (asyncio.create_task(ask(order)) for _ in range(1 + others))
            await asyncio.sleep(0)
            first.cancel()
            outcomes = [await ask(order), *[await task for task in equal]]
            assert {outcome.status for outcome in outcomes} == {SUCCEEDED}
            assert first.cancelled()

    transport = MemoryTransport(all_done)
    on_virtual_time(work())
    assert len(transport.asked) == 1


async def test_nothing_is_kept_of_an_awaiter_that_gave_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While another one waits for the same look-up, or for another."""
    loop, kept = asyncio.get_running_loop(), weakref.WeakSet[asyncio.Future[Any]]()
    create = loop.create_future

    def note() -> asyncio.Future[Any]:
        kept.add(future := create())
        return future

    monkeypatch.setattr(loop, "create_future", note)
    async with client_over().coalesced(linger_seconds=LONG) as single:
        orders = [*references(1) * 100, *references(2)]
        patient, *others = (asyncio.create_task(single.query(order)) for order in orders)
        await settle_down()
        assert len(kept) > 100
        await _cancel(*others)
        others.clear()  # a task that was cancelled has the frames of its traceback
        gc.collect()
        assert len(kept) < 10
        assert [len(queue.waiting) for queue in single._queues.values()] == [1]
    assert (await patient).status is SUCCEEDED


def test_the_second_leaves_in_time_where_the_first_is_withdrawn() -> None:
    async def work() -> None:
        one, other = refunds(2)
        async with client_over().coalesced(linger_seconds=2) as single:
            first = asyncio.create_task(single.refund(one))
            await asyncio.sleep(1)
            second = asyncio.create_task(single.refund(other))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).status is SUCCEEDED

    _, passed = on_virtual_time(work())
    assert passed <= 3


async def test_an_awaiter_that_is_cancelled_in_any_turn_disturbs_no_other() -> None:
    """Its order is withdrawn until the request leaves; after that its outcome is kept."""

    def cancel(task: "asyncio.Task[Any]", in_turns: int) -> None:
        if in_turns:
            asyncio.get_running_loop().call_soon(cancel, task, in_turns - 1)
        else:
            waiting = sum(len(queue.waiting) for queue in single._queues.values())
            had_left.append(waiting < 3)
            task.cancel()

    fates: set[str] = set()
    for number, turns in itertools.product((0, 2), range(30)):
        transport, had_left = MemoryTransport(steps=1), list[bool]()
        async with client_over(transport).coalesced(linger_seconds=0) as single:
            tasks = [asyncio.create_task(single.refund(order)) for order in refunds(3)]
            await asyncio.sleep(0)
            cancel(tasks[number], turns)
            await asyncio.wait(tasks)
            await settle_down()
        told = [task.result() for task in tasks if not task.cancelled()]
        assert len(told) >= 2
        assert {outcome.status for outcome in (*told, *single.unclaimed)} == {SUCCEEDED}
        assert sorted(_named([*told, *single.unclaimed])) == sorted(transport.effects.elements())
        fate = "told" if len(told) == 3 else "kept" if single.unclaimed else "withdrawn"
        assert fate == "told" or had_left == [fate == "kept"]
        fates.add(fate)
    assert fates == {"told", "kept", "withdrawn"}


async def test_money_that_had_left_is_kept_and_logged_up_to_a_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    held, orders, policy = HeldReplies(), refunds(KEPT + 3), BatchPolicy(concurrency=100)
    async with held.client(policy=policy).coalesced(linger_seconds=0) as single:
        awaited, *given_up = [asyncio.create_task(single.refund(order)) for order in orders]
        looked_up = asyncio.create_task(single.query(references(1)[0]))
        await settle_down()
        await _cancel(*given_up, looked_up)
        assert single.unclaimed == []  # nobody knows yet
        held.goes_on.set()
        assert (await awaited).status is SUCCEEDED
    kept = [outcome.order for outcome in single.unclaimed]  # a look-up is forgotten
    assert len(kept) == KEPT
    assert all(order in orders[1:] for order in kept)
    assert {outcome.status for outcome in single.unclaimed} == {SUCCEEDED}
    levels = [record.levelno for record in caplog.records]
    assert (levels.count(logging.WARNING), levels.count(logging.ERROR)) == (KEPT + 2, 2)
    assert "order_no='N000001', transaction_id='T000001'" in caplog.messages[0]
    assert caplog.messages[0].endswith("of 1.00 EUR is succeeded")


@pytest.mark.parametrize("has_left", [False, True])
async def test_a_call_that_is_closed_is_as_one_that_is_cancelled(has_left: bool) -> None:
    held, linger = HeldReplies(), 0 if has_left else LONG
    async with held.client().coalesced(linger_seconds=linger) as single:
        call = single.refund(refunds(1)[0])
        call.send(None)
        await (held.asked.wait() if has_left else asyncio.sleep(0))
        call.close()
        held.goes_on.set()
    assert [outcome.status for outcome in single.unclaimed] == [SUCCEEDED] * has_left
    assert len(sent(held.transport)) == has_left


async def test_money_that_had_left_and_was_never_sent_is_forgotten() -> None:
    goes_on = asyncio.Event()

    async def fail(_: object) -> bytes:
        await goes_on.wait()
        raise NotSentError("nothing was sent: the connection failed")

    async with client_over(fail).coalesced(linger_seconds=0) as single:
        task = asyncio.create_task(single.refund(refunds(1)[0]))
        await settle_down()
        await _cancel(task)
        goes_on.set()
    assert single.unclaimed == []


# Something fails


@pytest.mark.parametrize("breaks", ["limiter", "result"])
async def test_an_error_reaches_no_awaiter(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, breaks: str
) -> None:
    def broken(_: object) -> None:
        raise ZeroDivisionError

    if breaks == "result":
        monkeypatch.setattr(BatchResult, "__iter__", broken)
    limiter = Limiter(enter=raising(ZeroDivisionError())) if breaks == "limiter" else None
    async with client_over(limiter=limiter).coalesced() as single:
        outcomes = await asyncio.gather(*(single.refund(order) for order in refunds(2)))
    expected = NOT_SENT if breaks == "limiter" else UNKNOWN
    assert [outcome.status for outcome in outcomes] == [expected] * 2
    assert all(outcome.error for outcome in outcomes)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("turns", [1, 2, 9])
def test_a_request_that_other_code_cancels_keeps_no_awaiter(turns: int) -> None:
    """Such as a server that cancels every task but its own: one may not have begun yet."""

    async def work() -> None:
        before = asyncio.all_tasks()
        async with client_over(transport).coalesced(linger_seconds=1) as single:
            waiting = asyncio.create_task(single.refund(first))
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in asyncio.all_tasks() - before - {waiting}:
                task.cancel()
            outcome = await asyncio.wait_for(waiting, 5)
            assert outcome.status is NOT_SENT
            assert "other code cancelled its request" in str(outcome.error)
            later = [(await single.refund(order)).status for order in (second, first)]
            assert later == [SUCCEEDED] * 2

    transport, first, second = MemoryTransport(), *refunds(2)
    on_virtual_time(work())
    assert sent(transport) == [["T000001"], ["T000000"]]


# The end of a coalescer


async def test_an_exception_sends_nothing_more_and_waits_for_what_has_left() -> None:
    held, tasks = HeldReplies(), list[asyncio.Task[Any]]()
    coalesced = held.client(policy=BatchPolicy(concurrency=1)).coalesced(linger_seconds=0)

    async def fail() -> None:
        async with coalesced as single:
            for order in refunds(2):
                tasks.append(asyncio.create_task(single.refund(order)))
                await held.asked.wait()
                await settle_down()
            asyncio.get_running_loop().call_soon(held.goes_on.set)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert [(await task).status for task in tasks] == [SUCCEEDED, NOT_SENT]
    assert sent(held.transport) == [["T000000"]]


@pytest.mark.parametrize("drain_seconds", [0, 0.05])
async def test_what_is_not_answered_within_the_drain_time_is_given_up(drain_seconds: float) -> None:
    held = HeldReplies()
    policy = BatchPolicy(concurrency=1, chunk_size=1, drain_seconds=drain_seconds)
    async with held.client(policy=policy).coalesced(linger_seconds=LONG) as single:
        tasks = [asyncio.create_task(single.refund(order)) for order in refunds(2)]
        await (settle_down() if drain_seconds else asyncio.sleep(0))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    left = 1 if drain_seconds else 0
    expected = [UNKNOWN] * left + [NOT_SENT] * (2 - left)
    assert [(await task).status for task in tasks] == expected
    assert sent(held.transport) == [["T000000"]] * left
    assert "the coalescer was closed" in str((await tasks[1]).error)


@pytest.mark.parametrize("is_left", [True, False])
async def test_a_cancellation_ends_the_draining_and_reaches_the_caller(is_left: bool) -> None:
    """Where the block was not left by itself, it is the second one."""
    held, tasks = HeldReplies(), list[asyncio.Task[Any]]()

    async def serve() -> None:
        async with held.client().coalesced(linger_seconds=0) as single:
            tasks.append(asyncio.create_task(single.refund(refunds(1)[0])))
            await (held.asked if is_left else asyncio.Event()).wait()

    service = asyncio.create_task(serve())
    await held.asked.wait()
    if not is_left:
        service.cancel()
    await settle_down()
    assert not service.done()  # it waits for the reply, for as long as the drain time
    await _cancel(service)
    assert (await tasks[0]).status is UNKNOWN


async def test_a_coalescer_is_used_inside_its_block_alone() -> None:
    gateway, (order,) = client_at("http://127.0.0.1:9"), refunds(1)
    single = gateway.coalesced()

    async def refuse(match: str) -> None:
        with pytest.raises(ConfigurationError, match=match):
            await single.refund(order)

    await refuse("not open")
    async with single:
        await gateway.aclose()
        assert (await single.refund(order)).status is NOT_SENT
        with pytest.raises(ConfigurationError, match="closed"):
            gateway.coalesced()
    await refuse("not open")

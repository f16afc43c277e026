"""Single awaits of many tasks leave as few requests, and each gets the outcome of its own order."""

import asyncio
import contextvars
from typing import Any

import pytest

from gateway_async import (
    BatchPolicy,
    Coalescer,
    ConfigurationError,
    DuplicateOrderError,
    GatewayClient,
    InvalidOrderError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
)
from gateway_async.sandbox import Sandbox
from tests.memory import HeldReplies, MemoryTransport, all_done, client_over, sent, settle_down
from tests.orders import MONEY_OPERATIONS, made_up, orders_for, references, refunds
from tests.support.books import SUCCEEDED

FIFTY = ("capture", "cancel", "refund")
"""Operations that take 50 orders a request; the others take 100."""


@pytest.mark.parametrize("operation", [*MONEY_OPERATIONS, "query", "search_refunds"])
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


async def test_a_look_up_does_not_share_an_answer_that_may_be_older_than_the_question() -> None:
    held = HeldReplies()
    async with held.client().coalesced(linger_seconds=0) as single:
        first = asyncio.create_task(single.query(references(1)[0]))
        await held.asked.wait()
        second = asyncio.create_task(single.query(references(1)[0]))
        await settle_down()
        held.goes_on.set()
        assert [(await task).status for task in (first, second)] == [SUCCEEDED] * 2
    assert sent(held.transport) == [["T000000"], ["T000000"]]


@pytest.mark.parametrize("operation", MONEY_OPERATIONS)
async def test_money_that_is_under_way_is_not_moved_again(operation: str) -> None:
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
        for second in (while_it_waits, when_it_has_left):
            with pytest.raises(DuplicateOrderError, match="'T000000' is under way"):
                second.result()
        held.goes_on.set()
        assert (await first).status is SUCCEEDED
        assert (await ask(order)).status is SUCCEEDED  # a second one, once the first is settled
    assert sent(held.transport) == [["T000000"]] * 2


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


async def test_a_request_belongs_to_no_single_awaiter() -> None:
    handler = contextvars.ContextVar("handler", default="nobody")
    seen = []

    def sign(*_: object) -> str:
        seen.append(handler.get())
        handler.set("another request")
        return "signature"

    async def handle(single: Coalescer, order: RefundOrder) -> None:
        handler.set(order.order_no)
        await single.refund(order)

    gateway = client_over(MemoryTransport(all_done), signer=sign)
    async with gateway.coalesced(policy=BatchPolicy(chunk_size=1)) as single:
        await asyncio.gather(*(handle(single, order) for order in refunds(3)))
    assert seen == ["nobody"] * 3


async def test_records_nobody_asked_for_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def with_another(asked: Any) -> dict[str, Any]:
        reply: dict[str, Any] = asked.done()
        reply["refund_orders"].append({"transaction_id": "T9", "refund_status": "1"})
        return reply

    async with client_over(MemoryTransport(with_another)).coalesced() as single:
        assert (await single.refund(refunds(1)[0])).status is SUCCEEDED
    assert "the reply to a refund listed 1 records" in caplog.text


async def test_wrong_settings_are_refused_where_they_matter() -> None:
    gateway = client_over(MemoryTransport(all_done))
    wrong: Any
    for wrong in (-1, float("nan"), float("inf"), True, "5ms", None):
        with pytest.raises(ConfigurationError, match="linger_seconds: expected a number of secon"):
            gateway.coalesced(linger_seconds=wrong)
    async with gateway.coalesced(policy=BatchPolicy(chunk_size=100)) as single:
        with pytest.raises(ConfigurationError, match="chunk_size: 100 is above the 50 orders"):
            await single.refund(refunds(1)[0])
        assert (await single.query(references(1)[0])).status is SUCCEEDED

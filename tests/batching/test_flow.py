"""Whatever is handed in: each order leaves once at most, and comes back exactly once."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_async import (
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    InvalidOrderError,
    NotSentError,
    OrderRef,
    OutcomeStatus,
    RefundOrder,
)
from tests.memory import Asked, MemoryTransport, all_done, client_over
from tests.orders import made_up, orders_for, refunds, reply_to

UNKNOWN, DECLINED, SUCCEEDED = (
    OutcomeStatus.UNKNOWN,
    OutcomeStatus.DECLINED,
    OutcomeStatus.SUCCEEDED,
)
DECLINES = Dialect(declined_statuses={"0"})


class Flow:
    """A gateway that checks each request as it comes, and answers late and at random.

    Attributes:
        pulled: How many orders were taken from the source.
        unknown: The transactions whose outcome is unknown.
        sent: The transactions and reasons that came.
    """

    def __init__(self, policy: BatchPolicy, data: st.DataObject) -> None:
        self.policy = policy
        self.pulled = 0
        self.unknown: set[str] = set()
        self.sent: list[tuple[str, str]] = []
        self._data = data
        self._flying: Counter[str] = Counter()

    def source(self, orders: list[Any], kind: str) -> Any:
        """Return the orders as a list, or as something that counts what is taken from it."""
        return {"list": orders, "iterator": self._each(orders), "async": self._later(orders)}[kind]

    def _each(self, orders: list[Any]) -> Iterator[Any]:
        for order in orders:
            self.pulled += 1
            yield order

    async def _later(self, orders: list[Any]) -> AsyncIterator[Any]:
        for order in orders:
            if order is None:
                await asyncio.sleep(0)
            self.pulled += 1
            yield order

    async def __call__(self, asked: Asked) -> dict[str, Any]:
        """Check one request, and answer it some turns of the loop later."""
        names = asked.transactions
        size = self.policy.chunk_size or 0
        assert 1 <= len(names) <= size
        assert len(set(names)) == len(names)
        if self.policy.duplicates == "serialize":
            assert self.unknown.isdisjoint(names)
            assert not any(self._flying[name] for name in names)
        self._flying.update(names)
        self.sent += [(i["transaction_id"], i["refund_reason"]) for i in _listed(asked)]
        assert len(list(self._flying.elements())) <= size * self.policy.concurrency
        for _ in range(self._data.draw(st.integers(0, 5))):
            await asyncio.sleep(0)
        items = []
        for item in _listed(asked):
            status = self._data.draw(st.sampled_from(["1", "1", "0", "?"]))
            self.unknown |= {item["transaction_id"]} if status == "?" else set()
            items.append({**item, "refund_status": status, "refund_message": ""})
        self._flying.subtract(names)
        return reply_to("refund", items)


def _listed(asked: Asked) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = asked.fields["refund_orders"]
    return listed


def refund(name: str, reason: str = "", amount: str = "1.00") -> RefundOrder:
    return RefundOrder(
        transaction_id=name,
        order_no="N1",
        currency="EUR",
        amount="10.00",
        refund_amount=amount,
        refund_reason=reason,
    )


NAMES = st.sampled_from("abcdefg")
WRONG = st.one_of(
    st.sampled_from(["text", None, 7]),
    st.just(orders_for("capture", made_up(1))[0]),
    st.builds(refund, NAMES, amount=st.just("0.001")),
)
ORDERS = st.lists(st.builds(refund, NAMES, st.sampled_from(["", "late"])) | WRONG, max_size=40)
POLICIES = st.builds(
    BatchPolicy,
    chunk_size=st.integers(1, 6),
    concurrency=st.integers(1, 3),
    duplicates=st.sampled_from(["reject", "serialize", "allow"]),
    stop_after_unknown=st.just(1000),
)


@given(
    orders=ORDERS,
    policy=POLICIES,
    kind=st.sampled_from(["iterator", "async"]),
    left=st.none() | st.integers(0, 10),
    data=st.data(),
)
async def test_each_order_comes_back_once(
    orders: list[Any], policy: BatchPolicy, kind: str, left: int | None, data: st.DataObject
) -> None:
    flow = Flow(policy, data)
    gateway = client_over(MemoryTransport(flow), policy=policy, dialect=DECLINES)
    async with gateway.refund(flow.source(orders, kind)) as batch:
        given = []
        ahead = (policy.chunk_size or 0) * (2 * policy.concurrency + 2)
        async for outcome in batch if left != 0 else _nothing():
            given.append(outcome)
            assert flow.pulled - len(given) <= ahead
            if len(given) == left:
                break
    outcomes = sorted([*given, *batch.result], key=lambda outcome: outcome.index)
    assert [outcome.index for outcome in outcomes] == list(range(len(outcomes)))
    assert len(outcomes) == flow.pulled
    assert [outcome.order for outcome in outcomes] == orders[: flow.pulled]
    assert left is not None or flow.pulled == len(orders)
    done = [outcome for outcome in outcomes if outcome.status is not OutcomeStatus.NOT_SENT]
    assert sorted((o.order.transaction_id, o.order.refund_reason) for o in done) == sorted(
        flow.sent
    )
    assert {o.order.transaction_id for o in done if o.status is UNKNOWN} == flow.unknown
    _check_refused(outcomes, policy, is_whole=left is None)


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


def _check_refused(outcomes: list[Any], policy: BatchPolicy, *, is_whole: bool) -> None:
    """Check which orders were not sent, and why."""
    first: dict[str, int] = {}
    unknown: set[str] = set()
    for outcome in outcomes:
        order, error = outcome.order, outcome.error
        is_right = isinstance(order, RefundOrder) and order.refund_amount == 1
        if not is_right:
            assert type(error) is InvalidOrderError
            continue
        name = order.transaction_id
        is_first = first.setdefault(name, outcome.index) == outcome.index
        if policy.duplicates == "reject" and not is_first:
            assert type(error) is DuplicateOrderError
        elif outcome.status is OutcomeStatus.NOT_SENT:
            assert type(error) is NotSentError
            is_held = policy.duplicates == "serialize" and name in unknown
            assert is_held or not is_whole
            if is_held and is_whole:
                assert "earlier order of the same transaction_id has an unknown" in str(error)
        unknown |= {name} if outcome.status is UNKNOWN else set()


@given(orders=st.lists(st.builds(refund, NAMES), max_size=30), policy=POLICIES, data=st.data())
async def test_a_list_is_checked_whole_and_then_sent_whole(
    orders: list[Any], policy: BatchPolicy, data: st.DataObject
) -> None:
    flow = Flow(policy, data)
    gateway = client_over(MemoryTransport(flow), policy=policy, dialect=DECLINES)
    repeated = len(orders) - len({order.transaction_id for order in orders})
    if policy.duplicates == "reject" and repeated:
        with pytest.raises(InvalidOrderError) as caught:
            await gateway.refund(orders)
        assert len(caught.value.problems) == repeated
        assert flow.sent == []
        return
    result = await gateway.refund(orders)
    assert [outcome.order for outcome in result] == orders
    _check_refused(list(result), policy, is_whole=True)


@pytest.mark.parametrize("duplicates", ["serialize", "allow"])
async def test_equal_identities_leave_in_their_order(duplicates: str) -> None:
    orders = [refund(name, str(n)) for n, name in enumerate("aabacbdaebcf" * 5)]
    policy = BatchPolicy(duplicates=duplicates, chunk_size=2, concurrency=3)
    transport = MemoryTransport(all_done)
    result = await client_over(transport, policy=policy).refund(iter(orders))
    assert result.ok
    sent: dict[str, list[int]] = {}
    for asked in transport.asked:
        for item in asked.fields["refund_orders"]:
            sent.setdefault(item["transaction_id"], []).append(int(item["refund_reason"]))
    assert all(reasons == sorted(reasons) for reasons in sent.values())
    assert sorted(itertools.chain.from_iterable(sent.values())) == list(range(len(orders)))


async def test_duplicates_are_refused_by_default() -> None:
    transport = MemoryTransport(all_done)
    with pytest.raises(DuplicateOrderError, match="40 of 60"):
        await client_over(transport).refund(refunds(20) * 3)
    assert transport.asked == []


@pytest.mark.parametrize(
    ("first", "second", "refused"),
    [
        (OrderRef(order_no="1"), OrderRef(order_no="1"), True),
        (OrderRef(order_no="1"), OrderRef(transaction_id="1"), False),
        (OrderRef(order_no="1"), OrderRef(order_no="2"), False),
    ],
)
async def test_the_identity_of_a_reference_is_its_kind_and_its_value(
    first: OrderRef, second: OrderRef, refused: bool
) -> None:
    batch = client_over(MemoryTransport(lambda _: reply_to("query", []))).query([first, second])
    if refused:
        with pytest.raises(DuplicateOrderError):
            await batch
    else:
        assert len((await batch).absent) == 2

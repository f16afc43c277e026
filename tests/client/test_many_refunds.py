"""Very many refunds, while one reply in a hundred is lost: every order has its true outcome."""

from collections import Counter

from gateway_async import BatchPolicy, OutcomeStatus
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.orders import client_of, orders_for

COUNT = 20_000


async def test_the_outcomes_agree_with_the_books_of_the_gateway() -> None:
    async with Sandbox(random_seed=7) as sandbox:
        orders = orders_for("refund", sandbox.seed(COUNT, status="captured"))
        sandbox.faults.add("refund", DropReply(probability=0.01))
        policy = BatchPolicy(stop_after_unknown=100)
        async with client_of(sandbox, policy=policy) as gateway:
            result = await gateway.refund(iter(orders))
        lost = sandbox.faults.struck["DropReply"]
        assert sandbox.requests["refund"] == COUNT // 50
    assert lost > 0
    assert [outcome.index for outcome in result] == list(range(COUNT))
    assert result.counts[OutcomeStatus.UNKNOWN] == 50 * lost
    assert result.counts[OutcomeStatus.SUCCEEDED] == COUNT - 50 * lost
    effects = Counter(sandbox.ledger.effects("refund", order.transaction_id) for order in orders)
    assert effects == {1: COUNT}
    assert {type(outcome.error).__name__ for outcome in result.unknown} == {"OutcomeUnknownError"}

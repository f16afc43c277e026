"""Whatever a gateway answers comes to outcomes, or to an error of ours."""

import asyncio
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from gateway_async import (
    ApmPayment,
    BatchIncompleteError,
    BatchPolicy,
    BatchResult,
    CheckoutPage,
    GatewayError,
    OrderRef,
    OutcomeStatus,
    RedirectPayment,
    Reply,
)
from tests.fuzz.examples import examples
from tests.fuzz.mutations import replies
from tests.memory import QUICK, Asked, HttpResponse, MemoryTransport, client_over, rewritten
from tests.orders import (
    MONEY_OPERATIONS,
    PAYMENT,
    direct_payment,
    made_up,
    orders_for,
    payout_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async import Batch, GatewayClient

ORDERS = made_up(5)
REFS = [OrderRef(order_no="N0"), OrderRef(order_no="N1"), OrderRef(transaction_id="T2")]
BATCHES: "dict[str, Callable[[GatewayClient], Batch[Any, Any]]]" = {
    **{
        name: lambda client, name=name: client.batch(name, orders_for(name, ORDERS))  # type: ignore[misc]  # bound now
        for name in MONEY_OPERATIONS
    },
    "query": lambda client: client.query(REFS),
    "search_refunds": lambda client: client.search_refunds(REFS),
}
SINGLES: "dict[str, Callable[[GatewayClient], Any]]" = {
    "recent_transactions": lambda client: client.recent_transactions(),
    "recent_refunds": lambda client: client.recent_refunds(),
    "pay_direct": lambda client: client.pay_direct(direct_payment()),
    "pay_apm": lambda client: client.pay_apm(ApmPayment(**PAYMENT, payment_method="boleto")),
    "checkout": lambda client: client.checkout(RedirectPayment(**PAYMENT)),
    "payout": lambda client: client.payout(payout_request()),
    "call for JSON": lambda client: client.call("/v1/payout", {"request_id": "1"}, body="json"),
    "call for XML": lambda client: client.call("/v1/authorise", PAYMENT, reply="xml"),
    "call for text": lambda client: client.call("/v1/checkout", PAYMENT, reply="text"),
}


def answering(data: st.DataObject) -> MemoryTransport:
    def rewrite(_: Asked, right: HttpResponse) -> HttpResponse:
        return data.draw(replies(right))

    return MemoryTransport(rewritten(rewrite))


def check(result: BatchResult[Any, Any]) -> None:
    """Check that every order has one outcome, which can be read in every way."""
    assert [outcome.index for outcome in result] == list(range(len(result)))
    assert Counter(outcome.status for outcome in result) == Counter(
        {status: count for status, count in result.counts.items() if count}
    )
    for status in OutcomeStatus:
        view = getattr(result, status.value)
        assert len(view) == len(list(view)) == result.counts[status]
    for outcome in result:
        assert outcome.error is None or isinstance(outcome.error, GatewayError)
        assert (outcome.error is None) == (
            outcome.status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
        )
        assert len(str(outcome.error)) < 10_000
        repr((outcome, outcome.record))
    if result.ok:
        result.raise_for_problems()
        return
    with pytest.raises(BatchIncompleteError) as caught:
        result.raise_for_problems()
    copy = pickle.loads(pickle.dumps(caught.value)).result  # noqa: S301  # our own
    assert [repr(outcome) for outcome in copy] == [repr(outcome) for outcome in result]


@pytest.mark.parametrize("name", BATCHES)
@examples(15)
@given(data=st.data())
async def test_a_batch_ends_in_one_outcome_an_order(name: str, data: st.DataObject) -> None:
    gateway = answering(data)
    client = client_over(gateway, retry=QUICK, policy=BatchPolicy(chunk_size=3, concurrency=1))
    batch = BATCHES[name](client)
    total = len(ORDERS) if name not in ("query", "search_refunds") else len(REFS)
    result = await batch
    assert len(result) == total
    check(result)
    if total == len(ORDERS):
        assert max(gateway.effects.values(), default=0) <= 1


@pytest.mark.parametrize("name", SINGLES)
@examples(30)
@given(data=st.data())
async def test_a_single_call_gives_a_result_or_an_error_of_ours(
    name: str, data: st.DataObject
) -> None:
    calls: list[Any] = [SINGLES[name](client_over(answering(data), retry=QUICK))]
    made: object = (await asyncio.gather(*calls, return_exceptions=True))[0]
    if isinstance(made, BaseException):
        assert isinstance(made, GatewayError)
        assert len(str(made)) < 10_000
        assert made.__context__ is None
    assert repr(made)
    if not isinstance(made, CheckoutPage | Reply):  # these may repeat the signature, and refuse
        assert type(pickle.loads(pickle.dumps(made))) is type(made)  # noqa: S301  # our own

"""Payouts: any number as a batch, each a request of its own, and no guess of what became of one."""

import uuid
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    GatewayClient,
    OutcomeStatus,
    OutcomeUnknownError,
    PayoutRequest,
    PayoutResult,
)
from gateway_async.sandbox import Sandbox
from tests.memory import QUICK, Asked, MemoryTransport, client_over
from tests.orders import REQUEST_ID, payout_request


def requests(count: int) -> list[PayoutRequest]:
    return [payout_request(number) for number in range(count)]


def paid(sandbox: Sandbox, orders: list[PayoutRequest]) -> list[int]:
    return [len(sandbox.ledger.payouts_of(order.request_id)) for order in orders]


async def test_what_the_gateway_adds_to_a_payout_contradicts_nothing() -> None:
    transport = MemoryTransport(
        lambda asked: asked.done(payment_amount="21.60", payment_currency="USD")
    )
    given: dict[str, Any] = {"source_amount": "20.00", "source_currency": "EUR"}
    given["payment_date"] = "2026-01-31"
    request = PayoutRequest(request_id=uuid.UUID(REQUEST_ID), **given)
    result = await client_over(transport).payout(request)
    assert result.payment_amount == Decimal("21.60")
    fields = {**transport.asked[0].fields, "encryption_data": ""}
    who = {"merchant_id": "M1", "account_id": "A1", "encryption_data": ""}
    assert fields == {**who, "request_id": REQUEST_ID, **given}


async def test_payouts_go_out_one_by_one_and_a_wrong_one_is_not_sent(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    orders = requests(6)
    orders[2] = attrs.evolve(orders[2], payment_amount="1.005")
    orders[4] = orders[3]
    async with gateway.payouts((one for one in orders), policy=BatchPolicy(chunk_size=50)) as batch:
        outcomes = {outcome.index: outcome async for outcome in batch}
    for index in (0, 1, 3, 5):
        record = outcomes[index].record
        assert isinstance(record, PayoutResult)
        assert (record.request_id, record.status) == (orders[index].request_id, "COMPLETED")
    assert {outcomes[index].status for index in (2, 4)} == {OutcomeStatus.NOT_SENT}
    assert "payment_amount: 1.005" in str(outcomes[2].error)
    assert isinstance(outcomes[4].error, DuplicateOrderError)
    assert paid(sandbox, orders) == [1, 1, 0, 1, 1, 1]
    assert sandbox.requests["payout"] == batch.progress.requests == 4


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_the_same_payout_twice_is_refused_in_any_case_of_its_request_id(
    sandbox: Sandbox, gateway: GatewayClient, duplicates: str
) -> None:
    texts = (REQUEST_ID, REQUEST_ID.upper())
    orders = [attrs.evolve(payout_request(), request_id=text) for text in texts]
    with pytest.raises(DuplicateOrderError, match="give each its own request_id"):
        await gateway.payouts(orders, policy=BatchPolicy(duplicates=duplicates))
    assert sandbox.requests.total() == 0


DONE = {"status": "COMPLETED"}


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        (DONE, "succeeded", ""),
        ({**DONE, "failure_type": "UNKNOWN"}, "succeeded", ""),
        ({"status": "REFUSED", "failure_reason": "closed"}, "declined", "'closed'"),
        ({**DONE, "failure_reason": "closed"}, "unknown", "contradict"),
        ({**DONE, "failure_reason": ["?"]}, "unknown", "contradict"),
        ({**DONE, "payment_amount": "9"}, "unknown", "payment_amount was 25.00"),
        ({**DONE, "return_status": "9"}, "unknown", "contradicts itself"),
        ({**DONE, "merchant_id": "M2"}, "unknown", "another merchant_id"),
        ({"status": "PENDING"}, "unknown", "not done: status 'PENDING'"),
        ({"status": "FAILED", "failure_reason": "x"}, "unknown", "payout_declined_statuses"),
        ({"transaction_id": "5"}, "unknown", "no readable status"),
        ({"return_status": "1"}, "unknown", "does not say whether it was done"),
        ({"return_status": "9", "return_message": "no"}, "declined", "did nothing"),
    ],
)
async def test_what_became_of_a_payout_is_not_guessed(
    said: dict[str, Any], status: str, words: str
) -> None:
    transport = MemoryTransport(lambda asked: {**asked.fields, **said})
    dialect = Dialect(
        payout_declined_statuses={"REFUSED"},
        pending_statuses={"PENDING"},
        nothing_done_return_statuses={"9"},
    )
    ((outcome,),) = [await client_over(transport, dialect=dialect).payouts(requests(1))]
    assert outcome.status == status
    assert words in str(outcome.error or "")
    if status == "unknown":
        assert "cannot be looked up: ask the gateway" in str(outcome.error)
        assert getattr(outcome.error, "request_id", None) == outcome.order.request_id


@pytest.mark.parametrize(
    "refusal",
    [{"status": "REFUSED", "failure_reason": "used before"}, {"return_status": "9"}],
    ids=["status", "return_status"],
)
async def test_a_refusal_of_what_was_sent_before_may_be_because_that_was_done(
    refusal: dict[str, Any],
) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        if len(transport.asked) % 2:
            raise OutcomeUnknownError("the reply was lost")
        return {**asked.fields, **refusal}

    transport = MemoryTransport(answer)
    dialect = Dialect(
        payout_deduplicates=True,
        payout_declined_statuses={"REFUSED"},
        nothing_done_return_statuses={"9"},
    )
    client = client_over(transport, dialect=dialect, retry=QUICK)
    ((outcome,),) = [await client.payouts(requests(1))]
    assert outcome.status is OutcomeStatus.UNKNOWN
    assert "an earlier attempt was sent and its reply lost" in str(outcome.error)
    with pytest.raises(OutcomeUnknownError, match="lost"):
        await client.payout(payout_request())
    assert len(transport.asked) == 4

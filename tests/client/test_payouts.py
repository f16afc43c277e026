"""Payouts over HTTP: one, or any number as a batch."""

import json
import uuid
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    Dialect,
    DuplicateOrderError,
    GatewayClient,
    OutcomeStatus,
    PayoutRequest,
    PayoutResult,
    RejectedError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply
from tests.memory import Asked, HttpResponse, MemoryTransport, client_over
from tests.orders import client_of

KEY = uuid.UUID("5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11")


async def test_what_the_gateway_adds_to_a_payout_contradicts_nothing() -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        return asked.done(payment_amount="21.60", payment_currency="USD")

    transport = MemoryTransport(answer)
    given: dict[str, Any] = {"source_amount": "20.00", "source_currency": "EUR"}
    given["payment_date"] = "2026-01-31"
    result = await client_over(transport).payout(PayoutRequest(request_id=KEY, **given))
    assert result.payment_amount == Decimal("21.60")
    fields = {**transport.asked[0].fields, "encryption_data": ""}
    who = {"merchant_id": "M1", "account_id": "A1", "encryption_data": ""}
    assert fields == {**who, "request_id": str(KEY), **given}


# Any number of payouts

CLOSED = "000000000"


def requests(count: int, account_number: str = "1") -> list[PayoutRequest]:
    bank = BankDetails(account_number=account_number)
    return [
        PayoutRequest(
            request_id=uuid.UUID(int=number),
            payment_amount="10.00",
            payment_currency="EUR",
            beneficiary=Beneficiary(bank_details=bank),
        )
        for number in range(count)
    ]


def paid(sandbox: Sandbox, orders: list[PayoutRequest]) -> list[int]:
    return [len(sandbox.ledger.payouts_of(order.request_id)) for order in orders]


async def test_each_payout_is_a_request_of_its_own_and_has_its_result(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    orders = requests(12)
    fixed: dict[str, Any] = {"source_amount": "20.00", "source_currency": "EUR"}
    orders[0] = PayoutRequest(request_id=KEY, beneficiary=orders[0].beneficiary, **fixed)
    result = await gateway.payouts(orders, policy=BatchPolicy(chunk_size=50))
    assert result.ok
    assert [outcome.order for outcome in result] == orders
    records = [outcome.record for outcome in result]
    assert all(isinstance(record, PayoutResult) for record in records)
    assert [record.request_id for record in records if record] == [o.request_id for o in orders]
    assert sandbox.requests["payout"] == result.requests == 12
    assert paid(sandbox, orders) == [1] * 12
    assert sandbox.ledger.payouts_of(str(KEY))[0].amount == Decimal("20.00")
    assert result.to_dicts()[3]["record_status"] == "COMPLETED"


async def test_payouts_are_streamed_from_a_generator_and_a_wrong_one_is_not_sent(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    orders = requests(6)
    orders[2] = attrs.evolve(orders[2], payment_amount="1.005")
    orders[4] = orders[3]
    async with gateway.payouts(order for order in orders) as batch:
        outcomes = {outcome.index: outcome async for outcome in batch}
    assert {outcomes[index].status for index in (0, 1, 3, 5)} == {OutcomeStatus.SUCCEEDED}
    assert {outcomes[index].status for index in (2, 4)} == {OutcomeStatus.NOT_SENT}
    assert "payment_amount: 1.005" in str(outcomes[2].error)
    assert isinstance(outcomes[4].error, DuplicateOrderError)
    assert paid(sandbox, orders) == [1, 1, 0, 1, 1, 1]


@pytest.mark.parametrize("deduplicates", [False, True])
async def test_a_lost_payout_is_sent_again_only_where_the_gateway_deduplicates(
    deduplicates: bool,
) -> None:
    async with Sandbox(deduplicate_payouts=deduplicates) as sandbox, client_of(sandbox) as gateway:
        sandbox.faults.add("payout", DropReply(times=1))
        orders = requests(3)
        result = await gateway.payouts(orders, policy=BatchPolicy(concurrency=1))
        assert paid(sandbox, orders) == [1, 1, 1]
        assert result.ok is deduplicates
        for unknown in result.unknown:
            assert unknown.order is orders[0]
            assert f"the payout '{orders[0].request_id}' may have been made" in str(unknown.error)
            assert getattr(unknown.error, "request_id", None) == orders[0].request_id
            assert list((await gateway.recover(result)).unknown) == [unknown]
        assert sandbox.requests.total() == (4 if deduplicates else 3)


@pytest.mark.parametrize("duplicates", ["reject", "serialize", "allow"])
async def test_the_same_payout_twice_is_refused_in_any_case_of_its_request_id(
    sandbox: Sandbox, gateway: GatewayClient, duplicates: str
) -> None:
    key = "5F0C2F3E-8D43-4F5E-9A57-0C6F1F3F8D11"
    orders = [attrs.evolve(requests(1)[0], request_id=text) for text in (key, key.lower())]
    with pytest.raises(DuplicateOrderError, match="give each its own request_id"):
        await gateway.payouts(orders, policy=BatchPolicy(duplicates=duplicates))
    assert sandbox.requests.total() == 0


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({"status": "COMPLETED"}, "succeeded", ""),
        ({"status": "COMPLETED", "failure_type": "UNKNOWN"}, "succeeded", ""),
        ({"status": "REFUSED", "failure_reason": "closed"}, "declined", "'closed'"),
        ({"status": "COMPLETED", "failure_reason": "closed"}, "unknown", "contradict"),
        ({"status": "COMPLETED", "failure_reason": ["?"]}, "unknown", "contradict"),
        ({"status": "COMPLETED", "payment_amount": "9"}, "unknown", "payment_amount was 10.00"),
        ({"status": "COMPLETED", "return_status": "9"}, "unknown", "contradicts itself"),
        ({"status": "COMPLETED", "merchant_id": "M2"}, "unknown", "another merchant_id"),
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
    def answer(asked: Asked) -> HttpResponse:
        return HttpResponse(200, {}, json.dumps({**asked.fields, **said}).encode())

    dialect = Dialect(
        payout_declined_statuses={"REFUSED"},
        pending_statuses={"PENDING"},
        nothing_done_return_statuses={"9"},
    )
    gateway = client_over(MemoryTransport(answer), dialect=dialect)
    ((outcome,),) = [await gateway.payouts(requests(1))]
    assert outcome.status == status
    assert words in str(outcome.error or "")
    if status == "unknown":
        assert "cannot be looked up: ask the gateway" in str(outcome.error)


async def test_a_declined_payout_has_the_gateways_code_and_text(
    sandbox: Sandbox, gateway: GatewayClient
) -> None:
    ((outcome,),) = [await gateway.payouts(requests(1, CLOSED))]
    assert outcome.status is OutcomeStatus.DECLINED
    assert isinstance(outcome.error, RejectedError)
    said = (outcome.error.code, outcome.error.text)
    assert said == ("UNKNOWN", "the beneficiary's account is closed")
    assert outcome.record
    assert outcome.record.status == "FAILED"
    assert paid(sandbox, [outcome.order]) == [0]

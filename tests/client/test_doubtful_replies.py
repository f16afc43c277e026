"""Replies that leave open whether a payment or payout was made: of none it is guessed."""

import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import attrs
import pytest

from gateway_async import (
    ApmPayment,
    BatchPolicy,
    Dialect,
    DuplicateOrderError,
    GatewayClient,
    OutcomeStatus,
    OutcomeUnknownError,
    PayoutRequest,
    RejectedError,
    ReplyUnreadableError,
    RetryPolicy,
)
from tests.support.memory import QUICK, Asked, MemoryTransport, client_over, respon
from tests.support.orders import (
    PAYMENT,
    REQUEST_ID,
    direct_payment,
    payout_request,
    references,
    refunds,
)

Call = Callable[[GatewayClient], Awaitable[Any]]
SINGLES: dict[str, Call] = {
    "pay_direct": lambda gateway: gateway.pay_direct(direct_payment()),
    "pay_apm": lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix")),
    "payout": lambda gateway: gateway.payout(payout_request()),
}
CALLS: dict[str, Call] = {
    **SINGLES,
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "query": lambda gateway: gateway.query(references(1)),
    "payouts": lambda gateway: gateway.payouts([payout_request()]),
    "page": lambda gateway: gateway.recent_transactions(),
}


def right(asked: Asked, **changes: Any) -> bytes:
    """Return the reply that says that all was done, with some fields changed."""
    if asked.operation.name in ("pay_direct", "pay_apm"):
        changes = {name: "" if value is None else value for name, value in changes.items()}
        return respon({**asked.fields, "order_status": "1", "transaction_id": "T1", **changes})
    return json.dumps(asked.done(**changes)).encode()


async def error_of(call: str, **changes: Any) -> tuple[Exception | None, int]:
    """Return what a call raises, or the error of a batch of one, and how often it was sent."""
    transport = MemoryTransport(lambda asked: right(asked, **changes))
    retry = RetryPolicy(attempts=3, first_pause_seconds=0)
    error = None
    try:
        result = await CALLS[call](client_over(transport, retry=retry))
        error = result[0].error if hasattr(result, "counts") else None
    except OutcomeUnknownError as raised:
        error = raised
    return error, len(transport.asked)


@pytest.mark.parametrize("call", CALLS)
async def test_a_reply_for_another_merchant_says_nothing(call: str) -> None:
    others: list[tuple[str, Any]] = [("merchant_id", "X2"), ("merchant_id", ["M1"])]
    for name, value in (*others, ("account_id", "X2")):
        error, sent = await error_of(call, **{name: value})
        assert isinstance(error, ReplyUnreadableError)
        assert f"the reply is for another {name}" in str(error)
        assert sent == (3 if call in ("query", "page") else 1)
    for value in (None, "", " M1 "):
        assert await error_of(call, merchant_id=value) == (None, 1)


ECHOES: list[tuple[str, str, list[object], list[object]]] = [
    ("pay_direct", "amount", ["12.51"], [" 12.5 ", "12.50", ""]),
    ("pay_direct", "currency", ["USD"], ["eur"]),
    ("pay_direct", "order_no", ["N2"], []),
    ("payout", "payment_amount", ["2500", 99], [25.0, "25.0", "", None]),
    ("payout", "payment_currency", ["USD"], ["Eur", None]),
    ("payout", "request_id", ["x"], []),
]
"""Fields that are repeated: otherwise, and alike or not at all."""


@pytest.mark.parametrize(("call", "field", "others", "alike"), ECHOES)
async def test_an_echo_is_compared_with_the_request(
    call: str, field: str, others: list[object], alike: list[object]
) -> None:
    named = ("N1", None) if call == "pay_direct" else (None, payout_request().request_id)
    for value in others:
        error, sent = await error_of(call, **{field: value})
        assert type(error) is ReplyUnreadableError
        assert f"{field} was " in str(error)
        assert f"says {value}" in str(error)
        assert (error.order_no, error.request_id) == named
        assert sent == 1
    for value in alike:
        assert await error_of(call, **{field: value}) == (None, 1)


async def test_what_the_gateway_adds_to_a_payout_contradicts_nothing() -> None:
    added = {"payment_amount": "21.60", "payment_currency": "USD"}
    gateway = client_over(MemoryTransport(lambda asked: asked.done(**added)))
    request = PayoutRequest(request_id=REQUEST_ID, source_amount=20, source_currency="EUR")
    assert (await gateway.payout(request)).payment_amount == Decimal("21.60")


@pytest.mark.parametrize("call", SINGLES)
async def test_a_reply_that_only_repeats_the_request_is_no_result(call: str) -> None:
    """Not even where it says why; the dialect may say that nothing was done."""

    def repeated(asked: Asked) -> bytes:
        fields = {**asked.fields, "return_status": "77", "return_message": "wrong signature"}
        return json.dumps(fields).encode() if call == "payout" else respon(fields)

    transport = MemoryTransport(repeated)
    with pytest.raises(ReplyUnreadableError, match=r"does not say.*'77'.*'wrong signature'"):
        await SINGLES[call](client_over(transport))
    dialect = Dialect(nothing_done_return_statuses={"77"})
    with pytest.raises(RejectedError, match="did nothing") as caught:
        await SINGLES[call](client_over(transport, dialect=dialect))
    assert (caught.value.code, caught.value.text) == ("77", "wrong signature")


async def test_the_same_payout_twice_is_refused_in_any_letter_case() -> None:
    payouts = [PayoutRequest(request_id=text) for text in (REQUEST_ID, REQUEST_ID.upper())]
    transport = MemoryTransport()
    for duplicates in ("reject", "serialize", "allow"):
        gateway = client_over(transport, policy=BatchPolicy(duplicates=duplicates))
        with pytest.raises(DuplicateOrderError, match="give each its own request_id"):
            await gateway.payouts(payouts)
    assert transport.asked == []


DONE = {"status": "COMPLETED"}
REFUSED = {"status": "REFUSED", "failure_reason": "used before"}
DIALECT = Dialect(
    payout_declined_statuses={"REFUSED"},
    pending_statuses={"PENDING"},
    nothing_done_return_statuses={"9"},
)


@pytest.mark.parametrize(
    ("said", "status", "words"),
    [
        ({**DONE, "failure_reason": " ", "failure_type": "UNKNOWN"}, "succeeded", ""),
        ({**REFUSED, "failure_reason": "no: 1", "failure_type": "T7"}, "declined", "T7: no"),
        ({**DONE, "failure_reason": ["?"]}, "unknown", "contradict"),
        ({**DONE, "payment_amount": "9"}, "unknown", "payment_amount was 25.00"),
        ({**DONE, "return_status": "9"}, "unknown", "contradicts itself"),
        ({"status": "PENDING"}, "unknown", "not done: status 'PENDING'"),
        ({"status": "FAILED", "failure_reason": "x"}, "unknown", "payout_declined_statuses"),
        ({"transaction_id": "5"}, "unknown", "no readable status"),
        ({"return_status": "1"}, "unknown", "does not say whether it was done"),
        ({"return_status": "9", "return_message": "no"}, "declined", "did nothing"),
    ],
)
async def test_a_payouts_end_is_not_guessed(said: dict[str, Any], status: str, words: str) -> None:
    transport = MemoryTransport(lambda asked: {**asked.fields, **said})
    (outcome,) = await client_over(transport, dialect=DIALECT).payouts([payout_request()])
    assert outcome.status == status
    assert words in str(outcome.error or "")
    if status == "unknown":
        assert "cannot be looked up: ask the gateway" in str(outcome.error)
        assert getattr(outcome.error, "request_id", None) == outcome.order.request_id


@pytest.mark.parametrize("refusal", [REFUSED, {"return_status": "9"}])
async def test_a_refusal_may_be_because_an_earlier_send_was_done(refusal: dict[str, Any]) -> None:
    def answer(asked: Asked) -> dict[str, Any]:
        if len(transport.asked) % 2:
            raise OutcomeUnknownError("the reply was lost")
        return {**asked.fields, **refusal}

    transport = MemoryTransport(answer)
    dialect = attrs.evolve(DIALECT, payout_deduplicates=True)
    client = client_over(transport, dialect=dialect, retry=QUICK)
    (outcome,) = await client.payouts([payout_request()])
    assert outcome.status is OutcomeStatus.UNKNOWN
    assert "an earlier attempt was sent and its reply lost" in str(outcome.error)
    with pytest.raises(OutcomeUnknownError, match=r"lost.*; the payout .*: send it again"):
        await client.payout(payout_request())
    assert len(transport.asked) == 4

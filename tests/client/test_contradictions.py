"""Replies that belong to somebody else, contradict the request, or say nothing of it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway_async import (
    ApmPayment,
    Dialect,
    DirectPayment,
    GatewayClient,
    OrderRef,
    OutcomeUnknownError,
    PayoutRequest,
    RejectedError,
    ReplyUnreadableError,
    RetryPolicy,
)
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import CARD, PAYMENT, REQUEST_ID, refunds

Call = Callable[[GatewayClient], Awaitable[Any]]
PAYOUT = PayoutRequest(request_id=REQUEST_ID, payment_amount="9.90", payment_currency="EUR")
SINGLES: dict[str, Call] = {
    "pay_direct": lambda gateway: gateway.pay_direct(DirectPayment(**PAYMENT, **CARD)),
    "pay_apm": lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix")),
    "payout": lambda gateway: gateway.payout(PAYOUT),
}
BATCHES: dict[str, Call] = {
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "query": lambda gateway: gateway.query([OrderRef(transaction_id="T1")]),
    "payouts": lambda gateway: gateway.payouts([PAYOUT]),
}
PAGES: dict[str, Call] = {"page": lambda gateway: gateway.recent_transactions()}


def right(asked: Asked, **changes: Any) -> bytes:
    """Return the reply that says that all was done, with some fields changed."""
    if asked.operation.name in ("pay_direct", "pay_apm"):
        fields = {**asked.fields, "order_status": "1", "transaction_id": "T1", **changes}
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
        return f"<respon>{inner}</respon>".encode()
    if asked.operation.name == "payout":
        return json.dumps({**asked.fields, "status": "COMPLETED", **changes}).encode()
    return json.dumps(asked.done(**changes)).encode()


def answering(**changes: Any) -> tuple[GatewayClient, MemoryTransport]:
    """Return a client whose replies are right but for these fields."""
    transport = MemoryTransport(lambda asked: right(asked, **changes))
    retry = RetryPolicy(attempts=3, first_pause_seconds=0)
    return client_over(transport, retry=retry), transport


async def error_of(call: Call, gateway: GatewayClient) -> Exception | None:
    """Return what a single call raises, or the error of a batch of one."""
    try:
        result = await call(gateway)
    except OutcomeUnknownError as error:
        return error
    return next((outcome.error for outcome in result), None) if hasattr(result, "counts") else None


@pytest.mark.parametrize("name", ["merchant_id", "account_id"])
@pytest.mark.parametrize("call", [*SINGLES, *BATCHES, *PAGES])
async def test_a_reply_for_another_merchant_says_nothing(call: str, name: str) -> None:
    gateway, transport = answering(**{name: "X2"})
    error = await error_of({**SINGLES, **BATCHES, **PAGES}[call], gateway)
    assert isinstance(error, ReplyUnreadableError)
    assert f"the reply is for another {name}" in str(error)
    assert "'X2'" in str(error)
    assert len(transport.asked) == (3 if call in ("query", "page") else 1)


OURS: list[object] = [None, "", "  ", " M1 ", [], {}]
NOT_OURS: list[object] = [["M1"], 7, True, {"id": "M1"}]


@pytest.mark.parametrize("call", BATCHES)
async def test_an_owner_that_is_missing_or_empty_is_ours(call: str) -> None:
    for value in [*OURS, *NOT_OURS]:
        gateway, _ = answering(merchant_id=value)
        is_taken = await error_of(BATCHES[call], gateway) is None
        assert is_taken is (value in OURS), value


ECHOES: list[tuple[str, str, list[object], list[object]]] = [
    ("pay_direct", "amount", ["12.51"], [" 12.5 ", "12.50", ""]),
    ("pay_direct", "currency", ["USD"], ["eur"]),
    ("pay_direct", "order_no", ["N2"], []),
    ("payout", "payment_amount", ["990", 99], [9.9, "9.9", "", None]),
    ("payout", "payment_currency", ["USD"], ["Eur", None]),
    ("payout", "request_id", ["x"], []),
]
"""Fields that are repeated: otherwise, and alike or not at all."""


@pytest.mark.parametrize(("call", "field", "others", "alike"), ECHOES)
async def test_an_echo_is_compared_with_the_request(
    call: str, field: str, others: list[object], alike: list[object]
) -> None:
    for value in others:
        gateway, transport = answering(**{field: value})
        error = await error_of(SINGLES[call], gateway)
        assert type(error) is ReplyUnreadableError
        assert f"{field} was " in str(error)
        assert f"says {value}" in str(error)
        assert len(transport.asked) == 1
    for value in alike:
        gateway, _ = answering(**{field: value})
        assert await error_of(SINGLES[call], gateway) is None


@pytest.mark.parametrize("call", SINGLES)
async def test_a_reply_that_only_repeats_the_request_is_no_result(call: str) -> None:
    """Not even where it says why; the dialect may say that nothing was done."""

    def repeated(asked: Asked) -> bytes:
        fields = {**asked.fields, "return_status": "77", "return_message": "wrong signature"}
        if asked.operation.name == "payout":
            return json.dumps(fields).encode()
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
        return f"<respon>{inner}</respon>".encode()

    transport = MemoryTransport(repeated)
    with pytest.raises(ReplyUnreadableError, match=r"does not say.*'77'.*'wrong signature'"):
        await SINGLES[call](client_over(transport))
    dialect = Dialect(nothing_done_return_statuses={"77"})
    with pytest.raises(RejectedError, match="did nothing") as caught:
        await SINGLES[call](client_over(transport, dialect=dialect))
    assert (caught.value.code, caught.value.text) == ("77", "wrong signature")

"""Replies that belong to somebody else, contradict the request, or say nothing of it."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway_async import (
    ApmPayment,
    Dialect,
    GatewayClient,
    OutcomeUnknownError,
    RejectedError,
    ReplyUnreadableError,
    RetryPolicy,
)
from tests.memory import Asked, MemoryTransport, client_over, respon
from tests.orders import PAYMENT, direct_payment, payout_request, references, refunds

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
    for name in ("merchant_id", "account_id"):
        error, sent = await error_of(call, **{name: "X2"})
        assert isinstance(error, ReplyUnreadableError)
        assert f"the reply is for another {name}" in str(error)
        assert "'X2'" in str(error)
        assert sent == (3 if call in ("query", "page") else 1)


OURS: list[object] = [None, "", "  ", " M1 ", [], {}]
NOT_OURS: list[object] = [["M1"], 7, True, {"id": "M1"}]


@pytest.mark.parametrize("call", ["refund", "query", "payouts"])
async def test_an_owner_that_is_missing_or_empty_is_ours(call: str) -> None:
    for value in [*OURS, *NOT_OURS]:
        error, _ = await error_of(call, merchant_id=value)
        assert (error is None) is (value in OURS), value


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
    for value in others:
        error, sent = await error_of(call, **{field: value})
        assert type(error) is ReplyUnreadableError
        assert f"{field} was " in str(error)
        assert f"says {value}" in str(error)
        assert sent == 1
    for value in alike:
        assert await error_of(call, **{field: value}) == (None, 1)


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

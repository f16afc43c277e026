"""Replies to payments and payouts that say nothing of what became of them."""

import json
from typing import Any

import pytest

from gateway_async import (
    ApmPayment,
    Dialect,
    DirectPayment,
    PayoutRequest,
    RejectedError,
    ReplyUnreadableError,
)
from gateway_async.transport import HttpResponse
from tests.client.payments import CARD, PAYMENT, REQUEST_ID
from tests.memory import Asked, MemoryTransport, client_over

REQUESTS: dict[str, Any] = {
    "pay_direct": DirectPayment(**PAYMENT, **CARD),
    "pay_apm": ApmPayment(**PAYMENT, payment_method="pix"),
    "payout": PayoutRequest(
        request_id=REQUEST_ID,
        payment_amount="9.90",
        payment_currency="EUR",
    ),
}


def _repeat(asked: Asked) -> HttpResponse:
    """Repeat the request, and refuse it."""
    fields = {**asked.fields, "return_status": "77", "return_message": "wrong signature"}
    if asked.operation.name == "payout":
        return HttpResponse(200, {}, json.dumps(fields).encode())
    elements = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
    return HttpResponse(200, {}, f"<respon>{elements}</respon>".encode())


@pytest.mark.parametrize("method", REQUESTS)
async def test_a_reply_that_only_repeats_the_request_is_no_result(method: str) -> None:
    gateway = client_over(MemoryTransport(_repeat))
    with pytest.raises(ReplyUnreadableError, match=r"does not say.*'77'.*'wrong signature'"):
        await getattr(gateway, method)(REQUESTS[method])


@pytest.mark.parametrize("method", REQUESTS)
async def test_what_the_dialect_calls_nothing_done_counts_though_the_request_is_repeated(
    method: str,
) -> None:
    dialect = Dialect(nothing_done_return_statuses={"77"})
    gateway = client_over(MemoryTransport(_repeat), dialect=dialect)
    with pytest.raises(RejectedError, match="did nothing") as caught:
        await getattr(gateway, method)(REQUESTS[method])
    assert (caught.value.code, caught.value.text) == ("77", "wrong signature")

"""Payouts that are fixed on the source side, over HTTP."""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
from aiohttp import web

from gateway_async import (
    BankDetails,
    Beneficiary,
    Credentials,
    GatewayClient,
    HmacSigner,
    PayoutRequest,
    ReplyUnreadableError,
)
from gateway_async.sandbox import Sandbox
from tests.orders import client_of

KEY = uuid.UUID("5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11")


@asynccontextmanager
async def gateway_that_adds(
    fields: dict[str, Any], asked: list[dict[str, Any]]
) -> AsyncIterator[GatewayClient]:
    """Repeat what is asked, as the interface says, with more fields."""

    async def answer(request: web.Request) -> web.Response:
        asked.append(json.loads(await request.text()))
        return web.json_response({**asked[-1], "status": "COMPLETED", **fields})

    app = web.Application()
    app.router.add_post("/v1/payout", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
    try:
        async with GatewayClient(site.name, credentials) as gateway:
            yield gateway
    finally:
        await runner.cleanup()


async def test_what_the_gateway_adds_to_a_payout_contradicts_nothing() -> None:
    asked: list[dict[str, Any]] = []
    added = {"payment_amount": "21.60", "payment_currency": "USD"}
    async with gateway_that_adds(added, asked) as gateway:
        result = await gateway.payout(
            PayoutRequest(
                request_id=KEY,
                source_amount="20.00",
                source_currency="EUR",
                payment_date="2026-01-31",
            )
        )
    assert result.payment_amount == Decimal("21.60")
    (fields,) = asked
    del fields["encryption_data"]
    assert fields == {
        "merchant_id": "M1",
        "account_id": "A1",
        "request_id": str(KEY),
        "source_amount": "20.00",
        "source_currency": "EUR",
        "payment_date": "2026-01-31",
    }


async def test_what_was_sent_of_a_payout_is_still_compared() -> None:
    async with gateway_that_adds({"payment_amount": "21.60"}, []) as gateway:
        request = PayoutRequest(request_id=KEY, payment_amount=20, payment_currency="EUR")
        with pytest.raises(ReplyUnreadableError, match=r"payment_amount was 20.*says 21\.60"):
            await gateway.payout(request)


async def test_the_sandbox_pays_what_is_fixed_on_the_source_side(sandbox: Sandbox) -> None:
    request = PayoutRequest(
        request_id=KEY,
        source_amount="20.00",
        source_currency="EUR",
        beneficiary=Beneficiary(bank_details=BankDetails(iban="DE02120300000000202051")),
    )
    async with client_of(sandbox) as gateway:
        result = await gateway.payout(request)
    assert (result.status, result.payment_amount) == ("COMPLETED", None)
    (paid,) = sandbox.ledger.payouts_of(str(KEY))
    assert (paid.amount, paid.currency) == (Decimal("20.00"), "EUR")

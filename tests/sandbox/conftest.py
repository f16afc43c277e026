"""A sandbox, and a merchant who writes bodies and signatures by hand."""

import contextlib
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import aiohttp
import attrs
import pytest
from defusedxml.ElementTree import fromstring

from gateway_async.sandbox import PaymentStatus, Sandbox, Transaction

PATHS = {
    "query": "/v1/retrievalTrans",
    "search_refunds": "/v1/retrievalRefund",
    "pay": "/v1/authorise",
}
SECRET = "sandbox-secret"
CARD = "4111111111111111"
NASTY = "</script><script>x(\"&amp;' 🎉\u2028"
PAYMENT = {"order_no": "N-1", "currency": "EUR", "amount": "12.30"}
DIRECT = {**PAYMENT, "card": CARD, "expiration_month": "12", "security_code": "987"}
APM = {**PAYMENT, "payment_method": "boleto"}
PAYOUT: dict[str, Any] = {
    "request_id": "7d444840-9dc0-11d1-b245-5ffdce74fad2",
    "payment_amount": "100.00",
    "payment_currency": "USD",
    "source_amount": "93.10",
    "source_currency": "EUR",
    "beneficiary": {"bank_details": {"account_number": "1", "bank_code": "B"}},
    "payer": {"company_name": "Ünlü"},
}


def sign(fields: dict[str, str], secret: str = SECRET) -> str:
    message = "&".join(f"{name}={fields[name]}" for name in sorted(fields))
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


@attrs.frozen(kw_only=True)
class Merchant:
    sandbox: Sandbox
    http: aiohttp.ClientSession

    def send(
        self, operation: str, body: str, kind: str = "json"
    ) -> "aiohttp.client._RequestContextManager":
        return self.http.post(
            self.sandbox.base_url + PATHS.get(operation, f"/v1/{operation}"),
            data=body.encode(),
            headers={"Content-Type": f"application/{kind}"},
            allow_redirects=False,
        )

    def post(
        self, operation: str, fields: dict[str, Any], *, form: bool = False
    ) -> "aiohttp.client._RequestContextManager":
        fields = {"merchant_id": "M1", "account_id": "A1", **fields}
        texts = {n: v if isinstance(v, str) else json.dumps(v) for n, v in fields.items()}
        signature = {"encryption_data": sign(texts)}
        if form:
            return self.send(operation, urlencode(signature | texts), "x-www-form-urlencoded")
        return self.send(operation, json.dumps(signature | fields))

    async def ask(
        self, operation: str, fields: dict[str, Any] | None = None, *, form: bool = False
    ) -> dict[str, Any]:
        async with self.post(operation, fields or {}, form=form) as response:
            assert response.status == 200
            return dict(await response.json())

    async def order(self, operation: str, *orders: Transaction, **changes: str) -> list[Any]:
        name = f"{operation}_orders"
        reply = await self.ask(operation, {name: [item(one, **changes) for one in orders]})
        return list(reply[name])

    def effects(self, *orders: Transaction, operation: str = "refund") -> list[int]:
        return [self.sandbox.ledger.effects(operation, one.transaction_id) for one in orders]

    async def pay(self, fields: dict[str, Any], *, form: bool = True) -> dict[str, Any]:
        async with self.post("pay", fields, form=form) as response:
            assert (response.status, response.content_type) == (200, "text/xml")
            root = fromstring(await response.text())
        assert root.tag == "respon"
        return {e.tag: {c.tag: c.text for c in e} if len(e) else e.text or "" for e in root}

    async def page(self, operation: str, fields: dict[str, Any]) -> str:
        async with self.post(operation, fields, form=True) as response:
            assert response.content_type == "text/html"
            return await response.text()

    async def decide(self, page_url: str, choice: str) -> tuple[int, str]:
        async with self.http.post(
            page_url, data={"choice": choice}, allow_redirects=False
        ) as response:
            return response.status, response.headers.get("Location", "")

    @property
    def status(self) -> PaymentStatus:
        """Where the one payment stands."""
        (payment,) = self.sandbox.ledger
        return payment.status


def item(order: Transaction, **changes: str) -> dict[str, str]:
    """Write an order for any batch: fields that an operation does not know are ignored."""
    return {
        "transaction_id": order.transaction_id,
        "order_no": order.order_no,
        "currency": order.currency,
        "amount": str(order.amount),
        "refund_amount": "4.00",
        "refund_reason": "returned",
        "review_flag": "1",
        **changes,
    }


@contextlib.asynccontextmanager
async def merchant_of(**settings: Any) -> AsyncIterator[Merchant]:
    """A merchant of a sandbox with these settings, who sees bodies as they come."""
    async with aiohttp.ClientSession(auto_decompress=False) as http, Sandbox(**settings) as sandbox:
        yield Merchant(sandbox=sandbox, http=http)


@pytest.fixture
async def merchant(unbroken: None) -> AsyncIterator[Merchant]:
    del unbroken
    async with merchant_of(notify_pauses=(0.0, 0.0)) as merchant:
        yield merchant

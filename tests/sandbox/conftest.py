"""A sandbox, and a merchant who writes bodies and signatures by hand."""

import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import aiohttp
import attrs
import pytest

from gateway_async.sandbox import Sandbox, SeededOrder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATHS = {
    "query": "/v1/retrievalTrans",
    "search_refunds": "/v1/retrievalRefund",
    "pay": "/v1/authorise",
}


SECRET = "sandbox-secret"


def sign(fields: dict[str, str], secret: str = SECRET) -> str:
    message = "&".join(f"{name}={fields[name]}" for name in sorted(fields))
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


def signed(fields: dict[str, Any]) -> dict[str, str]:
    texts = {"merchant_id": "M1", "account_id": "A1"}
    texts |= {n: v if isinstance(v, str) else json.dumps(v) for n, v in fields.items()}
    return {**texts, "encryption_data": sign(texts)}


def as_json(fields: dict[str, Any], texts: dict[str, str]) -> str:
    """Write JSON so that nested values are the very text that was signed."""
    members = (
        f"{json.dumps(n)}: {json.dumps(t) if isinstance(fields.get(n, ''), str) else t}"
        for n, t in texts.items()
    )
    return "{" + ", ".join(members) + "}"


@attrs.frozen(kw_only=True)
class Merchant:
    sandbox: Sandbox
    http: aiohttp.ClientSession

    def post(
        self, operation: str, fields: dict[str, Any], *, form: bool = False
    ) -> "aiohttp.client._RequestContextManager":
        texts = signed(fields)
        body = urlencode(texts) if form else as_json(fields, texts)
        kind = "x-www-form-urlencoded" if form else "json"
        return self.http.post(
            self.sandbox.base_url + PATHS.get(operation, f"/v1/{operation}"),
            data=body.encode(),
            headers={"Content-Type": f"application/{kind}"},
            allow_redirects=False,
        )

    async def ask(
        self, operation: str, fields: dict[str, Any] | None = None, *, form: bool = False
    ) -> dict[str, Any]:
        async with self.post(operation, fields or {}, form=form) as response:
            assert response.status == 200
            reply: dict[str, Any] = await response.json()
            return reply

    async def refund(self, *orders: SeededOrder, **changes: str) -> list[dict[str, Any]]:
        reply = await self.ask("refund", {"refund_orders": [item(o, **changes) for o in orders]})
        records: list[dict[str, Any]] = reply["refund_orders"]
        return records


def item(order: SeededOrder, **changes: str) -> dict[str, str]:
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


@pytest.fixture
async def sandbox(caplog: pytest.LogCaptureFixture) -> "AsyncIterator[Sandbox]":
    """A sandbox in which no handler breaks: aiohttp would log it and answer 500."""
    async with Sandbox(notify_pauses=(0.0, 0.0)) as sandbox:
        yield sandbox
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.fixture
async def merchant(sandbox: Sandbox) -> "AsyncIterator[Merchant]":
    async with aiohttp.ClientSession() as http:
        yield Merchant(sandbox=sandbox, http=http)

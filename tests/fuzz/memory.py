"""A gateway in memory, in the place of the transport: it answers as the interface shows."""

import asyncio
import json
from collections import Counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import attrs

from gateway_async import Credentials, GatewayClient, HmacSigner, RetryPolicy
from gateway_async.transport import HttpResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.transport import HttpRequest, SendTracker

    Rewrite = Callable[[HttpRequest, HttpResponse], HttpResponse]

SIGNATURE = "5160a7u4e-of-the-reply"
_STATUS_FIELDS = {
    "capture_orders": "capture_status",
    "cancel_orders": "cancel_status",
    "review_orders": "review_status",
    "refund_orders": "refund_status",
}
_LISTS = {"/v1/retrievalTrans": "orders_list", "/v1/retrievalRefund": "refund_orders"}


def fields_of(message: "HttpRequest") -> dict[str, Any]:
    """Read a request, nested values and all."""
    if message.content_type == "application/json":
        fields: dict[str, Any] = json.loads(message.body)
        return fields
    return dict(parse_qsl(message.body.decode(), keep_blank_values=True))


def answer(message: "HttpRequest") -> HttpResponse:
    """Say that all was done."""
    fields = fields_of(message)
    if message.path == "/v1/checkout":
        return _reply("text/html", '<html><title>x</title><form method="post"></form></html>')
    if message.path == "/v1/authorise":
        shown = {name: fields[name] for name in ("order_no", "amount", "currency")}
        own = {"transaction_id": "T1", "order_status": "1", "issuer_url": "https://issuer.example"}
        inner = "".join(f"<{name}>{text}</{name}>" for name, text in {**shown, **own}.items())
        return _reply("text/xml", f"<respon>{inner}</respon>")
    return _reply("application/json", json.dumps(_json_answer(message.path, fields)))


def _json_answer(path: str, fields: dict[str, Any]) -> dict[str, Any]:
    if path == "/v1/payout":
        return {**fields, "status": "COMPLETED", "transaction_id": "P1", "fee_amount": 1.5}
    name = _LISTS.get(path) or next(name for name in fields if name in _STATUS_FIELDS)
    envelope = {"return_status": "1", "return_message": "OK", "encryption_data": SIGNATURE}
    records = _found(fields) if path in _LISTS else _done(fields, name)
    return {**envelope, name: records}


def _done(fields: dict[str, Any], name: str) -> list[dict[str, Any]]:
    done = {_STATUS_FIELDS[name]: "1", "error_message": ""}
    if name == "refund_orders":
        done = {"refund_status": "1", "refund_message": "V0000:success"}
    return [{**order, **done} for order in fields[name]]


def _found(fields: dict[str, Any]) -> list[dict[str, Any]]:
    asked = {name: fields.get(name, "") for name in ("order_no", "transaction_id")}
    return [
        {name: value, "query_result": "1", "payment_status": "3000", "amount": "10.00"}
        for name, values in asked.items()
        for value in values.split(",")
        if value
    ]


def _reply(content_type: str, text: str) -> HttpResponse:
    return HttpResponse(200, {"Content-Type": content_type}, text.encode())


class MemoryGateway:
    """Carries messages out, in several steps of the event loop, and counts what it did.

    Args:
        rewrite: Given the message and the right reply, returns what is answered instead.
        steps: Turns of the event loop before a message is written, before its effect, and before
            the reply.

    Attributes:
        effects: How often each order was executed, by its name.
        written: Messages that were written.
    """

    def __init__(self, rewrite: "Rewrite | None" = None, *, steps: int = 0) -> None:
        self.effects: Counter[str] = Counter()
        self.written = 0
        self._rewrite = rewrite
        self._steps = steps

    async def send(
        self, message: "HttpRequest", *, tracker: "SendTracker", seconds: float
    ) -> HttpResponse:
        """Carry one message out, as `gateway_async.transport.Transport.send` does."""
        del seconds
        await self._pass()
        tracker.begin()
        self.written += 1
        await self._pass()
        self.effects.update(_names(fields_of(message)))
        await self._pass()
        reply = answer(message)
        return self._rewrite(message, reply) if self._rewrite else reply

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def _pass(self) -> None:
        for _ in range(self._steps):
            await asyncio.sleep(0)


def _names(fields: "Mapping[str, Any]") -> list[str]:
    orders = [fields[name] for name in _STATUS_FIELDS if name in fields]
    if orders:
        return [order["transaction_id"] for order in orders[0]]
    return [fields.get("request_id") or fields.get("order_no") or "look-up"]


def client_of(gateway: MemoryGateway, **settings: Any) -> GatewayClient:
    """Make a client that talks to a gateway in memory."""
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("memory"))
    quick = RetryPolicy(attempts=2, first_pause_seconds=0, max_pause_seconds=0)
    client = GatewayClient("https://gateway.example", credentials, **{"retry": quick, **settings})
    client._session = attrs.evolve(client._session, transport=gateway)  # type: ignore[arg-type]  # a fake
    return client

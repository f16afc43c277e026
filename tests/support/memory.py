"""A gateway in memory, in the place of the transport: a function of the test's answers.

No other module of the tests puts a transport into a client.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import attrs

from gateway_async import GatewayClient, NotSentError, RetryPolicy
from gateway_async.operations import OPERATIONS, Operation
from gateway_async.transport import HttpRequest, HttpResponse, SendTracker
from tests.support.orders import LOOK_UPS, client_at, reply_to

__all__ = ["HttpRequest", "HttpResponse", "SendTracker"]  # from here, wherever they stand

Answer = dict[str, Any] | bytes | HttpResponse
Handler = Callable[["Asked"], Answer | Awaitable[Answer]]
_BY_PATH = {operation.path: operation for operation in OPERATIONS.values()}
_PAGE = b'<html><title>x</title><form method="post"></form></html>'
QUICK = RetryPolicy(attempts=2, first_pause_seconds=0, max_pause_seconds=0)


@attrs.frozen
class Asked:
    """One request as it came."""

    operation: Operation  # what is asked for
    fields: dict[str, Any] = attrs.field(repr=False)  # its fields, nested ones read
    message: HttpRequest  # the request itself
    seconds: float  # the time that was left for it

    @property
    def transactions(self) -> list[str]:
        if self.operation.name in LOOK_UPS:
            return str(self.fields["transaction_id"]).split(",")
        listed = self.fields[str(self.operation.list_field)]
        return [item["transaction_id"] for item in listed]

    def done(self, **changes: Any) -> dict[str, Any]:
        """Return the reply that says that all of it was done."""
        name = self.operation.name
        if name == "payout":
            return {**self.fields, "status": "COMPLETED", "transaction_id": "P1", **changes}
        if name in LOOK_UPS:
            items = [
                {kind: value, "query_result": "1", "refund_amount": "0.01"}  # of no order here
                for kind in ("order_no", "transaction_id")
                for value in str(self.fields.get(kind, "")).split(",")
                if value
            ]
        else:
            success = {f"{name}_status": "1"}
            items = [{**item, **success} for item in self.fields[str(self.operation.list_field)]]
        return reply_to(name, items, **changes)


def all_done(asked: Asked) -> Answer:
    if asked.message.path == "/v1/checkout":
        return HttpResponse(200, {"Content-Type": "text/html"}, _PAGE)
    if asked.message.path != "/v1/authorise":
        return asked.done()
    said = {name: asked.fields[name] for name in ("order_no", "amount", "currency")}
    said |= {"transaction_id": "T1", "order_status": "1", "issuer_url": "https://issuer.example"}
    return HttpResponse(200, {"Content-Type": "text/xml"}, respon(said))


def refund_done(asked: Asked, **changes: Any) -> Answer:
    """Do a refund; the reference is that of the first one of its transaction, every time."""
    (item,) = asked.done()["refund_orders"]
    reference = f"{item['transaction_id']}-01"
    return reply_to("refund", [{**item, "refund_reference_id": reference, **changes}])


def respon(fields: dict[str, Any]) -> bytes:
    """Return a reply in XML; texts are not escaped."""
    return f"<respon>{_as_xml(fields)}</respon>".encode()


def _as_xml(value: Any) -> str:
    if isinstance(value, list):
        return "".join(f"<element>{_as_xml(one)}</element>" for one in value)
    if isinstance(value, dict):
        return "".join(f"<{name}>{_as_xml(one)}</{name}>" for name, one in value.items())
    return str(value)


def listing(records: list[dict[str, Any]], do: Handler = all_done, /, **envelope: Any) -> Handler:
    """Answer each search of refunds with these records, and all else by a function."""

    def answer(asked: Asked) -> Answer | Awaitable[Answer]:
        if asked.operation.name == "search_refunds":
            return reply_to("search_refunds", records, **envelope)
        return do(asked)

    return answer


def rewritten(rewrite: Callable[[Asked, HttpResponse], HttpResponse]) -> Handler:
    """Answer with what a function makes of the right reply."""
    return lambda asked: rewrite(asked, _response(all_done(asked)))


def _response(answer: Answer) -> HttpResponse:
    if isinstance(answer, HttpResponse):
        return answer
    if isinstance(answer, bytes):
        return HttpResponse(200, {}, answer)
    body = json.dumps(answer, separators=(",", ":")).encode()
    return HttpResponse(200, {"Content-Type": "application/json"}, body)


@attrs.define
class MemoryTransport:
    """Answers each request by a function; what that raises, sending raises."""

    handler: Handler = all_done  # the function
    asked: list[Asked] = attrs.field(factory=list)  # the requests that were written
    # how often each transaction, payment or payout was carried out
    effects: Counter[str] = attrs.field(factory=Counter)
    # turns of the event loop before a request is written, before its effect, and before its reply
    steps: int = 0

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        await self._pass()
        tracker.begin()
        asked = Asked(_BY_PATH[message.path], fields_of(message), message, seconds)
        self.asked.append(asked)
        await self._pass()
        if str(asked.operation.list_field) in asked.fields:
            self.effects.update(asked.transactions)
        else:
            self.effects[str(asked.fields.get("request_id") or asked.fields.get("order_no"))] += 1
        await self._pass()
        try:
            answer = self.handler(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
        except NotSentError:
            tracker.started = False  # as it says
            raise
        return _response(answer)

    async def aclose(self) -> None:
        """Do nothing."""

    async def _pass(self) -> None:
        for _ in range(self.steps):
            await asyncio.sleep(0)


def fields_of(message: HttpRequest) -> dict[str, Any]:
    if message.content_type == "application/json":
        fields: dict[str, Any] = json.loads(message.body)
        return fields
    return dict(parse_qsl(message.body.decode(), keep_blank_values=True))


def put_transport(gateway: GatewayClient, transport: Any) -> None:
    gateway._session = attrs.evolve(gateway._session, transport=transport)


def client_over(
    gateway: MemoryTransport | Handler = all_done, *, signer: Any = None, **settings: Any
) -> GatewayClient:
    """Return a client of a gateway in memory, or of its answers; it repeats without pauses."""
    settings.setdefault("retry", RetryPolicy(first_pause_seconds=0))
    client = client_at("http://127.0.0.1:9", signer=signer, **settings)
    transport = gateway if isinstance(gateway, MemoryTransport) else MemoryTransport(gateway)
    put_transport(client, transport)
    return client


class HeldReplies:
    """Says that everything was done, once `goes_on` is set."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()  # set when a request has come
        self.goes_on = asyncio.Event()  # lets the replies go
        self.most = 0  # the most requests that were held together
        self.transport = MemoryTransport(self._answer)
        self._held = 0

    async def _answer(self, asked: Asked) -> dict[str, Any]:
        self._held += 1
        self.most = max(self.most, self._held)
        self.asked.set()
        await self.goes_on.wait()
        self._held -= 1
        return asked.done()

    def client(self, **settings: Any) -> GatewayClient:
        return client_over(self.transport, **settings)


def sent(transport: MemoryTransport) -> list[list[str]]:
    return [asked.transactions for asked in transport.asked]


async def settle_down() -> None:
    """Give everybody who can go on enough turns to do so."""
    for _ in range(100):
        await asyncio.sleep(0)

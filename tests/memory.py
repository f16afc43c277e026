"""A transport in memory: requests are read, and answered by a function of the test's."""

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

import attrs

from gateway_async import Credentials, GatewayClient, HmacSigner, NotSentError
from gateway_async.operations import OPERATIONS, Operation
from gateway_async.transport import HttpRequest, HttpResponse, SendTracker
from tests.orders import LOOK_UPS, reply_to

Answer = dict[str, Any] | bytes | HttpResponse
Handler = Callable[["Asked"], Answer | Awaitable[Answer]]
_BY_PATH = {operation.path: operation for operation in OPERATIONS.values()}


@attrs.frozen
class Asked:
    """One request as it came.

    Attributes:
        operation: What is asked for.
        fields: Its fields, nested ones read.
        message: The request itself.
        seconds: The time that was left for it.
    """

    operation: Operation
    fields: dict[str, Any]
    message: HttpRequest
    seconds: float

    @property
    def transactions(self) -> list[str]:
        """The transactions it names, in its order."""
        if self.operation.name in LOOK_UPS:
            return str(self.fields["transaction_id"]).split(",")
        listed = self.fields[str(self.operation.list_field)]
        return [item["transaction_id"] for item in listed]

    def done(self, **changes: Any) -> dict[str, Any]:
        """Return the reply that says that all of it was done."""
        name = self.operation.name
        if name in LOOK_UPS:
            items = [{"transaction_id": one, "query_result": "1"} for one in self.transactions]
        else:
            success = {f"{name}_status": "1"}
            items = [{**item, **success} for item in self.fields[str(self.operation.list_field)]]
        return reply_to(name, items, **changes)


@attrs.define
class MemoryTransport:
    """Answers each request by a function; what that raises, sending raises.

    Attributes:
        handler: The function.
        asked: The requests that came.
    """

    handler: Handler
    asked: list[Asked] = attrs.field(factory=list)

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        tracker.begin()
        asked = Asked(_BY_PATH[message.path], _read(message), message, seconds)
        self.asked.append(asked)
        try:
            answer = self.handler(asked)
            if isinstance(answer, Awaitable):
                answer = await answer
        except NotSentError:
            tracker.started = False  # as it says
            raise
        if isinstance(answer, HttpResponse):
            return answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return HttpResponse(200, {}, body)

    async def aclose(self) -> None:
        """Do nothing."""


def _read(message: HttpRequest) -> dict[str, Any]:
    if message.content_type == "application/json":
        fields: dict[str, Any] = json.loads(message.body)
        return fields
    return dict(parse_qsl(message.body.decode(), keep_blank_values=True))


def all_done(asked: Asked) -> dict[str, Any]:
    """Say that everything was done."""
    return asked.done()


def client_over(
    transport: MemoryTransport, *, signer: Any = None, **settings: Any
) -> GatewayClient:
    """Return a client whose requests go to the transport."""
    credentials = Credentials(
        merchant_id="M1", account_id="A1", signer=signer or HmacSigner("secret")
    )
    gateway = GatewayClient("http://127.0.0.1:9", credentials, **settings)
    gateway._session = attrs.evolve(gateway._session, transport=transport)  # type: ignore[arg-type]  # a fake
    return gateway

"""aioresponses, made to work with the aiohttp at hand, and a way to write bodies."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aioresponses import CallbackResult, aioresponses

from gateway_async import Credentials, GatewayClient, HmacSigner, RetryPolicy

BASE_URL = "https://gateway.example"


class MockedResponse(aiohttp.ClientResponse):
    """A response with the writer that aiohttp asks for and aioresponses does not give."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("stream_writer", Mock())
        super().__init__(*args, **kwargs)


class BodyWriter(AbstractStreamWriter):
    """Collects what is written."""

    def __init__(self) -> None:
        self.written = b""

    async def write(self, chunk: Any) -> None:
        self.written += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.written += chunk

    async def drain(self) -> None: ...

    def enable_compression(self, *_: Any, **__: Any) -> None: ...

    def enable_chunking(self) -> None: ...

    async def write_headers(self, *_: Any, **__: Any) -> None: ...


class Server:
    """What stands in the place of the gateway: it writes each body, and replies as told.

    Attributes:
        bodies: What was written, one body a request.
        calls: The keyword arguments of each request.
        replies: What is replied, one after the other, the last for ever; an exception is raised.
        writes: Whether bodies are asked for at all.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.calls: list[dict[str, Any]] = []
        self.urls: list[str] = []
        self.replies: list[CallbackResult | BaseException] = []
        self.writes = True
        self.before: Callable[[], object] | None = None

    async def answer(self, url: Any, **kwargs: Any) -> CallbackResult:
        self.urls.append(str(url))
        self.calls.append(kwargs)
        if self.before is not None:
            self.before()
        if self.writes:
            writer = BodyWriter()
            await kwargs["data"].write_with_length(writer, None)
            self.bodies.append(writer.written)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, BaseException):
            raise reply
        return reply


def replied(body: bytes | str = b"{}", status: int = 200, **headers: str) -> CallbackResult:
    """Return a reply; `Retry_After` stands for the header Retry-After."""
    text = body.encode() if isinstance(body, str) else body
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return CallbackResult(status=status, body=text, headers=named, response_class=MockedResponse)


@asynccontextmanager
async def mocked(
    *replies: CallbackResult | BaseException, path: str, **settings: Any
) -> AsyncIterator[tuple[GatewayClient, Server]]:
    """Yield a client, and the server that gives these replies on the path."""
    server = Server()
    server.replies = list(replies)
    settings.setdefault("retry", RetryPolicy(first_pause_seconds=0))
    settings.setdefault(
        "credentials",
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret")),
    )
    with aioresponses() as mock:
        mock.post(f"{BASE_URL}{path}", callback=server.answer, repeat=True)
        async with GatewayClient(BASE_URL, **settings) as gateway:
            yield gateway, server

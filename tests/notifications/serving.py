"""A receiver behind real servers, and somebody who posts to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import attrs
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from gateway_async.notifications import NotificationReceiver

FORM = "application/x-www-form-urlencoded"
PATH = "/notify"


@attrs.frozen
class Poster:
    """Posts to a receiver, as the gateway or anybody else."""

    url: str
    http: aiohttp.ClientSession

    async def post(self, data: Any = b"", *, method: str = "POST", **headers: str) -> int:
        """Return the status that is answered."""
        status, _ = await self.answer(data, method=method, **headers)
        return status

    async def answer(
        self, data: Any = b"", *, method: str = "POST", **headers: str
    ) -> tuple[int, str]:
        """Return status and text of the answer."""
        named = {"Content-Type": FORM, **{n.replace("_", "-"): v for n, v in headers.items()}}
        sent = urlencode(data).encode() if isinstance(data, dict) else data
        async with self.http.request(method, self.url, data=sent, headers=named) as response:
            return response.status, await response.text()


@contextlib.asynccontextmanager
async def _over_aiohttp(
    receiver: NotificationReceiver, listening: socket.socket
) -> AsyncIterator[None]:
    app = web.Application()
    app.router.add_route("*", PATH, receiver.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    yield
    await runner.cleanup()


def _over_uvicorn(mount: Callable[[NotificationReceiver], Any]) -> Any:
    @contextlib.asynccontextmanager
    async def serve(
        receiver: NotificationReceiver, listening: socket.socket
    ) -> AsyncIterator[None]:
        listening.listen()  # who connects before it has started waits
        config = uvicorn.Config(mount(receiver), log_level="error", ws="none", lifespan="on")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        yield
        server.should_exit = True
        await serving

    return serve


def _routed(receiver: NotificationReceiver) -> Any:
    return Starlette(routes=[Route(PATH, receiver)])


def _mounted(receiver: NotificationReceiver) -> Any:
    return Starlette(routes=[Mount(PATH, receiver)])


SERVERS = {
    "aiohttp.web": _over_aiohttp,
    "uvicorn": _over_uvicorn(lambda receiver: receiver),
    "a route of Starlette": _over_uvicorn(_routed),
    "a mount of Starlette": _over_uvicorn(_mounted),
}


@contextlib.asynccontextmanager
async def serving(name: str, receiver: NotificationReceiver) -> AsyncIterator[Poster]:
    """Serve a receiver on a port of this machine."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        slash = "/" if "mount" in name else ""  # it redirects from a mount without one
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}{slash}"
        async with aiohttp.ClientSession() as http, SERVERS[name](receiver, listening):
            yield Poster(url, http)


async def tell(
    receiver: Callable[[Any, Any, Any], Awaitable[None]],
    *pieces: bytes | None,
    method: str = "POST",
    headers: "dict[str, str] | None" = None,
) -> tuple[int, str]:
    """Post over ASGI, without a server; None among the pieces is a client that goes."""
    left = list(pieces)
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        piece = left.pop(0)
        if piece is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    async def send(message: MutableMapping[str, Any]) -> None:
        await asyncio.sleep(0)
        sent.append(message)

    named = [(n.lower().encode(), v.encode()) for n, v in (headers or {}).items()]
    await receiver({"type": "http", "method": method, "headers": named}, receive, send)
    if not sent:
        return 0, ""
    return sent[0]["status"], sent[1]["body"].decode()

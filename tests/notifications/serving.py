"""A receiver over ASGI and behind real servers, and somebody who posts to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from gateway_async.notifications import NotificationReceiver

FORM = "application/x-www-form-urlencoded"
PATH = "/notify"
MOUNTS: dict[str, Callable[[NotificationReceiver], Any]] = {
    "uvicorn": lambda receiver: receiver,
    "a route of Starlette": lambda receiver: Starlette(routes=[Route(PATH, receiver)]),
    "a mount of Starlette": lambda receiver: Starlette(routes=[Mount(PATH, receiver)]),
}
SERVERS = ("aiohttp.web", *MOUNTS)


class Poster:
    """Posts to a receiver, as the gateway or anybody else."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http

    async def answer(self, data: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
        """Return status and text of the answer."""
        named = {"Content-Type": FORM, **{n.replace("_", "-"): v for n, v in headers.items()}}
        sent = urlencode(data).encode() if isinstance(data, dict) else data
        async with self._http.request(method, self.url, data=sent, headers=named) as response:
            return response.status, await response.text()

    async def post(self, data: Any, method: str = "POST", **headers: str) -> int:
        """Return the status that is answered."""
        return (await self.answer(data, method, **headers))[0]


@contextlib.asynccontextmanager
async def serving(name: str, receiver: NotificationReceiver) -> AsyncIterator[Poster]:
    """Serve a receiver on a port of this machine."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # who connects before it has started waits
        slash = "/" if "mount" in name else ""  # it redirects from a mount without one
        url = f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}{slash}"
        async with aiohttp.ClientSession() as http:
            if name == "aiohttp.web":
                app = web.Application()
                app.router.add_route("*", PATH, receiver.handle)
                runner = web.AppRunner(app)
                await runner.setup()
                await web.SockSite(runner, listening).start()
                yield Poster(url, http)
                await runner.cleanup()
                return
            mounted = MOUNTS[name](receiver)
            server = uvicorn.Server(
                uvicorn.Config(mounted, log_level="error", ws="none", lifespan="off")
            )
            serving = asyncio.create_task(server.serve([listening]))
            yield Poster(url, http)
            server.should_exit = True
            await serving


async def tell(
    receiver: NotificationReceiver, *pieces: bytes | None, **headers: str
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

    named = [(n.lower().replace("_", "-").encode(), v.encode()) for n, v in headers.items()]
    await receiver({"type": "http", "method": "POST", "headers": named}, receive, send)
    return sent[0]["status"], sent[1]["body"].decode()

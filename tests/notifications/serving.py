"""A receiver behind real servers, or asked over ASGI without one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from gateway_async.notifications import NotificationReceiver
from tests.support.servers import answering, bind

FORM = "application/x-www-form-urlencoded"
PATH = "/notify"
MOUNTS: dict[str, Callable[[NotificationReceiver], Any]] = {
    "uvicorn": lambda receiver: receiver,
    "a route of Starlette": lambda receiver: Starlette(routes=[Route(PATH, receiver)]),
    "a mount of Starlette": lambda receiver: Starlette(routes=[Mount(PATH, receiver)]),
}
SERVERS = ("aiohttp.web", *MOUNTS)


@contextlib.asynccontextmanager
async def serving(name: str, receiver: NotificationReceiver) -> AsyncIterator[str]:
    """Serve a receiver on a port of this machine; yield its address."""
    if name == "aiohttp.web":
        async with answering(receiver.handle, "*") as url:
            yield f"{url}{PATH}"
        return
    with bind() as listening:
        listening.listen()  # who connects before it has started waits
        slash = "/" if "mount" in name else ""  # it redirects from a mount without one
        mounted = MOUNTS[name](receiver)
        config = uvicorn.Config(mounted, log_level="error", ws="none", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve([listening]))
        yield f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}{slash}"
        server.should_exit = True
        await serving


async def post(url: str, data: Any, method: str = "POST", **headers: str) -> tuple[int, str]:
    """Send over HTTP; return status and text of the answer."""
    named = {"Content-Type": FORM, **{n.replace("_", "-"): v for n, v in headers.items()}}
    async with aiohttp.request(method, url, data=data, headers=named) as response:
        return response.status, await response.text()


async def tell(receiver: NotificationReceiver, *pieces: Any, **headers: str) -> tuple[int, str]:
    """Post over ASGI: fields, or pieces of a body, of which None is a client that goes."""
    left = [urlencode(piece).encode() if isinstance(piece, dict) else piece for piece in pieces]
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

"""Servers on 127.0.0.1: any handler, and a proxy that breaks exchanges off."""

import asyncio
import base64
import contextlib
import re
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, Self
from urllib.parse import urlsplit

import attrs
import trustme
from aiohttp import web

LOOPBACK = "127.0.0.1"
_HEAD_END = b"\r\n\r\n"
_GONE = (OSError, asyncio.IncompleteReadError)
_HOP_BY_HOP = ("proxy-authorization", "connection", "proxy-connection")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(
    handle: Handle, *, tls: ssl.SSLContext | None = None, bound: socket.socket | None = None
) -> AsyncIterator[str]:
    """Serve each connection by a function, and yield the URL; what is open at the end is reset."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())
        try:
            await handle(reader, writer)
        except _GONE:  # which asyncio's streams would log
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            tasks.discard(task)
            writer.close()

    bound = bound or bind()
    server = await asyncio.start_server(serve, sock=bound, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://{LOOPBACK}:{bound.getsockname()[1]}"
    finally:
        server.close()
        left = [task for task in tasks if task is not None]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await server.wait_closed()


@contextlib.asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.Response]], method: str = "POST"
) -> AsyncIterator[str]:
    """Answer each request of a method, or of `*` any, by a function, and yield the URL."""
    app = web.Application()
    app.router.add_route(method, "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(_HEAD_END)
    return head + await reader.readexactly(int(header(head.decode(), "content-length") or 0))


def bind() -> socket.socket:
    """Return a socket at a free port; until somebody listens there, connections are refused."""
    # Only where TCP is named does asyncio send at once, without waiting for an acknowledgement.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind((LOOPBACK, 0))
    return bound


def tls_of(authority: trustme.CA, name: str = LOOPBACK) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def trust_in(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


End = Literal["reset", "close", "silence"]
"""How an exchange ends that breaks off."""
PLACES: dict[str, Callable[[bytes], int]] = {
    "before its first byte": lambda _: 0,
    "within its first line": lambda message: message.index(b"\r\n") // 2,
    "after its first line": lambda message: message.index(b"\r\n") + 2,
    "within its headers": lambda message: message.index(_HEAD_END) // 2,
    "between headers and body": lambda message: message.index(_HEAD_END) + 4,
    "after the first byte of its body": lambda message: message.index(_HEAD_END) + 5,
    "within its body": lambda message: (message.index(_HEAD_END) + 4 + len(message)) // 2,
    "before its last byte": lambda message: len(message) - 1,
}
"""Where a message may break off: how many bytes of it come through."""
NOTHING = PLACES["before its first byte"]


@attrs.frozen
class Trouble:
    """What happens to one exchange.

    A part of a request has no reply.
    """

    heard: Callable[[bytes], int] = len  # how many bytes of the request are passed on
    said: Callable[[bytes], bytes] = bytes  # what comes of its reply, made from the right one
    end: End | None = None  # how the connection ends behind that; None where it goes on


def cut(place: Callable[[bytes], int]) -> Callable[[bytes], bytes]:
    return lambda reply: reply[: place(reply)]


@attrs.define(eq=False)
class Proxy:
    """Passes requests on one by one, each on a new connection, or lets an exchange break off.

    It stands in for the gateway, or is a forward proxy: then it goes to the port that a request
    names, on this machine, whatever the name.
    """

    upstream: str = ""  # where a request goes that names no address
    tls: ssl.SSLContext | None = attrs.field(default=None, kw_only=True)  # None for plain HTTP
    login: str = attrs.field(default="", kw_only=True)  # which it demands, as `user:password`
    base_url: str = ""
    connections: int = 0
    requests: int = 0  # whose first byte was seen
    heads: list[str] = attrs.field(factory=list)  # of each request that was read whole
    troubles: list[Trouble] = attrs.field(factory=list)  # of the next exchanges, once each
    always: Trouble = Trouble()  # of all others
    # called when it has read something, and is not going to answer
    on_silence: Callable[[], object] = lambda: None
    _serving: contextlib.AbstractAsyncContextManager[str] = attrs.field(init=False)
    _open: dict[asyncio.StreamWriter, End | None] = attrs.field(factory=dict)

    async def __aenter__(self) -> Self:
        self._serving = serving(self._serve, tls=self.tls)
        self.base_url = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    def with_login(self, login: str) -> str:
        return self.base_url.replace("://", f"://{login}@")

    def end_idle(self, end: End) -> None:
        """End every open connection; `silence` lets it seem to live."""
        for writer in self._open:
            self._finish(writer, end)

    def say(self, text: bytes) -> None:
        for writer in self._open:
            writer.write(text)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open[writer] = None
        try:
            while not writer.is_closing():
                await self._exchange(reader, writer)
        finally:
            del self._open[writer]

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and its reply back."""
        request = await reader.readexactly(1)
        self.requests += 1
        if self._open[writer] != "silence":
            trouble = self.troubles.pop(0) if self.troubles else self.always
            request += await read_message(reader)
            self.heads.append(request.partition(_HEAD_END)[0].decode())
            demanded = f"Basic {base64.b64encode(self.login.encode()).decode()}"
            if self.login and header(self.heads[-1], "proxy-authorization") != demanded:
                trouble = refusal(407)
            heard = trouble.heard(request)
            reply = await self._ask(request, heard, (reader, writer)) if heard else b""
            writer.write(trouble.said(reply))
            await writer.drain()
            if trouble.end is not None:
                self._finish(writer, trouble.end)
        if self._open[writer] == "silence":
            for _ in range(5):  # the client has read what was said before time goes by
                await asyncio.sleep(0)
            self.on_silence()
            await reader.read(-1)
            writer.close()

    async def _ask(self, request: bytes, heard: int, client: Streams) -> bytes:
        """Hand what is heard of a request to its target, or open a tunnel to it."""
        method, target, _ = request.decode("latin-1").split(" ", 2)
        is_named = "://" in target or method == "CONNECT"
        address = (target if "://" in target else f"//{target}") if is_named else self.upstream
        gateway = await asyncio.open_connection(LOOPBACK, urlsplit(address).port)
        try:
            if method == "CONNECT":
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await tunnel(client, gateway)
                client[1].close()
                return b""
            gateway[1].write(_forwarded(request[:heard]) if is_named else request[:heard])
            if heard == len(request):
                return await read_message(gateway[0])
            gateway[1].write_eof()
            await gateway[0].read(-1)
            return b""
        finally:
            gateway[1].close()

    def _finish(self, writer: asyncio.StreamWriter, end: End) -> None:
        self._open[writer] = end
        if end == "reset":
            bare = writer.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):  # the client went before
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        elif end == "close":
            writer.close()


def refusal(status: int) -> Trouble:
    """Let a proxy answer in the place of the gateway."""
    answer = f"HTTP/1.1 {status} No\r\nContent-Length: 2\r\n\r\nno".encode()
    return Trouble(NOTHING, lambda _: answer)


async def tunnel(
    client: Streams, gateway: Streams, is_silent: Callable[[], bool] = lambda: False
) -> None:
    """Pass bytes on both ways, or lose them while it is silent, until one side ends."""

    async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        with contextlib.suppress(*_GONE):
            while piece := await source.read(65_536):
                if not is_silent():
                    to.write(piece)
                await to.drain()

    pumps = [
        asyncio.create_task(pump(client[0], gateway[1])),
        asyncio.create_task(pump(gateway[0], client[1])),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in pumps:
            one.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


def _forwarded(request: bytes) -> bytes:
    """Return a request to a proxy as the gateway is to see it."""
    first, *lines = request.partition(_HEAD_END)[0].decode().split("\r\n")
    method, target, version = first.split(" ")
    kept = [line for line in lines if line.partition(":")[0].lower() not in _HOP_BY_HOP]
    head = "\r\n".join([f"{method} {urlsplit(target).path or '/'} {version}", *kept])
    return head.encode() + _HEAD_END + body_of(request)


def header(head: str, name: str) -> str:
    """Return a header of a head; empty where it has none."""
    found = re.search(rf"^{name}: *(.*?)\r?$", head, re.IGNORECASE | re.MULTILINE)
    return found[1] if found else ""


def with_body(message: bytes, body: bytes, **headers: str) -> bytes:
    """Return a message with another body of the right length, and with more headers."""
    lines = message.partition(_HEAD_END)[0].split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"content-length:")]
    named = {**headers, "Content_Length": str(len(body))}
    added = [f"{name.replace('_', '-')}: {value}".encode() for name, value in named.items()]
    return b"\r\n".join([*kept, *added]) + _HEAD_END + body


def body_of(message: bytes) -> bytes:
    return message.partition(_HEAD_END)[2]

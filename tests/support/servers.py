"""Servers on 127.0.0.1 for tests: any handler, a proxy that breaks exchanges, a forward proxy."""

import asyncio
import base64
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from enum import Enum, auto
from typing import Self
from urllib.parse import urlsplit

import attrs
import trustme
from aiohttp import web

LOOPBACK = "127.0.0.1"
_LINGER_NOT = struct.pack("ii", 1, 0)
_HEAD_END = b"\r\n\r\n"
_GONE = (OSError, asyncio.IncompleteReadError)
_HOP_BY_HOP = ("proxy-authorization", "connection", "proxy-connection")

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
    answer: Callable[[web.Request], Awaitable[web.Response]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """Answer each POST by a function, and yield the URL."""
    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls).start()
        yield f"{'https' if tls else 'http'}://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Server:
    """A server that is a context manager; what it does with a connection is up to its heirs.

    Attributes:
        base_url: Where it listens, once it is entered.
        on_silence: Called when it has read something, and is not going to answer.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, bound: socket.socket | None = None
    ) -> None:
        self.base_url = ""
        self.on_silence: Callable[[], object] = lambda: None
        self._serving = serving(self._serve, tls=tls, bound=bound)

    async def __aenter__(self) -> Self:
        self.base_url = await self._serving.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._serving.__aexit__(None, None, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Read a request or reply whose length is named."""
    head = await reader.readuntil(_HEAD_END)
    return head + await reader.readexactly(_content_length(head))


def bind() -> socket.socket:
    """Return a socket at a free port; until somebody listens there, connections are refused."""
    # Only where TCP is named does asyncio send at once, without waiting for an acknowledgement.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind((LOOPBACK, 0))
    return bound


@contextlib.contextmanager
def full_backlog() -> "Iterator[str]":
    """Keep a port at which connections are neither taken nor refused: its queue is full."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(bind())
        listening.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex(listening.getsockname())
        yield f"http://{LOOPBACK}:{listening.getsockname()[1]}"


def tls_of(authority: trustme.CA, name: str = LOOPBACK) -> ssl.SSLContext:
    """Return the context of a server whose certificate an authority has issued."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


def trust_in(authority: trustme.CA) -> ssl.SSLContext:
    """Return the context of a client that trusts an authority."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


class End(Enum):
    """How an exchange ends that breaks off."""

    RESET = auto()
    CLOSE = auto()
    SILENCE = auto()


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


@attrs.frozen
class Trouble:
    """What happens to one exchange.

    Attributes:
        heard: How many bytes of the request come to the gateway; a part of one has no reply.
        said: What comes of its reply, made from the right one.
        end: How the connection ends behind that; None where it goes on.
    """

    heard: Callable[[bytes], int] = len
    said: Callable[[bytes], bytes] = bytes
    end: End | None = None


def nothing(_: bytes) -> int:
    """Let a request end when its first byte has come, unread."""
    return 0


def cut(place: Callable[[bytes], int]) -> Callable[[bytes], bytes]:
    """Let a reply come through up to a place."""
    return lambda reply: reply[: place(reply)]


@attrs.define(eq=False)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    is_deaf: bool = False

    def finish(self, end: End) -> None:
        if end is End.RESET:
            bare = self.writer.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):  # the client went before
                bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self.writer.transport.abort()
        elif end is End.CLOSE:
            self.writer.close()
        else:
            self.is_deaf = True


class Proxy(Server):
    """Forwards requests one by one, each on a new connection to the gateway.

    Attributes:
        connections: How many were accepted.
        requests: How many requests came of which the first byte was seen.
        heads: The head of each request that was read whole.
    """

    def __init__(
        self,
        upstream: str,
        *,
        tls: ssl.SSLContext | None = None,
        bound: socket.socket | None = None,
    ) -> None:
        super().__init__(tls=tls, bound=bound)
        self.connections = 0
        self.requests = 0
        self.heads: list[str] = []
        self._upstream = urlsplit(upstream)
        self._troubles: list[Trouble] = []
        self._always = Trouble()
        self._open: set[_Connection] = set()

    def once(self, trouble: Trouble) -> None:
        """Let something happen to the next exchange that has none."""
        self._troubles.append(trouble)

    def always(self, trouble: Trouble) -> None:
        """Let something happen to every exchange."""
        self._always = trouble

    def end_idle(self, end: End) -> None:
        """End every open connection; `SILENCE` lets it seem to live."""
        for connection in self._open:
            connection.finish(end)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        self.connections += 1
        self._open.add(connection)
        try:
            await self._serve_all(connection)
        finally:
            self._open.discard(connection)

    async def _serve_all(self, connection: _Connection) -> None:
        while not connection.writer.is_closing():
            first = await connection.reader.readexactly(1)
            self.requests += 1
            if connection.is_deaf:
                break
            trouble = self._troubles.pop(0) if self._troubles else self._always
            request = first
            if trouble.heard is not nothing:
                request += await read_message(connection.reader)
                self.heads.append(request.partition(_HEAD_END)[0].decode())
            reply = await self._ask(request[: trouble.heard(request)])
            connection.writer.write(trouble.said(reply))
            if trouble.heard is not nothing:
                await connection.writer.drain()
            if trouble.end is not None:
                connection.finish(trouble.end)
            if trouble.end is End.SILENCE:
                break
        if connection.is_deaf:
            self.on_silence()
            await connection.reader.read(-1)

    async def _ask(self, request: bytes) -> bytes:
        """Hand what came of a request to the gateway; a part of one has no reply."""
        if not request:
            return b""
        reader, writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            writer.write(request)
            await writer.drain()
            if not _is_whole(request):
                writer.write_eof()
                await reader.read(-1)
                return b""
            return await read_message(reader)
        finally:
            writer.close()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            return int(value)
    return 0


def _is_whole(message: bytes) -> bool:
    head, end, body = message.partition(_HEAD_END)
    return bool(end) and len(body) == _content_length(head)


def with_body(message: bytes, body: bytes, **headers: str) -> bytes:
    """Return a message with another body of the right length, and with more headers."""
    lines = message.partition(_HEAD_END)[0].split(b"\r\n")
    kept = [line for line in lines if not line.lower().startswith(b"content-length:")]
    named = {**headers, "Content_Length": str(len(body))}
    added = [f"{name.replace('_', '-')}: {value}".encode() for name, value in named.items()]
    return b"\r\n".join([*kept, *added]) + _HEAD_END + body


def body_of(message: bytes) -> bytes:
    return message.partition(_HEAD_END)[2]


class ForwardProxy(Server):
    """Forwards whatever it is asked to, to this machine and no other, whatever the name.

    Args:
        tls: The context with which it listens; None for plain HTTP.
        login: User and password that it demands, as ``user:password``.

    Attributes:
        heads: The head of each request that came to it, tunnels included.
        refuses_with: The status with which it refuses everything; None to refuse nothing.
        is_mute: It reads what is asked, and never answers.
        hangs_up: It ends a connection when a request has come.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, login: str = "") -> None:
        super().__init__(tls=tls)
        self.heads: list[str] = []
        self.refuses_with: int | None = None
        self.is_mute = self.hangs_up = False
        self._demanded = base64.b64encode(login.encode()).decode()
        self._open: set[asyncio.StreamWriter] = set()

    @property
    def lines(self) -> list[str]:
        """The first line of each request that came to it."""
        return [head.partition("\r\n")[0] for head in self.heads]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._open)

    def with_login(self, login: str) -> str:
        """Return its URL with user and password."""
        return self.base_url.replace("://", f"://{login}@")

    def drop_all(self) -> None:
        """End every connection to a client."""
        for writer in self._open:
            writer.transport.abort()

    def say(self, text: bytes) -> None:
        """Send to every client what it did not ask for."""
        for writer in self._open:
            writer.write(text)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        finally:
            self._open.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request, and say whether another may follow."""
        head = await reader.readuntil(_HEAD_END)
        text = head.decode()
        self.heads.append(text)
        method, target, _ = text.partition("\r\n")[0].split(" ")
        body = await reader.readexactly(_content_length(head))
        if self.hangs_up:
            return False
        if self.is_mute:
            self.on_silence()
            await reader.read(-1)
            return False
        shown = header(text, "proxy-authorization").removeprefix("Basic ")
        refusal = 407 if self._demanded and shown != self._demanded else self.refuses_with
        if refusal is not None:
            writer.write(f"HTTP/1.1 {refusal} No\r\nContent-Length: 2\r\n\r\nno".encode())
            return True
        to_gateway = await asyncio.open_connection(LOOPBACK, urlsplit(_as_url(target)).port)
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await _tunnel((reader, writer), to_gateway)
                return False
            to_gateway[1].write(_forwarded(text, target) + body)
            reply = await read_message(to_gateway[0])
        finally:
            to_gateway[1].close()
        writer.write(reply)
        return True


async def _tunnel(
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    gateway: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Pass bytes on both ways, until one side ends."""
    pumps = [
        asyncio.create_task(_pump(client[0], gateway[1])),
        asyncio.create_task(_pump(gateway[0], client[1])),
    ]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


async def _pump(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with contextlib.suppress(*_GONE):
        while piece := await source.read(65_536):
            to.write(piece)
            await to.drain()


def _forwarded(head: str, target: str) -> bytes:
    """Return the head of an absolute-form request as the gateway is to see it."""
    path = urlsplit(target).path or "/"
    lines = head.removesuffix("\r\n\r\n").split("\r\n")
    kept = [line for line in lines[1:] if line.partition(":")[0].lower() not in _HOP_BY_HOP]
    return "\r\n".join([f"POST {path} HTTP/1.1", *kept, "\r\n"]).encode()


def _as_url(target: str) -> str:
    return target if "://" in target else f"//{target}"


def header(head: str, name: str) -> str:
    """Return a header of a head; empty where it has none."""
    for line in head.split("\r\n")[1:]:
        found, _, value = line.partition(":")
        if found.lower() == name:
            return value.strip()
    return ""

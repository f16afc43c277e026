"""A TCP proxy before a gateway: it lets exchanges go wrong below HTTP, at any byte.

And a listener for what is no gateway at all. Both are for 127.0.0.1 and for tests alone.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import attrs

if TYPE_CHECKING:
    import ssl

LOOPBACK = "127.0.0.1"
_LINGER_NOT = struct.pack("ii", 1, 0)
_HEAD_END = b"\r\n\r\n"
_GONE = (OSError, asyncio.IncompleteReadError)


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
    """What happens to one exchange."""


@attrs.frozen
class AtOnce(Trouble):
    """The connection is reset as soon as it is accepted."""


@attrs.frozen
class Unread(Trouble):
    """The connection ends when the request begins to come, with or without a word."""

    end: End = End.RESET
    says: bytes = b""


@attrs.frozen
class OnRequest(Trouble):
    """The request breaks off; what came of it goes to the gateway, and no reply comes back."""

    place: Callable[[bytes], int] = len
    end: End = End.RESET


@attrs.frozen
class OnReply(Trouble):
    """The request is carried out, and its reply breaks off."""

    place: Callable[[bytes], int]
    end: End = End.CLOSE


@attrs.frozen
class Rewrite(Trouble):
    """The request is carried out, and other bytes come than its reply."""

    change: Callable[[bytes], bytes]
    end: End | None = None


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


class Proxy:
    """Forwards requests one by one, each on a new connection to the gateway.

    Attributes:
        connections: How many were accepted.
        requests: How many requests came of which the first byte was seen.
    """

    def __init__(
        self,
        upstream: str,
        *,
        tls: "ssl.SSLContext | None" = None,
        bound: socket.socket | None = None,
    ) -> None:
        self.connections = 0
        self.requests = 0
        self._upstream = urlsplit(upstream)
        self._tls = tls
        self._bound = bound
        self._troubles: list[Trouble] = []
        self._always: Trouble | None = None
        self._open: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()
        self._server: asyncio.Server | None = None
        self.base_url = ""

    async def __aenter__(self) -> Self:
        bound = self._bound or bind()
        self._server = await asyncio.start_server(self._serve, sock=bound, ssl=self._tls)
        port = bound.getsockname()[1]
        self.base_url = f"{'https' if self._tls else 'http'}://{LOOPBACK}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._open):
            connection.writer.transport.abort()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def once(self, trouble: Trouble, *, times: int = 1) -> None:
        """Let something happen to the next exchanges."""
        self._troubles += [trouble] * times

    def always(self, trouble: Trouble) -> None:
        """Let something happen to every exchange."""
        self._always = trouble

    def end_idle(self, end: End) -> None:
        """End every open connection; `SILENCE` lets it seem to live."""
        for connection in self._open:
            connection.finish(end)

    def _next(self) -> Trouble | None:
        return self._troubles.pop(0) if self._troubles else self._always

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        connection = _Connection(reader, writer)
        self.connections += 1
        self._tasks.add(task)
        self._open.add(connection)
        try:
            await self._serve_all(connection)
        except (*_GONE, asyncio.CancelledError):  # which asyncio's streams would log
            pass
        finally:
            self._tasks.discard(task)
            self._open.discard(connection)
            writer.close()

    async def _serve_all(self, connection: _Connection) -> None:
        if isinstance(self._always, AtOnce):
            connection.finish(End.RESET)
        while not connection.writer.is_closing():
            first = await connection.reader.readexactly(1)
            self.requests += 1
            if connection.is_deaf:
                await connection.reader.read(-1)
                return
            trouble = self._next()
            if isinstance(trouble, Unread):
                connection.writer.write(trouble.says)
                connection.finish(trouble.end)
                return
            await self._exchange(
                connection, first + await _read_message(connection.reader), trouble
            )

    async def _exchange(
        self, connection: _Connection, request: bytes, trouble: Trouble | None
    ) -> None:
        if isinstance(trouble, OnRequest):
            await self._ask(request[: trouble.place(request)])
            await self._finish(connection, trouble.end)
            return
        reply = await self._ask(request)
        if isinstance(trouble, OnReply):
            connection.writer.write(reply[: trouble.place(reply)])
            await connection.writer.drain()
            await self._finish(connection, trouble.end)
            return
        end = None
        if isinstance(trouble, Rewrite):
            reply, end = trouble.change(reply), trouble.end
        connection.writer.write(reply)
        await connection.writer.drain()
        if end is not None:
            await self._finish(connection, end)

    async def _finish(self, connection: _Connection, end: End) -> None:
        connection.finish(end)
        if end is End.SILENCE:
            await connection.reader.read(-1)

    async def _ask(self, request: bytes) -> bytes:
        """Hand what came of a request to the gateway; a part of one has no reply."""
        reader, writer = await asyncio.open_connection(self._upstream.hostname, self._upstream.port)
        try:
            writer.write(request)
            await writer.drain()
            if not _is_whole(request):
                writer.write_eof()
                await reader.read(-1)
                return b""
            return await _read_message(reader)
        finally:
            writer.close()


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(_HEAD_END)
    return head + await reader.readexactly(_content_length(head))


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


class Listener:
    """Takes connections, counts bytes, and says the same to everybody."""

    def __init__(self, says: bytes = b"", *, hangs_up: bool = False) -> None:
        self.connections = 0
        self.received = 0
        self.base_url = ""
        self._says = says
        self._hangs_up = hangs_up
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None] | None] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0)
        self.base_url = f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        try:
            writer.write(self._says)
            while piece := await reader.read(65_536):
                self.received += len(piece)
                if self._hangs_up:
                    break
        except OSError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


def bind() -> socket.socket:
    """Return a socket at a free port; until somebody listens there, connections are refused."""
    bound = socket.socket()
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

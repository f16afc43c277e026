"""A forward proxy, as companies have one: CONNECT and absolute-form requests, on 127.0.0.1."""

import asyncio
import base64
import contextlib
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from tests.faults.proxy import LOOPBACK

if TYPE_CHECKING:
    import ssl

_HEAD_END = b"\r\n\r\n"
_GONE = (OSError, asyncio.IncompleteReadError)
_HOP_BY_HOP = ("proxy-authorization", "connection", "proxy-connection")


class ForwardProxy:
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

    def __init__(self, *, tls: "ssl.SSLContext | None" = None, login: str = "") -> None:
        self.heads: list[str] = []
        self.refuses_with: int | None = None
        self.is_mute = self.hangs_up = False
        self.url = ""
        self._tls = tls
        self._demanded = base64.b64encode(login.encode()).decode()
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None] | None] = set()

    @property
    def lines(self) -> list[str]:
        """The first line of each request that came to it."""
        return [head.partition("\r\n")[0] for head in self.heads]

    @property
    def connections(self) -> int:
        """How many clients are connected."""
        return len(self._open)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, LOOPBACK, 0, ssl=self._tls)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://{LOOPBACK}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.drop_all()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def with_login(self, login: str) -> str:
        """Return its URL with user and password."""
        return self.url.replace("://", f"://{login}@")

    def drop_all(self) -> None:
        """End every connection to a client."""
        for writer in self._open:
            writer.transport.abort()

    def say(self, text: bytes) -> None:
        """Send to every client what it did not ask for."""
        for writer in self._open:
            writer.write(text)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self._open.add(writer)
        try:
            while await self._answer(reader, writer):
                pass
        except (*_GONE, asyncio.CancelledError):  # which asyncio's streams would log
            pass
        finally:
            self._tasks.discard(task)
            self._open.discard(writer)
            writer.close()

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
            reply = await to_gateway[0].readuntil(_HEAD_END)
            reply += await to_gateway[0].readexactly(_content_length(reply))
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


def _content_length(head: bytes) -> int:
    return int(header(head.decode(), "content-length") or 0)

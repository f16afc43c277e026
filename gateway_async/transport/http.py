"""One HTTP exchange by aiohttp, and the evidence of whether anything was sent.

Law: the body is handed to aiohttp in a payload of our own. Only if that payload was never asked to
write is it proved that nothing was sent; what kind of exception came proves nothing. This module
knows no operation, no signature and no retry.
"""

import asyncio
import select
import sys
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import aiohttp
import attrs
from aiohttp.http import StreamWriter
from aiohttp.http_exceptions import HttpProcessingError

from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    EvidenceError,
    GatewayError,
    NotSentError,
    OutcomeUnknownError,
    ReplyTooLargeError,
    ReplyUnreadableError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from aiohttp.connector import Connection

    from gateway_async.settings import Timeouts

KEEP_IDLE_SECONDS = 1.0
"""A connection idle for longer is not used: closed meanwhile, it would look like a lost reply."""

_READ_BYTES = 256 * 1024
"""What is buffered of a reply, some times over; the size of a given session is not used."""

_Error = TypeVar("_Error", bound=BaseException)
_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError)
_WRONG_CERTIFICATE = (aiohttp.ClientConnectorCertificateError, aiohttp.ServerFingerprintMismatch)
_SHOWS_REPLY = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, HttpProcessingError)
_UNASKED = "the connection held a reply that nobody had asked for"
_CLOSED = "the connection was closed before the request was written"


@attrs.frozen
class Message:
    """A request as it goes out; nothing of its content shows.

    Attributes:
        path: The path below the base URL.
        content_type: The media type of the body.
        body: The body, signature and all.
        signature: The signature in it, by itself.
    """

    path: str
    content_type: str = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    signature: str = attrs.field(default="", repr=False)


@attrs.frozen
class RawReply:
    """A reply as it came, decompressed.

    Attributes:
        status: The HTTP status.
        headers: The headers; names in any case.
        body: The body, at most `max_reply_bytes` long.
    """

    status: int
    headers: "Mapping[str, str]" = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


class Evidence:
    """Whether a request was ever asked to write its body.

    Attributes:
        asked: It was; from here on anything may have happened.
        revoked: It must never be written any more; a late write raises instead.
        fence: Asked at the very last moment; where it raises, nothing is written.
        spoilt: Why its connection could not take it, so that nothing was written; or empty.
    """

    __slots__ = ("asked", "fence", "revoked", "spoilt")

    def __init__(self, fence: "Callable[[], None] | None" = None) -> None:
        self.asked = False
        self.revoked = False
        self.fence = fence
        self.spoilt = ""

    def begin(self) -> None:
        """Note that the body is about to be written.

        Raises:
            ConnectionAbortedError: If the request was given up before.
            GatewayError: What the fence raises.
        """
        if self.revoked:
            raise ConnectionAbortedError("the request was given up before it was written")
        if self.fence is not None:
            self.fence()
        self.asked = True

    def settle(self) -> bool:
        """Return whether anything may have been sent, and let nothing be sent from here on."""
        self.revoked = True
        return self.asked


class Transport(Protocol):
    """What the session needs of HTTP."""

    async def send(self, message: Message, *, evidence: Evidence, seconds: float) -> RawReply:
        """Send one request by POST and return its reply, whatever the status.

        Args:
            message: What to send.
            evidence: Told before the first byte of the body is written.
            seconds: The time that is left for all of it.

        Raises:
            NotSentError: Nothing was sent.
            OutcomeUnknownError: The reply was lost, unreadable or too large.
        """
        ...

    async def aclose(self) -> None:
        """Close what this transport opened on the running loop."""
        ...


class _WitnessedPayload(aiohttp.BytesPayload):
    """A body that notes when it is asked to write itself.

    Args:
        message: What is to be sent.
        evidence: Told before the first byte is written.
        waits: Whether to hear first of what has arrived: nobody has looked at the connection.
    """

    def __init__(self, message: Message, evidence: Evidence, *, waits: bool = False) -> None:
        # Not BytesPayload's own: it warns of a body above 1 MiB, which is in memory all the same.
        super(aiohttp.BytesPayload, self).__init__(message.body, content_type=message.content_type)
        self._size = len(message.body)
        self._evidence = evidence
        self._waits = waits

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        await self._begin(writer)
        await super().write(writer)

    async def write_with_length(
        self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        await self._begin(writer)
        await super().write_with_length(writer, content_length)

    async def _begin(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        if self._waits:
            await _hear(writer.transport if isinstance(writer, StreamWriter) else None)
        if problem := _problem_of(writer):
            self._evidence.spoilt = problem
            raise ConnectionAbortedError(problem)
        self._evidence.begin()


def _problem_of(writer: aiohttp.abc.AbstractStreamWriter) -> str:
    """Say why a connection cannot take a request that is about to be written; empty if it can."""
    if not isinstance(writer, StreamWriter):
        return ""
    transport = writer.transport
    if transport is None or transport.is_closing():  # aiohttp would write nothing to it, and raise
        return _CLOSED
    # What came before the request would be taken for the reply to it.
    return _UNASKED if getattr(transport.get_protocol(), "should_close", False) else ""


class _Connector(aiohttp.TCPConnector):
    """A pool that gives away no connection again that has ended, or holds what nobody asked for."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # aiohttp's
        super().__init__(**options)
        self._given: weakref.WeakSet[object] = weakref.WeakSet()

    async def connect(self, *arguments: Any, **named: Any) -> "Connection":  # noqa: ANN401  # its
        while True:
            connection = await super().connect(*arguments, **named)
            protocol = connection.protocol
            if protocol is None:
                return connection
            # A new one is taken as it is: there is no end to those of a gateway that speaks first.
            if protocol not in self._given or await _is_at_rest(connection):
                self._given.add(protocol)
                return connection
            connection.close()


async def _is_at_rest(connection: "Connection") -> bool:
    """Say whether a connection is open and silent, once what has arrived by now is heard of."""
    protocol = connection.protocol
    try:
        await _hear(None if protocol is None else protocol.transport)
    except BaseException:
        connection.close()
        raise
    protocol = connection.protocol
    return protocol is not None and protocol.is_connected() and not protocol.should_close


async def _hear(transport: "asyncio.BaseTransport | None") -> None:
    """Let a connection hear of what has arrived on it by now: mostly nothing, and nobody waits."""
    if transport is not None and _has_news(transport.get_extra_info("socket")):
        for _ in range(3):  # the loop hears of it in one turn, TLS in the next, then the connection
            await asyncio.sleep(0)


def _has_news(bare: Any) -> bool:  # noqa: ANN401  # a socket, or what stands for it
    """Say whether something may be there that the loop has not read: bytes, or the end."""
    if bare is None or bare.fileno() < 0:
        return True
    if sys.platform == "win32":  # which has no poll, and takes sockets of any number
        return bool(select.select([bare], [], [], 0)[0])
    poll = select.poll()
    poll.register(bare.fileno(), select.POLLIN)
    return bool(poll.poll(0))


class AiohttpTransport:
    """HTTP by one `aiohttp.ClientSession` a running event loop, or by the caller's own.

    A session of ours lives in an asynchronous generator: where nobody closes the client, the
    event loop does at its end (`shutdown_asyncgens`), so that a client survives any number of
    `asyncio.run`.
    """

    def __init__(
        self,
        base_url: str,
        *,
        timeouts: "Timeouts",
        max_reply_bytes: int,
        max_connections: int,
        session: aiohttp.ClientSession | None,
    ) -> None:
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise ConfigurationError(
                f"session: expected aiohttp.ClientSession, got {type(session).__name__}"
            )
        self.base_url = base_url
        self._timeouts = timeouts
        self._max_reply_bytes = max_reply_bytes
        self._max_connections = max_connections
        self._given = session
        self._own: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop,
            tuple[AsyncGenerator[aiohttp.ClientSession], aiohttp.ClientSession],
        ] = weakref.WeakKeyDictionary()
        self.left_open = False
        self._closed = False

    @property
    def capacity(self) -> int:
        """Requests that can be in flight at once; a given session's limit is not known."""
        return self._max_connections if self._given is None else sys.maxsize

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """The event loops on which a session of ours is open."""
        return list(self._own)

    def reopen(self) -> None:
        """Let requests leave again after `aclose`."""
        self._closed = False

    async def send(self, message: Message, *, evidence: Evidence, seconds: float) -> RawReply:
        """Send one request; see `Transport.send`."""
        session = self._session()
        if session is None:
            session = await self._open()
        foreign = None
        try:
            return await self._exchange(session, message, evidence, seconds)
        except _FAILURES as error:
            failure: BaseException = error
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001  # a given session's hooks: passed on below
            failure = error
            foreign = None if session.closed else error  # aiohttp asserts that it was not closed
        # Outside the handlers: a context would carry aiohttp's frames, and they hold the body.
        if foreign is not None:
            raise _bare(foreign)
        raise _translate(failure, asked=evidence.settle()) from _shown_cause(failure)

    async def aclose(self) -> None:
        """Close the session that was opened on the running loop; a caller's own is left alone.

        Nothing leaves any more, nor what a batch still holds, until `reopen`.
        """
        self._closed = True
        self.left_open = False
        generator, _ = self._own.pop(asyncio.get_running_loop(), (None, None))
        if generator is not None:
            await generator.aclose()

    async def _exchange(
        self, session: aiohttp.ClientSession, message: Message, evidence: Evidence, seconds: float
    ) -> RawReply:
        async with session.post(
            self.base_url + message.path,
            data=_WitnessedPayload(message, evidence, waits=self._given is not None),
            headers={"Content-Type": message.content_type},  # else a given session's own would win
            timeout=aiohttp.ClientTimeout(
                total=seconds,
                connect=self._timeouts.connect_seconds,
                sock_read=self._timeouts.reply_seconds,
            ),
            allow_redirects=False,
            raise_for_status=False,
            auto_decompress=True,
            read_bufsize=_READ_BYTES,
            middlewares=(),
        ) as response:
            if not evidence.asked:
                evidence.settle()
                response.close()
                if evidence.spoilt:
                    raise NotSentError(f"nothing was sent: {evidence.spoilt}")
                raise EvidenceError(
                    f"a reply (HTTP {response.status}) came to a request that was never written; "
                    "the evidence of sending cannot be trusted with this aiohttp or this mock, or "
                    "the gateway sent a reply that nobody had asked for"
                )
            body = await self._read(response)
            return RawReply(response.status, response.headers, body)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := await response.content.readany():
            size += len(piece)
            if size > self._max_reply_bytes:
                response.close()
                raise ReplyTooLargeError(
                    f"the reply is larger than max_reply_bytes={self._max_reply_bytes}"
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _session(self) -> aiohttp.ClientSession | None:
        """Return the session of the running loop; None where it is to be opened."""
        if self._closed:
            raise ConfigurationError("nothing was sent: this GatewayClient is closed")
        if self._given is not None:
            if self._given.closed:
                raise NotSentError("nothing was sent: the given session= is closed")
            return self._given
        _, session = self._own.get(asyncio.get_running_loop(), (None, None))
        return session

    async def _open(self) -> aiohttp.ClientSession:
        generator = self._opened()
        session = await anext(generator)  # which waits for nothing, so that nobody opens another
        self._own[asyncio.get_running_loop()] = generator, session
        self.left_open = True
        return session

    async def _opened(self) -> "AsyncGenerator[aiohttp.ClientSession]":
        connector = _Connector(limit=self._max_connections, keepalive_timeout=KEEP_IDLE_SECONDS)
        async with aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        ) as session:
            try:
                yield session
            finally:  # else the entry would keep its own key, the loop, alive
                self._own.pop(asyncio.get_running_loop(), None)


def _translate(error: BaseException, *, asked: bool) -> GatewayError:
    """Say what an exception of aiohttp means: the one place where they are mapped."""
    what = _describe(error)
    if not asked and isinstance(error, _WRONG_CERTIFICATE):
        return CertificateError(f"nothing was sent: the TLS certificate is not valid ({what})")
    if not asked:
        return NotSentError(f"nothing was sent: {what}")
    if isinstance(error, _SHOWS_REPLY):
        return ReplyUnreadableError(f"the request was sent and its reply is unreadable: {what}")
    return OutcomeUnknownError(f"the request was sent and its reply was lost: {what}")


def _describe(error: BaseException) -> str:
    """Name an exception; its text too, unless that could quote the reply."""
    name = type(error).__name__
    text = "" if _quotes_reply(error) else str(error)
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        text = f"{error.host} has {error.got.hex()}, and not {error.expected.hex()}"
    return f"{name}: {text}" if text else name


def _quotes_reply(error: BaseException) -> bool:
    """Say whether an exception may hold a part of the reply: its headers, where it broke off."""
    is_broken_off = isinstance(error, aiohttp.ServerDisconnectedError)
    return isinstance(error, _SHOWS_REPLY) or (
        is_broken_off and not isinstance(error.message, str)  # type: ignore[attr-defined]  # checked
    )


def _shown_cause(error: BaseException) -> BaseException | None:
    """Return what may hang on our error as its cause: no frames, and no quoted reply."""
    return None if _quotes_reply(error) else _bare(error)


def _bare(error: _Error) -> _Error:
    """Take the frames from an exception and from all that hangs on it."""
    stripped: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is not None and link not in stripped:
            link.__traceback__ = None
            stripped.append(link)
            left += [link.__cause__, link.__context__]
    return error

"""HTTP by aiohttp, and what each of its exceptions means."""

import asyncio
import ssl
import sys
import weakref
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

import aiohttp
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
from gateway_async.transport.listening import UNASKED
from gateway_async.transport.messages import ConnectionOptions, Evidence, Message, RawReply
from gateway_async.transport.pool import KEEP_IDLE_SECONDS, Pool
from gateway_async.transport.witness import WitnessedPayload, wrote_nothing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from gateway_async.settings import Timeouts

_READ_BYTES = 256 * 1024
"""What is buffered of a reply, some times over; the size of a given session is not used."""

_Error = TypeVar("_Error", bound=BaseException)
_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError)
_WRONG_CERTIFICATE = (
    ssl.SSLCertVerificationError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ServerFingerprintMismatch,
)
_SHOWS_REPLY = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, HttpProcessingError)
_ENDED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


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
        options: ConnectionOptions,
        session: aiohttp.ClientSession | None,
    ) -> None:
        if session is not None and not isinstance(session, aiohttp.ClientSession):
            raise ConfigurationError(
                f"session: expected aiohttp.ClientSession, got {type(session).__name__}"
            )
        self.base_url = base_url
        self._timeouts = timeouts
        self._max_reply_bytes = max_reply_bytes
        self._options = options
        self._given = session
        # A tunnel is shown it when it is opened, a plain proxy with each request.
        shown = {"Proxy-Authorization": options.proxy_authorization}
        is_tunnel = base_url.lower().startswith("https:")
        self._proxy_headers = shown if options.proxy_authorization and is_tunnel else None
        self._headers = shown if options.proxy_authorization and not is_tunnel else {}
        self._own: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop,
            tuple[AsyncGenerator[aiohttp.ClientSession], aiohttp.ClientSession],
        ] = weakref.WeakKeyDictionary()
        self._closed = False

    @property
    def capacity(self) -> int:
        """Requests that can be in flight at once; a given session's limit is not known."""
        return self._options.limit if self._given is None else sys.maxsize

    @property
    def left_open(self) -> bool:
        """Whether a session of ours is open: neither `aclose` nor the end of its loop closed it."""
        return bool(self._own)

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
            reply = await self._exchange(session, message, evidence, seconds)
        except _FAILURES as error:
            failure: BaseException = error
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001  # a given session's hooks: passed on below
            failure = error
            # Without hooks it is asyncio's TLS, or aiohttp, which asserts that it was not closed.
            foreign = None if self._given is None or session.closed else error
        else:
            _teach(session, evidence, is_lost=reply.status == HTTPStatus.REQUEST_TIMEOUT)
            return reply
        _teach(session, evidence, is_lost=isinstance(failure, _ENDED))
        # Outside the handlers: a context would carry aiohttp's frames, and they hold the body.
        if foreign is not None:
            raise _bare(foreign)
        raise _translate(failure, asked=evidence.settle()) from _shown_cause(failure)

    async def aclose(self) -> None:
        """Close the session that was opened on the running loop; a caller's own is left alone.

        Nothing leaves any more, nor what a batch still holds, until `reopen`.
        """
        self._closed = True
        generator, _ = self._own.pop(asyncio.get_running_loop(), (None, None))
        if generator is not None:
            await generator.aclose()

    async def _exchange(
        self, session: aiohttp.ClientSession, message: Message, evidence: Evidence, seconds: float
    ) -> RawReply:
        payload = WitnessedPayload(message, evidence)
        try:
            return await self._post(session, message, payload, seconds)
        finally:
            payload.let_go()

    async def _post(
        self,
        session: aiohttp.ClientSession,
        message: Message,
        payload: WitnessedPayload,
        seconds: float,
    ) -> RawReply:
        evidence = payload.evidence
        async with session.post(
            self.base_url + message.path,
            data=payload,
            # Without a content type, a given session's own would win.
            headers={"Content-Type": message.content_type, **self._headers},
            proxy_headers=self._proxy_headers,
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
                problem = evidence.spoilt or (UNASKED if wrote_nothing(response) else "")
                response.close()
                if problem:
                    raise NotSentError(f"nothing was sent: {problem}")
                raise EvidenceError(
                    f"a reply (HTTP {response.status}) came to a request that was never written; "
                    "the evidence of sending cannot be trusted with this aiohttp or this mock"
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
        return session

    async def _opened(self) -> "AsyncGenerator[aiohttp.ClientSession]":
        options = self._options
        connector = Pool(
            limit=options.limit,
            keepalive_timeout=KEEP_IDLE_SECONDS,
            ssl=True if options.ssl is None else options.ssl,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # it was asked once, when the client was made
            proxy=options.proxy,
        ) as session:
            try:
                yield session
            finally:  # else the entry would keep its own key, the loop, alive
                self._own.pop(asyncio.get_running_loop(), None)


def _teach(session: aiohttp.ClientSession, evidence: Evidence, *, is_lost: bool) -> None:
    """Tell a pool of ours how a request ended that was written."""
    if evidence.asked and isinstance(session.connector, Pool):
        session.connector.note(evidence, is_lost=is_lost)


def _translate(error: BaseException, *, asked: bool) -> GatewayError:
    """Say what an exception of aiohttp means: the one place where they are mapped."""
    what = _describe(error)
    if not asked and isinstance(error, aiohttp.ClientHttpProxyError):
        problem = f"nothing was sent: the proxy opened no connection (HTTP {error.status})"
        if error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:  # each try may lock the user
            return ConfigurationError(f"{problem}: it expects another user and password in proxy")
        return NotSentError(problem)
    if not asked and any(isinstance(link, _WRONG_CERTIFICATE) for link in _links(error)):
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
    """Return what may hang on our error as its cause: no frames, quoted reply or password."""
    return None if _quotes_reply(error) or _names_proxy(error) else _bare(error)


def _names_proxy(error: BaseException) -> bool:
    """Say whether an exception has a proxy's URL, which a given session keeps with its password."""
    return any(getattr(argument, "proxy", None) is not None for argument in error.args)


def _bare(error: _Error) -> _Error:
    """Take the frames from an exception and from all that hangs on it."""
    for link in _links(error):
        link.__traceback__ = None
    return error


def _links(error: BaseException) -> list[BaseException]:
    """Return an exception and all that hangs on it."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is not None and link not in found:
            found.append(link)
            left += [link.__cause__, link.__context__]
    return found

"""HTTP by aiohttp: connections, and what each of its exceptions means.

No connection is used again that has ended, that holds bytes which no request asked for, or, for a
while, that belongs to a gateway which ends used connections with a reply owing. Requests get
connections in the order in which they asked. Nothing of aiohttp leaves this module but bare causes.
This module does not know an operation, a signature or a retry.
"""

import asyncio
import functools
import sys
import weakref
from http import HTTPStatus
from ssl import SSLCertVerificationError, SSLContext
from typing import TYPE_CHECKING, Any

import aiohttp
import attrs
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

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
from gateway_async.transport.deadlines import Alarm, Deadline
from gateway_async.transport.tracked import (
    UNREQUESTED,
    HttpRequest,
    HttpResponse,
    SendTracker,
    StaleConnectionError,
    TrackedPayload,
    arrivals_on,
    wrote_nothing,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from aiohttp.connector import Connection

    from gateway_async.settings import Timeouts

KEEP_IDLE_SECONDS = 1.0
"""A connection idle for longer is not used: closed meanwhile, it would look like a lost reply."""

_MOST_LOST = 3
_DISTRUST_SECONDS = 60.0
"""After so many replies in a row that were lost on used connections, so long none is used again.

Then one is tried, and the others not until it is answered, or as long again: all at once, as many
replies would be lost each time.
"""

_READ_BYTES = 256 * 1024
"""What is buffered of a reply, some times over; the size of a given session is not used."""

_KEPT_URLS = 64
_NO_TIMERS = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)
"""aiohttp keeps no time: it would set and cancel several timers a request."""

_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError)
_WRONG_CERTIFICATE = (
    SSLCertVerificationError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ServerFingerprintMismatch,
)
_SHOWS_REPLY = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, HttpProcessingError)
_ENDED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


@attrs.frozen(kw_only=True)
class ConnectionOptions:
    """What a session of ours is made with.

    Attributes:
        limit: Connections at most.
        ssl: By what the certificates of gateway and proxy are judged; None for the system's
            authorities.
        proxy: The URL of a proxy, without user and password; None for none.
        proxy_authorization: What the proxy is shown of user and password, or empty.
    """

    limit: int
    ssl: SSLContext | None = None
    proxy: str | None = None
    proxy_authorization: str = attrs.field(default="", repr=False)


@attrs.frozen
class _Opened:
    """What is open on one event loop; a session that was given has no generator."""

    session: aiohttp.ClientSession
    alarm: Alarm
    generator: "AsyncGenerator[aiohttp.ClientSession] | None" = None


class AiohttpTransport:
    """HTTP by one `aiohttp.ClientSession` a running event loop, or by the caller's own.

    A session of ours lives in an asynchronous generator: where the client is not closed, the
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
        self._url = functools.lru_cache(_KEPT_URLS)(lambda path: URL(base_url + path))
        self._timeouts = timeouts
        self._max_reply_bytes = max_reply_bytes
        self._options = options
        # A tunnel is shown it when it is opened, a plain proxy with each request.
        shown = {"Proxy-Authorization": options.proxy_authorization}
        is_tunnel = base_url.lower().startswith("https:")
        self._proxy_headers = shown if options.proxy_authorization and is_tunnel else None
        self._headers = shown if options.proxy_authorization and not is_tunnel else {}
        self._given = session
        self._opened: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Opened] = (
            weakref.WeakKeyDictionary()
        )
        self._closed = False

    @property
    def capacity(self) -> int:
        """Requests that can be in flight at once; a given session's limit is not known."""
        return self._options.limit if self._given is None else sys.maxsize

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """The event loops on which a session of ours is open: nothing has closed it yet."""
        return list(self._opened) if self._given is None else []

    def reopen(self) -> None:
        """Let requests leave again after `aclose`."""
        self._closed = False

    async def send(
        self, request: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        """Send one request by POST and return its response, whatever the status.

        Args:
            request: What to send.
            tracker: Noted in before the first byte of the body is written.
            seconds: The time that is left for all of it.

        Raises:
            StaleConnectionError: Nothing was sent: the connection it was given had ended.
            NotSentError: Nothing was sent.
            OutcomeUnknownError: The reply was lost, unreadable or too large.
            ConfigurationError: The client is closed.
        """
        opened = self._opened.get(asyncio.get_running_loop())
        if opened is None or self._closed or opened.session.closed:
            opened = await self._open()
        session = opened.session
        deadline = Deadline(opened.alarm, tracker, seconds)
        payload = TrackedPayload(request, tracker, deadline.restart)
        is_foreign = False
        failure: Exception
        try:
            response = await self._post(session, request.path, payload, deadline)
        except asyncio.CancelledError:
            if not deadline.was_only_cause:
                raise
            failure = TimeoutError(deadline.missed)
        except _FAILURES as error:
            failure = error
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001  # a given session's hooks: passed on below
            failure = error
            # Without hooks it is asyncio's TLS, or aiohttp, which asserts that it was not closed.
            is_foreign = self._given is not None and not session.closed
        else:
            _teach(tracker, is_lost=response.status == HTTPStatus.REQUEST_TIMEOUT)
            return response
        finally:
            deadline.end()
            payload.abort_closed()
        _teach(tracker, is_lost=isinstance(failure, _ENDED))
        # Outside the handlers: a context would carry aiohttp's frames, and they hold the body.
        if is_foreign:
            raise _bare(failure)
        cause = None if _quotes_reply(failure) or _names_proxy(failure) else _bare(failure)
        raise _translate(failure, tracker) from cause

    async def aclose(self) -> None:
        """Close the session that was opened on the running loop; a caller's own is left alone.

        Nothing leaves any more, nor what a batch still holds, until `reopen`.
        """
        self._closed = True
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is not None and opened.generator is not None:
            await opened.generator.aclose()

    async def _post(
        self, session: aiohttp.ClientSession, path: str, payload: TrackedPayload, deadline: Deadline
    ) -> HttpResponse:
        """Post a body, and read the response piece by piece."""
        if self._headers:
            payload.headers.update(self._headers)
        response = await session.post(
            self._url(path),
            data=payload,
            headers=payload.headers,  # else a given session's own Content-Type would win
            proxy_headers=self._proxy_headers,
            timeout=_NO_TIMERS,
            allow_redirects=False,
            raise_for_status=False,
            auto_decompress=True,
            read_bufsize=_READ_BYTES,
            middlewares=(),
        )
        try:
            if not payload.tracker.started:
                _check_unasked(response, payload.tracker)
            content = response.content
            pieces = [await content.readany()]
            left = self._max_reply_bytes - len(pieces[0])
            while left >= 0 and not content.at_eof():
                deadline.restart()
                pieces.append(await content.readany())
                left -= len(pieces[-1])
            _check_size(left, self._max_reply_bytes)
        except BaseException:
            response.close()
            raise
        response.release()
        return HttpResponse(response.status, response.headers, b"".join(pieces))

    async def _open(self) -> _Opened:
        """Return what is open on the running loop, and open it before."""
        if self._closed:
            raise ConfigurationError("nothing was sent: this GatewayClient is closed")
        loop = asyncio.get_running_loop()
        if self._given is None:
            generator = self._own_session()
            session = await anext(generator)  # which awaits nothing: no other task opens one too
            opened = _Opened(session, Alarm(loop, self._timeouts), generator)
        elif self._given.closed:
            raise NotSentError("nothing was sent: the given session= is closed")
        else:
            opened = _Opened(self._given, Alarm(loop, self._timeouts))
        self._opened[loop] = opened
        return opened

    async def _own_session(self) -> "AsyncGenerator[aiohttp.ClientSession]":
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
                self._opened.pop(asyncio.get_running_loop(), None)


class Pool(aiohttp.TCPConnector):
    """A pool that serves requests in order, and learns whether connections may be used again."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # aiohttp's
        super().__init__(**options)
        self._arrivals: weakref.WeakKeyDictionary[Any, Callable[[], object] | None] = (
            weakref.WeakKeyDictionary()
        )
        self._places = asyncio.Semaphore(self.limit)
        self._lost = 0
        self._distrusts_until = 0.0

    async def connect(self, req: Any, traces: Any, timeout: Any) -> "Connection":  # noqa: ANN401, ASYNC109  # aiohttp's
        """Give a connection to a request, once it is its turn; its tracker notes if it was used.

        aiohttp itself would serve first the task that asks in the moment in which a connection is
        free: a worker of a batch with its next request. Those of other batches would time out.
        """
        await self._places.acquire()
        try:
            while True:
                self._check_open()  # aiohttp would connect first, and keep that place for ever
                connection = await super().connect(req, traces, timeout)
                is_used = connection.protocol in self._arrivals
                if not (is_used and self._lost) or self._trusts:
                    break
                _abort(connection)
        except BaseException:
            self._places.release()
            raise
        connection.add_callback(self._places.release)
        protocol, transport = connection.protocol, connection.transport
        if protocol is not None and transport is not None and isinstance(req.body, TrackedPayload):
            if is_used:
                req.body.tracker.teach = functools.partial(self.note, is_trial=self._beware())
            else:
                self._arrivals[protocol] = arrivals_on(transport)
            req.body.arrivals = self._arrivals[protocol]
        return connection

    def note(self, *, is_lost: bool, is_trial: bool) -> None:
        """Learn whether a used connection ended with the reply to a written request owing.

        Args:
            is_lost: Whether it did.
            is_trial: Whether it was used to find out if connections may be used again.
        """
        if is_lost:
            self._lost += 1
            self._beware()
        elif self._lost < _MOST_LOST or is_trial:  # not what had left before
            self._lost, self._distrusts_until = 0, 0.0

    def _check_open(self) -> None:
        if self.closed:
            raise aiohttp.ClientConnectionError("the client was closed meanwhile")

    def _beware(self) -> bool:
        """Use none again for a while, where too many were lost; trying one begins it anew."""
        is_due = self._lost >= _MOST_LOST
        if is_due:
            self._distrusts_until = self._loop.time() + _DISTRUST_SECONDS
        return is_due

    @property
    def _trusts(self) -> bool:
        return self._loop.time() >= self._distrusts_until


def _abort(connection: "Connection") -> None:
    """Close a connection; over TLS, a farewell would be waited for, half a minute."""
    transport = connection.transport
    connection.close()
    if transport is not None:
        transport.abort()


def _teach(tracker: SendTracker, *, is_lost: bool) -> None:
    """Let a pool of ours learn from how a request ended that was written."""
    if tracker.teach is not None and tracker.started:
        tracker.teach(is_lost=is_lost)


def _check_size(left: int, most: int) -> None:
    """Raise for a reply that is larger than what is kept of one."""
    if left < 0:
        raise ReplyTooLargeError(f"the reply is larger than max_reply_bytes={most}")


def _check_unasked(response: aiohttp.ClientResponse, tracker: SendTracker) -> None:
    """Raise for a reply to a request that was not written.

    Raises:
        aiohttp.ClientConnectionError: Where it lay in the connection before.
        EvidenceError: Where aiohttp wrote something, and the tracker did not notice.
    """
    if not tracker.problem and wrote_nothing(response):
        tracker.problem = UNREQUESTED
    if tracker.problem:
        raise aiohttp.ClientConnectionError(tracker.problem)
    tracker.revoke()
    raise EvidenceError(
        f"a reply (HTTP {response.status}) came to a request that was never written; the evidence "
        "of sending cannot be trusted with this aiohttp or this mock"
    )


def _translate(error: Exception, tracker: SendTracker) -> GatewayError:
    """Say what an exception of aiohttp means: the one place where they are mapped."""
    sent, what = tracker.revoke(), _describe(error)
    if not sent and isinstance(error, aiohttp.ClientHttpProxyError):
        problem = f"nothing was sent: the proxy opened no connection (HTTP {error.status})"
        if error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:  # each try may lock the user
            return ConfigurationError(f"{problem}: it expects another user and password in proxy")
        return NotSentError(problem)
    if not sent and any(isinstance(link, _WRONG_CERTIFICATE) for link in _links(error)):
        return CertificateError(f"nothing was sent: the TLS certificate is not valid ({what})")
    if not sent:
        kind = StaleConnectionError if tracker.problem and tracker.teach else NotSentError
        return kind(f"nothing was sent: {tracker.problem or what}")
    if isinstance(error, _SHOWS_REPLY):
        return ReplyUnreadableError(f"the request was sent and its reply is unreadable: {what}")
    return OutcomeUnknownError(f"the request was sent and its reply was lost: {what}")


def _describe(error: Exception) -> str:
    """Name an exception; its text too, unless that could quote the reply."""
    name = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host {error.host} is not known; check the address, and DNS on this machine"
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    ):
        who = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        reason = type(error.os_error).__name__
        return (
            f"no connection to {who}{error.host}:{error.port} ({reason}); check address, port, "
            "proxy and firewall"
        )
    text = "" if _quotes_reply(error) else str(error)
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        text = f"{error.host} has {error.got.hex()}, and not {error.expected.hex()}"
    return f"{name}: {text}" if text else name


def _quotes_reply(error: Exception) -> bool:
    """Say whether an exception may hold a part of the reply: its headers, where it broke off."""
    is_broken_off = isinstance(error, aiohttp.ServerDisconnectedError)
    return isinstance(error, _SHOWS_REPLY) or (
        is_broken_off and not isinstance(error.message, str)  # type: ignore[attr-defined]  # checked
    )


def _names_proxy(error: Exception) -> bool:
    """Say whether an exception has a proxy's URL, which a given session keeps with its password."""
    return any(getattr(argument, "proxy", None) is not None for argument in error.args)


def _bare(error: Exception) -> Exception:
    """Take the frames from an exception and from all that hangs on it."""
    for link in _links(error):
        link.__traceback__ = None
    return error


def _links(error: Exception) -> list[BaseException]:
    """Return an exception and all that hangs on it."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is not None and link not in found:
            found.append(link)
            left += [link.__cause__, link.__context__]
    return found

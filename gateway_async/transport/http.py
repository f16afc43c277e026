"""HTTP by aiohttp: connections, time limits, and what each of its exceptions means.

A connection is not used again if it has ended or holds bytes that no request asked for; nor, for a
while, if the gateway has closed several used connections in place of replying. Requests get
connections in the order in which they asked. A request past its time limit ends as with
`asyncio.timeout`: its task is cancelled and the cancellation taken back, so that one from outside
is never swallowed. aiohttp's exceptions leave this module only as causes, without their frames,
which hold the body. It knows no operation, no signature and no retry, but for another connection
where the first could not take the request.
"""

import asyncio
import functools
import math
import sys
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
from gateway_async.settings import expect
from gateway_async.transport.tracked import (
    UNREQUESTED,
    HttpRequest,
    HttpResponse,
    SendTracker,
    TrackedPayload,
    UsedConnections,
    wrote_nothing,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from gateway_async.settings import Timeouts

KEEP_IDLE_SECONDS = 1.0
"""A connection idle for longer is not used: if closed meanwhile, it looks like a lost reply."""

_READ_BYTES = 256 * 1024
"""How much of a reply aiohttp buffers; the setting of a given session is not used."""

_FREED_BYTES = 512 * 1024
"""Once a block of this size was freed, glibc keeps smaller ones at hand, such as the 256 KiB that
asyncio reads into: that saves up to a tenth of the time of a request."""

_TURNS_TO_READ = 3
"""So many turns of the loop before a request ends as too late: if the loop stood still, the reply
may be there to be read."""
_KEPT_URLS = 64
_TIMED_OUT = HTTPStatus.REQUEST_TIMEOUT.value
_NO_TIMERS = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)
"""aiohttp sets no timers: it would set and cancel several a request."""

_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError)
_WRONG_CERTIFICATE = (
    SSLCertVerificationError,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ServerFingerprintMismatch,
)
_SHOWS_REPLY = (aiohttp.ClientResponseError, aiohttp.ClientPayloadError, HttpProcessingError)
_ENDED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


@attrs.frozen
class _Opened:
    """The session open on one event loop.

    Attributes:
        session: Sends the requests: our own, or the given one.
        alarm: Ends requests whose time is over.
        used: The connections that were used, and whether they may be used again.
        places: One for each connection, first come, first served. With aiohttp's own queue, a busy
            batch would take each connection that becomes free, and requests of others time out.
        generator: Closes our own session; a given session has none.
    """

    session: aiohttp.ClientSession
    alarm: "Alarm"
    used: UsedConnections
    places: asyncio.Semaphore
    generator: "AsyncGenerator[aiohttp.ClientSession] | None" = None


class AiohttpTransport:
    """HTTP by one `aiohttp.ClientSession` a running event loop, or by the caller's own.

    A session of ours lives in an asynchronous generator: where the client is not closed, the
    event loop does at its end (`shutdown_asyncgens`), so that a client survives any number of
    `asyncio.run`.

    Args:
        base_url: The gateway.
        timeouts: The time limits of one call.
        max_reply_bytes: The largest reply that is read, decompressed.
        session: The caller's own session; None for one of ours, which has the settings below.
        limit: The most connections.
        ssl: Checks the certificates of gateway and proxy; None for the system's authorities.
        proxy: The URL of a proxy, without user and password; None for none.
        proxy_authorization: The Proxy-Authorization header, or empty.

    Attributes:
        is_closed: Whether requests may not leave any more.
    """

    def __init__(  # noqa: PLR0913  # one keyword a setting
        self,
        base_url: str,
        *,
        timeouts: "Timeouts",
        max_reply_bytes: int,
        session: aiohttp.ClientSession | None,
        limit: int,
        ssl: SSLContext | None,
        proxy: str | None,
        proxy_authorization: str,
    ) -> None:
        if session is not None and _sends_otherwise(
            expect("session", session, aiohttp.ClientSession)
        ):
            raise ConfigurationError(
                "session: expected one that sends as aiohttp does; this one has a `_request` or a "
                "request_class of its own, so there is no proof of what was sent"
            )
        self._url = functools.lru_cache(_KEPT_URLS)(lambda path: URL(base_url + path))
        self._timeouts = timeouts
        self._max_reply_bytes = max_reply_bytes
        self._given = session
        self._limit = limit
        self._ssl = ssl
        self._proxy = proxy
        # A tunnel gets the header when it is opened, a plain proxy with each request.
        shown = {"Proxy-Authorization": proxy_authorization} if proxy_authorization else None
        is_tunnel = base_url.startswith("https:")
        self._proxy_headers = shown if is_tunnel else None
        self._headers = None if is_tunnel else shown
        self._opened: dict[asyncio.AbstractEventLoop, _Opened] = {}
        self.is_closed: bool = False

    @property
    def capacity(self) -> int:
        """Requests that can be in flight at once; a given session's limit is not known."""
        return self._limit if self._given is None else sys.maxsize

    @property
    def loops(self) -> list[asyncio.AbstractEventLoop]:
        """The event loops on which a session of ours is open."""
        return list(self._opened) if self._given is None else []

    async def send(
        self, request: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        """Send one request by POST and return its response, whatever the status.

        Args:
            request: What to send.
            tracker: Set before the first byte of the body is written.
            seconds: The time that is left for the whole call.

        Raises:
            NotSentError: Nothing was sent.
            OutcomeUnknownError: The reply was lost, unreadable or too large.
            ConfigurationError: The client is closed, or the proxy expects another password.
            Exception: What the hooks of a given session raise, and the check of the tracker.
        """
        opened = self._opened.get(asyncio.get_running_loop())
        if opened is None or self.is_closed:
            opened = await self._open()
        deadline = Deadline(opened.alarm, tracker, seconds)
        retries_left = len(opened.used)  # each may have ended; then a new connection is opened
        failure: Exception | None = None
        try:
            while True:
                payload = TrackedPayload(request, tracker, opened.used, deadline.restart)
                try:
                    return await self._post(opened, request.path, payload, deadline)
                except asyncio.CancelledError:
                    if not deadline.was_only_cause:
                        raise
                    failure = TimeoutError(deadline.missed)
                except GatewayError:
                    raise
                except Exception as error:  # noqa: BLE001  # a given session's hooks: passed on below
                    failure = error
                finally:
                    payload.abort_closed()
                # Nothing was sent if the connection could not take the request: try another.
                if not payload.problem or deadline.missed or not retries_left:
                    break
                retries_left -= 1
        finally:
            deadline.end()
        payload.note_end(is_lost=isinstance(failure, _ENDED))
        # Only a given session has hooks. Else the error is of asyncio's TLS, or of aiohttp, which
        # asserts that the session was not closed.
        may_be_hooks = self._given is not None and not opened.session.closed
        # Outside the handlers: a context would carry aiohttp's frames, and they hold the body.
        if may_be_hooks and not isinstance(failure, _FAILURES):
            raise _bare(failure)
        cause = None if _quotes_reply(failure) or _names_proxy(failure) else _bare(failure)
        raise _translate(failure, payload) from cause

    async def aclose(self) -> None:
        """Close the session that was opened on the running loop; a caller's own is left alone.

        No request leaves any more, also of a batch that runs, until the client is entered again.
        """
        self.is_closed = True
        opened = self._opened.pop(asyncio.get_running_loop(), None)
        if opened is None:
            return
        for deadline in opened.alarm.deadlines:  # a given session would send what waits in it
            deadline.tracker.revoke()
        if opened.generator is not None:
            await opened.generator.aclose()

    async def _post(
        self, opened: _Opened, path: str, payload: TrackedPayload, deadline: "Deadline"
    ) -> HttpResponse:
        """Post a body, once it is its turn, and return the response."""
        await opened.places.acquire()
        response: aiohttp.ClientResponse | None = None
        body: bytes | None = None
        try:
            if self.is_closed or opened.session.closed:
                raise aiohttp.ClientConnectionError("the client was closed meanwhile")
            response = await opened.session.post(
                self._url(path),
                data=payload,
                # A given session may have a Content-Type of its own, which would win.
                headers=None if self._given is None else payload.headers,
                proxy_headers=self._proxy_headers,
                timeout=_NO_TIMERS,
                allow_redirects=False,
                raise_for_status=False,
                auto_decompress=True,
                read_bufsize=_READ_BYTES,
                middlewares=(),
            )
            if not payload.tracker.started:
                raise _unasked_error(response, payload)
            body = await self._read(response.content, deadline)
        finally:
            if response is not None and (body is None or not response.closed):
                response.close()  # else its end was read, and the connection released
            opened.places.release()
        payload.note_end(is_lost=response.status == _TIMED_OUT)  # some say so, then close it
        return HttpResponse(response.status, response.headers, body)

    async def _read(self, content: aiohttp.StreamReader, deadline: "Deadline") -> bytes:
        """Read a reply piece by piece, up to `max_reply_bytes`."""
        pieces, left = [], self._max_reply_bytes
        while True:
            pieces.append(await content.readany())
            left -= len(pieces[-1])
            if left < 0:
                raise ReplyTooLargeError(
                    f"the reply is larger than max_reply_bytes={self._max_reply_bytes}"
                )
            if content.at_eof():
                return b"".join(pieces)  # of one piece, no copy
            deadline.restart()

    async def _open(self) -> _Opened:
        """Open a session on the running loop, or take the given one."""
        if self.is_closed:
            raise ConfigurationError("nothing was sent: this GatewayClient is closed")
        bytes(_FREED_BYTES)  # freed at once
        loop = asyncio.get_running_loop()
        session, generator = self._given, None
        if session is None:
            generator = self._own_session()
            session = await anext(generator)  # which awaits nothing: no other task opens one too
        opened = self._opened[loop] = _Opened(
            session,
            Alarm(loop, self._timeouts),
            UsedConnections(loop.time),
            asyncio.Semaphore(self.capacity),
            generator,
        )
        return opened

    async def _own_session(self) -> "AsyncGenerator[aiohttp.ClientSession]":
        connector = aiohttp.TCPConnector(
            limit=self._limit,
            keepalive_timeout=KEEP_IDLE_SECONDS,
            ssl=True if self._ssl is None else self._ssl,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            trust_env=False,  # it was asked once, when the client was made
            proxy=self._proxy,
        ) as session:
            try:
                yield session
            finally:  # else the entry would keep its own key, the loop, alive
                self._opened.pop(asyncio.get_running_loop(), None)


class Alarm:
    """Ends requests whose time is over, by one timer for all requests of an event loop.

    Attributes:
        now: The clock of the loop.
        timeouts: How long connecting and a silence may take.
        deadlines: Those of the requests under way.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeouts: "Timeouts") -> None:
        self.now: Callable[[], float] = loop.time
        self.timeouts = timeouts
        self.deadlines: set[Deadline] = set()
        self._loop = loop
        self._wakes_at: float = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def wake_by(self, moment: float) -> None:
        """Check the deadlines at this loop time at the latest."""
        if moment < self._wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at = moment
            self._timer = self._loop.call_at(moment, self._expire_in, _TURNS_TO_READ)

    def _expire_in(self, turns: int) -> None:
        """Expire what is due, after so many turns of the loop."""
        if turns:
            self._loop.call_soon(self._expire_in, turns - 1)
            return
        self._timer, self._wakes_at, now = None, math.inf, self.now()
        for deadline in self.deadlines:
            if deadline.due <= now:
                deadline.expire()
        self.wake_by(min((one.due for one in self.deadlines), default=math.inf))


class Deadline:
    """The time limit of one request; then its task is cancelled, as `asyncio.timeout` does.

    Args:
        alarm: Checks it.
        tracker: See below.
        seconds: How long the whole call may take.

    Attributes:
        tracker: Whether its body has begun to be written.
        due: The loop time at which it is checked next.
        missed: What took too long; empty while in time.
    """

    def __init__(self, alarm: Alarm, tracker: SendTracker, seconds: float) -> None:
        now = alarm.now()
        self.missed: str = ""
        self._end = now + seconds
        self.due: float = min(now + alarm.timeouts.connect_seconds, self._end)
        self._alarm = alarm
        self._is_written = False
        self._task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment]  # in one
        self._cancelling = self._task.cancelling()
        self.tracker: SendTracker = tracker
        alarm.deadlines.add(self)
        alarm.wake_by(self.due)

    def restart(self) -> None:
        """Start the wait for the next part of the reply."""
        self._is_written = True
        self.due = min(self._alarm.now() + self._alarm.timeouts.reply_seconds, self._end)
        self._alarm.wake_by(self.due)

    def expire(self) -> None:
        """End the request; one whose body is still being written gets all of its time."""
        timeouts = self._alarm.timeouts
        if self.due == self._end:
            self.missed = "the time for this call was over"
        elif self._is_written:
            self.missed = f"a silence of reply_seconds={timeouts.reply_seconds}"
        elif self.tracker.started:
            self.due = self._end
            return
        else:
            self.missed = f"no connection within connect_seconds={timeouts.connect_seconds}"
        self.due = math.inf
        self._task.cancel()

    @property
    def was_only_cause(self) -> bool:
        """Whether only this deadline has cancelled the task."""
        return bool(self.missed) and self._task.cancelling() <= self._cancelling + 1

    def end(self) -> None:
        """Remove the time limit, and take back its cancellation of the task."""
        self._alarm.deadlines.discard(self)
        if self.missed:
            self._task.uncancel()


def _sends_otherwise(session: aiohttp.ClientSession) -> bool:
    """Return whether a session may repeat a request, or send other bytes than it is given."""
    classes = type(session).__mro__
    own = [vars(one) for one in (session, *classes[: classes.index(aiohttp.ClientSession)])]
    is_own_class = session._request_class is not aiohttp.ClientRequest  # noqa: SLF001  # no public name
    return is_own_class or any("_request" in names for names in own)


def _unasked_error(response: aiohttp.ClientResponse, payload: TrackedPayload) -> Exception:
    """Return the error of a reply to a request that was not written.

    It lay in the connection before, or else aiohttp wrote something that the tracker did not see.
    """
    if not payload.problem and wrote_nothing(response):
        payload.problem = UNREQUESTED
    if payload.problem:
        return aiohttp.ClientConnectionError(payload.problem)
    payload.tracker.revoke()
    return EvidenceError(
        f"a reply (HTTP {response.status}) came to a request that was never written; the evidence "
        "of sending cannot be trusted with this aiohttp or this mock"
    )


def _translate(error: Exception, payload: TrackedPayload) -> GatewayError:
    """Map an exception of aiohttp to one of ours; the only place that does."""
    what = _describe(error)
    if payload.tracker.revoke():
        if isinstance(error, _SHOWS_REPLY):
            return ReplyUnreadableError(f"the request was sent and its reply is unreadable: {what}")
        return OutcomeUnknownError(f"the request was sent and its reply was lost: {what}")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        problem = f"nothing was sent: the proxy opened no connection (HTTP {error.status})"
        if error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:  # each try may lock the user
            return ConfigurationError(f"{problem}: it expects another user and password in proxy")
        return NotSentError(problem)
    if any(isinstance(link, _WRONG_CERTIFICATE) for link in _links(error)):
        return CertificateError(f"nothing was sent: the TLS certificate is not valid ({what})")
    return NotSentError(f"nothing was sent: {payload.problem or what}")


def _describe(error: Exception) -> str:
    """Name an exception, with its text unless that could quote the reply."""
    name, text = type(error).__name__, "" if _quotes_reply(error) else str(error)
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the host {error.host} is not known; check the address, and DNS on this machine"
        case aiohttp.ServerFingerprintMismatch():
            text = f"{error.host} has {error.got.hex()}, and not {error.expected.hex()}"
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "")
            return f"{error.host}:{error.port}: {reason or text}"
        case aiohttp.ClientSSLError():
            reason = getattr(error.os_error, "reason", "") or type(error.os_error).__name__
            return (
                f"no TLS with {error.host}:{error.port} ({reason}); what listens there may not "
                "speak TLS, as https:// demands"
            )
        case aiohttp.ClientConnectorError():
            who = "the proxy " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
            reason = type(error.os_error).__name__
            return (
                f"no connection to {who}{error.host}:{error.port} ({reason}); check address, port, "
                "proxy and firewall"
            )
    return f"{name}: {text}" if text else name


def _quotes_reply(error: Exception) -> bool:
    """Return whether an exception may hold a part of the reply, such as its headers."""
    is_broken_off = isinstance(error, aiohttp.ServerDisconnectedError)
    return isinstance(error, _SHOWS_REPLY) or (
        is_broken_off and not isinstance(error.message, str)  # type: ignore[attr-defined]  # checked
    )


def _names_proxy(error: Exception) -> bool:
    """Return whether an exception holds a proxy's URL: that of a given session has its password."""
    return any(getattr(argument, "proxy", None) is not None for argument in error.args)


def _bare(error: Exception) -> Exception:
    """Remove the frames from an exception and its causes and contexts."""
    for link in _links(error):
        link.__traceback__ = None
    return error


def _links(error: Exception) -> list[BaseException]:
    """Return an exception with its causes and contexts."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        link = left.pop()
        if link is not None and link not in found:
            found.append(link)
            left += [link.__cause__, link.__context__]
    return found

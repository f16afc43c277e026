"""Notifications over HTTP: a route for aiohttp.web, and an ASGI application.

Law: an answer of 200 means that the application has what the gateway's records say, or had it
before. Every other answer leaves it to the gateway to repeat the notification; nothing that
anybody sends makes the application believe what the gateway does not confirm.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import traceback
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, NotificationError
from gateway_async.notifications.confirming import Confirmer, Fate, Memory
from gateway_async.notifications.reading import MAX_BYTES, Notification, parse, plain_fields
from gateway_async.settings import DEFAULT_LINGER_SECONDS, check_instance, checked_count

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from aiohttp import web

    from gateway_async.coalescer import Coalescer
    from gateway_async.models.records import TransactionRecord
    from gateway_async.notifications.verifying import Verifier
    from gateway_async.settings import BatchPolicy

    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("gateway_async.notifications")
_BODY_SECONDS = 10.0
_BUSY_SECONDS = "5"


class _ClientGoneError(Exception):
    """Whoever sent the notification did not wait for the answer."""


@attrs.frozen
class _Answer:
    """What is answered: the status says it, the text is for whoever looks at it."""

    status: int
    text: str
    headers: "Mapping[str, str]" = attrs.field(factory=dict)


_AGAIN = {"Retry-After": _BUSY_SECONDS}
_BUSY = _Answer(503, "busy", _AGAIN)
_BROKEN_OFF = _Answer(400, "it broke off")
_NOT_VERIFIED = _Answer(403, "it is not verified")
_REFUSALS: "Mapping[Fate, _Answer]" = MappingProxyType(
    {
        Fate.ABSENT: _Answer(404, "no such payment"),
        Fate.UNREADABLE: _Answer(400, "it names no payment that can be looked up"),
        Fate.UNANSWERED: _Answer(503, "it cannot be confirmed now", _AGAIN),
        Fate.FAILED: _Answer(500, "it was not taken"),
    }
)


class NotificationReceiver:
    """Takes notifications, and hands the application what the gateway confirms.

    It is an ASGI application to mount, and its method `handle` is a route for aiohttp.web::

        receiver = NotificationReceiver(gateway, on_payment)
        app.router.add_post("/notify", receiver.handle)  # aiohttp.web
        app = Starlette(routes=[Route("/notify", receiver)])  # or any other ASGI framework

    A notification is a hint, never proof. The payment that it names is looked up, together with
    others that are named in the same moment, and `on_payment` is called with the record that the
    gateway has of it; of an order with several transactions, with each. Calls for one payment
    follow one another, and each has a record that was asked for after the call before. It is called
    with the same record again only if it raised, if the process was started anew, or if so many
    other payments were heard of since that this one was forgotten: so a second call with the same
    record must do no harm.

    ====== ==================================================================================
    answer meaning
    ====== ==================================================================================
    200    the application has it: the handler returned, now or when the same was told before
    400    it cannot be read, or names nothing that can be looked up
    403    the verifier said no; or it is about a payout, and there is no verifier
    404    the gateway has no such payment, or not yet; or nobody takes payouts
    405    it is no POST
    408    its body took more than 10 seconds
    413    its body is too large
    415    its body is compressed
    500    the handler raised, or the verifier did
    503    the gateway could not be asked, or too many are being seen to
    ====== ==================================================================================

    A payout cannot be looked up: it is handed to `on_payout` as it came, unconfirmed, and only
    where a verifier vouches for it.

    It has nothing to close, and serves one event loop at a time.

    Args:
        gateway: Whose records count. Its dialect says which fields name the order, and what is
            answered.
        on_payment: Called with a confirmed `TransactionRecord`; may be asynchronous.
        on_payout: Called with the verified `Notification` of a payout; may be asynchronous.
        verifier: Says whether a notification is the gateway's; called before anything is looked
            up. Without one, every notification that can be read costs a look-up.
        max_body_bytes: The largest body that is read.
        concurrency: Notifications that are seen to at once; more are answered with 503.
        remembered: Payments of which the last record is remembered, and notifications of payouts,
            together; some 300 bytes each.
        linger_seconds: How long a look-up waits for others, as for `GatewayClient.coalesced`.
        policy: How look-ups are made.

    Raises:
        ConfigurationError: If a setting is wrong.
    """

    def __init__(  # noqa: PLR0913  # one keyword a setting or collaborator
        self,
        gateway: GatewayClient,
        on_payment: "Callable[[TransactionRecord], Awaitable[object] | object]",
        *,
        on_payout: "Callable[[Notification], Awaitable[object] | object] | None" = None,
        verifier: "Verifier | None" = None,
        max_body_bytes: int = MAX_BYTES,
        concurrency: int = 100,
        remembered: int = 10_000,
        linger_seconds: float = DEFAULT_LINGER_SECONDS,
        policy: "BatchPolicy | None" = None,
    ) -> None:
        check_instance("gateway", gateway, GatewayClient)
        for name, value in (
            ("on_payment", on_payment),
            ("on_payout", on_payment if on_payout is None else on_payout),
            ("verifier", on_payment if verifier is None else verifier),
        ):
            if not callable(value):
                raise ConfigurationError(f"{name}: expected a function, got {value!r}")
        if on_payout is not None and verifier is None:
            raise ConfigurationError(
                "on_payout: needs a verifier, since a payout cannot be looked up"
            )
        self._gateway = gateway
        self._on_payment = on_payment
        self._on_payout = on_payout
        self._verifier = verifier
        self._max_body_bytes = checked_count("max_body_bytes", max_body_bytes)
        self._concurrency = checked_count("concurrency", concurrency)
        self._memory = Memory(checked_count("remembered", remembered))
        self._linger_seconds = linger_seconds
        self._policy = policy
        self._busy = 0
        self._confirmer: Confirmer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        self._coalesced()  # for its settings to be checked now

    def _coalesced(self) -> "Coalescer":
        return self._gateway.coalesced(linger_seconds=self._linger_seconds, policy=self._policy)

    # HTTP

    async def handle(self, request: "web.Request") -> "web.Response":
        """Answer a request of aiohttp.web."""
        from aiohttp import web  # noqa: PLC0415  # not needed where it is mounted elsewhere

        was_read = request.content.at_eof()  # by a middleware, say; aiohttp keeps what it read

        async def read() -> bytes:
            nonlocal was_read
            try:
                if was_read:
                    was_read = False
                    return await request.read()
                return await request.content.readany()
            except (ConnectionError, web.RequestPayloadError):
                raise _ClientGoneError from None

        try:
            answer = await self._answer(request.method, request.headers, read)
        except _ClientGoneError:  # anybody may do so, as often as they like: no error of ours
            answer = _BROKEN_OFF
        return web.Response(status=answer.status, text=answer.text, headers=answer.headers)

    async def __call__(
        self, scope: "MutableMapping[str, Any]", receive: "Receive", send: "Send"
    ) -> None:
        """Answer a request over ASGI."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']!r} is served here")
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        try:
            answer = await self._answer(scope["method"], headers, _AsgiBody(receive).read)
        except _ClientGoneError:
            return
        with contextlib.suppress(OSError):  # so ASGI says that nobody waits any more
            await _reply(answer, send)

    # One notification

    async def _answer(
        self, method: str, headers: "Mapping[str, str]", read: "Callable[[], Awaitable[bytes]]"
    ) -> _Answer:
        if method != "POST":
            return _Answer(405, "send notifications by POST", {"Allow": "POST"})
        if self._busy >= self._concurrency:
            return _BUSY
        self._busy += 1
        try:
            return await self._see_to({n.lower(): v for n, v in headers.items()}, read)
        finally:
            self._busy -= 1

    async def _see_to(
        self, headers: "Mapping[str, str]", read: "Callable[[], Awaitable[bytes]]"
    ) -> _Answer:
        if headers.get("content-encoding", "identity").lower() != "identity":
            return _Answer(415, "send notifications uncompressed")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._body(read)
        except TimeoutError:
            return _Answer(408, "the notification took too long")
        if body is None:
            return _Answer(413, f"the notification is larger than {self._max_body_bytes} bytes")
        try:
            notification = parse(
                headers, body, dialect=self._gateway.dialect, max_bytes=self._max_body_bytes
            )
        except NotificationError as error:
            _log.info("a notification was refused: %s", error)
            return _Answer(400, str(error))
        return await self._refusal(notification, headers, body) or await self._hear(notification)

    async def _body(self, read: "Callable[[], Awaitable[bytes]]") -> bytes | None:
        """Read the body; None where it is too large."""
        body = bytearray()
        while piece := await read():
            body += piece
            if len(body) > self._max_body_bytes:
                return None
        return bytes(body)

    async def _refusal(
        self, notification: Notification, headers: "Mapping[str, str]", body: bytes
    ) -> _Answer | None:
        """Ask the verifier; return what is answered where the notification is not to be heard."""
        if self._verifier is None:
            return _NOT_VERIFIED if notification.is_payout else None
        try:
            right: object = self._verifier(headers, body, plain_fields(notification))
            if inspect.isawaitable(right):
                right = await right
        except Exception as error:  # noqa: BLE001  # the merchant's code: its frames know the signature
            frame = traceback.extract_tb(error.__traceback__)[-1]
            _log.error(  # as above
                "the verifier raised %s at %s:%s",
                type(error).__name__,
                frame.filename,
                frame.lineno,
            )
            return _Answer(500, "it could not be verified")
        return None if right is True else _NOT_VERIFIED

    async def _hear(self, notification: Notification) -> _Answer:
        try:
            confirmer = self._confirmer_here()
        except ConfigurationError as error:  # the client is closed, as while a server ends
            _log.warning("a notification could not be confirmed: %s", error)
            return _REFUSALS[Fate.UNANSWERED]
        hear = confirmer.pass_on if notification.is_payout else confirmer.confirm
        fate = await hear(notification)
        if fate is Fate.TAKEN:
            return _Answer(200, self._gateway.dialect.notification_answer)
        return _REFUSALS[fate]

    def _confirmer_here(self) -> Confirmer:
        """Return what asks the gateway on the running event loop."""
        loop = asyncio.get_running_loop()
        if self._confirmer is None or self._loop is not loop:
            single = self._coalesced()
            # Entered in the receiver's context, not the first notification's. It never waits, and
            # is never left: once nobody waits for an answer, there is nothing of it to close.
            with contextlib.suppress(StopIteration):
                self._context.run(single.__aenter__().send, None)
            self._loop = loop
            self._confirmer = Confirmer(single, self._on_payment, self._on_payout, self._memory)
        return self._confirmer


class _AsgiBody:
    """The body of a request over ASGI, piece by piece."""

    def __init__(self, receive: "Receive") -> None:
        self._receive = receive
        self._goes_on = True

    async def read(self) -> bytes:
        """Return the next piece; none at the end."""
        while self._goes_on:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise _ClientGoneError
            self._goes_on = message.get("more_body", False)
            piece: bytes = message.get("body", b"")
            if piece:
                return piece
        return b""


async def _reply(answer: _Answer, send: "Send") -> None:
    body = answer.text.encode()
    headers = {
        "content-type": "text/plain; charset=utf-8",
        "content-length": str(len(body)),
        **answer.headers,
    }
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": [(n.lower().encode(), v.encode()) for n, v in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def _live(receive: "Receive", send: "Send") -> None:
    """Say that there is nothing to start and nothing to end."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return

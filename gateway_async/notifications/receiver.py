"""Notifications over HTTP: a route for aiohttp.web, and an ASGI application.

An answer of 200 means that the application has what the gateway's records say, or had it before.
After every other answer the gateway is to repeat the notification. The application is given only
what a look-up showed that began after it was given another record of the same payment; one at a
time for each payment; and the same record only once, unless it failed.
"""

import asyncio
import contextlib
import hashlib
import inspect
import itertools
import json
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import attrs
from aiohttp import web

from gateway_async.client import GatewayClient
from gateway_async.coalescer import Coalescer
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    NotificationError,
    name_and_place,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.records import TransactionRecord
from gateway_async.notifications.reading import MAX_BYTES, Notification, Verifier, parse
from gateway_async.settings import COUNT, DEFAULT_LINGER_SECONDS, BatchPolicy, check, expect
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.telemetry import Log
from gateway_async.wire.records import without_secrets

T = TypeVar("T")
Handler = Callable[[T], Awaitable[object] | object]
"""A function of the application's; it may be asynchronous."""
Message = MutableMapping[str, Any]
_log = Log("notifications")
_BODY_SECONDS = 10.0
_MOST_LOOKS = 5


@attrs.frozen
class _HttpAnswer(Exception):  # noqa: N818  # raised where the notification is not handed on
    """What is answered: the status counts, the text is for a reader of logs."""

    status: int
    text: str


@attrs.define(eq=False, repr=False)
class NotificationReceiver:
    """Takes notifications, and hands the application what the gateway confirms.

    It is an ASGI application to mount, and its method `handle` is a route for aiohttp.web:

    .. code-block:: python

        from gateway_async.notifications import NotificationReceiver

        receiver = NotificationReceiver(gateway, on_payment)
        app.router.add_post("/notify", receiver.handle)

    A notification is a hint, never proof. The payment that it names is looked up, together with
    others that are named in the same moment, and `on_payment` is called with the record that the
    gateway has of it; of an order with several transactions, with each. Calls for one payment
    follow one another, and each has a record that was asked for after the call before. It is called
    with the same record again only if it raised, if the process was started anew, or if this one
    was forgotten after so many other payments: so a second call with the same record must do no
    harm.

    ====== ==================================================================================
    answer meaning
    ====== ==================================================================================
    200    the application has it: the handler returned, now or when it came before
    400    it cannot be read, or names nothing that can be looked up
    403    the verifier said no; or it is about a payout, and there is no verifier
    404    the gateway has no such payment, or not yet; or there is no `on_payout`
    405    it is no POST
    408    its body took more than 10 seconds
    413    its body is too large
    500    the handler raised, or the verifier did
    503    the gateway could not be asked, or too many are in progress
    ====== ==================================================================================

    A payout cannot be looked up: it is handed to `on_payout` as it came, unconfirmed, and only
    where a verifier vouches for it.

    It has nothing to close, and serves one event loop at a time.

    Attributes:
        gateway: Whose records count. Its dialect says which fields name the order, and what is
            answered.
        on_payment: Called with a confirmed `TransactionRecord`; may be asynchronous.
        on_payout: Called with the verified `Notification` of a payout; may be asynchronous.
        verifier: Says whether a notification is the gateway's; called before anything is looked
            up. Without one, every notification that can be read costs a look-up.
        max_body_bytes: The largest body that is read.
        concurrency: Notifications in progress at once; more are answered with 503.
        remembered: Payments of which the last record is remembered, and notifications of payouts,
            together; some 300 bytes each.
        linger_seconds: How long a look-up waits for others, as for `GatewayClient.coalesced`.
        policy: How look-ups are made.

    Raises:
        ConfigurationError: If a setting is wrong.
    """

    gateway: GatewayClient
    on_payment: Handler[TransactionRecord] = attrs.field(validator=check(callable, "a function"))
    on_payout: Handler[Notification] | None = attrs.field(default=None, kw_only=True)
    verifier: Verifier | None = attrs.field(default=None, kw_only=True)
    max_body_bytes: int = attrs.field(default=MAX_BYTES, validator=check(*COUNT), kw_only=True)
    concurrency: int = attrs.field(default=100, validator=check(*COUNT), kw_only=True)
    remembered: int = attrs.field(default=10_000, validator=check(*COUNT), kw_only=True)
    linger_seconds: float = attrs.field(default=DEFAULT_LINGER_SECONDS, kw_only=True)
    policy: BatchPolicy | None = attrs.field(default=None, kw_only=True)
    _single: Coalescer = attrs.field(init=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(default=None, init=False)
    _places: asyncio.Semaphore = attrs.field(init=False)
    _moments: "itertools.count[int]" = attrs.field(factory=itertools.count, init=False)
    _known: OrderedDict[str, tuple[bytes, int]] = attrs.field(factory=OrderedDict, init=False)
    _forgotten_at: int = attrs.field(default=-1, init=False)
    _turns: WeakValueDictionary[str, asyncio.Lock] = attrs.field(
        factory=WeakValueDictionary, init=False
    )

    def __attrs_post_init__(self) -> None:
        expect("gateway", self.gateway, GatewayClient)
        for name in ("on_payout", "verifier"):
            given = getattr(self, name)
            if given is not None and not callable(given):  # it may be a secret, so it is not shown
                kind = type(given).__name__
                raise ConfigurationError(
                    f"NotificationReceiver.{name}: expected a function, got {kind}"
                )
        if self.on_payout is not None and self.verifier is None:
            raise ConfigurationError("on_payout: needs a verifier; a payout cannot be looked up")
        self._single = self._new_coalescer()  # which checks its settings
        self._places = asyncio.Semaphore(self.concurrency)

    def _new_coalescer(self) -> Coalescer:
        return self.gateway.coalesced(linger_seconds=self.linger_seconds, policy=self.policy)

    # HTTP

    async def handle(self, request: web.Request) -> web.Response:
        """Answer a request of aiohttp.web."""

        async def pieces() -> AsyncIterator[bytes]:
            try:
                if request.content.at_eof():  # a middleware has read it, and aiohttp keeps it
                    yield await request.read()
                while piece := await request.content.readany():
                    yield piece
            except (ConnectionError, web.RequestPayloadError):
                raise _HttpAnswer(400, "it broke off") from None

        answer = await self._answer(request.method, request.headers, pieces())
        return web.Response(status=answer.status, text=answer.text, headers={"Allow": "POST"})

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request over ASGI."""
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']!r} is served here")

        async def pieces() -> AsyncIterator[bytes]:
            message: Message = {"more_body": True}
            while message.get("more_body", False):
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _HttpAnswer(400, "it broke off")
                yield message.get("body", b"")

        named = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        answer = await self._answer(scope["method"], named, pieces())
        body = answer.text.encode()
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
            (b"allow", b"POST"),
        ]
        with contextlib.suppress(OSError):  # so ASGI says that the client is gone
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, method: str, headers: Mapping[str, str], pieces: AsyncIterator[bytes]
    ) -> _HttpAnswer:
        if method != "POST":
            return _HttpAnswer(405, "send notifications by POST")
        if self._places.locked():
            return _HttpAnswer(503, "busy")
        headers = {name.lower(): value for name, value in headers.items()}
        try:
            async with self._places:
                body = await self._read(pieces)
                notification = parse(
                    headers, body, dialect=self.gateway.dialect, max_bytes=self.max_body_bytes
                )
                await self._verify(notification, headers, body)
                await (self._hand_on if notification.is_payout else self._confirm)(notification)
        except _HttpAnswer as refusal:
            return refusal
        except (NotificationError, InvalidOrderError) as error:
            _log.info("a notification was refused: %s", error)
            return _HttpAnswer(400, str(error))
        except GatewayError as error:
            _log.warning("a notification could not be confirmed: %s", error)
            return _HttpAnswer(503, "it cannot be confirmed now")
        return _HttpAnswer(200, self.gateway.dialect.notification_answer)

    async def _read(self, pieces: AsyncIterator[bytes]) -> bytes:
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for piece in pieces:
                    body += piece
                    if len(body) > self.max_body_bytes:
                        raise _HttpAnswer(413, "it is too large")
        except TimeoutError:
            raise _HttpAnswer(408, "it took too long") from None
        return bytes(body)

    async def _verify(
        self, notification: Notification, headers: Mapping[str, str], body: bytes
    ) -> None:
        """Ask the verifier; without one, refuse payouts, which no look-up confirms."""
        right: object = not notification.is_payout
        try:
            if self.verifier is not None:
                right = await _call(self.verifier, headers, body, notification.reveal())
        except Exception as error:  # noqa: BLE001  # the merchant's code: its frames know the signature
            _log.error("the verifier raised %s", name_and_place(error))
            raise _HttpAnswer(500, "it could not be verified") from None
        if right is not True:
            raise _HttpAnswer(403, "it is not verified")

    # To the application

    async def _hand_on(self, notification: Notification) -> None:
        """Hand on a payout that is verified, and cannot be looked up."""
        if self.on_payout is None:
            raise _HttpAnswer(404, "no such payment")
        fields = notification.reveal().items()
        news = _digest({name: text for name, text in fields if name != SIGNATURE_FIELD})
        turn = f"payout {notification.request_id}"
        # Each by itself: a late repeat of an earlier one is no news.
        async with self._turns.setdefault(turn, asyncio.Lock()):
            await self._offer(self.on_payout, notification, news, f"{turn} {news.hex()}")

    async def _confirm(self, notification: Notification) -> None:
        """Look a payment up, and hand each record of it to the application.

        Where the application had a later look at a payment meanwhile, it is asked for again.
        """
        for _ in range(_MOST_LOOKS):
            asked_at = next(self._moments)
            outcome = await self._asking().query(notification.ref)
            if outcome.status is OutcomeStatus.ABSENT:
                raise _HttpAnswer(404, "no such payment")
            if outcome.status is not OutcomeStatus.SUCCEEDED:
                raise GatewayError(str(outcome.error or outcome.status))
            for record, item in zip(outcome.record or (), outcome.items, strict=True):
                name = record.transaction_id or notification.ref.value
                news = _digest(without_secrets(item))  # of what is nested deep, the upper part
                if not await self._offer(self.on_payment, record, news, name, asked_at):
                    break
            else:
                return
        raise GatewayError("each look-up was overtaken by a later one")

    async def _offer(
        self,
        handler: Handler[Any],
        subject: object,
        news: bytes,
        name: str,
        asked_at: float = math.inf,
    ) -> bool:
        """Give the application what it does not have; False if it may have something later."""
        async with self._turns.setdefault(name, asyncio.Lock()):
            last, given_at = self._known.get(name, (b"", self._forgotten_at))
            if last == news:
                return True
            if given_at > asked_at:
                return False
            try:
                await _call(handler, subject)
            except Exception:  # noqa: BLE001  # the application's code: the gateway is to repeat it
                _log.exception("the handler of notifications raised; the gateway is to repeat it")
                raise _HttpAnswer(500, "it was not taken") from None
            self._known[name] = news, next(self._moments)
            self._known.move_to_end(name)
            if len(self._known) > self.remembered:  # of what is forgotten, this was given last
                _, (_, self._forgotten_at) = self._known.popitem(last=False)
        return True

    def _asking(self) -> Coalescer:
        """Return the coalescer of the running event loop.

        It is never left: without a caller that waits, there is nothing of it to close.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._single, self._loop = self._new_coalescer(), loop
            self._single._is_open = True  # noqa: SLF001  # never left, so not entered
        return self._single


async def _call(function: Callable[..., object], *arguments: object) -> object:
    """Call a function of the merchant's, which may be asynchronous."""
    returned = function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned


def _digest(fields: Mapping[str, Any]) -> bytes:
    """Return a few bytes that stand for the fields, whatever their order."""
    written = json.dumps(fields, sort_keys=True)  # orjson writes no integer of over 64 bits
    return hashlib.blake2b(written.encode(), digest_size=16).digest()

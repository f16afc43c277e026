"""Notifications over HTTP: a route for aiohttp.web, and an ASGI application.

An answer of 200 means that the application has what the gateway's records say, or had it before.
After every other answer the gateway is to repeat the notification. The application is given only
what a look-up showed that began after it was given another record of the same payment; one at a
time for each payment; and the same record only once, unless it failed.
"""

import asyncio
import contextlib
import contextvars
import functools
import hashlib
import inspect
import itertools
import logging
import traceback
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import attrs
import orjson

from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, InvalidOrderError, NotificationError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.notifications.reading import MAX_BYTES, Notification, parse, plain_fields
from gateway_async.settings import DEFAULT_LINGER_SECONDS, check_instance, checked_count
from gateway_async.signing import SIGNATURE_FIELD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping

    from aiohttp import web

    from gateway_async.coalescer import Coalescer
    from gateway_async.models.records import TransactionRecord
    from gateway_async.notifications.reading import Verifier
    from gateway_async.settings import BatchPolicy

    Handler = Callable[[Any], Awaitable[object] | object]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_log = logging.getLogger("gateway_async.notifications")
_BODY_SECONDS = 10.0
_MOST_LOOKS = 5


class _RefusedError(Exception):
    """The notification is not handed on; `answer` says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = _Answer(status, text)


class _ClientGoneError(Exception):
    """The sender of the notification did not wait for the answer."""


@attrs.frozen
class _Answer:
    """What is answered: the status counts, the text is for a reader of logs."""

    status: int
    text: str
    headers: "Mapping[str, str]" = attrs.field(factory=dict)


_AGAIN = {"Retry-After": "5"}
_BUSY = _Answer(503, "busy", _AGAIN)
_UNCONFIRMED = _Answer(503, "it cannot be confirmed now", _AGAIN)
_NOT_TAKEN = _Answer(500, "it was not taken")
_ABSENT = _Answer(404, "no such payment")


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
    415    its body is compressed
    500    the handler raised, or the verifier did
    503    the gateway could not be asked, or too many are in progress
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
        concurrency: Notifications in progress at once; more are answered with 503.
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
        self._remembered = checked_count("remembered", remembered)
        self._coalesced = functools.partial(
            gateway.coalesced, linger_seconds=linger_seconds, policy=policy
        )
        self._coalesced()  # for its settings to be checked now
        self._single: Coalescer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context = contextvars.copy_context()
        self._busy = 0
        self._moments = itertools.count()
        self._known: OrderedDict[str, tuple[bytes, int]] = OrderedDict()
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # HTTP

    async def handle(self, request: "web.Request") -> "web.Response":
        """Answer a request of aiohttp.web."""
        from aiohttp import web  # noqa: PLC0415  # not needed where it is mounted elsewhere

        async def pieces() -> "AsyncIterator[bytes]":
            try:
                if request.content.at_eof():  # a middleware has read it, and aiohttp keeps it
                    yield await request.read()
                while piece := await request.content.readany():
                    yield piece
            except (ConnectionError, web.RequestPayloadError):
                raise _ClientGoneError from None

        try:
            answer = await self._answer(request.method, request.headers, pieces())
        except _ClientGoneError:  # any client may do so, as often as it likes: no error of ours
            answer = _Answer(400, "it broke off")
        return web.Response(status=answer.status, text=answer.text, headers=answer.headers)

    async def __call__(
        self, scope: "MutableMapping[str, Any]", receive: "Receive", send: "Send"
    ) -> None:
        """Answer a request over ASGI."""
        if scope["type"] == "lifespan":  # there is nothing to start and nothing to end
            kind = ""
            while kind != "lifespan.shutdown":
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']!r} is served here")
        named = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        try:
            answer = await self._answer(scope["method"], named, _asgi_pieces(receive))
        except _ClientGoneError:
            return
        body = answer.text.encode()
        plain = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
        headers = [(n.lower().encode(), v.encode()) for n, v in {**plain, **answer.headers}.items()]
        with contextlib.suppress(OSError):  # so ASGI says that the client is gone
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, method: str, headers: "Mapping[str, str]", pieces: "AsyncIterator[bytes]"
    ) -> _Answer:
        if method != "POST":
            return _Answer(405, "send notifications by POST", {"Allow": "POST"})
        if self._busy >= self._concurrency:
            return _BUSY
        self._busy += 1
        headers = {name.lower(): value for name, value in headers.items()}
        try:
            body = await self._read(headers, pieces)
            notification = parse(
                headers, body, dialect=self._gateway.dialect, max_bytes=self._max_body_bytes
            )
            await self._verify(notification, headers, body)
            return await self._hear(notification)
        except _RefusedError as refused:
            return refused.answer
        except NotificationError as error:
            _log.info("a notification was refused: %s", error)
            return _Answer(400, str(error))
        finally:
            self._busy -= 1

    async def _read(self, headers: "Mapping[str, str]", pieces: "AsyncIterator[bytes]") -> bytes:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise _RefusedError(415, "send notifications uncompressed")
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                async for piece in pieces:
                    body += piece
                    if len(body) > self._max_body_bytes:
                        text = f"the notification is larger than {self._max_body_bytes} bytes"
                        raise _RefusedError(413, text)
        except TimeoutError:
            raise _RefusedError(408, "the notification took too long") from None
        return bytes(body)

    async def _verify(
        self, notification: Notification, headers: "Mapping[str, str]", body: bytes
    ) -> None:
        """Ask the verifier; without one, refuse payouts, which no look-up confirms."""
        right: object = not notification.is_payout
        try:
            if self._verifier is not None:
                right = self._verifier(headers, body, plain_fields(notification))
            if inspect.isawaitable(right):
                right = await right
        except Exception as error:  # noqa: BLE001  # the merchant's code: its frames know the signature
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{frame.filename}:{frame.lineno}"
            _log.error("the verifier raised %s at %s", type(error).__name__, place)
            raise _RefusedError(500, "it could not be verified") from None
        if right is not True:
            raise _RefusedError(403, "it is not verified")

    # To the application

    async def _hear(self, notification: Notification) -> _Answer:
        try:
            single = self._single_here()
        except ConfigurationError as error:  # the client is closed, as while a server ends
            _log.warning("a notification could not be confirmed: %s", error)
            return _UNCONFIRMED
        if notification.is_payout:
            return await self._hand_on(notification)
        for _ in range(_MOST_LOOKS):
            if answer := await self._confirm(notification, single):
                return answer
        return _UNCONFIRMED

    async def _hand_on(self, notification: Notification) -> _Answer:
        """Hand on a payout that is verified, and cannot be looked up."""
        if self._on_payout is None:
            return _ABSENT
        fields = plain_fields(notification)
        news = _digest({n: text for n, text in fields.items() if n != SIGNATURE_FIELD})
        # Each by itself: a late repeat of an earlier one is no news.
        name = f"payout {notification.request_id} {news.hex()}"
        async with self._turn(f"payout {notification.request_id}"):
            if name in self._known or await self._call(self._on_payout, notification, name, news):
                return self._taken()
        return _NOT_TAKEN

    async def _confirm(self, notification: Notification, single: "Coalescer") -> _Answer | None:
        """Look a payment up, and hand each record of it to the application.

        None where the application had a later look at a payment meanwhile: it is to be asked again.
        """
        asked_at = next(self._moments)
        try:
            outcome = await single.query(notification.ref)
        except InvalidOrderError:  # such as a reference with the dialect's separator in it
            return _Answer(400, "it names no payment that can be looked up")
        if outcome.status is OutcomeStatus.ABSENT:
            return _ABSENT
        if outcome.status is not OutcomeStatus.SUCCEEDED:
            reason = outcome.error or outcome.status
            _log.warning("a notification could not be confirmed: %s", reason)
            return _UNCONFIRMED
        for record, item in zip(outcome.record or (), outcome.items, strict=True):
            name = record.transaction_id or record.order_no or notification.ref.value
            news = _digest(item)
            async with self._turn(name):
                last, given_at = self._known.get(name, (b"", -1))
                if last == news:
                    continue
                if given_at > asked_at:  # what it has may be later than this
                    return None
                if not await self._call(self._on_payment, record, name, news):
                    return _NOT_TAKEN
        return self._taken()

    async def _call(self, handler: "Handler", subject: object, name: str, news: bytes) -> bool:
        """Give something to the application, and remember it; return whether it was taken."""
        try:
            taken = handler(subject)
            if inspect.isawaitable(taken):
                await taken
        except Exception:  # noqa: BLE001  # the application's code: the gateway is to repeat it
            _log.exception("the handler of notifications raised; the gateway is to repeat it")
            return False
        self._known[name] = news, next(self._moments)
        self._known.move_to_end(name)
        if len(self._known) > self._remembered:
            self._known.popitem(last=False)
        return True

    def _taken(self) -> _Answer:
        return _Answer(200, self._gateway.dialect.notification_answer)

    def _turn(self, name: str) -> asyncio.Lock:
        """Return what is held while the application is given one payment."""
        return self._turns.setdefault(name, asyncio.Lock())

    def _single_here(self) -> "Coalescer":
        """Return what asks the gateway on the running event loop."""
        loop = asyncio.get_running_loop()
        if self._single is None or self._loop is not loop:
            single = self._coalesced()
            # Entered in the receiver's context, not the first notification's. It never waits, and
            # is never left: once no answer is waited for, there is nothing of it to close.
            with contextlib.suppress(StopIteration):
                self._context.run(single.__aenter__().send, None)
            self._loop, self._single = loop, single
        return self._single


async def _asgi_pieces(receive: "Receive") -> "AsyncIterator[bytes]":
    """Yield the body of a request over ASGI, piece by piece."""
    goes_on = True
    while goes_on:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGoneError
        goes_on = message.get("more_body", False)
        yield message.get("body", b"")


def _digest(fields: "Mapping[str, Any]") -> bytes:
    """Return a few bytes that stand for the fields, whatever their order."""
    written = orjson.dumps(dict(fields), option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(written, digest_size=16).digest()

"""The sandbox as a user of the library meets it: a gateway over HTTP, its faults and its books.

It decides nothing about money: `service` does.
"""

import asyncio
import functools
import socket
import struct
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Self
from weakref import WeakSet

import attrs
from aiohttp import web
from yarl import URL

from gateway_async.dialect import Dialect, PaymentState
from gateway_async.errors import ConfigurationError
from gateway_async.operations import CHECKOUT, Operation
from gateway_async.sandbox import faults as kinds
from gateway_async.sandbox.checkout import render, to_location
from gateway_async.sandbox.faults import Faults, Plan
from gateway_async.sandbox.ledger import Ledger, PaymentStatus, Transaction
from gateway_async.sandbox.messages import (
    HTML_TYPE,
    PATHS,
    Fields,
    Reply,
    operation_of,
    read_fields,
    write_reply,
)
from gateway_async.sandbox.notifier import Notification, Notifier
from gateway_async.sandbox.records import REFUSED
from gateway_async.sandbox.service import SELECTION_FIELDS, Service
from gateway_async.signing import Credentials, HmacSigner

LOOPBACK = "127.0.0.1"
_CarryOut = Callable[[], Reply]
_OWN = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104  # where what listens everywhere is reached
_MAX_BODY_BYTES = 16 * 1024 * 1024
_HELD_LOOK_SECONDS = 0.05
_SHUTDOWN_SECONDS = 0.1
_RESET = struct.pack("ii", 1, 0)
_PAGE_HEADERS = {"Content-Type": HTML_TYPE, "Cache-Control": "no-store"}
"""A page is asked for again after Back."""


@attrs.define(kw_only=True, eq=False, repr=False)
class Sandbox:
    """A gateway on this machine, over real HTTP, to develop and test against.

    .. code-block:: python

        from gateway_async.sandbox import Sandbox
        from gateway_async.sandbox.faults import DropReply

        async with Sandbox() as sandbox:
            payments = sandbox.seed(3, status="captured")
            sandbox.faults.add("refund", DropReply(times=1))
            gateway = GatewayClient(
                sandbox.base_url, sandbox.credentials, dialect=sandbox.dialect
            )

    When the block ends every connection is closed, held ones too, and late effects that are still
    out never land. A sandbox is entered once; its ledger and logs stay readable afterwards.

    Attributes:
        merchant_id: The one merchant that it knows.
        account_id: The merchant's account.
        secret: What messages are signed with, as `HmacSigner(secret)` does it.
        host: The address to listen on; other machines reach it only if you say so here.
        port: The port; 0 is a free one.
        random_seed: Makes faults with a probability repeatable.
        deduplicate_payouts: Whether a `request_id` is paid once only.
        clock: What time it is, with a time zone.
        return_url: Where shoppers go once they have chosen on the payment page, where the payment
            has no `return_url` of its own (a redirect payment has none); `{order_no}` in it stands
            for the order number. For a real gateway it is set in its portal.
        cancel_url: Where they go when they leave that page without a choice, likewise; without
            one, to the `return_url`.
        notify_pauses: Seconds before each attempt to notify a merchant, one number an attempt.
        credentials: The credentials of its merchant, for a client.
        faults: What goes wrong; add to them at any time.
        ledger: What was really done.
        requests: How many requests came, by the name of the operation, struck by faults or not.

    Raises:
        ConfigurationError: A setting is wrong.
    """

    merchant_id: str = "M1"
    account_id: str = "A1"
    secret: str = attrs.field(default="sandbox-secret", repr=False)
    host: str = LOOPBACK
    port: int = 0
    random_seed: int | None = None
    deduplicate_payouts: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    return_url: str = ""
    cancel_url: str = ""
    notify_pauses: tuple[float, ...] = (0.0, 0.2, 1.0)
    credentials: Credentials = attrs.field(init=False)
    faults: Faults = attrs.field(init=False)
    ledger: Ledger = attrs.field(init=False, factory=Ledger)
    requests: Counter[str] = attrs.field(init=False, factory=Counter)
    _base_url: str = attrs.field(init=False, default="")
    _notifier: Notifier = attrs.field(init=False)
    _service: Service = attrs.field(init=False)
    _runner: web.AppRunner = attrs.field(init=False)
    _tasks: "WeakSet[Any]" = attrs.field(init=False, factory=WeakSet)
    # Its keys have the fields of requests: no tool that shows attributes may show them.
    _late: "dict[_CarryOut, asyncio.TimerHandle]" = attrs.field(
        init=False, factory=dict, repr=False
    )

    def __attrs_post_init__(self) -> None:
        for name in ("return_url", "cancel_url"):
            url = getattr(self, name)
            if url and not to_location(url):
                raise ConfigurationError(f"Sandbox.{name}: expected a web address, got {url!r}")
        self.credentials = Credentials(
            merchant_id=self.merchant_id, account_id=self.account_id, signer=HmacSigner(self.secret)
        )
        self.faults = Faults(random_seed=self.random_seed)
        self._notifier = Notifier(
            signer=self.credentials.signer, faults=self.faults, pauses=self.notify_pauses
        )

    def __repr__(self) -> str:
        return f"<Sandbox {self._base_url or 'not started'}>"

    @property
    def base_url(self) -> str:
        """Where it listens, without a slash at the end."""
        if not self._base_url:
            raise ConfigurationError("Sandbox: not started; use `async with Sandbox() as sandbox:`")
        return self._base_url

    @property
    def notifications(self) -> deque[Notification]:
        """The last 1,000 results that were sent to a `notify_url`, or given up."""
        return self._notifier.sent

    @property
    def dialect(self) -> Dialect:
        """What a client must know of this gateway, which the interface does not show.

        A real gateway has a dialect of its own: ask its operator.
        """
        return Dialect(
            declined_statuses={REFUSED},
            payout_declined_statuses={"FAILED"},
            payment_states={
                PaymentStatus.AUTHORISED.value: PaymentState.AUTHORISED,
                PaymentStatus.CAPTURED.value: PaymentState.CAPTURED,
                PaymentStatus.CANCELLED.value: PaymentState.CANCELLED,
            },
            payout_deduplicates=self.deduplicate_payouts,
        )

    def seed(
        self,
        count: int,
        *,
        status: str = "authorised",
        amount: Decimal | str = Decimal("10.00"),
        currency: str = "EUR",
    ) -> list[Transaction]:
        """Make orders as if they had been paid before, and return them as the ledger has them.

        No effect is counted for it.

        Args:
            count: How many.
            status: "authorised" or "captured", or another name of `PaymentStatus`.
            amount: The amount of each, in units of the currency.
            currency: Currency code.

        Raises:
            ConfigurationError: There is no such status.
        """
        chosen = PaymentStatus.__members__.get(status.upper())
        if chosen is None:
            known = ", ".join(name.lower() for name in PaymentStatus.__members__)
            raise ConfigurationError(f"Sandbox.seed: {status!r} is no status; there are {known}")
        now, first = self.clock(), len(self.ledger) + 1
        return [
            self.ledger.open(
                order_no=f"S{number:08d}",
                currency=currency,
                amount=Decimal(str(amount)),
                now=now,
                status=chosen,
            )
            for number in range(first, first + count)
        ]

    def land_late_effects(self) -> int:
        """Let every late effect that is still out land now; return how many there were."""
        waiting = list(self._late)
        for carry_out in waiting:
            self._land(carry_out)
        return len(waiting)

    async def deliver_notifications(self) -> int:
        """Let late notifications go now, and wait until all are sent or given up.

        Returns:
            How many were under way; afterwards they are the last of `notifications`.
        """
        return await self._notifier.deliver_all()

    async def __aenter__(self) -> Self:
        if self._base_url:
            raise ConfigurationError("Sandbox: entered twice; make a new one")
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.add_routes([web.post(path, self._merchant_request) for path in PATHS])
        app.router.add_get("/pay/{transaction_id}", self._show_payment)
        app.router.add_post("/pay/{transaction_id}", self._take_choice)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.host, self.port, backlog=1024).start()
        except (OSError, OverflowError) as error:  # the latter: there is no such port
            await self._runner.cleanup()
            where = f"{self.host} port {self.port} (0 takes a free one)"
            raise ConfigurationError(f"Sandbox: cannot listen on {where}: {error}") from None
        host, port = self._runner.addresses[0][:2]
        self._base_url = str(URL.build(scheme="http", host=_OWN.get(host, host), port=port))
        self._service = Service(
            identity={"merchant_id": self.merchant_id, "account_id": self.account_id},
            signer=self.credentials.signer,
            ledger=self.ledger,
            clock=lambda: self.clock(),  # noqa: PLW0108  # it may be set anew
            notify=self._notifier.send,
            deduplicate_payouts=self.deduplicate_payouts,
            base_url=self._base_url,
            ways={"return_url": self.return_url, "cancel_url": self.cancel_url},
        )
        return self

    async def __aexit__(self, *failure: object) -> None:
        while self._late:
            self._late.popitem()[1].cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._runner.cleanup()
        await self._notifier.stop()

    # The merchant

    async def _merchant_request(self, request: web.Request) -> web.StreamResponse:
        # aiohttp forgets a handler whose client has gone: it is known here, to be ended at the end.
        self._tasks.add(asyncio.current_task())
        try:
            return await self._handle(request, await request.read())
        except ConnectionResetError:  # the client went while it was written to
            return _close(request)

    async def _handle(self, request: web.Request, body: bytes) -> web.StreamResponse:
        fields, problem = read_fields(request.content_type, body)
        if request.path == CHECKOUT.path and (payment := fields.get("gbc_id")) is not None:
            found = self.ledger.find(payment)
            # An address of its own: Reload and Back ask for it again, and post nothing.
            return _see_other(f"/pay/{payment}") if found else self._payment_page(None)
        operation = operation_of(request.path, fields)
        plan = self.faults.plan(operation.name)
        self.requests[operation.name] += 1
        for wait in plan.of(kinds.Latency):
            await asyncio.sleep(wait.seconds)
        carry_out = functools.partial(self._carry_out, operation, fields, plan, problem)
        for ending in plan.of(kinds.Ending):
            return await self._end(request, ending, carry_out)
        reply = carry_out()
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)

    def _carry_out(self, operation: Operation, fields: Fields, plan: Plan, problem: str) -> Reply:
        """Carry a request out, and write what is said of it."""
        problem = problem or self._service.refusal(operation, fields) or plan.refusal
        if plan.of(kinds.IgnoreSelection):
            fields = {n: v for n, v in fields.items() if n not in SELECTION_FIELDS}
        if problem:
            answer = self._service.refuse(operation, fields, problem)
        else:
            answer = self._service.perform(operation, fields)
        for fault in plan.of(kinds.AnswerFault):
            answer = fault.distort(answer)
        reply = write_reply(answer, self.credentials.signer)
        for reply_fault in plan.of(kinds.ReplyFault):
            reply = reply_fault.rewrite(reply)
        return reply

    async def _end(
        self, request: web.Request, ending: kinds.Ending, carry_out: _CarryOut
    ) -> web.StreamResponse:
        """Do with a request, and with its connection, what an ending wants."""
        if isinstance(ending, kinds.LateEffect):
            loop = asyncio.get_running_loop()
            self._late[carry_out] = loop.call_later(ending.seconds, self._land, carry_out)
        right_reply = carry_out() if ending.after_effect else None
        while ending.connection == "held" and request.transport is not None:  # noqa: ASYNC110  # see below
            # aiohttp can tell a handler that its client went only by cancelling it, and then every
            # handler, also those that are about to do an effect: so it is looked at instead.
            await asyncio.sleep(_HELD_LOOK_SECONDS)
        reply = ending.instead or right_reply
        if reply is None or ending.connection not in ("kept", "cut"):
            return _close(request, is_reset=ending.connection == "reset")
        response = web.StreamResponse(
            status=reply.status, headers={**reply.headers, **ending.headers}
        )
        if ending.is_sized:
            response.content_length = len(reply.body)
        await response.prepare(request)
        for piece in ending.pieces(reply.body):
            await response.write(piece)
            await asyncio.sleep(ending.pause_seconds)  # 0: a write alone gives no task a turn
        if ending.connection == "cut":
            _close(request)
        return response

    def _land(self, carry_out: _CarryOut) -> None:
        self._late.pop(carry_out).cancel()
        carry_out()

    # The shopper

    async def _show_payment(self, request: web.Request) -> web.StreamResponse:
        return self._payment_page(self.ledger.find(request.match_info["transaction_id"]))

    async def _take_choice(self, request: web.Request) -> web.StreamResponse:
        """Enter what was chosen on a payment page, and lead the shopper on."""
        transaction = self.ledger.find(request.match_info["transaction_id"])
        if transaction is None:
            return self._payment_page(None)
        self._service.decide(transaction, str((await request.post()).get("choice")))
        back = self._service.way_back(transaction)
        if not back:
            return _html(render("message", title="Thank you", text="You may close this page."))
        return _see_other(back)

    def _payment_page(self, transaction: Transaction | None) -> web.Response:
        return _html(self._service.page(transaction), status=200 if transaction else 404)


def _html(page: str, *, status: int = 200) -> web.Response:
    return web.Response(status=status, headers=_PAGE_HEADERS, body=page.encode())


def _see_other(location: str) -> web.Response:
    return web.Response(status=303, headers={**_PAGE_HEADERS, "Location": location})


def _close(request: web.Request, *, is_reset: bool = False) -> web.Response:
    """Close the connection, or reset it; what is returned is never sent."""
    if request.transport is not None:
        if is_reset:  # without lingering, the peer gets an RST and no FIN
            bare = request.transport.get_extra_info("socket")
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        request.transport.close()
    return web.Response()

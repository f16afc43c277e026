"""The gateway as an aiohttp application: its routes, its faults, and when an effect lands.

It decides nothing about money: `service` does.
"""

import asyncio
import contextlib
import functools
import socket
import struct
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

import attrs
from aiohttp import web

from gateway_async.operations import CHECKOUT, Operation
from gateway_async.sandbox import faults
from gateway_async.sandbox.checkout import render
from gateway_async.sandbox.messages import (
    HTML_TYPE,
    PATHS,
    Notice,
    Reply,
    operation_of,
    read_fields,
    write_reply,
)
from gateway_async.sandbox.service import SELECTION_FIELDS, Service, count_orders

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from gateway_async.sandbox.faults import Faults, Plan
    from gateway_async.sandbox.ledger import Transaction
    from gateway_async.sandbox.notifier import Notifier

MAX_BODY_BYTES = 16 * 1024 * 1024
_KEPT_REQUESTS = 1000
_HELD_LOOK_SECONDS = 0.05
_SHUTDOWN_SECONDS = 0.1
_METHODS = ("GET", "POST")
_RESET = struct.pack("ii", 1, 0)
_PAGE_HEADERS = {
    "Content-Type": HTML_TYPE,
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""A page is asked for again after Back, runs no script, and passes its address on to no site."""


@attrs.frozen(kw_only=True)
class LoggedRequest:
    """One request of the merchant's.

    Attributes:
        operation: Its name.
        orders: How many orders it named, 0 where it is no batch and no look-up.
        faults: The kinds of fault that struck it.
    """

    operation: str = attrs.field(kw_only=False)
    orders: int
    faults: tuple[str, ...] = ()


@attrs.frozen
class RequestLog:
    """How many requests came, by operation; `log["refund"]` counts those that refund.

    Attributes:
        counts: Requests by the name of the operation, struck by faults or not.
        orders: Orders in those requests, by the same.
        last: The last 1,000 requests, oldest first.
    """

    counts: Counter[str] = attrs.field(factory=Counter, init=False)
    orders: Counter[str] = attrs.field(factory=Counter, init=False)
    last: deque[LoggedRequest] = attrs.field(
        factory=lambda: deque(maxlen=_KEPT_REQUESTS), init=False
    )

    def __getitem__(self, operation: str) -> int:
        return self.counts[operation]

    def total(self) -> int:
        """Return the number of all requests."""
        return self.counts.total()

    def clear(self) -> None:
        """Count from zero again."""
        self.counts.clear()
        self.orders.clear()
        self.last.clear()

    def record(self, request: LoggedRequest) -> None:
        """Count one request."""
        self.counts[request.operation] += 1
        self.orders[request.operation] += request.orders
        self.last.append(request)


class Server:
    """The gateway as an aiohttp application, on a socket that is given.

    Args:
        service: What is behind it.
        faults: What goes wrong.
        clock: What time it is.
        notifier: What sends notifications.
    """

    def __init__(
        self,
        service: Service,
        faults: "Faults",
        *,
        clock: "Callable[[], datetime]",
        notifier: "Notifier",
    ) -> None:
        self.requests: RequestLog = RequestLog()
        self._notifier = notifier
        self._service = service
        self._faults = faults
        self._clock = clock
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._late: dict[Callable[[], Reply], asyncio.TimerHandle] = {}
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes([web.post(path, self._merchant_request) for path in PATHS])
        app.add_routes([web.route(m, "/pay/{page_id}", self._shopper_request) for m in _METHODS])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)

    async def start(self, listening: "socket.socket") -> None:
        """Take connections from a bound socket."""
        await self._runner.setup()
        await web.SockSite(self._runner, listening, backlog=1024).start()

    async def stop(self) -> None:
        """Close every connection, held ones too; late effects that are still out never land."""
        self._closing.set()
        for handle in self._late.values():
            handle.cancel()
        self._late.clear()
        tasks = [task for task in self._tasks if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._runner.cleanup()

    # The merchant

    async def _merchant_request(self, request: web.Request) -> web.StreamResponse:
        # aiohttp forgets a handler whose client has gone: it is kept here, to be ended by `stop`.
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            return await self._handle(request, await request.read())
        except ConnectionResetError:  # the client went while it was written to
            return _close(request)
        finally:
            self._tasks.discard(task)

    async def _handle(self, request: web.Request, body: bytes) -> web.StreamResponse:
        fields, problem = read_fields(request.content_type, body)
        if request.path == CHECKOUT.path and (page_id := fields.get("gbc_id")) is not None:
            found = self._service.find(page_id)
            # An address of its own: Reload and Back ask for it again, and post nothing.
            return _see_other(f"/pay/{page_id}") if found else self._payment_page(None)
        operation = operation_of(request.path, fields)
        plan = self._faults.plan(operation.name)
        count = count_orders(operation, fields)
        self.requests.record(LoggedRequest(operation.name, orders=count, faults=plan.names))
        if plan.delay_seconds:
            await asyncio.sleep(plan.delay_seconds)
        carry_out = functools.partial(self._carry_out, operation, fields, plan, problem)
        for ending in plan.of(faults.Ending):
            return await self._end(request, ending, carry_out)
        reply = carry_out()
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)

    def _carry_out(
        self, operation: Operation, fields: "Mapping[str, str]", plan: "Plan", problem: str
    ) -> Reply:
        """Carry a request out, and write what is said of it."""
        problem = problem or self._service.refusal(operation, fields) or plan.refusal
        if plan.of(faults.IgnoreSelection):
            fields = {n: v for n, v in fields.items() if n not in SELECTION_FIELDS}
        if problem:
            answer = self._service.refuse(operation, fields, problem)
        else:
            answer = self._service.perform(operation, fields, self._clock())
            self._notify(answer.notice)
        for fault in plan.of(faults.AnswerFault):
            answer = fault.distort(answer)
        reply = write_reply(answer, self._service.signer)
        for reply_fault in plan.of(faults.ReplyFault):
            reply = reply_fault.rewrite(reply)
        return reply

    async def _end(
        self, request: web.Request, ending: faults.Ending, carry_out: "Callable[[], Reply]"
    ) -> web.StreamResponse:
        """Do with a request, and with its connection, what an ending wants."""
        if isinstance(ending, faults.LateEffect):
            loop = asyncio.get_running_loop()
            self._late[carry_out] = loop.call_later(ending.seconds, self._land, carry_out)
        right_reply = carry_out() if ending.after_effect else None
        if ending.connection == "held":
            await self._until_closing(request)
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
            if piece:
                await response.write(piece)
            await asyncio.sleep(ending.pause_seconds)  # 0: a write alone gives no task a turn
        if ending.connection == "cut":
            _close(request)
        return response

    async def _until_closing(self, request: web.Request) -> None:
        """Wait until the client goes or the sandbox closes."""
        # aiohttp can tell a handler that its client went only by cancelling it, and then every
        # handler, also those that are about to do an effect: so it is looked at instead.
        while not self._closing.is_set() and request.transport is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HELD_LOOK_SECONDS):
                    await self._closing.wait()

    def _land(self, carry_out: "Callable[[], Reply]") -> None:
        self._late.pop(carry_out).cancel()
        carry_out()

    def land_late_effects(self) -> int:
        """Let every late effect land now; return how many there were."""
        waiting = list(self._late)
        for carry_out in waiting:
            self._land(carry_out)
        return len(waiting)

    # The shopper

    async def _shopper_request(self, request: web.Request) -> web.StreamResponse:
        """Show a payment page, or enter what was chosen there and lead the shopper on."""
        transaction = self._service.find(request.match_info["page_id"])
        if transaction is None or request.method != "POST":
            return self._payment_page(transaction)
        choice = str((await request.post()).get("choice"))
        self._notify(self._service.decide(transaction, choice))
        back = self._service.way_back(transaction, choice)
        if not back:
            return _html(render("message", title="Thank you", text="You may close this page."))
        return _see_other(back)

    def _payment_page(self, transaction: "Transaction | None") -> web.Response:
        return _html(self._service.page(transaction), status=200 if transaction else 404)

    def _notify(self, notice: Notice | None) -> None:
        if notice is not None:
            plan = self._faults.plan(notice.operation.name, notifications=True)
            self._notifier.send(notice, plan)


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

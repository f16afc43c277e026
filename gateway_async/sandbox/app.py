"""The gateway as an aiohttp application: its routes, its faults, and when an effect lands.

It decides nothing about money: `service` and `checkout` do.
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter, deque
from types import MappingProxyType
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
    UnreadableBodyError,
    operation_of,
    read_fields,
    write_reply,
)
from gateway_async.sandbox.service import SELECTION_FIELDS, Service, count_orders

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from gateway_async.sandbox.faults import Faults, Plan
    from gateway_async.sandbox.notifier import Notifier

MAX_BODY_BYTES = 16 * 1024 * 1024
_KEPT_REQUESTS = 1000
_HELD_LOOK_SECONDS = 0.05
_SHUTDOWN_SECONDS = 0.1
_PAGE_HEADERS: "Mapping[str, str]" = MappingProxyType(
    {
        "Content-Type": HTML_TYPE,
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'",
        "Referrer-Policy": "same-origin",
        "X-Content-Type-Options": "nosniff",
    }
)
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


@attrs.frozen(eq=False)
class Work:
    """One request of the merchant's, read and struck by its faults, and not yet carried out.

    Attributes:
        server: Whom it was sent to.
        request: The HTTP request.
        operation: What is asked for.
        fields: Its fields as text.
        plan: What strikes it.
        problem: Why it cannot be read, if so.
    """

    server: "Server"
    request: web.Request
    operation: Operation
    fields: "Mapping[str, str]" = attrs.field(repr=False)
    plan: "Plan"
    problem: str

    def carry_out(self) -> Reply:
        """Do it, and return what is said of it."""
        return self.server.carry_out(self)


class Server:
    """The gateway as an aiohttp application, on sockets that are given.

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
        self.notifier = notifier
        self._service = service
        self._pages = service.pages
        self._faults = faults
        self._clock = clock
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[Any] | None] = set()
        self._late: dict[Work, asyncio.TimerHandle] = {}
        self._runner = web.AppRunner(
            self._application(), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS
        )

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes([web.post(path, self._merchant_request) for path in PATHS])
        app.add_routes(
            [
                web.get("/pay/{page_id}", self._show_payment_page),
                web.post("/pay/{page_id}", self._decide_payment),
            ]
        )
        return app

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
        await self.notifier.stop()

    # The merchant

    async def _merchant_request(self, request: web.Request) -> web.StreamResponse:
        # aiohttp forgets a handler whose client has gone: it is kept here, to be ended by `stop`.
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            return await self._handle(request, await request.read())
        finally:
            self._tasks.discard(task)

    async def _handle(self, request: web.Request, body: bytes) -> web.StreamResponse:
        problem = ""
        try:
            fields = read_fields(request.content_type, body)
        except UnreadableBodyError as error:
            fields, problem = {}, str(error)
        if request.path == CHECKOUT.path and "gbc_id" in fields:
            return self._lead_to_page(fields["gbc_id"])
        operation = operation_of(request.path, fields)
        plan = self._faults.plan(operation.name)
        count = count_orders(operation, fields)
        self.requests.record(LoggedRequest(operation.name, orders=count, faults=plan.names))
        if plan.delay_seconds:
            await asyncio.sleep(plan.delay_seconds)
        return await perform(Work(self, request, operation, fields, plan, problem))

    def carry_out(self, work: Work) -> Reply:
        """Carry a request out, and write what is said of it."""
        operation, fields, plan = work.operation, work.fields, work.plan
        problem = work.problem or self._service.refusal(operation, fields) or plan.refusal
        if plan.of(faults.IgnoreSelection):
            fields = {n: v for n, v in fields.items() if n not in SELECTION_FIELDS}
        if problem:
            answer = self._service.refuse(operation, fields, problem)
        else:
            answer = self._service.perform(operation, fields, self._clock())
            self._notify(answer.notice)
        for fault in plan.of(faults.AnswerFault):
            answer = fault.distort(answer)
        reply = write_reply(answer, self._service.merchant.signer)
        for reply_fault in plan.of(faults.ReplyFault):
            reply = reply_fault.rewrite(reply)
        return reply

    # What happens later, or at the end

    async def until_closing(self, request: web.Request) -> None:
        """Wait until the client goes or the sandbox closes."""
        # aiohttp can tell a handler that its client went only by cancelling it, and then every
        # handler, also those that are about to do an effect: so it is looked at instead.
        while not self._closing.is_set() and request.transport is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HELD_LOOK_SECONDS):
                    await self._closing.wait()

    def postpone(self, work: Work, seconds: float) -> None:
        """Carry a request out later."""
        self._late[work] = asyncio.get_running_loop().call_later(seconds, self._land, work)

    def _land(self, work: Work) -> None:
        self._late.pop(work).cancel()
        work.carry_out()

    def land_late_effects(self) -> int:
        """Let every late effect land now; return how many there were."""
        waiting = list(self._late)
        for work in waiting:
            self._land(work)
        return len(waiting)

    # The shopper

    def _lead_to_page(self, page_id: str) -> web.Response:
        if self._pages.find(page_id) is None:
            return self._payment_page(page_id)
        # An address of its own: Reload and Back ask for it again, and post nothing.
        return _see_other(f"/pay/{page_id}")

    async def _show_payment_page(self, request: web.Request) -> web.StreamResponse:
        return self._payment_page(request.match_info["page_id"])

    def _payment_page(self, page_id: str) -> web.Response:
        transaction = self._pages.find(page_id)
        return _html(self._pages.payment_page(transaction), status=200 if transaction else 404)

    async def _decide_payment(self, request: web.Request) -> web.StreamResponse:
        transaction = self._pages.find(request.match_info["page_id"])
        if transaction is None:
            return self._payment_page(request.match_info["page_id"])
        choice = str((await request.post()).get("choice"))
        notice = self._pages.decide(transaction, choice)
        self._notify(notice)
        back = self._pages.way_back(transaction, choice)
        if not back:
            return _html(render("message", title="Thank you", text="You may close this page."))
        return _see_other(back)

    def _notify(self, notice: Notice | None) -> None:
        if notice is not None:
            plan = self._faults.plan(notice.operation.name, notifications=True)
            self.notifier.send(notice, plan)


def _html(page: str, *, status: int = 200) -> web.Response:
    return web.Response(status=status, headers=_PAGE_HEADERS, body=page.encode())


def _see_other(location: str) -> web.Response:
    return web.Response(status=303, headers={**_PAGE_HEADERS, "Location": location})


# Faults that decide what becomes of a connection

_RESET = struct.pack("ii", 1, 0)


async def _answer(work: "Work", _: object) -> web.StreamResponse:
    return _response(work.carry_out())


async def _drop(work: "Work", _: faults.DropReply) -> web.StreamResponse:
    work.carry_out()
    return _close(work.request)


async def _reset_before(work: "Work", _: faults.ResetBeforeEffect) -> web.StreamResponse:
    return _reset(work.request)


async def _reset_after(work: "Work", _: faults.ResetAfterEffect) -> web.StreamResponse:
    work.carry_out()
    return _reset(work.request)


async def _late_effect(work: "Work", ending: faults.LateEffect) -> web.StreamResponse:
    work.server.postpone(work, ending.seconds)
    return _close(work.request)


async def _instead(work: "Work", ending: faults.Instead) -> web.StreamResponse:
    if ending.after_effect:
        work.carry_out()
    return _response(ending.reply())


async def _no_reply(work: "Work", ending: faults.NoReply) -> web.StreamResponse:
    if ending.after_effect:
        work.carry_out()
    await work.server.until_closing(work.request)
    return _close(work.request)


async def _cut(work: "Work", ending: faults.CutReply) -> web.StreamResponse:
    response, reply = await _begin(work)
    await response.write(ending.sent(reply.body))
    _close(work.request)
    return response


async def _drip(work: "Work", ending: faults.Drip) -> web.StreamResponse:
    response, reply = await _begin(work)
    for start in range(0, len(reply.body), ending.piece_bytes):
        await response.write(reply.body[start : start + ending.piece_bytes])
        await asyncio.sleep(ending.pause_seconds)
    return response


async def _begin(work: "Work") -> "tuple[web.StreamResponse, Reply]":
    """Carry the work out and send the headers of its reply, which promise the whole body."""
    reply = work.carry_out()
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = len(reply.body)
    await response.prepare(work.request)
    return response, reply


async def _stream(work: "Work", ending: faults.Streamed) -> web.StreamResponse:
    reply = work.carry_out()
    headers = {**reply.headers, **ending.headers}
    response = web.StreamResponse(status=reply.status, headers=headers)
    await response.prepare(work.request)
    for piece in ending.pieces(reply.body):
        if piece:
            await response.write(piece)
        await asyncio.sleep(0)  # a write that fits the buffer gives no other task a turn
    return response


_ENDINGS: "Mapping[type, Callable[[Work, Any], Awaitable[web.StreamResponse]]]" = MappingProxyType(
    {
        type(None): _answer,
        faults.DropReply: _drop,
        faults.ResetBeforeEffect: _reset_before,
        faults.ResetAfterEffect: _reset_after,
        faults.LateEffect: _late_effect,
        faults.NoReply: _no_reply,
        faults.CutReply: _cut,
        faults.Drip: _drip,
        faults.Instead: _instead,
        faults.Streamed: _stream,
        faults.Ending: _answer,
    }
)
"""How to perform a kind of ending; a kind below one of these is performed like it."""


async def perform(work: "Work") -> web.StreamResponse:
    """Carry a request out as its faults want it, and answer it."""
    ending = work.plan.ending
    kind = next(kind for kind in type(ending).__mro__ if kind in _ENDINGS)
    try:
        return await _ENDINGS[kind](work, ending)
    except ConnectionResetError:  # the client went while it was written to
        return _close(work.request)


def _response(reply: "Reply") -> web.Response:
    return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


def _close(request: web.Request) -> web.Response:
    """Close the connection; what is returned is never sent."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def _reset(request: web.Request) -> web.Response:
    """Reset the connection: no lingering, so that the peer gets an RST and no FIN."""
    transport = request.transport
    if transport is not None:
        bare = transport.get_extra_info("socket")
        bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.close()
    return web.Response()

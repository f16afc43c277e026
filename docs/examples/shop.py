"""A tea shop and its gateway: `python docs/examples/shop.py` opens both (extra `sandbox`).

It believes the gateway's records alone, and repeats nothing that may have been done (`unknown`).
A form's token counts once: no other site, double click or Reload acts. Orders are kept in memory.
"""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import attrs
from aiohttp import web

import gateway_async as ga
from gateway_async.notifications import NotificationReceiver
from gateway_async.sandbox import Sandbox

TEAS = {"Oolong": "12.50", "Darjeeling": "9.90", "Sencha": "14.00", "Pu-erh": "21.00"}
# What `payment_status` means is the sandbox's own choice: ask your gateway about its values.
STATES = {"4000": "waiting", "4900": "declined", "4100": "paid", "3000": "captured"}
STEPS = ("new", *STATES.values())
CARD = ("card", "expiration_month", "expiration_year", "security_code")
HEADERS = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}
ACTIONS = {"checkout": "new", "card": "new", "capture": "paid", "refund": "captured"}


@attrs.define(eq=False, kw_only=True)
class Order:
    """One order, which is paid once; who knows its number may see it."""

    tea: str
    amount: Decimal
    first_name: str
    note: str
    order_no: str = attrs.field(factory=lambda: f"T-{secrets.token_hex(8)}")
    token: str = attrs.field(factory=secrets.token_urlsafe)
    state: str = "new"
    before: str = "new"
    transaction_id: str = ""
    refunded: Decimal = Decimal()
    message: str = ""
    page: str = ""
    settling: asyncio.Task[ga.BatchResult[Any, Any]] | None = None
    lock: asyncio.Lock = attrs.field(factory=asyncio.Lock)

    def fields(self, *names: str) -> dict[str, Any]:
        """Return what names the order to the gateway, and more of it."""
        return {"currency": "EUR"} | {n: getattr(self, n) for n in ("order_no", "amount", *names)}


def render(name: str, **values: object) -> str:
    """Fill in one of the pages beside this file; every value is escaped."""
    text = Template((Path(__file__).with_name("shop") / f"{name}.html").read_text("utf-8"))
    return text.substitute({key: escape(str(value)) for key, value in values.items()})


def _respond(*parts: str) -> web.Response:
    html = "".join((render("head"), *parts, render("foot")))
    return web.Response(text=html, content_type="text/html", headers=HEADERS)


class Shop:
    """A shop at `url`, and its orders; what many shoppers look up is asked together."""

    def __init__(self, gateway: ga.GatewayClient, single: ga.Coalescer, url: str) -> None:
        self.gateway, self.single, self.url = gateway, single, url
        self.always: dict[str, Any] = {"website": "Leaf & Kettle", "notify_url": f"{url}/notify"}
        self.orders: dict[str, Order] = {}
        self.app, order = web.Application(), "/orders/{order_no}"
        self.app.router.add_get("/", self._show_catalogue)
        self.app.router.add_post("/orders", self._take_order)
        self.app.router.add_get(order + "{on:/checkout|}", self.show_order)
        self.app.router.add_post(f"{order}/{{action:{'|'.join(ACTIONS)}}}", self.act)
        self.app.router.add_post("/notify", NotificationReceiver(gateway, self.settle).handle)

    async def _show_catalogue(self, _: web.Request) -> web.Response:
        teas = [render("tea", tea=tea, price=price) for tea, price in TEAS.items()]
        return _respond(render("catalogue"), *teas, render("catalogue_end"))

    async def _take_order(self, request: web.Request) -> web.Response:
        form = await request.post()
        tea, name, note = (str(form.get(n, ""))[:200] for n in ("tea", "first_name", "note"))
        if tea not in TEAS:
            raise web.HTTPBadRequest(text="There is no such tea.")
        order = Order(tea=tea, amount=Decimal(TEAS[tea]), first_name=name, note=note)
        self.orders[order.order_no] = order
        if len(self.orders) > 1000:  # noqa: PLR2004  # the oldest is forgotten
            del self.orders[next(iter(self.orders))]
        raise web.HTTPSeeOther(f"/orders/{order.order_no}")

    def _find(self, request: web.Request) -> Order:
        with contextlib.suppress(KeyError):
            return self.orders[request.match_info["order_no"]]
        raise web.HTTPNotFound(text="There is no such order.")

    async def show_order(self, request: web.Request) -> web.Response:
        """Show what the gateway confirms, asking while that may change; or forward to its page."""
        order = self._find(request)
        if request.match_info["on"] and order.page:  # as often as Back or Reload want it
            return web.Response(text=order.page, content_type="text/html", headers=HEADERS)
        if order.state in ("waiting", "unknown"):
            await self._look_up(order)
        pages = "order", "lost" if order.state == "waiting" and not order.page else order.state
        return _respond(*(render(name, **attrs.asdict(order, recurse=False)) for name in pages))

    async def _look_up(self, order: Order) -> None:
        ref = ga.OrderRef(order_no=order.order_no)
        if order.settling and order.settling.done() and not order.settling.result().unknown:
            order.before = "new"  # the outcome of its refund is known: the records count again
        found, refunds = await self.single.query(ref), await self.single.search_refunds(ref)
        for record in found.record or ():
            self.settle(record)
        if given := [refund.refund_amount or Decimal() for refund in refunds.record or ()]:
            order.refunded = sum(given, Decimal())

    def settle(self, record: ga.TransactionRecord) -> None:
        """Enter a step ahead; that it was where it was says nothing of what is unknown since."""
        state = STATES.get(record.payment_status or "", "new")
        if order := self.orders.get(record.order_no or ""):
            known = order.before if order.state == "unknown" else order.state
            if STEPS.index(state) > STEPS.index(known):
                order.state, order.transaction_id = state, record.transaction_id or ""

    async def act(self, request: web.Request) -> web.Response:
        """Do what a form asks for, if its token is the one that the order's page has now."""
        order, action = self._find(request), request.match_info["action"]
        form = await request.post()
        async with order.lock:
            if form.get("token") == order.token and order.state == ACTIONS[action]:
                order.token, order.message = secrets.token_urlsafe(), ""
                order.before, order.state = order.state, "unknown"
                try:
                    if error := await getattr(self, f"_{action}")(order, form):
                        raise error
                    order.before = "new"  # the gateway answered: whatever its records say is so
                except ga.GatewayError as error:
                    if not isinstance(error, ga.OutcomeUnknownError):
                        order.state, order.message = order.before, str(error)
                await self._look_up(order)
        on = "/checkout" if action == "checkout" and order.state == "waiting" else ""
        raise web.HTTPSeeOther(f"/orders/{order.order_no}{on}")

    async def _checkout(self, order: Order, _: object) -> None:
        """Open the gateway's payment page, and keep what forwards the shopper to it."""
        payment = ga.RedirectPayment(**order.fields("first_name", "note") | self.always)
        order.page = (await self.gateway.checkout(payment)).html

    async def _card(self, order: Order, form: Mapping[str, object]) -> None:
        """Pay by card. For the sandbox only: a shop that sees cards must never keep or log them."""
        card: dict[str, Any] = {name: str(form.get(name, "")).replace(" ", "") for name in CARD}
        payment = order.fields("first_name", "note") | self.always | card
        await self.gateway.pay_direct(ga.DirectPayment(**payment))

    async def _capture(self, order: Order, _: object) -> ga.GatewayError | None:
        return (await self.single.capture(ga.CaptureOrder(**order.fields("transaction_id")))).error

    async def _refund(self, order: Order, form: Mapping[str, object]) -> ga.GatewayError | None:
        part = {"refund_amount": str(form.get("refund_amount")), "refund_reason": "returned"}
        found = await self.single.refund(ga.RefundOrder(**order.fields("transaction_id") | part))
        if found.status is ga.OutcomeStatus.UNKNOWN:  # which may take a minute to settle
            order.settling = asyncio.create_task(self.gateway.recover([found]))
        return found.error


@contextlib.asynccontextmanager
async def open_shop() -> AsyncIterator[tuple[Shop, Sandbox]]:
    """Open the shop on this machine, and a gateway that knows where to send shoppers back."""
    async with contextlib.AsyncExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        sandbox = await stack.enter_async_context(Sandbox(return_url=f"{url}/orders/{{order_no}}"))
        us, dialect = sandbox.credentials, sandbox.dialect
        recovery = ga.RecoveryPolicy(record_baseline=True)
        client = ga.GatewayClient(sandbox.base_url, us, recovery=recovery, dialect=dialect)
        gateway = await stack.enter_async_context(client)
        shop = Shop(gateway, await stack.enter_async_context(gateway.coalesced()), url)
        runner = web.AppRunner(shop.app, shutdown_timeout=1)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        yield shop, sandbox


async def _main() -> None:
    async with open_shop() as (shop, _):
        print("The shop is open at", shop.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main())

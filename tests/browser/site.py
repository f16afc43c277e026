"""A merchant's smallest web site: a button that begins a payment, and pages to come back to."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import attrs
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway_async import ApmPayment, Credentials, GatewayClient, HmacSigner, RedirectPayment
from gateway_async.operations import Operation
from gateway_async.sandbox import Sandbox
from gateway_async.signing import SIGNATURE_FIELD

_HEAD = '<!DOCTYPE html><link rel="icon" href="data:,">'


@attrs.define(eq=False)
class Site:
    """The merchant's site and its gateway.

    Attributes:
        url: The address; `/cart` has the button, `/back` and `/left` are to come back to.
        sandbox: The gateway.
        gateway: The client.
        payment: What the button begins.
        html: The loading page; it has an address of its own, so that Back begins no payment.
        sent: The fields of the last request, exactly as they went out.
        told: The notifications that came.
    """

    url: str = ""
    sandbox: Sandbox = attrs.field(init=False)
    gateway: GatewayClient = attrs.field(init=False)
    payment: RedirectPayment | ApmPayment = attrs.field(init=False)
    html: str = ""
    sent: dict[str, str] = attrs.field(factory=dict)
    told: list[Mapping[str, str]] = attrs.field(factory=list)

    def application(self) -> web.Application:
        """Return the routes."""
        app = web.Application()
        app.router.add_get("/cart", self._show_cart)
        app.router.add_post("/cart", self._pay)
        app.router.add_get("/checkout", self._forward)
        app.router.add_post("/notify", self._notify)
        app.router.add_get("/{name:back|left}", self._show_end)
        return app

    def sign(self, operation: Operation, fields: Mapping[str, str]) -> str:
        """Sign a request, and keep what goes out."""
        signature = HmacSigner(self.sandbox.secret).sign(operation, fields)
        self.sent = {**fields, SIGNATURE_FIELD: signature}
        return signature

    async def _show_cart(self, _: web.Request) -> web.Response:
        return _page('<title>Cart</title><form method="post"><button>Buy</button></form>')

    async def _pay(self, _: web.Request) -> web.Response:
        if isinstance(self.payment, ApmPayment):
            result = await self.gateway.pay_apm(self.payment)
            raise web.HTTPSeeOther(result.issuer_url or "")
        self.html = (await self.gateway.checkout(self.payment)).html
        raise web.HTTPSeeOther("/checkout")

    async def _forward(self, _: web.Request) -> web.Response:
        return web.Response(text=self.html, content_type="text/html")

    async def _notify(self, request: web.Request) -> web.Response:
        self.told.append({name: str(value) for name, value in (await request.post()).items()})
        return web.Response()

    async def _show_end(self, request: web.Request) -> web.Response:
        return _page(f"<title>{request.match_info['name']}</title>")


def _page(text: str) -> web.Response:
    return web.Response(text=_HEAD + text, content_type="text/html")


@contextlib.asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    """Open the site and its gateway, which knows from its portal where shoppers go."""
    site = Site()
    async with TestServer(site.application(), host="127.0.0.1") as server:
        site.url = str(server.make_url("")).rstrip("/")
        back, left = f"{site.url}/back", f"{site.url}/left"
        async with Sandbox(return_url=back, cancel_url=left) as site.sandbox:
            credentials = Credentials(
                merchant_id=site.sandbox.merchant_id,
                account_id=site.sandbox.account_id,
                signer=site.sign,
            )
            async with GatewayClient(site.sandbox.base_url, credentials) as site.gateway:
                yield site

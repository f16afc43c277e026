"""What does one payment by card cost, against aiohttp alone?

Run as ``python -m benchmarks.direct_payment``. The floor posts a form, written beforehand, and
reads the bytes of the reply; the client writes the form from the model, signs it, sends it with
the evidence of sending, reads the XML, and holds it against the payment. Payments go one after
the other, as from a web request; both sides run in turn against the same stub in another process,
and figures are CPU time of this process.
"""

from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import aiohttp

from benchmarks.figures import at_most, cpu_costs, median_of, ratio_of, show
from benchmarks.stub import stub
from gateway_async import Credentials, DirectPayment, GatewayClient, HmacSigner, Item

if TYPE_CHECKING:
    from benchmarks.figures import Figure

ROUNDS = 15
PAYMENTS = 300

_CARD = {
    "card": "4111111111111111",
    "expiration_month": "12",
    "expiration_year": "2030",
    "security_code": "123",
}
_AMOUNTS = {
    "amount": "129.90",
    "item_total": "119.90",
    "shipping": "10.00",
    "handling": "1.00",
    "tax_total": "19.00",
    "insurance": "0.50",
    "shipping_discount": "1.50",
    "discount": "0.00",
}
_NAMES = """
    website note custom shopper_id shopper_email shopper_ip shopper_phone shopper_level
    first_name last_name birth_date billing_country billing_state billing_city billing_address
    billing_postal_code os browser browser_lang time_zone resolution cookie_new cookie_old
    color_depth delivery_firstname delivery_lastname delivery_country delivery_state
    delivery_city delivery_address delivery_postal_code device_fingerprint platform_source
    device_type notify_url open3d token_flag challenge_window_size session_id installments
    order_type user_agent price_id quote_id accept
"""
_TEXTS = {
    **{name: name for name in _NAMES.split()},
    "order_no": "N0000000001",
    "currency": "EUR",
    "delivery_address": "Straße des 17. Juni 135",
}
_PARTS = ("SKU-1", "Tea", "2", "59.95")


def make_payment() -> DirectPayment:
    """Return a payment with sixty fields."""
    amounts = {name: Decimal(text) for name, text in _AMOUNTS.items()}
    return DirectPayment(**_CARD, **amounts, **_TEXTS, items=[Item(parts=_PARTS)])  # type: ignore[arg-type]  # mypy sees one type in all of a dict


def make_form() -> bytes:
    """Return a body as the client would write it."""
    identity = {"merchant_id": "M1", "account_id": "A1"}
    fields = {**identity, **_TEXTS, **_AMOUNTS, **_CARD, "items": "#,#".join(_PARTS)}
    return urlencode({**fields, "encryption_data": "0" * 64}).encode()


async def floor(url: str) -> None:
    """Do what nobody can do without: post bytes and read bytes."""
    form = make_form()
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    async with aiohttp.ClientSession() as session:
        for _ in range(PAYMENTS):
            async with session.post(f"{url}/v1/authorise", data=form, headers=headers) as reply:
                await reply.read()


async def client(url: str) -> None:
    """Make as many payments by the client."""
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
    payment = make_payment()
    async with GatewayClient(url, credentials) as gateway:
        for _ in range(PAYMENTS):
            result = await gateway.pay_direct(payment)
            if result.order_status != "1":
                raise RuntimeError(f"the payment came to {result.order_status}")


def measure() -> "list[Figure]":
    """Return what a payment costs on either side, and the ratio."""
    with stub("payment") as url:
        sides = {"floor": (floor, url, PAYMENTS), "client": (client, url, PAYMENTS)}
        costs = cpu_costs(sides, ROUNDS)
    unit = "µs CPU a payment"
    return [
        median_of("a direct payment, raw aiohttp", costs["floor"], unit),
        median_of("a direct payment", costs["client"], unit),
        ratio_of(
            "a direct payment of 60 fields, XML back",
            costs["client"],
            costs["floor"],
            "x raw aiohttp",
            goal=at_most(1.8),
        ),
    ]


if __name__ == "__main__":
    show(measure())

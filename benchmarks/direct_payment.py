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
_TEXTS = {
    "order_no": "N0000000001",
    "currency": "EUR",
    "website": "https://shop.example",
    "note": "leave it at the door",
    "custom": "campaign 12",
    "shopper_id": "S0001",
    "shopper_email": "shopper@shop.example",
    "shopper_ip": "192.0.2.17",
    "shopper_phone": "+49301234567",
    "shopper_level": "gold",
    "first_name": "Erika",
    "last_name": "Mustermann",
    "birth_date": "1990-02-28",
    "billing_country": "DE",
    "billing_state": "BE",
    "billing_city": "Berlin",
    "billing_address": "Unter den Linden 17",
    "billing_postal_code": "10117",
    "os": "Linux",
    "browser": "Firefox",
    "browser_lang": "de",
    "time_zone": "+01:00",
    "resolution": "1920x1080",
    "cookie_new": "c00000001",
    "cookie_old": "c00000000",
    "color_depth": "24",
    "delivery_firstname": "Erika",
    "delivery_lastname": "Mustermann",
    "delivery_country": "DE",
    "delivery_state": "BE",
    "delivery_city": "Berlin",
    "delivery_address": "Straße des 17. Juni 135",
    "delivery_postal_code": "10623",
    "device_fingerprint": "0123456789abcdef",
    "platform_source": "web",
    "device_type": "PC",
    "notify_url": "https://shop.example/notify",
    "open3d": "do3DS",
    "token_flag": "NO",
    "challenge_window_size": "01",
    "session_id": "0123456789",
    "installments": "1",
    "order_type": "WEB",
    "user_agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "price_id": "P1",
    "quote_id": "Q1",
    "accept": "text/html,application/xhtml+xml",
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

"""What holds a secret is not pickled with it, and shows nothing of it."""

import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from gateway_async import (
    Credentials,
    DirectPayment,
    GatewayClient,
    GatewayError,
    HmacSigner,
    MpiInfo,
    OrderRef,
)
from tests.secrets.data import (
    CARD,
    CAVV,
    CODE,
    SIGNER_SECRET,
    TOKEN,
    direct_payment,
    payout_request,
    redirect_payment,
)
from tests.secrets.dragnet import Dragnet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OwnSigner:
    def __init__(self, secret: str) -> None:
        self.secret = secret

    def sign(self, operation: object, fields: "Mapping[str, str]") -> str:
        return f"{operation}{sorted(fields)}{self.secret}"

    def __repr__(self) -> str:
        return f"OwnSigner({self.secret!r})"


def credentials(signer: object = None) -> Credentials:
    return Credentials(
        merchant_id="M1",
        account_id="A1",
        signer=signer or HmacSigner(SIGNER_SECRET),
    )


def client() -> GatewayClient:
    return GatewayClient("https://gateway.example", credentials())


HOLDERS: "list[Callable[[], object]]" = [
    direct_payment,
    redirect_payment,
    credentials,
    lambda: credentials(OwnSigner(SIGNER_SECRET)),
    lambda: credentials(lambda _operation, _fields: SIGNER_SECRET),
    lambda: HmacSigner(SIGNER_SECRET),
    client,
    lambda: [*vars(client()).values()],
]


@pytest.mark.parametrize("make", HOLDERS)
def test_it_shows_no_secret_and_is_not_pickled(net: Dragnet, make: "Callable[[], object]") -> None:
    net.catch_object("holder", make())
    net.catch_object("in a container", {"holder": [make()]})
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(make(), protocol)


async def test_a_batch_is_not_pickled(net: Dragnet) -> None:
    batch = client().query([OrderRef(order_no="N-1")])
    with pytest.raises((TypeError, AttributeError)):
        pickle.dumps(batch)
    net.catch_object("batch", batch)
    batch.close()


def test_parts_of_a_secret_show_no_more_than_the_whole() -> None:
    payment = direct_payment()
    texts = (payment.card, payment.security_code, redirect_payment().token_id)
    for text in filter(None, texts):
        assert f"{text[:10]!r} {text[2:]} {text[-1]}" == "'***' *** ***"


def _wrong(**given: Any) -> "Callable[[], object]":
    return lambda: attrs.evolve(direct_payment(), **given)


PAID: dict[str, Any] = {"order_no": "N-1", "currency": "EUR", "amount": "12.30"}
PAY: Any = DirectPayment
SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))
ADDRESS, PROXY = "https://gateway.example", f"http://user:{SIGNER_SECRET}@proxy.example"
WRONG: "list[Callable[[], object]]" = [
    _wrong(amount="12,30"),
    _wrong(amount=12.3),
    _wrong(amount="-1"),
    _wrong(currency=""),
    _wrong(order_no=None),
    _wrong(expiration_month=11),
    _wrong(shopper_email="half \ud800"),
    _wrong(cart_items="no list"),
    _wrong(nonsense=1),
    lambda: PAY(**PAID, card=int(CARD)),
    lambda: PAY(**PAID, card=SPACED),
    lambda: PAY(**PAID, card=f"{CARD}\ud800"),
    lambda: PAY(**PAID, card=CARD.encode()),
    lambda: PAY(**PAID, card=CARD, security_code=int(CODE)),
    lambda: PAY(**PAID, card=CARD, security_code=f"{CODE}\udfff"),
    lambda: PAY(**PAID, token_id=[TOKEN]),
    lambda: PAY(**PAID, card=CARD, security_code=CODE, nonsense="x"),
    lambda: PAY(**PAID, card=CARD, security_code=CODE, items=(1 / 0 for _ in "x")),
    lambda: HmacSigner(SIGNER_SECRET, digest="nonsense"),
    lambda: HmacSigner(SIGNER_SECRET.encode()),  # type: ignore[arg-type]  # wrong on purpose
    lambda: HmacSigner(SIGNER_SECRET, excluded=7),  # type: ignore[arg-type]  # wrong on purpose
    lambda: HmacSigner(SIGNER_SECRET, nonsense=True),  # type: ignore[call-arg]  # wrong on purpose
    lambda: Credentials(merchant_id="M1", account_id="A1", signer=SIGNER_SECRET),
    lambda: Credentials(merchant_id="", account_id="A1", signer=HmacSigner(SIGNER_SECRET)),
    lambda: GatewayClient("http://gateway.example", credentials()),
    lambda: GatewayClient(ADDRESS, credentials(), proxy=PROXY, max_reply_bytes=0),
    lambda: GatewayClient(ADDRESS, credentials(), proxy=f"{PROXY}/path"),
    lambda: attrs.evolve(payout_request(), payment_amount="x"),
    lambda: MpiInfo(cavv=CAVV, eci=5),  # type: ignore[arg-type]  # wrong on purpose
]


@pytest.mark.parametrize("make", WRONG)
def test_what_is_made_wrongly_tells_nothing(net: Dragnet, make: "Callable[[], object]") -> None:
    with pytest.raises((TypeError, ZeroDivisionError, GatewayError)) as caught:
        make()
    net.catch_error("making", caught.value)

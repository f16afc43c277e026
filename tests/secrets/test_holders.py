"""What holds a secret is not pickled with it, and shows nothing of it."""

import logging
import pickle
from collections.abc import Callable
from typing import Any

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
from gateway_async.models.values import SignatureText
from gateway_async.notifications import SignatureVerifier
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import LateEffect
from tests.support.dragnet import SIGNER_SECRET, Dragnet, beyond_tests
from tests.support.examples import (
    CARD,
    CAVV,
    SECURITY_CODE,
    TOKEN,
    direct_payment,
    redirect_payment,
)

Make = Callable[[], object]
ADDRESS, PROXY = "https://gateway.example", f"http://user:{SIGNER_SECRET}@proxy.example"
SIGNER = HmacSigner(SIGNER_SECRET)
SPACED = " ".join(CARD[start : start + 4] for start in range(0, 16, 4))


@attrs.frozen
class OwnSigner:
    """A signer that shows its secret, as people write them."""

    secret: str

    def sign(self, operation: object, fields: object) -> str:
        return f"{operation}{fields}{self.secret}"


def credentials(signer: Any = SIGNER, merchant_id: str = "M1") -> Credentials:
    return Credentials(merchant_id=merchant_id, account_id="A1", signer=signer)


def client(address: str = ADDRESS, **settings: Any) -> GatewayClient:
    return GatewayClient(address, credentials(), **settings)


def lost(secret: str) -> None:
    """Raise an error that shows nothing, from a frame that has a secret."""
    raise GatewayError(f"lost, {len(secret)} characters long")


def test_the_net_finds_secrets_in_values_frames_and_logs_and_nowhere_else() -> None:
    net, signature = Dragnet(), "f00dfeed" * 8
    net.signatures.add(signature)
    net.add("here", f"<object at 0x7f{SECURITY_CODE}0>, 0.{SECURITY_CODE} s, Task-{SECURITY_CODE}")
    assert net.hits() == []
    for secret in (CARD, SPACED, SECURITY_CODE, SIGNER_SECRET, signature):
        net.catch(secret, [secret])
    with pytest.raises(GatewayError) as caught:
        lost(CARD)
    net.catch("raised", caught.value)
    net.handle(logging.makeLogRecord({"msg": "%s", "args": (CARD,)}))
    found = " ".join(net.hits())
    for label in (SPACED, SECURITY_CODE, SIGNER_SECRET, signature, "traceback", "rich", "log:"):
        assert label in found


async def test_a_sandbox_shows_nothing_of_a_request_that_is_still_to_take_effect() -> None:
    net = Dragnet()
    async with Sandbox() as sandbox:
        sandbox.faults.add("pay_direct", LateEffect(seconds=60))
        async with GatewayClient(sandbox.base_url, sandbox.credentials) as gateway:
            with pytest.raises(GatewayError):
                await gateway.pay_direct(direct_payment())
        net.catch("sandbox", sandbox, deep=False)
        sandbox.land_late_effects()
    assert net.hits() == []


HOLDERS: list[Make] = [
    *(direct_payment, redirect_payment, credentials, client),
    lambda: credentials(OwnSigner(SIGNER_SECRET)),
    lambda: credentials(lambda _operation, _fields: SIGNER_SECRET),
    lambda: HmacSigner(SIGNER_SECRET),
    lambda: SignatureVerifier(HmacSigner(SIGNER_SECRET)),
    lambda: attrs.asdict(HmacSigner(SIGNER_SECRET)),
    lambda: [*vars(client()).values()],
    lambda: client().query([OrderRef(order_no="N-1")]),
]


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("make", HOLDERS)
async def test_it_shows_no_secret_and_is_not_pickled(net: Dragnet, make: Make) -> None:
    net.catch("holder", make(), deep=False)
    net.catch("in a container", {"holder": [make()]}, deep=False)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(make(), protocol)


def test_parts_of_a_secret_show_no_more_than_the_whole(net: Dragnet) -> None:
    payment = direct_payment()
    for text in (payment.card, payment.security_code, redirect_payment().token_id):
        assert text is not None
        assert f"{text[:10]!r} {text[2:]} {text[-1]}" == "'***' *** ***"
    assert str(attrs.evolve(payment, card="12345678901").card) == "***"
    signature = "a1b2c3d4e5f60718" * 16
    net.signatures.add(signature)  # which tools cut that show it
    net.catch("signature", [SignatureText(signature)])


PAY: Any = DirectPayment
SIGN: Any = HmacSigner


def _payment(**given: Any) -> Make:
    paid = {"order_no": "N-1", "currency": "EUR", "amount": "12.30"}
    return lambda: PAY(**paid, **given)


def _changed(**given: Any) -> Make:
    return lambda: attrs.evolve(direct_payment(), **given)


WRONG: list[Make] = [
    *(_changed(amount=12.3), _changed(shopper_email="half \ud800"), _changed(nonsense=1)),
    *(_payment(card=card) for card in (int(CARD), f"{CARD}\ud800", CARD.encode(), SPACED)),
    _payment(card=CARD, security_code=f"{SECURITY_CODE}\udfff"),
    _payment(card=CARD, security_code=SECURITY_CODE, nonsense="x"),
    _payment(card=CARD, security_code=SECURITY_CODE, items=(1 / 0 for _ in "x")),
    _payment(token_id=[TOKEN]),
    lambda: SIGN(SIGNER_SECRET, digest="nonsense"),
    *(lambda: SIGN(SIGNER_SECRET.encode()), lambda: SIGN(f"{SIGNER_SECRET}\ud800")),
    lambda: SIGN(SIGNER_SECRET, nonsense=True),
    lambda: credentials(SIGNER_SECRET),
    lambda: client("http://gateway.example"),
    lambda: client(proxy=PROXY, max_reply_bytes=0),
    lambda: client(proxy=f"{PROXY}/path"),
    lambda: MpiInfo(cavv=CAVV, eci=5),  # type: ignore[arg-type]  # wrong on purpose
]


@pytest.mark.parametrize("make", WRONG)
def test_what_is_made_wrongly_tells_nothing(net: Dragnet, make: Make) -> None:
    with pytest.raises((TypeError, ZeroDivisionError, GatewayError)) as caught:
        make()
    net.catch("making", beyond_tests(caught.value))

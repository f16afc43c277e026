"""What the caller gives the client may break, and nothing shows."""

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import aiohttp
import attrs
import pytest

from gateway_async import Dialect, GatewayError, HmacSigner, Timeouts
from gateway_async.sandbox import faults
from tests.cancellation.places import asked
from tests.secrets.data import CARD, SIGNER_SECRET, direct_payment, payout_request
from tests.secrets.driving import drive, refunds, some

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from gateway_async import Operation
    from gateway_async.sandbox import Sandbox
    from tests.secrets.conftest import Opened
    from tests.secrets.dragnet import Dragnet

    Sign = Callable[[Operation, Mapping[str, str]], str]


def _raises(operation: "Operation", fields: "Mapping[str, str]") -> str:
    raise LookupError(f"{operation} of {fields} with {SIGNER_SECRET}")


def _raises_from_another(operation: "Operation", fields: "Mapping[str, str]") -> str:
    try:
        return _raises(operation, fields)
    except LookupError as error:
        raise ValueError(f"{fields}") from error


def _gives_bytes(operation: "Operation", fields: "Mapping[str, str]") -> Any:
    return HmacSigner(SIGNER_SECRET).sign(operation, fields).encode()


def _gives_half_a_character(operation: "Operation", fields: "Mapping[str, str]") -> str:
    return HmacSigner(SIGNER_SECRET).sign(operation, fields) + "\ud800"


class OwnSigner:
    """Signs as it should, and answers or raises when asked about a reply."""

    def __init__(self, answer: bool | None) -> None:
        self.answer = answer
        self.sign = HmacSigner(SIGNER_SECRET).sign

    def verify(self, operation: object, fields: "Mapping[str, str]", signature: str) -> bool:
        if self.answer is None:
            raise LookupError(f"{operation} {fields} {signature} {SIGNER_SECRET}")
        return self.answer


class Limiter:
    """Raises when entered or when left, whatever happens within."""

    def __init__(self, *, before: bool) -> None:
        self.before = before

    async def __aenter__(self) -> None:
        if self.before:
            raise LookupError("the limiter broke")

    async def __aexit__(self, *error: object) -> None:
        raise LookupError("the limiter broke")


SIGNERS: list[Any] = [
    _raises,
    _raises_from_another,
    _gives_bytes,
    _gives_half_a_character,
    lambda _operation, _fields: "rubbish",
    HmacSigner(f"{SIGNER_SECRET}\ud800"),
    HmacSigner(SIGNER_SECRET, check_replies=True),
    OwnSigner(answer=None),
    OwnSigner(answer=False),
    OwnSigner(answer=True),
]
NAMES = {"card": "pan", "security_code": "cvv", "amount": "card_amount"}
GIVEN: list[tuple[dict[str, Any], faults.Fault | None, tuple[type[BaseException], ...]]] = [
    *(({"signer": signer}, None, (GatewayError,)) for signer in SIGNERS),
    ({"limiter": Limiter(before=True)}, None, (GatewayError, LookupError)),
    ({"limiter": Limiter(before=False)}, None, (GatewayError, LookupError)),
    ({"limiter": Limiter(before=False)}, faults.DropReply(), (GatewayError, LookupError)),
    ({"limiter": Limiter(before=False)}, faults.CutReply(), (GatewayError, LookupError)),
    ({"dialect": Dialect(wire_names=NAMES)}, None, (GatewayError,)),
    ({"dialect": Dialect(echo_fields={"pay_direct": ()})}, None, (GatewayError,)),
]


@pytest.mark.parametrize("number", range(len(GIVEN)))
async def test_what_is_given(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox", number: int
) -> None:
    settings, fault, allowed = GIVEN[number]
    if fault:
        sandbox.faults.add("*", fault)
    came = await drive(net, opened(**settings), sandbox, some(number))
    errors = [value for value in came.values() if isinstance(value, BaseException)]
    assert [error for error in errors if not isinstance(error, allowed)] == []
    assert len(errors) == len(came) or "limiter" not in settings


async def test_a_limiter_that_raises_over_a_cancellation(
    net: "Dragnet", opened: "Opened", sandbox: "Sandbox"
) -> None:
    sandbox.faults.add("*", faults.NoReply())
    limiter: AbstractAsyncContextManager[object] = Limiter(before=False)
    paying = asyncio.create_task(
        opened(limiter=limiter, timeouts=Timeouts(reply_seconds=0.3)).pay_direct(direct_payment())
    )
    await asked(sandbox)
    paying.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await paying
    net.catch_error("cancelled", caught.value)


async def test_sessions_of_the_caller(net: "Dragnet", opened: "Opened", sandbox: "Sandbox") -> None:
    sandbox.faults.add("*", faults.DropReply(probability=0.5))
    async with aiohttp.ClientSession() as session:
        client = opened(session=session)
        await drive(net, client, sandbox)
    await drive(net, client, sandbox, some(0))


async def test_what_cannot_be_sent(net: "Dragnet", opened: "Opened", sandbox: "Sandbox") -> None:
    client = opened()
    wrong: list[Any] = [
        client.pay_direct(attrs.evolve(direct_payment(), amount=Decimal("1.234"))),
        client.pay_direct(payout_request()),  # type: ignore[arg-type]  # wrong on purpose
        client.payout(direct_payment()),  # type: ignore[arg-type]  # wrong on purpose
        client.checkout(direct_payment()),  # type: ignore[arg-type]  # wrong on purpose
        client.refund([direct_payment()]),  # type: ignore[list-item]  # wrong on purpose
        client.refund(iter([direct_payment()])),  # type: ignore[arg-type]  # wrong on purpose
        client.call("/v1/authorise", {"card": direct_payment().card}),
        client.call("/v1/authorise", {"card": 1.5}),
        client.call("authorise", {}),
        client.call("authorise", {"card": CARD}),
        client.call("/v1/authorise", {"card": CARD, "amount": 1.5}),
        client.call("/v1/authorise", {"card": CARD, "merchant_id": CARD}),
        client.call("/v1/authorise", {"card": [CARD, object()]}),
        client.call("/v1/authorise", {"card": f"{CARD}\ud800"}),
        client.call("/v1/authorise", {"card": CARD}, reply="yaml"),
        client.call("/v1/x", {"card": "\ud800"}, body="json"),
    ]
    for made in await asyncio.gather(*wrong, return_exceptions=True):
        if isinstance(made, BaseException):
            net.catch_error("wrong", made)
        else:
            net.catch_object("wrong", made, deep=True)
    (order,) = refunds(sandbox, 1)
    with pytest.raises(GatewayError) as caught:
        await client.refund([attrs.evolve(order, refund_amount=Decimal("0.001"))])
    net.catch_error("wrong", caught.value)
    await client.aclose()
    with pytest.raises(GatewayError) as caught:
        await client.pay_direct(direct_payment())
    net.catch_error("closed", caught.value)

"""One payment and one payout with every field set, and every call of a client that is no batch."""

from collections.abc import Awaitable, Callable
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar, get_args

import attrs

from gateway_async import (
    ApmPayment,
    DirectPayment,
    GatewayClient,
    Item,
    PayoutRequest,
    RedirectPayment,
)

CARD = "4929618044173051"
SECURITY_CODE = "9137"
TOKEN = "token-for-a-card-" + "Qx7" * 40
COOKIE = "fraud-cookie-Wv55"
CAVV = "AAABBEg0VhI0VniQEjRWAAAAAAA="
SECRETS = (CARD, SECURITY_CODE, TOKEN, COOKIE, CAVV)
GIVEN: dict[str, Any] = {
    "card": CARD,
    "security_code": SECURITY_CODE,
    "token_id": TOKEN,
    "antifraud_token_cookie": COOKIE,
    "cavv": CAVV,
    "items": (Item(parts=("SKU-1", "Tea", "2", "9.90")), Item(parts=("SKU-2", "", "1", "1"))),
    "request_id": "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11",
    "date_of_birth": date(1990, 2, 28),
    "payment_date": date(2024, 1, 31),
    "labels": ("passport", "front"),
}
"""Fields of texts that have a form, wherever they stand."""

_Model = TypeVar("_Model")


def full(model: type[_Model]) -> _Model:
    """Return an instance with every field set: texts to their own name, amounts to 1.50."""
    attrs.resolve_types(model)  # type: ignore[type-var]  # every model is an attrs class
    return model(**{one.name: _sample(one) for one in attrs.fields(model)})  # type: ignore[arg-type]


def _sample(field: "attrs.Attribute[Any]") -> object:
    kind = _first_in(field.type)
    if attrs.has(kind) and kind is not Item:
        return [full(kind)] if "Sequence" in str(field.type) else full(kind)
    usual = {int: 12, Decimal: Decimal("1.50")}
    return GIVEN.get(field.name, usual.get(kind, f"<{field.name}>"))


def _first_in(kind: Any) -> Any:
    """Return the first type of a union, or of the elements of a sequence."""
    return _first_in(parts[0]) if (parts := get_args(kind)) else kind


def paid_by_card() -> DirectPayment:
    """Return a payment without the token that a result would give the program."""
    return attrs.evolve(full(DirectPayment), token_id=None)


SINGLES: dict[str, Callable[[GatewayClient], Awaitable[Any]]] = {
    "recent_transactions": lambda client: client.recent_transactions(),
    "recent_refunds": lambda client: client.recent_refunds(),
    "pay_direct": lambda client: client.pay_direct(paid_by_card()),
    "pay_apm": lambda client: client.pay_apm(full(ApmPayment)),
    "checkout": lambda client: client.checkout(full(RedirectPayment)),
    "payout": lambda client: client.payout(full(PayoutRequest)),
    "payouts": lambda client: client.payouts([full(PayoutRequest)]),
    "call for JSON": lambda client: client.call("/v1/retrievalTrans", {"order_no": "1"}),
    "call for XML": lambda client: client.call("/v1/authorise", {"order_no": "1"}, reply="xml"),
    "call for text": lambda client: client.call("/v1/checkout", {"card": "x"}, reply="text"),
}

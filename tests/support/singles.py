"""Every call of a client that is no batch, made once."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from gateway_async import DirectPayment, GatewayClient
from tests.models import examples


def paid_by_card() -> DirectPayment:
    """Return a payment without the token that a result would give the program."""
    return attrs.evolve(examples.direct_payment(), token_id=None)


SINGLES: dict[str, Callable[[GatewayClient], Awaitable[Any]]] = {
    "recent_transactions": lambda client: client.recent_transactions(),
    "recent_refunds": lambda client: client.recent_refunds(),
    "pay_direct": lambda client: client.pay_direct(paid_by_card()),
    "pay_apm": lambda client: client.pay_apm(examples.apm_payment()),
    "checkout": lambda client: client.checkout(examples.redirect_payment()),
    "payout": lambda client: client.payout(examples.payout_request()),
    "payouts": lambda client: client.payouts([examples.payout_request()]),
    "call for JSON": lambda client: client.call("/v1/retrievalTrans", {"order_no": "1"}),
    "call for XML": lambda client: client.call("/v1/authorise", {"order_no": "1"}, reply="xml"),
    "call for text": lambda client: client.call("/v1/checkout", {"card": "x"}, reply="text"),
}

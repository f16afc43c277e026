"""Every operation of a client, called once."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from gateway_async import Batch, DirectPayment, GatewayClient
from gateway_async.sandbox import SeededOrder
from tests.models import examples
from tests.orders import orders_for

NEEDS: dict[str, Any] = {
    **dict.fromkeys(("capture", "cancel", "review"), "authorised"),
    **dict.fromkeys(("refund", "query", "search_refunds"), "captured"),
}
"""The batches, each with the status that its orders need to have."""


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


def batch_of(name: str, client: GatewayClient, orders: list[SeededOrder]) -> Batch[Any, Any]:
    """Return a batch of these orders."""
    return client.batch(name, orders_for(name, orders))

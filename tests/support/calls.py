"""Each kind of call that a client can make, by name, of made-up orders."""

from collections.abc import Awaitable, Callable
from typing import Any

from gateway_async import ApmPayment, GatewayClient
from tests.orders import PAYMENT, direct_payment, payout_request, references, refunds

Call = Callable[[GatewayClient], Awaitable[Any]]
SINGLES: dict[str, Call] = {
    "pay_direct": lambda gateway: gateway.pay_direct(direct_payment()),
    "pay_apm": lambda gateway: gateway.pay_apm(ApmPayment(**PAYMENT, payment_method="pix")),
    "payout": lambda gateway: gateway.payout(payout_request()),
}
"""Those that move money for one payment."""
READS: dict[str, Call] = {
    "query": lambda gateway: gateway.query(references(1)),
    "page": lambda gateway: gateway.recent_transactions(),
}
CALLS: dict[str, Call] = {
    **SINGLES,
    **READS,
    "refund": lambda gateway: gateway.refund(refunds(1)),
    "payouts": lambda gateway: gateway.payouts([payout_request()]),
}

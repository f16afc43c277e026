"""Every operation of the client, driven once, and all that comes of it put into the net."""

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway_async import (
    BatchIncompleteError,
    CancelOrder,
    CaptureOrder,
    OrderRef,
    RefundOrder,
    ReviewOrder,
)
from tests.secrets.data import apm_payment, direct_payment, payout_request, redirect_payment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from gateway_async import Batch, GatewayClient
    from gateway_async.sandbox import Sandbox, SeededOrder
    from tests.secrets.dragnet import Dragnet

    Drive = Callable[[GatewayClient, Sandbox], Awaitable[object]]


def _fields(order: "SeededOrder") -> dict[str, Any]:
    return {
        "transaction_id": order.transaction_id,
        "order_no": order.order_no,
        "currency": order.currency,
        "amount": order.amount,
    }


def refunds(sandbox: "Sandbox", count: int = 3) -> list[RefundOrder]:
    seeded = sandbox.seed(count, status="captured")
    return [RefundOrder(**_fields(order), refund_amount=Decimal("4.00")) for order in seeded]


async def _awaited(batch: "Batch[Any, Any]") -> object:
    result = await batch
    try:
        result.raise_for_problems()
    except BatchIncompleteError as error:
        return [result, batch, batch.progress, error]
    return [result, batch, batch.progress]


async def _capture(client: "GatewayClient", sandbox: "Sandbox") -> object:
    return await _awaited(client.capture([CaptureOrder(**_fields(o)) for o in sandbox.seed(3)]))


async def _cancel(client: "GatewayClient", sandbox: "Sandbox") -> object:
    return await _awaited(client.cancel([CancelOrder(**_fields(o)) for o in sandbox.seed(3)]))


async def _review(client: "GatewayClient", sandbox: "Sandbox") -> object:
    return await _awaited(
        client.review([ReviewOrder(**_fields(o), review_flag="1") for o in sandbox.seed(3)])
    )


async def _refund(client: "GatewayClient", sandbox: "Sandbox") -> object:
    return await _awaited(client.refund(refunds(sandbox)))


async def _streamed_refund(client: "GatewayClient", sandbox: "Sandbox") -> object:
    async with client.refund(refunds(sandbox)) as batch:
        outcomes = [outcome async for outcome in batch]
    return [outcomes, batch, batch.result]


async def _query(client: "GatewayClient", sandbox: "Sandbox") -> object:
    refs = [OrderRef(order_no=order.order_no) for order in sandbox.seed(3)]
    return await _awaited(client.query([*refs, OrderRef(order_no="nobody")]))


async def _search(client: "GatewayClient", sandbox: "Sandbox") -> object:
    seeded = sandbox.seed(2, status="captured")
    refs = [OrderRef(transaction_id=order.transaction_id) for order in seeded]
    return await _awaited(client.search_refunds(refs))


OPERATIONS: "Mapping[str, Drive]" = {
    "capture": _capture,
    "cancel": _cancel,
    "review": _review,
    "refund": _refund,
    "streamed refund": _streamed_refund,
    "query": _query,
    "search_refunds": _search,
    "recent_transactions": lambda client, _: client.recent_transactions(),
    "recent_refunds": lambda client, _: client.recent_refunds(),
    "pay_direct": lambda client, _: client.pay_direct(direct_payment()),
    "pay_apm": lambda client, _: client.pay_apm(apm_payment()),
    "checkout": lambda client, _: client.checkout(redirect_payment()),
    "payout": lambda client, _: client.payout(payout_request()),
    "payouts": lambda client, _: _awaited(client.payouts([payout_request()])),
    "call": lambda client, _: client.call("/v1/retrievalTrans", {"order_no": "N-1"}),
    "call as text": lambda client, _: client.call("/v1/checkout", {"card": "x"}, reply="text"),
}


async def drive(
    net: "Dragnet", client: "GatewayClient", sandbox: "Sandbox"
) -> "Mapping[str, object]":
    """Run every operation at the same time; return result or error of each, by name."""
    made = await asyncio.gather(
        *(operation(client, sandbox) for operation in OPERATIONS.values()), return_exceptions=True
    )
    came = dict(zip(OPERATIONS, made, strict=True))
    for name, value in came.items():
        if isinstance(value, BaseException):
            net.catch_error(name, value)
        elif name not in ("checkout", "call as text"):
            net.catch_object(name, value, deep=True)
    for shown in (client, client._session, client._transport):
        net.catch_object("client", shown)
    return came

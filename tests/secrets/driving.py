"""Operations of the client, driven once, and all that comes of them put into the net."""

import asyncio
from typing import TYPE_CHECKING, Any

from gateway_async import BatchIncompleteError, OrderRef
from tests.orders import orders_for
from tests.secrets.data import apm_payment, direct_payment, payout_request, redirect_payment

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from gateway_async import Batch, GatewayClient
    from gateway_async.sandbox import Sandbox
    from tests.secrets.dragnet import Dragnet

    Drive = Callable[[GatewayClient, Sandbox], Awaitable[object]]


def refunds(sandbox: "Sandbox", count: int = 3) -> list[Any]:
    return orders_for("refund", sandbox.seed(count, status="captured"))


def _batch(operation: str, status: str = "authorised") -> "Drive":
    def call(client: "GatewayClient", sandbox: "Sandbox") -> "Awaitable[object]":
        orders = orders_for(operation, sandbox.seed(3, status=status))
        return _awaited(getattr(client, operation)(orders))

    return call


async def _awaited(batch: "Batch[Any, Any]") -> object:
    result = await batch
    try:
        result.raise_for_problems()
    except BatchIncompleteError as error:
        return [result, batch, batch.progress, error]
    return [result, batch, batch.progress]


async def _streamed_refund(client: "GatewayClient", sandbox: "Sandbox") -> object:
    async with client.refund(refunds(sandbox)) as batch:
        outcomes = [outcome async for outcome in batch]
    return [outcomes, batch, batch.result]


async def _query(client: "GatewayClient", sandbox: "Sandbox") -> object:
    refs = [OrderRef(order_no=order.order_no) for order in sandbox.seed(3)]
    return await _awaited(client.query([*refs, OrderRef(order_no="nobody")]))


OPERATIONS: "Mapping[str, Drive]" = {
    "capture": _batch("capture"),
    "cancel": _batch("cancel"),
    "review": _batch("review"),
    "refund": _batch("refund", "captured"),
    "streamed refund": _streamed_refund,
    "query": _query,
    "search_refunds": _batch("search_refunds", "captured"),
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


USUAL = ("pay_direct", "payout", "refund", "query")
"""One operation of each class and of each format on the wire."""


def some(number: int) -> "Sequence[str]":
    """Return the usual operations, and of all others the next two: so each has its turn."""
    others = [name for name in OPERATIONS if name not in USUAL]
    return (*USUAL, *(others[(2 * number + more) % len(others)] for more in (0, 1)))


async def drive(
    net: "Dragnet",
    client: "GatewayClient",
    sandbox: "Sandbox",
    names: "Sequence[str]" = tuple(OPERATIONS),
) -> "Mapping[str, object]":
    """Run operations at the same time; return result or error of each, by name."""
    made = await asyncio.gather(
        *(OPERATIONS[name](client, sandbox) for name in names), return_exceptions=True
    )
    came = dict(zip(names, made, strict=True))
    for name, value in came.items():
        if isinstance(value, BaseException):
            net.catch_error(name, value)
        elif name not in ("checkout", "call as text"):
            net.catch_object(name, value, deep=True)
    for shown in (client, *vars(client).values()):
        net.catch_object("client", shown)
    return came

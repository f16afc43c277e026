"""What does a refund batch cost an order, against aiohttp alone?

Run as ``python -m benchmarks.refund_batch``. The floor posts one body, written beforehand, and
parses the replies with orjson; the client signs, writes, sends, matches and judges. Both run in
turn against the same stub in another process; figures are CPU time of this process.
"""

import asyncio
import itertools
import statistics
import time
from decimal import Decimal
from typing import TYPE_CHECKING

import aiohttp
import orjson

from benchmarks.replies import ORDERS, names
from benchmarks.stub import stub
from gateway_async import (
    BatchPolicy,
    Credentials,
    GatewayClient,
    HmacSigner,
    OutcomeStatus,
    RefundOrder,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REQUESTS = 400
ROUNDS = 7
CONCURRENCY = 8


def make_orders() -> list[RefundOrder]:
    """Return the orders that the stub's reply is about."""
    return [
        RefundOrder(
            **names(number),
            currency="EUR",
            amount=Decimal("100.00"),
            refund_amount=Decimal("10.00"),
            refund_reason="customer request",
        )
        for number in range(ORDERS)
    ]


def make_body() -> bytes:
    """Return a request body as the client would write it."""
    orders = [
        {
            **names(number),
            "currency": "EUR",
            "amount": "100.00",
            "refund_amount": "10.00",
            "refund_reason": "customer request",
        }
        for number in range(ORDERS)
    ]
    identity = {"merchant_id": "M1", "account_id": "A1"}
    return orjson.dumps({**identity, "refund_orders": orders, "encryption_data": "0" * 64})


async def floor(url: str) -> None:
    """Do what nobody can do without: post bytes and parse replies."""
    body = make_body()
    turns = iter(range(REQUESTS))
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:

        async def work() -> None:
            for _ in turns:
                async with session.post(f"{url}/v1/refund", data=body, headers=headers) as reply:
                    orjson.loads(await reply.read())

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


async def client(url: str) -> None:
    """Refund the same orders by the client, streamed, with all that keeps them safe."""
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
    policy = BatchPolicy(concurrency=CONCURRENCY, duplicates="allow")
    orders = itertools.chain.from_iterable(itertools.repeat(make_orders(), REQUESTS))
    succeeded = 0
    async with (
        GatewayClient(url, credentials, policy=policy) as gateway,
        gateway.refund(orders) as batch,
    ):
        async for outcome in batch:
            succeeded += outcome.status is OutcomeStatus.SUCCEEDED
    if succeeded != REQUESTS * ORDERS:
        raise RuntimeError(f"only {succeeded} of {REQUESTS * ORDERS} orders succeeded")


def cpu_an_order(run: "Callable[[str], Awaitable[None]]", url: str) -> float:
    """Return the CPU time of one run, in microseconds an order."""
    started = time.process_time()
    asyncio.run(run(url))  # type: ignore[arg-type]  # a coroutine function
    return (time.process_time() - started) / (REQUESTS * ORDERS) * 1e6


def main() -> None:
    """Run both in turn, and print the ratios' median and quartiles."""
    with stub() as url:
        pairs = [(cpu_an_order(floor, url), cpu_an_order(client, url)) for _ in range(ROUNDS)]
    ratios = [ours / least for least, ours in pairs]
    lower, median, upper = statistics.quantiles(ratios, n=4)
    print(f"floor  {statistics.median(least for least, _ in pairs):6.2f} µs CPU an order")
    print(f"client {statistics.median(ours for _, ours in pairs):6.2f} µs CPU an order")
    print(f"ratio  {median:6.2f} (quartiles {lower:.2f} and {upper:.2f})")


if __name__ == "__main__":
    main()

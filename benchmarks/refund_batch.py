"""What does a refund batch cost an order, against aiohttp alone?

Run as ``python -m benchmarks.refund_batch``. The floor posts one body, written beforehand, and
parses the replies with orjson; the client signs, writes, sends, matches and judges. All run in
turn against the same stub in another process; figures are CPU time of this process.
"""

import asyncio
import functools
import itertools
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from benchmarks.figures import Figure, at_most, cpu_costs, median_of, ratio_of, show
from benchmarks.replies import ORDERS, names
from benchmarks.stub import stub
from gateway_async import (
    BatchPolicy,
    Credentials,
    GatewayClient,
    HmacSigner,
    OutcomeStatus,
    RefundOrder,
    RefundRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Run
    from gateway_async import BatchResult

REQUESTS = 200
ROUNDS = 15
CONCURRENCY = 8


_NAMES = tuple(map(names, range(ORDERS)))
_AMOUNT, _REFUND_AMOUNT = Decimal("100.00"), Decimal("10.00")


def make_orders() -> tuple[RefundOrder, ...]:
    """Return the orders that the stub's reply is about."""
    return tuple(
        [
            RefundOrder(
                **each,
                currency="EUR",
                amount=_AMOUNT,
                refund_amount=_REFUND_AMOUNT,
                refund_reason="customer request",
            )
            for each in _NAMES
        ]
    )


made_orders = functools.cache(make_orders)
"""The same, made once: a caller makes them, whatever they are refunded with."""


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


def client_at(url: str, **settings: Any) -> GatewayClient:  # noqa: ANN401  # of any kind
    """Return a client of the stub, which knows few orders, so that they repeat."""
    return GatewayClient(
        url,
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret")),
        policy=BatchPolicy(concurrency=CONCURRENCY, duplicates="allow"),
        **settings,
    )


def one_by_one() -> "Iterator[RefundOrder]":
    """Return all orders of one run, to be taken one by one."""
    return itertools.chain.from_iterable(itertools.repeat(made_orders(), REQUESTS))


def expect(done: int, orders: int) -> None:
    """See that every order was done."""
    if done != orders:
        raise RuntimeError(f"only {done} of {orders} orders succeeded")


async def floor(url: str) -> None:
    """Do what nobody can do without: post bytes and parse replies."""
    body = make_body()
    turns = iter(range(REQUESTS))
    headers = {"Content-Type": "application/json"}
    cookies = aiohttp.DummyCookieJar()  # the client keeps none either
    async with aiohttp.ClientSession(cookie_jar=cookies) as session:

        async def work() -> None:
            for _ in turns:
                async with session.post(f"{url}/v1/refund", data=body, headers=headers) as reply:
                    orjson.loads(await reply.read())

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


async def awaited(url: str) -> "BatchResult[RefundOrder, RefundRecord]":
    """Await the whole batch, and ask whether all went well."""
    async with client_at(url) as gateway:
        result = await gateway.refund(one_by_one())
    expect(result.counts[OutcomeStatus.SUCCEEDED] * result.ok, REQUESTS * ORDERS)
    return result


async def awaited_of_list(url: str) -> None:
    """The same with the orders in a list, which is checked whole before anything is sent."""
    orders = list(one_by_one())
    async with client_at(url) as gateway:
        result = await gateway.refund(orders)
    expect(result.counts[OutcomeStatus.SUCCEEDED] * result.ok, REQUESTS * ORDERS)


async def client(url: str) -> None:
    """Refund the same orders by the client, streamed, and look at every outcome."""
    succeeded = 0
    async with client_at(url) as gateway, gateway.refund(one_by_one()) as batch:
        async for outcome in batch:
            succeeded += outcome.status is OutcomeStatus.SUCCEEDED
    expect(succeeded, REQUESTS * ORDERS)


async def awaited_and_read(url: str) -> None:
    """Await the whole batch, and read every record."""
    result = await awaited(url)
    expect(sum(isinstance(outcome.record, RefundRecord) for outcome in result), REQUESTS * ORDERS)


async def streamed_and_read(url: str) -> None:
    """Stream the batch, and read every record as it comes."""
    read = 0
    async with client_at(url) as gateway, gateway.refund(one_by_one()) as batch:
        async for outcome in batch:
            read += isinstance(outcome.record, RefundRecord)
    expect(read, REQUESTS * ORDERS)


async def making(url: str) -> None:
    """Make as many orders, and send nothing."""
    del url
    for _ in range(REQUESTS):
        make_orders()


RUNS: "dict[str, tuple[Run, float | None]]" = {
    "aiohttp and orjson, bodies written beforehand": (floor, None),
    "the orders made, nothing sent": (making, 0.6),
    "awaited, result.ok and counts read": (awaited, 1.6),
    "the same, the orders in a list": (awaited_of_list, 1.6),
    "streamed, every status read": (client, 1.7),
    "awaited, every record read": (awaited_and_read, 2.1),
    "streamed, every record read": (streamed_and_read, 2.1),
}
"""Each side, and how often it may cost the first of them."""


def measure() -> list[Figure]:
    """Run all sides in turn.

    Returns:
        The CPU time of an order for each, and as a multiple of the floor.
    """
    with stub() as url:
        sides = {name: (run, url, REQUESTS * ORDERS) for name, (run, _) in RUNS.items()}
        costs = cpu_costs(sides, ROUNDS)
    least = next(iter(costs.values()))
    absolute = [median_of(name, cost, "µs CPU an order") for name, cost in costs.items()]
    return absolute + [
        ratio_of(name, costs[name], least, "x floor", goal=at_most(goal))
        for name, (_, goal) in RUNS.items()
        if goal
    ]


if __name__ == "__main__":
    show(measure())

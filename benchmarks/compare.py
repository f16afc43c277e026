"""What does an order cost beside what users would pick instead?

Run as ``python -m benchmarks.compare``; the peers come with the dependency group ``bench``. Each
does its job in turn against a stub that answers in the peer's own words: 50 orders a request where
the peer can, one by one where it cannot. Figures are CPU time of this process.
"""

import asyncio
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import elasticsearch
import httpx
import stripe
from elasticsearch.helpers import async_streaming_bulk

# The client has no public name yet; without it, stripe takes httpx.
from stripe._http_client import AIOHTTPClient

from benchmarks import refund_batch
from benchmarks.figures import Figure, at_most, cpu_costs, median_of, ratio_of, show
from benchmarks.replies import ORDERS, names
from benchmarks.stub import stub

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.figures import Run

CONCURRENCY = 8
REQUESTS = 100
SINGLES = 400
ROUNDS = 7
FIELDS = {
    "currency": "EUR",
    "amount": "100.00",
    "refund_amount": "10.00",
    "refund_reason": "customer request",
}


def signed_by_hand(orders: list[dict[str, str]]) -> bytes:
    """Write and sign a refund request, as somebody would who has an afternoon for it."""
    fields: dict[str, Any] = {"merchant_id": "M1", "account_id": "A1", "refund_orders": orders}
    text = "&".join(f"{name}={json.dumps(fields[name])}" for name in sorted(fields))
    signature = hmac.new(b"secret", text.encode(), hashlib.sha256).hexdigest()
    return json.dumps({**fields, "encryption_data": signature}).encode()


def read_by_hand(orders: list[dict[str, str]], body: bytes) -> int:
    """Count the orders that succeeded, matched by their transaction."""
    reply = json.loads(body)
    items = {item["transaction_id"]: item for item in reply["refund_orders"]}
    return sum(items[order["transaction_id"]]["refund_status"] == "1" for order in orders)


async def in_flight(send: "Callable[[list[dict[str, str]]], Awaitable[int]]") -> None:
    """Refund by gather and a semaphore, and see that every order succeeded."""
    free = asyncio.Semaphore(CONCURRENCY)
    orders = [{**names(number), **FIELDS} for number in range(ORDERS)]

    async def one() -> int:
        async with free:
            return await send(orders)

    counts = await asyncio.gather(*(one() for _ in range(REQUESTS)))
    expect(sum(counts), REQUESTS * ORDERS)


async def gather(url: str) -> None:
    """Refund by aiohttp, gather and a semaphore, written by hand."""
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:

        async def send(orders: list[dict[str, str]]) -> int:
            body = signed_by_hand(orders)
            async with session.post(f"{url}/v1/refund", data=body, headers=headers) as reply:
                return read_by_hand(orders, await reply.read())

        await in_flight(send)


async def by_httpx(url: str) -> None:
    """Refund by httpx, gather and a semaphore, written by hand."""
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(trust_env=False) as session:

        async def send(orders: list[dict[str, str]]) -> int:
            body = signed_by_hand(orders)
            reply = await session.post(f"{url}/v1/refund", content=body, headers=headers)
            return read_by_hand(orders, reply.content)

        await in_flight(send)


async def by_stripe(url: str) -> None:
    """Refund one by one by stripe's asyncio client, on aiohttp."""
    transport = AIOHTTPClient()
    client = stripe.StripeClient("sk_test_none", base_addresses={"api": url}, http_client=transport)
    free = asyncio.Semaphore(CONCURRENCY)

    async def one() -> bool:
        async with free:
            refund = await client.v1.refunds.create_async(
                {
                    "charge": "ch_1NirD82eZvKYlo2CIvbtLWuY",
                    "amount": 1000,
                    "reason": "requested_by_customer",
                }
            )
            return refund.status == "succeeded"

    expect(sum(await asyncio.gather(*(one() for _ in range(SINGLES)))), SINGLES)
    await transport.close_async()  # type: ignore[no-untyped-call]  # stripe gives it no types


async def by_elasticsearch(url: str) -> None:
    """Index the orders by elasticsearch-py's bulk helper and orjson, 50 a request."""
    serializer = elasticsearch.OrjsonSerializer()
    actions = (
        {"_index": "refunds", "_id": names(number)["transaction_id"], **names(number), **FIELDS}
        for _ in range(REQUESTS)
        for number in range(ORDERS)
    )
    async with elasticsearch.AsyncElasticsearch(url, serializer=serializer) as client:
        done = 0
        async for is_done, _ in async_streaming_bulk(client, actions, chunk_size=ORDERS):
            done += is_done
    expect(done, REQUESTS * ORDERS)


def expect(done: int, orders: int) -> None:
    """See that the peer did its job."""
    if done != orders:
        raise RuntimeError(f"only {done} of {orders} orders succeeded")


PEERS: "dict[str, tuple[Run, str, int]]" = {
    "aiohttp and orjson, bodies written beforehand (the floor)": (
        refund_batch.floor,
        "refund",
        refund_batch.REQUESTS * ORDERS,
    ),
    "gateway_async": (refund_batch.client, "refund", refund_batch.REQUESTS * ORDERS),
    "aiohttp, gather and semaphore by hand": (gather, "refund", REQUESTS * ORDERS),
    "httpx, gather and semaphore by hand": (by_httpx, "refund", REQUESTS * ORDERS),
    "elasticsearch-py and orjson, bulk of 50": (
        by_elasticsearch,
        "elasticsearch_bulk",
        REQUESTS * ORDERS,
    ),
    "stripe-python on aiohttp, one by one": (by_stripe, "stripe_refund", SINGLES),
}
"""Each peer: how it does the job, which stub it talks to, and how many orders that is."""

OURS = "gateway_async"
GOALS = {
    "elasticsearch-py and orjson, bulk of 50": at_most(0.35),
    "stripe-python on aiohttp, one by one": at_most(1 / 60),
}
"""How much of a peer's CPU time ours is to take at most."""


def measure() -> list[Figure]:
    """Measure all peers in turn.

    Returns:
        The CPU time an order of each, and ours as a share of it.
    """
    with (
        stub("refund") as refunds,
        stub("elasticsearch_bulk") as bulk,
        stub("stripe_refund") as single,
    ):
        urls = {"refund": refunds, "elasticsearch_bulk": bulk, "stripe_refund": single}
        sides = {name: (run, urls[kind], orders) for name, (run, kind, orders) in PEERS.items()}
        costs = cpu_costs(sides, ROUNDS)
    absolute = [median_of(name, costs[name], "µs CPU an order") for name in PEERS]
    shares = [
        ratio_of(f"{OURS}, beside {name}", costs[OURS], costs[name], "x", goal=GOALS.get(name))
        for name in PEERS
        if name != OURS
    ]
    return absolute + shares


if __name__ == "__main__":
    show(measure())

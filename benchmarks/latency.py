"""How much of the time is lost when every request takes a while?

Run as ``python -m benchmarks.latency``. The stub answers after 50 ms, so that a batch takes that
long for as many requests as are in flight at once, and no batch is faster. The figure is that
ideal time as a share of the actual one, connecting included: 1 if every place is refilled at once.
Beside it stands the same by aiohttp alone, for a machine that has other things to do as well.
"""

import asyncio
import itertools
import time

import aiohttp

from benchmarks import refund_batch
from benchmarks.figures import Figure, alternate, at_least, median_of, show
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async import BatchPolicy, OutcomeStatus

SECONDS, CONCURRENCY = 0.05, 100
TURNS = 50
"""How often each place is filled: connecting weighs as little as in a job."""
ROUNDS = 3
IDEAL = TURNS * SECONDS


async def batch(url: str) -> float:
    """Run a batch in which every place is filled `TURNS` times; return the share of the ideal."""
    requests = CONCURRENCY * TURNS
    policy = BatchPolicy(concurrency=CONCURRENCY, duplicates="allow")
    orders = itertools.repeat(refund_batch.made_orders(), requests)
    async with refund_batch.client_at(url) as gateway:
        started = time.perf_counter()
        result = await gateway.refund(itertools.chain.from_iterable(orders), policy=policy)
        share = IDEAL / (time.perf_counter() - started)
    refund_batch.expect(result.counts[OutcomeStatus.SUCCEEDED], requests * ORDERS)
    return share


async def floor(url: str) -> float:
    """Do the same with one body, written beforehand, by as many tasks."""
    body, headers = refund_batch.make_body(), {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=CONCURRENCY)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def work() -> None:
            for _ in range(TURNS):
                async with session.post(f"{url}/v1/refund", data=body, headers=headers) as reply:
                    await reply.read()

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
        return IDEAL / (time.perf_counter() - started)


def measure() -> list[Figure]:
    """Measure the share of the ideal, in turn with aiohttp's own."""
    with stub("refund", SECONDS) as url:
        sides = {"batch": lambda: asyncio.run(batch(url)), "floor": lambda: asyncio.run(floor(url))}
        shares = alternate(sides, ROUNDS)
    name = f"ideal ÷ actual time at {SECONDS * 1000:.0f} ms, {CONCURRENCY} in flight"
    return [
        median_of(name, shares["batch"], "of the ideal", goal=at_least(0.72)),
        median_of(f"{name}, aiohttp alone", shares["floor"], "of the ideal"),
    ]


if __name__ == "__main__":
    show(measure())

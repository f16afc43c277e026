"""How much of the time is lost when every request takes a while?

Run as ``python -m benchmarks.latency``. The stub answers after 100 ms, or 50, so that a batch takes
that long for as many requests as are in flight at once, and no batch is faster. The figure is that
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

TURNS = 50
"""How often each place is filled: connecting weighs as little as in a job."""
ROUNDS = 3
GOALS = {(0.1, 8): 0.97, (0.1, 32): 0.96, (0.1, 100): 0.88, (0.05, 100): 0.72}
"""The share of the ideal that is wanted, by the seconds that a reply takes and by concurrency."""


async def batch_share(url: str, latency: float, concurrency: int) -> float:
    """Run a batch in which every place is filled `TURNS` times; return the share of the ideal."""
    requests = concurrency * TURNS
    policy = BatchPolicy(concurrency=concurrency, duplicates="allow")
    orders = itertools.repeat(refund_batch.made_orders(), requests)
    async with refund_batch.client_at(url) as gateway:
        started = time.perf_counter()
        result = await gateway.refund(itertools.chain.from_iterable(orders), policy=policy)
        seconds = time.perf_counter() - started
    refund_batch.expect(result.counts[OutcomeStatus.SUCCEEDED], requests * ORDERS)
    return TURNS * latency / seconds


async def floor_share(url: str, latency: float, concurrency: int) -> float:
    """Do the same with one body, written beforehand, by as many tasks."""
    body, headers = refund_batch.make_body(), {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def work() -> None:
            for _ in range(TURNS):
                async with session.post(f"{url}/v1/refund", data=body, headers=headers) as reply:
                    await reply.read()

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        return TURNS * latency / (time.perf_counter() - started)


def measure() -> list[Figure]:
    """Measure the share of the ideal in each case, in turn with aiohttp's own."""
    figures: list[Figure] = []
    for (latency, concurrency), goal in GOALS.items():
        with stub("refund", latency) as url:
            case = (url, latency, concurrency)
            shares = alternate(
                {
                    "batch": lambda case=case: asyncio.run(batch_share(*case)),  # type: ignore[misc]  # a default
                    "floor": lambda case=case: asyncio.run(floor_share(*case)),  # type: ignore[misc]  # a default
                },
                ROUNDS,
            )
        name = f"ideal ÷ actual time at {latency * 1000:.0f} ms, {concurrency} in flight"
        figures += [
            median_of(name, shares["batch"], "of the ideal", goal=at_least(goal)),
            median_of(f"{name}, aiohttp alone", shares["floor"], "of the ideal"),
        ]
    return figures


if __name__ == "__main__":
    show(measure())

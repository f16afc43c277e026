"""How much of the time is lost when every request takes a while?

Run as ``python -m benchmarks.latency``. The stub answers after 100 ms, so that a batch takes
100 ms for as many requests as are in flight at once, and no batch is faster. The figure is that
ideal time as a share of the actual one, connecting included: 1 if every place is refilled at once.
"""

import asyncio
import itertools
import time

from benchmarks import refund_batch
from benchmarks.figures import Figure, at_least, median_of, show
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async import BatchPolicy, OutcomeStatus

LATENCY_SECONDS = 0.1
TURNS = 30
ROUNDS = 5
GOALS = {8: 0.97, 32: 0.96, 100: 0.88}
"""The share of the ideal that is wanted, by concurrency."""


async def actual_seconds(url: str, concurrency: int) -> float:
    """Return how long a batch takes in which every place is filled `TURNS` times."""
    requests = concurrency * TURNS
    policy = BatchPolicy(concurrency=concurrency, duplicates="allow")
    orders = itertools.repeat(refund_batch.make_orders(), requests)
    async with refund_batch.client_at(url) as gateway:
        started = time.perf_counter()
        result = await gateway.refund(itertools.chain.from_iterable(orders), policy=policy)
        seconds = time.perf_counter() - started
    refund_batch.expect(result.counts[OutcomeStatus.SUCCEEDED], requests * ORDERS)
    return seconds


def measure() -> list[Figure]:
    """Measure the share of the ideal at each concurrency."""
    ideal = TURNS * LATENCY_SECONDS
    with stub("refund", LATENCY_SECONDS) as url:
        return [
            median_of(
                f"ideal ÷ actual time at {LATENCY_SECONDS * 1000:.0f} ms, "
                f"concurrency {concurrency}",
                [ideal / asyncio.run(actual_seconds(url, concurrency)) for _ in range(ROUNDS)],
                "of the ideal",
                goal=at_least(goal),
                detail=f"{concurrency * TURNS} requests of {ORDERS} orders",
            )
            for concurrency, goal in GOALS.items()
        ]


if __name__ == "__main__":
    show(measure())

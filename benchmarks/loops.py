"""What does an order cost on uvloop, beside asyncio's own event loop?

Run as ``python -m benchmarks.loops``; uvloop comes with the extra ``speed``. The same batch of
refunds is streamed on both loops in turn, against the same stub in another process; figures are
CPU time of this process.
"""

import asyncio
from typing import TYPE_CHECKING

import uvloop

from benchmarks import refund_batch
from benchmarks.figures import Figure, alternate, cpu_seconds, median_of, ratio_of, show
from benchmarks.replies import ORDERS
from benchmarks.stub import stub

if TYPE_CHECKING:
    from collections.abc import Callable

    LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LOOPS: "dict[str, LoopFactory]" = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def measure() -> list[Figure]:
    """Run both loops in turn.

    Returns:
        The CPU time of an order on each, and uvloop's as a share of asyncio's.
    """
    orders = refund_batch.REQUESTS * ORDERS
    with stub() as url:

        def side(factory: "LoopFactory") -> "Callable[[], float]":
            return lambda: cpu_seconds(lambda: refund_batch.client(url), factory) / orders * 1e6

        sides = {name: side(factory) for name, factory in LOOPS.items()}
        costs = alternate(sides, refund_batch.ROUNDS)
    absolute = [median_of(f"streamed on {n}", cost, "µs CPU an order") for n, cost in costs.items()]
    share = ratio_of("a streamed batch on uvloop", costs["uvloop"], costs["asyncio"], "x asyncio")
    return [*absolute, share]


if __name__ == "__main__":
    show(measure())

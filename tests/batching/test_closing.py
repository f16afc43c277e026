"""An input whose closing raises hides nothing that was raised before."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

from gateway_async import BatchPolicy, RefundOrder
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import refunds


async def test_a_worker_that_failed_is_looked_at_though_the_closing_raises() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))

    def fail(_asked: Asked) -> Any:
        raise LookupError

    async def orders() -> AsyncIterator[RefundOrder]:
        try:
            for order in refunds(100):
                yield order
        finally:
            raise OSError("closed")

    policy = BatchPolicy(chunk_size=10, concurrency=1)
    with contextlib.suppress(OSError):
        await client_over(MemoryTransport(fail), policy=policy).refund(orders())
    gc.collect()
    assert told == []

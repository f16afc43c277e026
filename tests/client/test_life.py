"""A client's address, and what its closing means to batches that are made, under way, or over."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from gateway_async import (
    Batch,
    BatchPolicy,
    ConfigurationError,
    OutcomeStatus,
    RefundOrder,
)
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import client_at, client_of, orders_for, refunds
from tests.support.servers import answering


@pytest.mark.parametrize("prefix", ["", "/pay", "/pay/eu/"])
async def test_a_prefix_of_the_address_is_kept(prefix: str) -> None:
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({"return_status": "1", "orders_list": []})

    async with answering(answer) as url, client_at(f"{url}{prefix}") as gateway:
        await gateway.recent_transactions()
    assert paths == [f"{prefix.rstrip('/')}/v1/retrievalTrans"]


async def test_a_closed_client_refuses_every_call_and_sends_no_batch(sandbox: Sandbox) -> None:
    async with client_of(sandbox) as gateway:
        batch = gateway.refund(orders_for("refund", sandbox.seed(3, status="captured")))
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: gateway.refund([]),
        gateway.recent_transactions,
        lambda: gateway.call("/v1/x", {}),
        lambda: gateway.recover([]),
    )
    for call in calls:
        with pytest.raises(ConfigurationError, match="closed; enter it again"):
            await call()
    assert (await batch).counts[OutcomeStatus.NOT_SENT] == 3
    assert sandbox.requests.total() == 0
    async with gateway:
        assert len((await gateway.recent_transactions()).records) == 3


async def test_a_batch_under_way_sends_no_further_chunk_once_the_client_is_closed(
    sandbox: Sandbox,
) -> None:
    orders = orders_for("refund", sandbox.seed(100, status="captured"))
    first_reply, goes_on = asyncio.Event(), asyncio.Event()
    statuses = []

    async def stream() -> AsyncIterator[RefundOrder]:
        for order in orders:
            if order is orders[50]:
                await goes_on.wait()
            yield order

    async def read(batch: Batch[Any, Any]) -> None:
        async with batch:
            async for outcome in batch:
                statuses.append(outcome.status)
                first_reply.set()

    gateway = client_of(sandbox, policy=BatchPolicy(concurrency=1))
    task = asyncio.create_task(read(gateway.refund(stream())))
    await first_reply.wait()
    await gateway.aclose()
    goes_on.set()
    await task
    assert sandbox.requests["refund"] == 1
    assert statuses == [OutcomeStatus.SUCCEEDED] * 50 + [OutcomeStatus.NOT_SENT] * 50


async def test_a_batch_that_is_over_is_not_kept_until_its_deadline() -> None:
    gateway = client_over(MemoryTransport(all_done), policy=BatchPolicy(deadline_seconds=3600))
    orders = (order for order in refunds(3))
    kept, batch = weakref.ref(orders), gateway.refund(orders)
    result = await batch
    del batch, orders
    gc.collect()
    assert result.ok
    assert kept() is None

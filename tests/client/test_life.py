"""A client's life: made anywhere, run twice, closed once, and never closing what is not its own."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway_async import (
    Batch,
    BatchPolicy,
    ConfigurationError,
    Credentials,
    GatewayClient,
    HmacSigner,
    OutcomeStatus,
    RefundOrder,
)
from gateway_async.sandbox import Sandbox
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import client_of, orders_for, refunds


async def test_a_given_session_is_used_and_never_closed(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        async with client_of(sandbox, session=session) as gateway:
            assert (await gateway.recent_transactions()).records == ()
        assert not session.closed
        await gateway.aclose()
        assert not session.closed
    assert sandbox.requests["query"] == 1


async def test_a_given_session_is_used_whatever_its_truth(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aiohttp.ClientSession, "__bool__", lambda _: False, raising=False)
    started: list[object] = []

    async def note(*facts: object) -> None:
        started.append(facts)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(note)
    async with (
        aiohttp.ClientSession(trace_configs=[trace]) as session,
        client_of(sandbox, session=session) as gateway,
    ):
        await gateway.recent_transactions()
    assert len(started) == 1


async def test_nothing_of_a_given_session_may_repeat_a_request(sandbox: Sandbox) -> None:
    async def thrice(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        await handler(request)
        await handler(request)
        return await handler(request)

    orders = orders_for("refund", sandbox.seed(2, status="captured"))
    async with (
        aiohttp.ClientSession(middlewares=[thrice], raise_for_status=True) as session,
        client_of(sandbox, session=session) as gateway,
    ):
        assert (await gateway.refund(orders)).ok
    assert [sandbox.ledger.effects("refund", o.transaction_id) for o in orders] == [1, 1]


async def test_a_given_session_that_is_closed_sends_nothing(sandbox: Sandbox) -> None:
    async with aiohttp.ClientSession() as session:
        pass
    async with client_of(sandbox, session=session) as gateway:
        result = await gateway.refund(refunds(1), policy=BatchPolicy(deadline_seconds=0.05))
    assert result.counts[OutcomeStatus.NOT_SENT] == 1


@pytest.mark.parametrize("prefix", ["", "/pay", "/pay/eu/"])
async def test_a_prefix_of_the_address_is_kept(prefix: str) -> None:
    paths = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({"return_status": "1", "orders_list": []})

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
    try:
        async with GatewayClient(f"{site.name}{prefix}", credentials) as gateway:
            await gateway.recent_transactions()
    finally:
        await runner.cleanup()
    assert paths == [f"{prefix.rstrip('/')}/v1/retrievalTrans"]


def test_a_client_made_outside_a_loop_serves_several_loops() -> None:
    gateway = client_over(MemoryTransport(all_done))

    async def one_run() -> bool:
        return (await gateway.refund(refunds(3))).ok

    assert [asyncio.run(one_run()) for _ in range(2)] == [True, True]


def test_a_client_serves_two_runs_over_http() -> None:
    gateways: list[GatewayClient] = []
    ports = [0]

    async def one_run() -> int:
        async with Sandbox(port=ports[-1]) as sandbox:
            if not gateways:
                gateways.append(client_of(sandbox))
                ports.append(int(sandbox.base_url.rpartition(":")[2]))
            async with gateways[0] as gateway:
                await gateway.recent_transactions()
            return sandbox.requests["query"]

    assert [asyncio.run(one_run()) for _ in range(2)] == [1, 1]


async def test_a_closed_client_refuses_every_call(sandbox: Sandbox) -> None:
    async with client_of(sandbox) as gateway:
        pass
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: gateway.refund([]),
        gateway.recent_transactions,
        lambda: gateway.call("/v1/x", {}),
        lambda: gateway.recover([]),
    )
    for call in calls:
        with pytest.raises(ConfigurationError, match="closed; enter it again"):
            await call()


async def test_a_closed_client_may_be_entered_again(sandbox: Sandbox) -> None:
    gateway = client_of(sandbox)
    for _ in range(2):
        async with gateway:
            await gateway.recent_transactions()
    assert sandbox.requests["query"] == 2


async def test_a_batch_made_before_closing_sends_nothing_after_it(sandbox: Sandbox) -> None:
    orders = orders_for("refund", sandbox.seed(3, status="captured"))
    async with client_of(sandbox) as gateway:
        batch = gateway.refund(orders)
    result = await batch
    assert result.counts[OutcomeStatus.NOT_SENT] == 3
    assert sandbox.requests["refund"] == 0


async def test_a_batch_under_way_sends_no_further_chunk_once_the_client_is_closed(
    sandbox: Sandbox,
) -> None:
    orders = orders_for("refund", sandbox.seed(100, status="captured"))
    first_reply, goes_on = asyncio.Event(), asyncio.Event()

    async def stream() -> AsyncIterator[RefundOrder]:
        for order in orders[:50]:
            yield order
        await goes_on.wait()
        for order in orders[50:]:
            yield order

    async def read(batch: Batch[Any, Any]) -> list[OutcomeStatus]:
        statuses = []
        async with batch:
            async for outcome in batch:
                statuses.append(outcome.status)
                first_reply.set()
        return statuses

    gateway = client_of(sandbox, policy=BatchPolicy(concurrency=1))
    task = asyncio.create_task(read(gateway.refund(stream())))
    await first_reply.wait()
    await gateway.aclose()
    goes_on.set()
    statuses = await task
    assert sandbox.requests["refund"] == 1
    assert statuses == [OutcomeStatus.SUCCEEDED] * 50 + [OutcomeStatus.NOT_SENT] * 50
    assert not gateway._transport.loops


async def test_a_client_that_is_left_open_warns_where_it_was_made(sandbox: Sandbox) -> None:
    gateway = client_of(sandbox)
    await gateway.recent_transactions()
    transport = gateway._transport
    clients = [gateway]
    del gateway
    with pytest.warns(ResourceWarning, match="left open") as caught:
        clients.clear()
    assert caught[0].filename.endswith("orders.py")
    await transport.aclose()


async def test_a_client_that_is_closed_on_one_loop_is_left_open_on_the_others(
    sandbox: Sandbox,
) -> None:
    gateway = client_of(sandbox)
    await gateway.recent_transactions()
    await asyncio.to_thread(asyncio.run, gateway.aclose())
    assert gateway._transport.loops
    await gateway.aclose()
    assert not gateway._transport.loops


async def test_a_batch_that_is_over_is_not_kept_until_its_deadline() -> None:
    gateway = client_over(MemoryTransport(all_done), policy=BatchPolicy(deadline_seconds=3600))
    batch = gateway.refund(refunds(3))
    result = await batch
    run = weakref.ref(batch._run)
    del batch
    gc.collect()
    assert result.ok
    assert run() is None


def test_a_client_shows_no_secret() -> None:
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("s3cret"))
    shown = repr(GatewayClient("https://gateway.example", credentials))
    assert "s3cret" not in shown
    assert "M1" in shown

"""One client over several event loops, and one that is forgotten."""

import asyncio
import contextlib
import gc
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway_async import BatchPolicy, HmacSigner, RecoveryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.memory import Asked, MemoryTransport, client_over
from tests.orders import client_at, client_of, direct_payment, refunds, seeded

NewLoop = Callable[[], asyncio.AbstractEventLoop]
SIGNER = HmacSigner("sandbox-secret")
ONE_BY_ONE: dict[str, Any] = {"policy": BatchPolicy(concurrency=2, chunk_size=1)}


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> NewLoop:
    make: NewLoop = pytest.importorskip(request.param).new_event_loop
    return make


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is free now, and again for each sandbox of the test."""

    async def find() -> int:
        async with Sandbox() as sandbox:
            return int(sandbox.base_url.rpartition(":")[2])

    yield asyncio.run(find())
    gc.collect()


@pytest.mark.parametrize("way", ["closed", "forgotten", "entered in each"])
def test_a_client_made_before_any_loop_serves_several_and_warns_of_none_that_has_ended(
    port: int, new_loop: NewLoop, way: str
) -> None:
    clients = [client_at(f"http://127.0.0.1:{port}", signer=SIGNER)]

    async def work(number: int) -> int:
        async with Sandbox(port=port) as sandbox, contextlib.AsyncExitStack() as stack:
            if way == "entered in each":
                await stack.enter_async_context(clients[0])
            orders = seeded(sandbox, 6)
            await clients[0].pay_direct(direct_payment(f"P-{number}"))
            assert (await clients[0].refund(orders)).ok
            return len(sandbox.ledger.payments_of(f"P-{number}"))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                assert runner.run(work(number)) == 1
        if way == "closed":
            asyncio.run(clients[0].aclose())
        clients.clear()
        gc.collect()


async def test_a_client_that_is_left_open_warns(sandbox: Sandbox) -> None:
    client = client_of(sandbox)
    await client.pay_direct(direct_payment())
    with pytest.warns(ResourceWarning, match="GatewayClient http://.* was left open"):
        del client


# What nobody left does not keep its loop from ending


async def _stream(_: Path) -> object:
    """Those in flight are unknown then, so that the batch stops, and withdraws those that wait."""

    async def never(_: Asked) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    transport = MemoryTransport(never)
    policy = BatchPolicy(concurrency=8, chunk_size=1, stop_after_unknown=1)
    client = client_over(transport, policy=policy, limiter=asyncio.Semaphore(1))
    batch = client.refund(iter(refunds(300)))
    await batch.__aenter__()
    while not transport.asked:  # noqa: ASYNC110  # a transport has no event for it
        await asyncio.sleep(0)
    return batch


async def _job(folder: Path) -> object:
    journal = await Journal.open(f"sqlite:///{folder}/journal.db").__aenter__()
    marked = RecoveryPolicy(refund_evidence="marker")
    client = client_over(MemoryTransport(), recovery=marked, **ONE_BY_ONE)
    batch = client.refund(refunds(120), job=journal.job("job"))
    await anext(await batch.__aenter__())
    while batch.progress.done < 3:  # noqa: ASYNC110  # a stream has no event for it
        await asyncio.sleep(0)
    return journal, batch


@pytest.mark.parametrize("begin", [_stream, _job])
def test_what_nobody_left_does_not_keep_its_loop_from_ending(
    begin: Callable[[Path], Awaitable[object]], new_loop: NewLoop, tmp_path: Path
) -> None:
    async def work() -> object:
        loop = asyncio.get_running_loop()
        return await begin(tmp_path), loop.call_later(5, loop.stop)  # else a defect would hang

    with asyncio.Runner(loop_factory=new_loop) as runner:
        kept = runner.run(work())
        tasks = asyncio.all_tasks(runner.get_loop())
        assert tasks
        assert kept
    assert all(task.done() for task in tasks)

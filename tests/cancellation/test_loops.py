"""One client over several event loops, and one that is forgotten."""

import asyncio
import contextlib
import gc
import inspect
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RecoveryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from tests.cancellation.places import SETTINGS, Loopback, payment
from tests.memory import MemoryTransport, all_done, client_over
from tests.orders import client_at, refunds


def _plain() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def _fast() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = pytest.importorskip("uvloop").new_event_loop()
    return loop


MARKED = RecoveryPolicy(refund_evidence="marker")


async def never(event: asyncio.Event) -> dict[str, object]:
    await event.wait()
    return {}


LOOPS = pytest.mark.parametrize("new_loop", [_plain, _fast])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is free now, and again for each sandbox of the test."""

    async def find() -> int:
        async with Sandbox() as sandbox:
            return int(sandbox.base_url.rpartition(":")[2])

    yield asyncio.run(find())
    gc.collect()


def client_on(port: int) -> GatewayClient:
    signer = HmacSigner("sandbox-secret")
    return client_at(f"http://127.0.0.1:{port}", signer=signer)


@LOOPS
@pytest.mark.parametrize("way", ["closed", "forgotten", "entered in each"])
def test_a_client_made_before_any_loop_serves_several_and_warns_of_none_that_has_ended(
    port: int, new_loop: NewLoop, way: str
) -> None:
    clients = [client_on(port)]

    async def work(number: int) -> int:
        async with Sandbox(port=port) as sandbox, contextlib.AsyncExitStack() as stack:
            if way == "entered in each":
                await stack.enter_async_context(clients[0])
            here = Loopback(sandbox)
            await clients[0].pay_direct(payment(number))
            assert (await clients[0].refund(here.refunds())).ok
            return here.payments(payment(number))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(3):
            with asyncio.Runner(loop_factory=new_loop) as runner:
                assert runner.run(work(number)) == 1
        if way == "closed":
            asyncio.run(clients[0].aclose())
        clients.clear()
        gc.collect()


@LOOPS
def test_a_run_that_is_cancelled_leaves_nothing_behind(port: int, new_loop: NewLoop) -> None:
    complaints: list[object] = []

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *what: complaints.append(what))
        async with Sandbox(port=port) as sandbox, client_on(port) as client:
            here = Loopback(sandbox)
            sandbox.faults.add("*", faults.NoReply(times=1))
            for turns in range(30):
                task = asyncio.create_task(client.pay_direct(payment(turns)))
                for _ in range(turns):
                    await asyncio.sleep(0)
                while not task.done():
                    task.cancel()
                    await asyncio.sleep(0)
                await asyncio.gather(task, return_exceptions=True)
                assert here.payments(payment(turns)) <= 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(work())
        gc.collect()
    assert complaints == []


def test_a_client_that_is_left_open_warns_and_names_the_place_where_it_was_made(
    port: int,
) -> None:
    async def work(client: GatewayClient) -> None:
        async with Sandbox(port=port):
            await client.pay_direct(payment(1))

    frame = inspect.currentframe()
    assert frame is not None
    signer = HmacSigner("sandbox-secret")
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=signer)
    line = frame.f_lineno + 1
    client = GatewayClient(f"http://127.0.0.1:{port}", credentials)
    with asyncio.Runner() as runner:
        runner.run(work(client))
        with pytest.warns(ResourceWarning, match="left open") as caught:
            del client
    ours = [one for one in caught if "GatewayClient" in str(one.message)]
    assert [(one.filename, one.lineno) for one in ours] == [(__file__, line)]


def test_a_client_that_was_never_used_does_not_warn(port: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client = client_on(port)
        del client
        gc.collect()


def ends_what_nobody_left(
    begin: Callable[[], Awaitable[object]],
    new_loop: NewLoop = _plain,
) -> bool:
    """Begin something that is not left, and say whether its loop ends all of its tasks."""

    async def work() -> object:
        kept = await begin()
        loop = asyncio.get_running_loop()
        return kept, loop.call_later(5, loop.stop)  # else the test would hang as the loop did

    with asyncio.Runner(loop_factory=new_loop) as runner:
        kept = runner.run(work())
        tasks = asyncio.all_tasks(runner.get_loop())
        assert tasks
        assert kept
    return all(task.done() for task in tasks)


@LOOPS
def test_a_stream_that_nobody_left_does_not_keep_its_loop_from_ending(
    new_loop: NewLoop,
) -> None:
    async def begin() -> object:
        async with client_over(MemoryTransport(steps=2), **SETTINGS) as client:
            batch = client.refund(iter(refunds(300)))
            await anext(await batch.__aenter__())
        return batch

    assert ends_what_nobody_left(begin, new_loop)


def test_nor_does_one_whose_workers_are_withdrawn_as_the_loop_ends() -> None:
    """Those in flight are unknown then, so that the batch stops, and withdraws those that wait."""

    async def begin() -> object:
        answered = asyncio.Event()
        transport = MemoryTransport(lambda _: never(answered))
        policy = BatchPolicy(concurrency=8, chunk_size=1, stop_after_unknown=1)
        client = client_over(transport, policy=policy, limiter=asyncio.Semaphore(1))
        batch = client.refund(iter(refunds(300)))
        await batch.__aenter__()
        while not transport.asked:  # noqa: ASYNC110  # a transport has no event for it
            await asyncio.sleep(0)
        return batch

    assert ends_what_nobody_left(begin)


def test_nor_does_a_job_that_is_read_no_further(tmp_path: Path) -> None:
    async def begin() -> object:
        journal = await Journal.open(f"sqlite:///{tmp_path}/journal.db").__aenter__()
        policy = BatchPolicy(concurrency=2, chunk_size=1)
        client = client_over(MemoryTransport(all_done), policy=policy, recovery=MARKED)
        batch = client.refund(refunds(120), job=journal.job("job"))
        await anext(await batch.__aenter__())
        while batch.progress.done < 3:  # noqa: ASYNC110  # a stream has no event for it
            await asyncio.sleep(0)
        return journal, batch

    assert ends_what_nobody_left(begin)

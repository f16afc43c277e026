"""What `Workers` are given: a queue, and what makes a client."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from taskiq import InMemoryBroker

from gateway_async.client import GatewayClient
from gateway_async.errors import ConfigurationError, NotSentError
from gateway_async.sandbox import Sandbox
from gateway_async.workers import Workers
from gateway_async.workers.rabbit import rabbit_broker
from tests.jobs.books import make_client
from tests.orders import client_at, seeded
from tests.support.books import effects
from tests.workers.conftest import POLICY, Shop


@pytest.mark.parametrize(
    ("wrong", "name", "got"),
    [
        ("amqp://host/", "broker", "got str$"),
        (None, "broker", "got NoneType$"),
        (None, "gateway_factory", "got NoneType$"),
        (client_at("http://127.0.0.1"), "gateway_factory", "got GatewayClient$"),
    ],
)
def test_what_is_no_queue_or_makes_no_client_is_refused(
    shop: Shop, wrong: Any, name: str, got: str
) -> None:
    right = {"broker": shop.enqueue, "gateway_factory": lambda: make_client(shop.sandbox)}
    given: Any = {**right, "journal_url": shop.url, name: wrong}
    with pytest.raises(ConfigurationError, match=f"^{name}: expected a .*{got}"):
        Workers(**given)


async def test_a_client_that_could_not_be_opened_is_opened_the_next_time(
    shop: Shop, sandbox: Sandbox
) -> None:
    problems: list[Exception] = [NotSentError("the store of the limiter is away")]

    @contextlib.asynccontextmanager
    async def make() -> AsyncIterator[GatewayClient]:
        if problems:
            raise problems.pop()
        async with make_client(sandbox) as gateway:
            yield gateway

    jobs = Workers(shop.enqueue, make, shop.url)
    with pytest.raises(NotSentError):
        await jobs.__aenter__()
    with pytest.raises(ConfigurationError, match="are not open"):
        await jobs.sweep()
    async with jobs:
        assert await jobs.submit("refund", seeded(sandbox, 3), job="job") == 3


async def test_a_broker_in_memory_runs_what_is_submitted(shop: Shop, sandbox: Sandbox) -> None:
    jobs = Workers(InMemoryBroker(), lambda: make_client(sandbox), shop.url)
    orders = seeded(sandbox, 3)
    async with jobs:
        with pytest.raises(ConfigurationError, match="is open already"):
            await jobs.__aenter__()
        await jobs.submit("refund", orders, job="job")
        assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 3


async def test_a_broker_that_ends_while_the_queue_is_slow_leaves_its_slices_due(
    shop: Shop, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def hang(*_: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    broker = InMemoryBroker()
    broker.is_worker_process = True
    jobs = Workers(broker, lambda: make_client(sandbox), shop.url, policy=POLICY)
    async with jobs:
        await jobs.submit("refund", seeded(sandbox, 10), job="job", wake=False)
        monkeypatch.setattr(broker, "kick", hang)
        async with asyncio.timeout(30):
            await asked.wait()
    async with shop.workers() as others:
        assert await others.sweep() == 3


@pytest.mark.parametrize(
    ("name", "value"), [("queue", ""), ("queue", 5), ("slices_at_once", 0), ("slices_at_once", "9")]
)
def test_a_broker_of_a_wrong_figure_is_not_made(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        rabbit_broker("amqp://host/", **{name: value})


async def test_queues_of_any_kind_that_is_asynchronous(shop: Shop, sandbox: Sandbox) -> None:
    class Queue:
        async def __call__(self, job: str, slice_number: int) -> None:
            await shop.enqueue(job, slice_number)

    orders = seeded(sandbox, 2)
    queues: list[Any] = [Queue(), functools.partial(shop.enqueue)]
    for number, queue in enumerate(queues):
        async with shop.workers(queue) as jobs:
            await jobs.submit("refund", orders, job=f"job-{number}")
    assert shop.queue == [("job-0", 1), ("job-1", 1)]

"""What `Workers` are given: a queue, and what makes a client."""

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
from tests.jobs.books import effects, make_client, seeded
from tests.workers.conftest import Shop


def _is_told(job: str, slice_number: int) -> None:
    """Stand for a queue whose function is not asynchronous."""


async def _makes() -> None:
    """Stand for a factory that has to be awaited."""


async def _yields() -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize(
    ("broker", "got"),
    [
        ("amqp://host/", "got str$"),
        (None, "got NoneType$"),
        (_is_told, "got a function that is not `async def`$"),
        (functools.partial(_is_told, "job"), "got a function that is not `async def`$"),
        (lambda job, slice_number: None, "got a function that is not `async def`$"),  # noqa: ARG005  # as a queue is called
    ],
)
def test_what_is_no_queue_is_refused(shop: Shop, broker: Any, got: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^broker: expected a taskiq broker.*{got}"):
        Workers(broker, lambda: make_client(shop.sandbox), shop.url)


@pytest.mark.parametrize(
    ("factory", "got"),
    [
        (None, "got NoneType$"),
        (_makes, "got an `async def` alone$"),
        (_yields, "got an `async def` alone$"),
    ],
)
def test_what_makes_no_client_is_refused(shop: Shop, factory: Any, got: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^gateway_factory: expected a function.*{got}"):
        Workers(shop.enqueue, factory, shop.url)


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
        await jobs.submit("refund", orders, job="job")
        assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 3


async def test_what_is_open_stays_open_where_it_is_opened_once_more(
    shop: Shop, sandbox: Sandbox
) -> None:
    jobs = Workers(InMemoryBroker(), lambda: make_client(sandbox), shop.url)
    async with jobs:
        with pytest.raises(ConfigurationError, match="is open already"):
            await jobs.__aenter__()
        assert await jobs.submit("refund", seeded(sandbox, 3), job="job", wake=False) == 3


@pytest.mark.parametrize(
    ("name", "value"), [("queue", ""), ("queue", 5), ("slices_at_once", 0), ("slices_at_once", "9")]
)
def test_a_broker_of_a_wrong_figure_is_not_made(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        rabbit_broker("amqp://host/", **{name: value})


def test_a_client_is_no_factory(shop: Shop) -> None:
    client: Any = make_client(shop.sandbox)
    with pytest.raises(ConfigurationError, match=r"^gateway_factory: .* got GatewayClient$"):
        Workers(shop.enqueue, client, shop.url)


async def test_queues_of_any_kind_that_is_asynchronous(shop: Shop, sandbox: Sandbox) -> None:
    class Queue:
        async def __call__(self, job: str, slice_number: int) -> None:
            await shop.enqueue(job, slice_number)

    async def enqueue(queue: list[tuple[str, int]], job: str, slice_number: int) -> None:
        queue.append((job, slice_number))

    orders = seeded(sandbox, 2)
    queues: list[Any] = [Queue(), functools.partial(enqueue, shop.queue)]
    for number, queue in enumerate(queues):
        async with shop.workers(queue) as jobs:
            await jobs.submit("refund", orders, job=f"job-{number}")
    assert shop.queue == [("job-0", 1), ("job-1", 1)]

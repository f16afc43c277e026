"""What `Workers` are given: a queue, and what makes a client."""

from typing import Any

import pytest
from taskiq import InMemoryBroker

from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox
from gateway_async.workers import Workers
from gateway_async.workers.rabbit import rabbit_broker
from tests.orders import client_at, make_client, seeded
from tests.support.books import effects
from tests.workers.conftest import Shop


@pytest.mark.parametrize(
    ("wrong", "name", "got"),
    [
        ("amqp://host/", "broker", "got str$"),
        (None, "broker", "got NoneType$"),
        (None, "gateway_factory", "got None"),
        (client_at("http://127.0.0.1"), "gateway_factory", "got <GatewayClient"),
    ],
)
def test_a_wrong_queue_or_client_is_refused(shop: Shop, wrong: Any, name: str, got: str) -> None:
    right = {"broker": shop.enqueue, "gateway_factory": lambda: make_client(shop.sandbox)}
    given: Any = {**right, "journal_url": shop.url, name: wrong}
    with pytest.raises(ConfigurationError, match=f"^{name}: expected a .*{got}"):
        Workers(**given)


async def test_a_broker_in_memory_runs_what_is_submitted(shop: Shop, sandbox: Sandbox) -> None:
    jobs = Workers(InMemoryBroker(), lambda: make_client(sandbox), shop.url)
    orders = seeded(sandbox, 3)
    async with jobs:
        with pytest.raises(ConfigurationError, match="is open already"):
            await jobs.__aenter__()
        await jobs.submit("refund", orders, job="job")
        assert (await jobs.result("job")).ok
    assert effects(sandbox, orders) == [1] * 3


@pytest.mark.parametrize(
    ("name", "value"), [("queue", ""), ("queue", 5), ("slices_at_once", 0), ("slices_at_once", "9")]
)
def test_a_broker_of_a_wrong_figure_is_not_made(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: expected"):
        rabbit_broker("amqp://host/", **{name: value})

"""What travels through a real RabbitMQ, and what a taskiq worker does with it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aio_pika
import pytest

from gateway_async.sandbox import Sandbox
from tests.orders import seeded
from tests.workers.app import make_workers
from tests.workers.conftest import POLICY
from tests.workers.rabbit import own_queue, server_url

pytestmark = pytest.mark.slow


@pytest.fixture
async def start(sandbox: Sandbox, url: str) -> AsyncIterator[dict[str, Any]]:
    """What a process must be given."""
    async with own_queue() as name:
        yield {
            "amqp": server_url(),
            "queue": name,
            "tasks": 10,
            "journal": url,
            "base_url": sandbox.base_url,
            "secret": sandbox.secret,
            "client": {},
            "workers": POLICY,
        }


async def test_no_order_and_no_secret_travels(start: dict[str, Any], sandbox: Sandbox) -> None:
    _, jobs = make_workers(start)
    orders = seeded(sandbox, 10)
    async with jobs:
        await jobs.submit("refund", orders, job="month-end")
    messages: list[aio_pika.abc.AbstractIncomingMessage] = []
    async with await aio_pika.connect(start["amqp"]) as connection:
        queue = await (await connection.channel()).get_queue(start["queue"])
        for _ in range(3):
            messages.append(await queue.get(no_ack=True))  # noqa: PERF401  # no: it awaits
        assert await queue.get(fail=False) is None
    bodies = [json.loads(message.body) for message in messages]
    assert [body["args"] for body in bodies] == [["month-end", n] for n in (1, 2, 3)]
    assert all(body["kwargs"] == {} for body in bodies)
    assert all(
        set(body) == {"task_id", "task_name", "labels", "labels_types", "args", "kwargs"}
        for body in bodies
    )
    assert all(message.delivery_mode == aio_pika.DeliveryMode.PERSISTENT for message in messages)
    everything = repr([(message.body, message.headers) for message in messages])
    for order in orders:
        assert order.transaction_id not in everything
        assert order.order_no not in everything
    assert start["secret"] not in everything

"""RabbitMQ as it was shown to lose nothing: durable queues, slices acknowledged once they were run.

A message is handed over again unless its slice was run; a connection that says nothing for
ten seconds is given up, so that the slices of a frozen machine come to others.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway_async.errors import ConfigurationError, hide_given, require_extra
from gateway_async.settings import COUNT, NAME, expect

with require_extra(__name__, "taskiq", "taskiq_aio_pika", install="'gateway-async[workers]'"):
    from taskiq.acks import AcknowledgeType
    from taskiq.receiver import Receiver
    from taskiq_aio_pika import AioPikaBroker, Exchange, Queue

if TYPE_CHECKING:
    from taskiq import AsyncBroker

__all__ = ["rabbit_broker"]

DEFAULT_QUEUE = "gateway_async"
DEFAULT_SLICES_AT_ONCE = 10
_HEARTBEAT_SECONDS = 10
_SCHEMES = ("amqp://", "amqps://")


@hide_given
def rabbit_broker(
    url: object, *, queue: str = DEFAULT_QUEUE, slices_at_once: int = DEFAULT_SLICES_AT_ONCE
) -> AioPikaBroker:
    """Make the broker for `Workers` on RabbitMQ.

    Args:
        url: ``amqp://user:password@host/``, or ``amqps://``.
        queue: The name of the queue: one for each merchant and journal.
        slices_at_once: How many messages a worker is sent ahead; as many as it runs at once.

    Raises:
        ConfigurationError: If the URL is another, the name empty, or the count below 1.
    """
    if not isinstance(url, str) or not _is_address(url):
        raise ConfigurationError("broker: expected amqp://user:password@host/ or amqps://")
    expect("queue", queue, NAME)
    if "heartbeat=" not in url:
        url = f"{url}{'&' if '?' in url else '?'}heartbeat={_HEARTBEAT_SECONDS}"
    return AioPikaBroker(
        url,
        qos=expect("slices_at_once", slices_at_once, COUNT),  # of 0, RabbitMQ makes no limit
        exchange=Exchange(name=queue),
        task_queues=[Queue(name=queue, durable=True)],
        dead_letter_queue=Queue(name=f"{queue}.dead", durable=True),
    )


def _is_address(url: str) -> bool:
    try:
        return url.startswith(_SCHEMES) and urlsplit(url).port != 0
    except ValueError:  # a port that is no number
        return False


async def serve(
    broker: "AsyncBroker", until: asyncio.Event, *, slices_at_once: int = DEFAULT_SLICES_AT_ONCE
) -> None:
    """Work in this process, as ``taskiq worker`` does in those that it starts.

    Args:
        broker: The broker of some `Workers`, not started yet.
        until: Ends it when it is set, once the slices that run are at their end; a cancellation
            breaks them off.
        slices_at_once: How many slices are run at once.

    Raises:
        aio_pika.exceptions.AMQPError: If RabbitMQ cannot be reached at first, or refuses what it is
            asked for; later it is waited for.
    """
    broker.is_worker_process = True
    with ThreadPoolExecutor(1) as threads:
        receiver: Any = Receiver(
            broker, threads, max_async_tasks=slices_at_once, ack_type=AcknowledgeType.WHEN_EXECUTED
        )
        try:
            await receiver.listen(until)
        finally:
            if left := [task for task in asyncio.all_tasks() if _runs_slice(task)]:
                for _ in range(2):  # the first lets a batch wait for what is in flight
                    for task in left:
                        task.cancel()
                    await asyncio.sleep(0)
                await asyncio.wait(left)
            await broker.shutdown()


def _runs_slice(task: "asyncio.Task[Any]") -> bool:
    return getattr(task.get_coro(), "__qualname__", "") == Receiver.callback.__qualname__

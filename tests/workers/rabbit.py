"""The RabbitMQ that runs here, for tests."""

import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aio_pika

from tests.support.slow import missing, server_is_used

_SERVER = "amqp://guest:guest@127.0.0.1:5672/"
_GREETING = b"AMQP\0\0\x09\x01"
_METHOD_FRAME = b"\x01"


def server_url() -> str:
    """Return the URL of a server that tests may make queues on."""
    server_is_used("RabbitMQ")
    url = os.environ.get("GATEWAY_TEST_RABBITMQ", _SERVER)
    if not _answers(urlsplit(url).port or 5672):
        missing("no RabbitMQ answers at GATEWAY_TEST_RABBITMQ or 127.0.0.1:5672")
    return f"{url}?heartbeat=10"


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as server:
        server.settimeout(5)
        server.sendall(_GREETING)
        return server.recv(1) == _METHOD_FRAME
    return False


@contextlib.asynccontextmanager
async def own_queue() -> AsyncIterator[str]:
    """Give the name of a queue that nobody else has, and delete it at the end."""
    name = f"gateway-test-{uuid.uuid4().hex}"
    yield name
    async with await aio_pika.connect(server_url()) as connection:
        channel = await connection.channel()
        for each in (name, f"{name}.dead"):
            await channel.queue_delete(each)
        await channel.exchange_delete(name)

"""RabbitMQ for tests: the server that runs here, or a node of a test's own, which it may kill."""

import contextlib
import os
import random
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import aio_pika

from tests.support.processes import Process, missing

_SERVER = "amqp://guest:guest@127.0.0.1:5672/"
_PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_OWNER = "rabbitmq"
_GREETING = b"AMQP\0\0\x09\x01"
_METHOD_FRAME = b"\x01"
_PORTS = range(20_000, 32_000)
"""Below those that the system hands out by itself: a node takes seconds until it listens."""
_LONGEST_SECONDS = 300.0


def server_url() -> str:
    """Return the URL of a server that tests may make queues on."""
    url = os.environ.get("GATEWAY_TEST_RABBITMQ", _SERVER)
    port = int(url.rpartition(":")[2].partition("/")[0])
    if not _answers(port):
        missing("no RabbitMQ answers at GATEWAY_TEST_RABBITMQ or 127.0.0.1:5672")
    return f"{url}?heartbeat=10"


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


class Node:
    """A RabbitMQ of its own, below a folder of the user that RabbitMQ runs as."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = _free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/?heartbeat=10"
        self._settings = {
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"gateway{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(_free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        self.start()

    def start(self) -> None:
        out, as_owner = self.folder / "out", {"user": _OWNER, "group": _OWNER, "extra_groups": []}
        self._process = Process([_PROGRAM], out, self._settings, cwd=self.folder, **as_owner)

    def wait(self) -> None:
        """Wait until it listens."""
        self._wait_until(lambda: _answers(self.port))

    def kill(self) -> None:
        """End it, once it has saved which queues it has: killed before, it would forget them."""
        self._wait_until(self._has_saved)
        self.end()

    def _has_saved(self) -> bool:
        (saved,) = self.folder.glob("*/quorum/*/names.dets")
        queues = [each.name.encode() for each in saved.parent.glob("2F_*")]
        return bool(queues) and all(map(saved.read_bytes().__contains__, queues))

    def _wait_until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + _LONGEST_SECONDS
        while not holds():
            assert self._process.is_running, self._process.log.read_text()
            assert time.monotonic() < until, "RabbitMQ did not start, or not save its queues"
            time.sleep(0.05)

    def end(self) -> None:
        self._process.kill()


@contextlib.contextmanager
def own_node() -> Iterator[Node]:
    """Start a node, which may not listen yet, and end it."""
    if not _PROGRAM.exists() or os.geteuid() != 0:
        missing("RabbitMQ is not installed, or this is not root: no node can be started")
    folder = Path(tempfile.mkdtemp(prefix="gateway-rabbit-"))
    (folder / "plugins").write_text("[].\n")
    for path in (folder, folder / "plugins"):
        shutil.chown(path, _OWNER, _OWNER)
    node = Node(folder)
    try:
        yield node
    finally:
        node.end()
        shutil.rmtree(folder)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as server:
        server.settimeout(5)
        server.sendall(_GREETING)
        return server.recv(1) == _METHOD_FRAME
    return False


def _free_port() -> int:
    while True:
        port = random.choice(_PORTS)
        with contextlib.suppress(OSError), socket.socket() as chosen:
            chosen.bind(("127.0.0.1", port))
            return port

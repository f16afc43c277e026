"""RabbitMQ for tests: the server that runs here, or a node of a test's own, which it may kill."""

import contextlib
import os
import random
import shutil
import socket
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aio_pika
import attrs

from tests.support.processes import Process
from tests.support.slow import missing

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


@attrs.define
class Node:
    """A RabbitMQ of its own, below a folder of the user that RabbitMQ runs as."""

    folder: Path  # where its files are
    port: int  # where it listens
    dist_port: int  # where it would listen to other nodes
    process: Process | None = None  # what runs, if anything does

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/?heartbeat=10"

    def start(self) -> None:
        settings = {
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "RABBITMQ_NODENAME": f"gateway{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_MNESIA_BASE": str(self.folder),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        self.process = Process(
            [_PROGRAM],
            self.folder / "out",
            settings,
            user=_OWNER,
            group=_OWNER,
            extra_groups=[],
            cwd=self.folder,
        )

    def wait(self) -> None:
        until = time.monotonic() + _LONGEST_SECONDS
        while not _answers(self.port):
            assert self.process is not None
            assert self.process.is_running, self.process.log.read_text()
            assert time.monotonic() < until, "RabbitMQ did not start"
            time.sleep(0.1)

    def wait_saved(self) -> None:
        """Wait until it has saved which queues it has: killed before, it would forget them."""
        until = time.monotonic() + _LONGEST_SECONDS
        while True:
            (saved,) = self.folder.glob("*/quorum/*/names.dets")
            queues = [each.name.encode() for each in saved.parent.glob("2F_*")]
            if queues and all(map(saved.read_bytes().__contains__, queues)):
                return
            assert time.monotonic() < until, "RabbitMQ did not save its queues"
            time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


@contextlib.contextmanager
def own_node() -> Iterator[Node]:
    """Start a node, which may not listen yet, and end it."""
    if not _PROGRAM.exists() or os.geteuid() != 0:
        missing("RabbitMQ is not installed, or this is not root: no node can be started")
    folder = Path(tempfile.mkdtemp(prefix="gateway-rabbit-"))
    (folder / "plugins").write_text("[].\n")
    for path in (folder, folder / "plugins"):
        shutil.chown(path, _OWNER, _OWNER)
    node = Node(folder, _free_port(), _free_port())
    node.start()
    try:
        yield node
    finally:
        node.kill()
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

"""A gateway that answers every request with the same bytes: nearly all time is the client's.

Run as ``python -m benchmarks.stub KIND [SECONDS]``; it prints its port and serves until its input
is closed. KIND is one of `benchmarks.replies`. Each answer comes that many seconds after its
request, at once by default.
"""

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from benchmarks.replies import REPLIES

if TYPE_CHECKING:
    from collections.abc import Iterator


_TIMERS_ARE_LATE = 0.002
"""How many seconds before an answer is due the stub stays awake: it has a core to itself."""


@functools.cache  # as they are before a benchmark keeps to its own
def _cores() -> tuple[set[int], set[int]]:
    """Return which cores are the benchmark's, and which one is the stub's.

    Left to itself, the kernel wakes the stub on the core of whoever wrote to it; there it reads
    once the client is done, and every reply is late by as much.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return set(cores[:-1]), set(cores[-1:])


@contextlib.contextmanager
def _keeping_to(cores: set[int]) -> "Iterator[None]":
    """Run on these cores alone; anywhere where there are none, or where that cannot be said."""
    if not cores:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def stub(kind: str = "refund", seconds: float = 0.0, *, apart: bool = True) -> "Iterator[str]":
    """Run the stub in a process of its own; give its address.

    Args:
        kind: Which reply it gives.
        seconds: How long it takes to answer.
        apart: Whether it has a core of its own; not where the benchmark has threads to run beside
            each other.
    """
    command = [sys.executable, "-m", "benchmarks.stub", kind, str(seconds)]
    ours, its = _cores() if apart else (set(), set())
    with _keeping_to(its):
        process = subprocess.Popen(  # noqa: S603  # this interpreter, and a module of ours
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    with process, _keeping_to(ours):
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the stub has no pipes")
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


class Stub(asyncio.Protocol):
    """Answers each request once its last byte is there."""

    def __init__(self, answer: bytes, seconds: float) -> None:
        self._answer = answer
        self._seconds = seconds
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go to."""
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]  # of a socket

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            if self._seconds:
                loop = asyncio.get_running_loop()
                due = loop.time() + self._seconds
                loop.call_at(due - _TIMERS_ARE_LATE, self._answer_at, due)
            else:
                self._transport.write(self._answer)

    def _answer_at(self, due: float) -> None:
        """Answer when it is due, and not when a timer happens to fire."""
        loop = asyncio.get_running_loop()
        if loop.time() < due:
            loop.call_soon(self._answer_at, due)
        else:
            self._transport.write(self._answer)


async def serve(kind: str, seconds: float) -> None:
    """Serve on a free port of this machine until the standard input is closed."""
    loop = asyncio.get_running_loop()
    answer = REPLIES[kind]()
    server = await loop.create_server(lambda: Stub(answer, seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2]) if sys.argv[2:] else 0.0))

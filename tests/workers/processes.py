"""Worker processes as a shop starts them: `taskiq worker`, each in a group of its own."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import attrs

from tests.workers.app import START

ROOT = Path(__file__).parents[2]
_END_SECONDS = 20.0


@attrs.define
class WorkerProcess:
    """One `taskiq worker`: a manager and the process that it keeps.

    Attributes:
        process: The manager.
        log: What they wrote.
    """

    process: "subprocess.Popen[bytes]"
    log: Path

    def signal(self, number: int) -> None:
        """Send a signal to all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def has(self, process_id: int) -> bool:
        """Say whether a process is a part of it."""
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(process_id) == self.process.pid
        return False

    async def end(self) -> None:
        """Ask it to end, and kill it if it does not."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self.process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            await asyncio.to_thread(self.process.wait)


@contextlib.asynccontextmanager
async def worker_processes(
    count: int, start: Path, *, tasks: int = 10
) -> AsyncIterator[list[WorkerProcess]]:
    """Start some, and end them."""
    started: list[WorkerProcess] = []
    try:
        for number in range(count):
            worker = _start(start, start.with_suffix(f".{number}.log"), tasks)
            started.append(worker)  # one by one: those that run are ended if the next fails
        yield started
    finally:
        await asyncio.gather(*(worker.end() for worker in started))


def _start(start: Path, log: Path, tasks: int) -> WorkerProcess:
    command = (
        *(sys.executable, "-m", "taskiq", "worker", "tests.workers.app:broker", "-w", "1"),
        *("--max-async-tasks", str(tasks), "--ack-type", "when_executed"),
    )
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603  # this very interpreter
            command,
            cwd=ROOT,
            env={**os.environ, START: str(start)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return WorkerProcess(process, log)

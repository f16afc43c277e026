"""Commands, each in a process of its own that is forked where all imports are made.

That is as a fresh interpreter would run it, to the end and the exit status, and spares each the
imports. `multiprocessing` keeps the process that forks; what it holds is frozen, so that no garbage
collection of a command copies its memory.
"""

import asyncio
import contextlib
import fcntl
import io
import multiprocessing
import os
import runpy
import signal
import sys
import termios
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import attrs

from gateway_async.cli.app import COMMANDS

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(
    [
        *("gateway_async.jobs", "gateway_async.journal.submit", "gateway_async.cli.app"),
        *sorted({f"gateway_async.cli.{place.partition(':')[0]}" for place in COMMANDS.values()}),
        *("cyclopts.completion.install", "cyclopts.help", "docstring_parser", "rich.markdown"),
        *("psycopg", "pytest", "tests.kills.worker", "tests.support.nursery"),
        "tests.support.frozen",
    ]
)


class Forked:
    """A command under way, as `asyncio.subprocess.Process` has it."""

    def __init__(self, process: Any, output: Sequence[asyncio.StreamReader]) -> None:
        self._number = process.pid
        self._end: asyncio.Task[int] = asyncio.create_task(_ended(process))
        if output:
            self.stdout, self.stderr = output

    @property
    def returncode(self) -> int | None:
        return self._end.result() if self._end.done() else None

    async def wait(self) -> int:
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        stdout, stderr = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return stdout, stderr

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            if not self._end.done():
                os.kill(self._number, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


async def _ended(process: Any) -> int:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(process.sentinel, ended.set)
    await ended.wait()
    loop.remove_reader(process.sentinel)
    process.join()
    status: int = process.exitcode
    process.close()
    return status


async def start(
    function: Callable[[], object],
    arguments: Sequence[str] = (),
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
) -> Forked:
    """Start a command whose output is read by who called; `stdin` is what a pipe holds at most."""
    (source, given), stdout, stderr = (_FORKING.Pipe(duplex=False) for _ in range(3))
    os.write(given.fileno(), stdin)
    given.close()
    output = [await _reader(stdout[0]), await _reader(stderr[0])]
    theirs = (source, stdout[1], stderr[1])
    return _Command(theirs, function, arguments, {**env}, cwd or Path.cwd()).fork(output)


def start_with(
    files: tuple[int, int, int],
    function: Callable[[], object],
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
) -> Forked:
    """Start a command that has three open files for its own; a terminal becomes the one it has."""
    theirs = [Connection(os.dup(number)) for number in files]
    return _Command(theirs, function, arguments, {**env}, cwd).fork()


def run_file() -> None:
    """Run the Python file that the first argument names, as `python` does."""
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


async def _reader(pipe: Connection) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    return reader


@attrs.frozen
class _Command:
    """What is run as a program."""

    files: Sequence[Connection]  # its standard ones
    function: Callable[[], object]
    arguments: Sequence[str]
    env: dict[str, str]
    cwd: Path

    def fork(self, output: Sequence[asyncio.StreamReader] = ()) -> Forked:
        """Start it; the files go along."""
        process = _FORKING.Process(target=self.run)
        process.start()
        for file in self.files:
            file.close()
        return Forked(process, output)

    def run(self) -> None:
        """Make the files the standard ones, as an interpreter does that starts, and go on."""
        for number, file in enumerate(self.files):
            os.dup2(file.fileno(), number)
            file.close()
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # be the tests run with nohup
        stdout = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
        stderr = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
        encoding = self.env.get("PYTHONIOENCODING")
        sys.stdout = io.TextIOWrapper(stdout, encoding, line_buffering=os.isatty(1))
        sys.stderr = io.TextIOWrapper(stderr, errors="backslashreplace", line_buffering=True)
        warnings.simplefilter("error")
        os.environ.clear()
        os.environ.update(self.env)
        time.tzset()
        os.chdir(self.cwd)
        sys.argv = [self.function.__name__, *self.arguments]
        self.function()

"""A process that has all imports made, and forks one for each command that a test runs.

``python -m tests.nursery MODULE:FUNCTION [MODULE...]`` imports them, and runs the function in a
process of its own for whoever asks on its standard input, which is a socket. That is as a fresh
interpreter would run it, to the end and the exit status, and spares each the imports.
"""

import asyncio
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]


class Forked:
    """A command under way, as `asyncio.subprocess.Process` has it.

    Args:
        number: Of its process.
        end: How it ended, once it has.
        output: Its standard output and standard error, where they are pipes.
    """

    def __init__(
        self, number: int, end: asyncio.Task[int], output: Sequence[asyncio.StreamReader]
    ) -> None:
        self._number = number
        self._end = end
        self._output = output

    @property
    def returncode(self) -> int | None:
        """How it ended; None while it has not."""
        return self._end.result() if self._end.done() else None

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Its standard error, where that is a pipe."""
        return self._output[1]

    async def wait(self) -> int:
        """Wait for its end."""
        return await asyncio.shield(self._end)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read all that it says, and wait for its end."""
        stdout, stderr = await asyncio.gather(*(one.read() for one in self._output))
        await self.wait()
        return stdout, stderr

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        if not self._end.done():
            os.kill(self._number, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """Starts commands, each in a process that was forked.

    Args:
        function: What a command is: ``module:function``.
        modules: What else is imported before the first.
    """

    def __init__(self, function: str, *modules: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  # this interpreter, and this module
                [sys.executable, "-W", "error", "-m", "tests.nursery", function, *modules],
                cwd=ROOT,
                stdin=theirs.fileno(),
                start_new_session=True,
            )

    def close(self) -> None:
        """End it; what it forked goes on."""
        self._socket.close()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def start(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        stdin: bytes = b"",
    ) -> Forked:
        """Start a command whose output is read by who called.

        Args:
            arguments: Its arguments.
            env: Its whole environment.
            cwd: Where it is run.
            stdin: What it can read; no more than a pipe holds.
        """
        (source, given), stdout, stderr = os.pipe(), os.pipe(), os.pipe()
        os.write(given, stdin)
        os.close(given)
        output = [await _reader(stdout[0]), await _reader(stderr[0])]
        theirs = (source, stdout[1], stderr[1])
        try:
            return await self.start_with(theirs, arguments, env=env, cwd=cwd, output=output)
        finally:
            for number in theirs:
                os.close(number)

    async def start_with(
        self,
        files: tuple[int, int, int],
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | None = None,
        output: Sequence[asyncio.StreamReader] = (),
    ) -> Forked:
        """Start a command that has three open files for its own.

        Args:
            files: Its standard input, output and error; a terminal becomes the one it has.
            arguments: Its arguments.
            env: Its whole environment.
            cwd: Where it is run.
            output: Who reads the output.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._socket, [b"+"], [*files, theirs.fileno()])
        reader, writer = await asyncio.open_connection(sock=ours)
        asked = {"arguments": arguments, "env": {**env}, "cwd": str(cwd or Path.cwd())}
        writer.write(json.dumps(asked).encode() + b"\n")
        number = int(await reader.readline())
        return Forked(number, asyncio.create_task(_ended(reader, writer)), output)


async def _ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    try:
        return int(await reader.readline())
    finally:
        writer.close()


async def _reader(number: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), io.FileIO(number)
    )
    return reader


def _forked(asked: socket.socket) -> list[str] | None:
    """Fork for whoever asks: return in each child, with its arguments, and None once nobody can."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        begun, files, *_ = socket.recv_fds(asked, 1, 4)
        if not begun:
            return None
        if not os.fork():
            break
        for number in files:
            os.close(number)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    asked.close()
    *files, number = files
    control = socket.socket(fileno=number)
    told: dict[str, Any] = json.loads(control.makefile().readline())
    child = os.fork()
    if child:
        for number in files:
            os.close(number)
        control.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(OSError):  # a test that failed asks no more
            control.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    control.close()
    _take_over(files)
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    return list(told["arguments"])


def _take_over(files: Sequence[int]) -> None:
    """Make three open files the standard ones, as an interpreter does that starts."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.setsid()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # be the tests run with nohup
    stdout = io.BufferedWriter(io.FileIO(1, "w", closefd=False))
    stderr = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = io.TextIOWrapper(stdout, line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(stderr, errors="backslashreplace", line_buffering=True)


def _main(function: str, *modules: str) -> None:
    module, _, name = function.partition(":")
    command = getattr(importlib.import_module(module), name)
    for one in modules:
        importlib.import_module(one)
    gc.freeze()  # what all have is looked through by none
    with socket.socket(fileno=os.dup(0)) as asked:
        arguments = _forked(asked)
    if arguments is not None:
        sys.argv = [name, *arguments]
        command()


if __name__ == "__main__":
    _main(*sys.argv[1:])

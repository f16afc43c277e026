"""A command in a pseudo-terminal: what a person sees, and may type."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import signal
import termios
from pathlib import Path
from typing import Self

from gateway_async.cli import main
from gateway_async.sandbox import Sandbox
from tests import nursery
from tests.cli.running import environment

CTRL_C = "\x03"
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
_WINDOW = b"\x28\x00\xa0\x00\x00\x00\x00\x00"
"""40 lines of 160 columns, as the kernel takes it."""


def _opened(path: Path, stack: contextlib.ExitStack) -> int:
    return stack.enter_context(path.open("wb")).fileno()


class Terminal:
    """A command that has a terminal for itself; used as an async context manager.

    Args:
        sandbox: The gateway that it talks to.
        arguments: The arguments of the command.
        cwd: Where it is run.
        output: The file that its standard output goes to; the terminal if it is None.
    """

    def __init__(
        self, sandbox: Sandbox, *arguments: object, cwd: Path, output: Path | None = None
    ) -> None:
        self._output = output
        self._sandbox = sandbox
        self._arguments = tuple(map(str, arguments))
        self._cwd = cwd
        self._seen = b""
        self._more = asyncio.Event()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, _WINDOW)
        kept = {k: v for k, v in environment(self._sandbox).items() if k != "COLUMNS"}
        with contextlib.ExitStack() as opened:
            output = slave if self._output is None else _opened(self._output, opened)
            self._process = nursery.start_with(
                (slave, output, slave),
                main,
                self._arguments,
                env={**kept, "TERM": "xterm"},
                cwd=self._cwd,
            )
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        if self._master >= 0:
            asyncio.get_running_loop().remove_reader(self._master)
            os.close(self._master)

    @property
    def text(self) -> str:
        """Everything that was shown so far, without colours and movements of the cursor."""
        return _ESCAPES.sub(b"", self._seen).decode(errors="replace")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    async def hung_up(self) -> int:
        """Close the terminal, as a connection that breaks does, and return the exit code.

        A shell says so once more to what it had started.
        """
        asyncio.get_running_loop().remove_reader(self._master)
        self._is_closed = True
        os.close(self._master)
        self._master = -1
        self._process.send_signal(signal.SIGHUP)
        return await self._process.wait()

    async def until(self, words: str) -> None:
        """Wait until something is shown."""
        while words not in self.text:
            assert not self._is_closed, f"{words!r} was not shown:\n{self.text}"
            self._more.clear()
            await self._more.wait()

    async def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        code = await self._process.wait()
        while not self._is_closed:
            self._more.clear()
            await self._more.wait()
        return code

    async def ended_by(self, keys: str) -> int:
        """Press keys, again where nobody was listening yet, until it ends."""
        end = asyncio.ensure_future(self.ended())
        while not end.done():
            self.type(keys)
            await asyncio.wait({end}, timeout=10)
        return end.result()

    def _read(self) -> None:
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # as Linux says that nobody has the other end
            piece = b""
        self._seen += piece
        if not piece:
            self._is_closed = True
            asyncio.get_running_loop().remove_reader(self._master)
        self._more.set()

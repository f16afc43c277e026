"""A command in a pseudo-terminal: what a person sees, and may type."""

import asyncio
import fcntl
import os
import pty
import re
import shlex
import struct
import termios
from typing import Self

from gateway_async.cli import main
from tests.cli.running import Shell
from tests.support import nursery

CTRL_C = "\x03"
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A line that has a terminal for itself; used as an async context manager."""

    def __init__(self, shell: Shell, line: str, columns: int = 160) -> None:
        self._shell = shell
        self._window = struct.pack("HHHH", 40, columns, 0, 0)
        self._words = shlex.split(line)
        self._seen = b""
        self._more = asyncio.Event()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, self._window)
        around = {**self._shell.environment, "TERM": "xterm"}
        del around["COLUMNS"]
        self._process = nursery.start_with(
            (slave, slave, slave), main, self._words, env=around, cwd=self._shell.folder
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

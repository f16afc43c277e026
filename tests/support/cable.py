"""A cable to a server: what goes through it may be lost, and it may be cut and plugged in again."""

import asyncio
from typing import Self


class Cable:
    """Passes on what clients of its port and a server on this machine say."""

    def __init__(self, to_port: int) -> None:
        self.port = 0  # where clients connect to
        self.is_silent = False  # whether it loses whatever is said
        self._to_port = to_port
        self._open: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        await self.plug_in()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()

    async def plug_in(self) -> None:
        """Take connections, at the same port as before."""
        self._listening = await asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
        self.port = self._listening.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End every connection, and refuse new ones."""
        self._listening.close()
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond, there = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._open += [writer, there]
        copies = (self._copy(reader, there), self._copy(beyond, writer))
        await asyncio.gather(*copies, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.is_silent:
                writer.write(data)
        writer.close()

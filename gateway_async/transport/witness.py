"""The body of a request, which notes that it is written."""

from typing import TYPE_CHECKING

import aiohttp
from aiohttp.http import StreamWriter

from gateway_async.transport.listening import problem_of

if TYPE_CHECKING:
    import asyncio

    from gateway_async.transport.messages import Evidence, Message


class WitnessedPayload(aiohttp.BytesPayload):
    """A body that notes when it is asked to write itself.

    Args:
        message: What is to be sent.
        evidence: Told before the first byte is written.
    """

    def __init__(self, message: "Message", evidence: "Evidence") -> None:
        # Not BytesPayload's own: it warns of a body above 1 MiB, which is in memory all the same.
        super(aiohttp.BytesPayload, self).__init__(message.body, content_type=message.content_type)
        self._size = len(message.body)
        self.evidence = evidence
        self._transport: asyncio.WriteTransport | None = None

    async def write(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        """Write the body, once that is noted."""
        await self._begin(writer)
        await super().write(writer)

    async def write_with_length(
        self, writer: aiohttp.abc.AbstractStreamWriter, content_length: int | None
    ) -> None:
        """Write the body, once that is noted."""
        await self._begin(writer)
        await super().write_with_length(writer, content_length)

    def let_go(self) -> None:
        """Drop its connection, if that was given up: over TLS, it would wait for a farewell."""
        if self._transport is not None and self._transport.is_closing():
            self._transport.abort()

    async def _begin(self, writer: aiohttp.abc.AbstractStreamWriter) -> None:
        self._transport = writer.transport if isinstance(writer, StreamWriter) else None
        if problem := await problem_of(writer):
            self.evidence.spoilt = problem
            raise ConnectionAbortedError(problem)
        self.evidence.begin()


def wrote_nothing(response: aiohttp.ClientResponse) -> bool:
    """Say whether aiohttp itself knows that not even the headers were written.

    So it is where a reply lay in the connection already: its writer never came to its first step.
    It keeps that to itself, so that anything but its own count proves nothing.
    """
    kept = vars(response)
    writer = kept.get("_stream_writer")  # None once the reply is complete, and its count kept
    if isinstance(writer, StreamWriter):
        return writer.output_size == 0
    return writer is None and type(size := kept.get("_output_size")) is int and size == 0

"""What has arrived on a connection, whether or not the event loop has read it.

What came before a request is written would be taken for its reply, and nobody reads a request that
is written to a connection that has ended. So both are looked for in the socket itself.
"""

import asyncio
import select
import sys
from typing import TYPE_CHECKING, Any

from aiohttp.http import StreamWriter

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

UNASKED = "the connection held what nobody had asked for"
_CLOSED = "the connection was closed before the request was written"


async def problem_of(writer: "AbstractStreamWriter") -> str:
    """Say why a connection cannot take a request that is about to be written; empty if it can."""
    if not isinstance(writer, StreamWriter):
        return ""
    is_unread = await _hear(writer.transport)
    transport = writer.transport
    if transport is None or transport.is_closing():  # aiohttp would write nothing to it, and raise
        return _CLOSED
    is_spoilt = is_unread or getattr(transport.get_protocol(), "should_close", False)
    return UNASKED if is_spoilt else ""


async def is_at_rest(connection: "Connection") -> bool:
    """Say whether a connection is open and silent, once what has arrived by now is heard of."""
    protocol = connection.protocol
    try:
        is_unread = await _hear(None if protocol is None else protocol.transport)
    except BaseException:
        connection.close()
        raise
    protocol = connection.protocol
    is_open = protocol is not None and protocol.is_connected() and not protocol.should_close
    return is_open and not is_unread


async def _hear(transport: "asyncio.BaseTransport | None") -> bool:
    """Let a connection hear of what has arrived by now: mostly nothing, and nobody waits.

    Returns:
        Whether still more is there, such as the end behind the last bytes.
    """
    bare = None if transport is None else transport.get_extra_info("socket")
    if transport is None or not _has_news(bare):
        return False
    for _ in range(3):  # the loop hears of it in one turn, TLS in the next, then the connection
        await asyncio.sleep(0)
    return bare is not None and bare.fileno() >= 0 and _has_news(bare)


def _has_news(bare: Any) -> bool:  # noqa: ANN401  # a socket, or what stands for it
    """Say whether something may be there that the loop has not read: bytes, or the end."""
    if bare is None or bare.fileno() < 0:
        return True
    if sys.platform == "win32":  # which has no poll, and takes sockets of any number
        return bool(select.select([bare], [], [], 0)[0])
    poll = select.poll()
    poll.register(bare.fileno(), select.POLLIN)
    return bool(poll.poll(0))

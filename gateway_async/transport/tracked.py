"""The request as it goes out, and the proof of whether anything of it was sent.

aiohttp gets the body in a payload of our own. Nothing was sent if that payload was never asked to
write itself, or refused to; the class of an exception proves nothing. This module does not know
when a request is made, or how long it may take.
"""

import asyncio
import functools
import select
import sys
import weakref
from typing import TYPE_CHECKING, Self

import aiohttp
import attrs
from aiohttp.http import StreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp.abc import AbstractStreamWriter

UNREQUESTED = "the connection held bytes that no request had asked for"
CLOSED = "the connection was closed before the request was written"
DISTRUSTED = "the gateway ends connections that are used again"

_MOST_LOST = 3
_DISTRUST_SECONDS = 60.0


@attrs.define(eq=False)  # a frozen one takes four times as long to make
class HttpRequest:
    """A request as it goes out; its repr shows no content.

    Attributes:
        path: The path below the base URL.
        content_type: The media type of the body.
        body: The body, with the signature.
        signature: The signature in the body.
    """

    path: str
    content_type: str = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    signature: str = attrs.field(default="", repr=False)


@attrs.define(eq=False)
class HttpResponse:
    """A response as it came, decompressed.

    Attributes:
        status: The HTTP status.
        headers: The headers; names in any case.
        body: The body, at most `max_reply_bytes` long.
    """

    status: int
    headers: "Mapping[str, str]" = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


@attrs.define(eq=False)
class SendTracker:
    """Whether a request was ever asked to write its body.

    Attributes:
        check: Called right before the first byte is written; if it raises, nothing is written.
        started: Whether it was asked to write; from then on anything may have been sent.
        revoked: Whether it must not be written any more; a late write raises.
    """

    check: "Callable[[], None] | None" = None
    started: bool = False
    revoked: bool = False

    def begin(self) -> None:
        """Note that the body is about to be written.

        Raises:
            ConnectionAbortedError: If the request was given up before, or written already.
            GatewayError: What the check raises.
        """
        if self.revoked or self.started:
            raise ConnectionAbortedError("the request was given up, or written, before")
        if self.check is not None:
            self.check()
        self.started = True

    def revoke(self) -> bool:
        """Return whether anything may have been sent, and let nothing be sent from here on."""
        self.revoked = True
        return self.started


class UsedConnections:
    """The connections of a session that were used, and whether they may be used again.

    After three replies in a row were lost on used connections, none is used again for a minute.
    Then one connection is tried, and the others wait for its reply: tried all at once, as many
    replies would be lost each minute.

    Args:
        now: The clock of the loop.
    """

    def __init__(self, now: "Callable[[], float]") -> None:
        self._now = now
        self._polls: weakref.WeakKeyDictionary[
            asyncio.BaseProtocol, Callable[[], object] | None
        ] = weakref.WeakKeyDictionary()
        self._lost = 0
        self._distrusts_until = 0.0

    def __len__(self) -> int:
        return len(self._polls)

    def use(self, transport: asyncio.Transport) -> "tuple[bool, Callable[[], object] | None]":
        """Return whether a connection was used before, and what polls it for arrivals."""
        protocol = transport.get_protocol()
        try:
            return True, self._polls[protocol]
        except KeyError:
            poll = self._polls[protocol] = poll_of(transport)
            return False, poll

    @property
    def are_distrusted(self) -> bool:
        """Whether none may be used again now."""
        return self._now() < self._distrusts_until

    def distrust(self) -> bool:
        """Use none again for a minute, if three replies in a row were lost; return whether so."""
        were_lost = self._lost >= _MOST_LOST
        if were_lost:
            self._distrusts_until = self._now() + _DISTRUST_SECONDS
        return were_lost

    def note(self, *, is_lost: bool, is_trial: bool) -> None:
        """Count used connections that ended in place of the reply.

        Args:
            is_lost: Whether the connection ended after the request was written, without a reply.
            is_trial: Whether the request was the one that was tried.
        """
        if is_lost:
            self._lost += 1
            self.distrust()
        # While they are distrusted, a reply to a request that had left before shows nothing.
        elif self._lost < _MOST_LOST or is_trial:
            self._lost, self._distrusts_until = 0, 0.0


class TrackedPayload(aiohttp.BytesPayload):
    """A body that notes in its tracker when it is asked to write itself.

    Attributes:
        tracker: Set before the first byte is written.
        problem: Why its connection could not take it, so that nothing was written; or empty.

    Args:
        request: The request.
        tracker: See above.
        used: Knows the connections that were used.
        on_written: Called once the body is written.
    """

    def __init__(
        self,
        request: HttpRequest,
        tracker: SendTracker,
        used: UsedConnections,
        on_written: "Callable[[], None]",
    ) -> None:
        # Not BytesPayload's own: it warns of a body above 1 MiB, which is in memory all the same.
        super(aiohttp.BytesPayload, self).__init__(request.body, content_type=request.content_type)
        self._size = len(request.body)
        self.tracker = tracker
        self.problem: str = ""
        self._used = used
        self._is_reused = False
        self._is_trial = False
        self._on_written = on_written
        self._transport: asyncio.WriteTransport | None = None

    async def write(self, writer: "AbstractStreamWriter") -> None:
        """Write the body, once that is noted."""
        await self.write_with_length(writer, None)

    async def write_with_length(
        self, writer: "AbstractStreamWriter", content_length: int | None
    ) -> None:
        """Write the body, once that is noted."""
        if isinstance(writer, StreamWriter):
            self._transport = writer.transport
            if problem := await self._connection_problem(writer):
                self.problem = problem
                raise ConnectionAbortedError(problem)
        self.tracker.begin()
        await super().write_with_length(writer, content_length)
        self._on_written()

    def __deepcopy__(self, memo: object) -> Self:
        """Return the payload itself: mocks of aiohttp keep copies of what they are called with."""
        return self

    def abort_closed(self) -> None:
        """Abort its connection if that is closing: over TLS, it would wait for the peer."""
        if self._transport is not None and self._transport.is_closing():
            self._transport.abort()

    def note_end(self, *, is_lost: bool) -> None:
        """Note, once it was written, whether a used connection ended in place of a reply."""
        if self._is_reused and self.tracker.started:
            self._used.note(is_lost=is_lost, is_trial=self._is_trial)

    async def _connection_problem(self, writer: StreamWriter) -> str:
        """Return why the connection cannot take the request, or an empty text.

        Bytes that came before the request is written would be taken for its reply.
        """
        transport = writer.transport
        if transport is None:
            return CLOSED
        if transport.get_extra_info("sslcontext") is not None:
            for _ in range(2):  # an error of TLS is on its way to the connection for so long
                await asyncio.sleep(0)
        self._is_reused, poll = self._used.use(transport)
        if self._is_reused:
            if self._used.are_distrusted:
                return DISTRUSTED
            self._is_trial = self._used.distrust()  # the others have to wait for its reply
        has_more = False
        if poll is None or poll():
            for _ in range(3):  # the loop reads it in one turn, TLS in the next, then aiohttp
                await asyncio.sleep(0)
            has_more = poll is not None and bool(poll())  # such as the end behind the last bytes
        if writer.transport is None or transport.is_closing():  # aiohttp would raise
            return CLOSED
        if has_more or getattr(transport.get_protocol(), "should_close", False):
            return UNREQUESTED
        return ""


def poll_of(transport: asyncio.BaseTransport) -> "Callable[[], object] | None":
    """Return a function that polls the socket for bytes or an end that the loop has not read."""
    bare = transport.get_extra_info("socket")
    if bare is None or bare.fileno() < 0:
        return None
    if sys.platform == "win32":  # which has no poll, and takes sockets of any number
        return lambda: bare.fileno() < 0 or select.select([bare], [], [], 0)[0]
    poll = select.poll()
    poll.register(bare.fileno(), select.POLLIN)
    return functools.partial(poll.poll, 0)


def wrote_nothing(response: aiohttp.ClientResponse) -> bool:
    """Return whether aiohttp has written not a byte, not even of the headers.

    So it is if a reply lay in the connection already: its writer never took its first step. aiohttp
    has no public name for that count that is not deprecated; only an int proves anything.
    """
    kept = vars(response)
    writer = kept.get("_stream_writer")  # None once the reply is complete, and its count kept
    if isinstance(writer, StreamWriter):
        return writer.output_size == 0
    size = kept.get("_output_size")
    return writer is None and type(size) is int and size == 0

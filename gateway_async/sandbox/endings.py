"""Faults that decide what becomes of the connection, and of the effect.

Data and pure functions; the server performs them.
"""

import zlib
from typing import TYPE_CHECKING

import attrs

from gateway_async.sandbox.distortions import Fault
from gateway_async.sandbox.messages import HTML_TYPE, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 65_536
_GZIP_WINDOW = 31  # zlib's way to ask for a gzip header


@attrs.frozen
class Ending(Fault):
    """A fault that decides what becomes of the connection; one at most for a request."""


@attrs.frozen
class DropReply(Ending):
    """The effect is done, and the connection is closed without a reply."""


@attrs.frozen
class ResetBeforeEffect(Ending):
    """The connection is reset after the body was read; nothing is done."""


@attrs.frozen
class ResetAfterEffect(Ending):
    """The effect is done, and the connection is reset."""


@attrs.frozen
class LateEffect(Ending):
    """The connection is closed without a reply, and the effect lands later.

    Attributes:
        seconds: How much later.
    """

    seconds: float = 2.0


@attrs.frozen
class NoReply(Ending):
    """The connection stays open without a reply, until the client goes or the sandbox closes.

    Attributes:
        after_effect: Whether the effect is done.
    """

    after_effect: bool = True


@attrs.frozen
class CutReply(Ending):
    """The effect is done, and the connection is closed within the body.

    Attributes:
        at: How much of the body comes: bytes as an `int`, a part of it as a `float` below 1.
    """

    at: float = 0.5

    def sent(self, body: bytes) -> bytes:
        """Return what comes of the body."""
        return body[: self.at if isinstance(self.at, int) else int(len(body) * self.at)]


@attrs.frozen
class Drip(Ending):
    """The effect is done, and the reply comes in small pieces.

    Attributes:
        piece_bytes: The size of a piece.
        pause_seconds: The pause between two pieces.
    """

    piece_bytes: int = 1
    pause_seconds: float = 0.05


@attrs.frozen
class Instead(Ending):
    """A fault that sends another reply.

    Attributes:
        after_effect: Whether the effect is done.
    """

    after_effect: bool = attrs.field(default=False, kw_only=True)

    def reply(self) -> Reply:
        """Return the other reply."""
        return Reply(headers={}, body=b"")


@attrs.frozen
class Status(Instead):
    """Another HTTP status, with an empty body.

    Attributes:
        status: The status.
        retry_after: The Retry-After header, if there is to be one.
        after_effect: Whether the effect is done.
    """

    status: int = 503
    retry_after: str | None = None

    def reply(self) -> Reply:
        """Return the status alone."""
        headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
        return Reply(status=self.status, headers=headers, body=b"")


@attrs.frozen
class HtmlErrorPage(Instead):
    """The error page of a proxy.

    Attributes:
        status: The HTTP status; a page with 200 looks like a reply.
        after_effect: Whether the effect is done.
    """

    status: int = 502
    after_effect: bool = attrs.field(default=True, kw_only=True)

    def reply(self) -> Reply:
        """Return the page."""
        body = b"<html><head><title>Error</title></head><body><h1>Error</h1></body></html>"
        return Reply(status=self.status, headers={"Content-Type": HTML_TYPE}, body=body)


@attrs.frozen
class Redirect(Instead):
    """The client is sent elsewhere.

    Attributes:
        location: Where to.
        status: The HTTP status.
        after_effect: Whether the effect is done.
    """

    location: str
    status: int = 307

    def reply(self) -> Reply:
        """Return the redirection."""
        return Reply(status=self.status, headers={"Location": self.location}, body=b"")


@attrs.frozen
class Streamed(Ending):
    """A fault whose reply is too large to be held; the effect is done.

    Attributes:
        size_bytes: The size of the reply, decompressed.
    """

    size_bytes: int = 64 * 1024 * 1024

    @property
    def headers(self) -> dict[str, str]:
        """The headers beside those of the reply."""
        return {}

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the right body and then white space, which no parser minds, up to the size."""
        yield body
        left = self.size_bytes - len(body)
        while left > 0:
            yield b" " * min(left, _PIECE_BYTES)
            left -= _PIECE_BYTES


@attrs.frozen
class HugeReply(Streamed):
    """A right reply that does not end for a long time."""


@attrs.frozen
class GzipBomb(Streamed):
    """A right reply that is small on the wire and huge when decompressed."""

    @property
    def headers(self) -> dict[str, str]:
        """The encoding."""
        return {"Content-Encoding": "gzip"}

    def pieces(self, body: bytes) -> "Iterator[bytes]":
        """Yield the same, compressed."""
        packer = zlib.compressobj(wbits=_GZIP_WINDOW)
        for piece in super().pieces(body):
            yield packer.compress(piece)
        yield packer.flush()

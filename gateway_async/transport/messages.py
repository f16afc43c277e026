"""A request as it goes out, its reply as it comes, and the evidence of whether it was sent."""

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping


@attrs.frozen(kw_only=True)
class ConnectionOptions:
    """What a session of ours is made with.

    Attributes:
        limit: Connections at most.
        ssl: By what the certificates of gateway and proxy are judged; None for the system's
            authorities.
        proxy: The URL of a proxy, without user and password; None for none.
        proxy_authorization: What the proxy is shown of user and password, or empty.
    """

    limit: int
    ssl: "ssl.SSLContext | None" = None
    proxy: str | None = None
    proxy_authorization: str = attrs.field(default="", repr=False)


@attrs.frozen
class Message:
    """A request as it goes out; nothing of its content shows.

    Attributes:
        path: The path below the base URL.
        content_type: The media type of the body.
        body: The body, signature and all.
        signature: The signature in it, by itself.
    """

    path: str
    content_type: str = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)
    signature: str = attrs.field(default="", repr=False)


@attrs.frozen
class RawReply:
    """A reply as it came, decompressed.

    Attributes:
        status: The HTTP status.
        headers: The headers; names in any case.
        body: The body, at most `max_reply_bytes` long.
    """

    status: int
    headers: "Mapping[str, str]" = attrs.field(repr=False)
    body: bytes = attrs.field(repr=False)


class Evidence:
    """Whether a request was ever asked to write its body.

    Attributes:
        asked: It was; from here on anything may have happened.
        revoked: It must never be written any more; a late write raises instead.
        fence: Asked at the very last moment; where it raises, nothing is written.
        spoilt: Why its connection could not take it, so that nothing was written; or empty.
        is_reused: Whether its connection had carried another request.
        is_trial: Whether that was the one to find out if connections may be used again.
    """

    __slots__ = ("asked", "fence", "is_reused", "is_trial", "revoked", "spoilt")

    def __init__(self, fence: "Callable[[], None] | None" = None) -> None:
        self.asked = False
        self.revoked = False
        self.fence = fence
        self.spoilt = ""
        self.is_reused = False
        self.is_trial = False

    def begin(self) -> None:
        """Note that the body is about to be written.

        Raises:
            ConnectionAbortedError: If the request was given up before.
            GatewayError: What the fence raises.
        """
        if self.revoked:
            raise ConnectionAbortedError("the request was given up before it was written")
        if self.fence is not None:
            self.fence()
        self.asked = True

    def settle(self) -> bool:
        """Return whether anything may have been sent, and let nothing be sent from here on."""
        self.revoked = True
        return self.asked


class Transport(Protocol):
    """What the session needs of HTTP."""

    async def send(self, message: Message, *, evidence: Evidence, seconds: float) -> RawReply:
        """Send one request by POST and return its reply, whatever the status.

        Args:
            message: What to send.
            evidence: Told before the first byte of the body is written.
            seconds: The time that is left for all of it.

        Raises:
            NotSentError: Nothing was sent.
            OutcomeUnknownError: The reply was lost, unreadable or too large.
        """
        ...

    async def aclose(self) -> None:
        """Close what this transport opened on the running loop."""
        ...

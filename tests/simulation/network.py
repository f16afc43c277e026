"""A network in memory, between the client's session and the model of the gateway.

Law: `SendTracker.begin` is called at the very instant at which the body leaves; a request that has
left reaches the gateway or not, whatever becomes of its sender; one that has not left never does.
"""

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import attrs
import orjson

from gateway_async.errors import (
    CertificateError,
    GatewayError,
    NotSentError,
    OutcomeUnknownError,
    ReplyTooLargeError,
)
from tests.memory import HttpRequest, HttpResponse, SendTracker
from tests.simulation.gateway import Gateway, Item, key, read_request, wanted
from tests.simulation.replies import NOTHING_DONE_HTTP, Manners, write_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

EPOCH = 1_700_000_000.0
LONGEST_LATENCY = 3.0
SETTLE_SECONDS = 60.0
"""How long after its request ended something may still happen, at most."""

_FATES = (
    "certificate",
    "garbled",
    "hanging",
    "huge",
    "late",
    "late_writer",
    "lost_after",
    "lost_before",
    "refused",
    "slow",
    "status",
    "unconnected",
)
"""What may happen to a request; any other is answered."""

_DEAD_FATES = ("hanging", "lost_after", "lost_before", "refused", "unconnected")
_WEIGHTS = [1 if fate == "certificate" else 6 for fate in _FATES]


@attrs.define(eq=False)
class Carried:
    """One request on the network, as the checks want to know it.

    Attributes:
        number: Its number, from 1.
        operation: What it asks for.
        asked: The orders or references.
        entered: When the transport was asked to send it.
        begun: When its body left; None if it never did.
        left: When the transport came back.
        cancelled: Whether the sender was cancelled meanwhile.
        replied: Whether a whole reply of HTTP status 200 came back.
        pause: What its reply asked for by Retry-After.
    """

    number: int
    operation: str
    asked: list[Item]
    entered: float
    begun: float | None = None
    left: float | None = None
    cancelled: bool = False
    replied: bool = False
    pause: float | None = None


class Network:
    """Implements the client's transport.

    Attributes:
        carried: Every request, in order.
        trace: What happened, line by line.
        gateway: What stands behind it.
        most_at_once: How many requests were under way at once, at most.
    """

    def __init__(
        self,
        random: "Random",
        gateway: Gateway,
        manners: Manners,
        *,
        trouble: float,
        is_dead: bool,
        reply_seconds: float,
        grid: float,
    ) -> None:
        self.carried: list[Carried] = []
        self.trace: list[str] = []
        self._random = random
        self.gateway = gateway
        self._manners = manners
        self._trouble = trouble
        self._is_dead = is_dead
        self._reply_seconds = reply_seconds
        self._grid = grid
        self._at_once = 0
        self.most_at_once = 0

    def log(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{asyncio.get_running_loop().time():.3f} {text}")

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        """Send one request; see `gateway_async.transport.AiohttpTransport`."""
        operation, fields = read_request(message)
        asked = wanted(operation, fields)
        now = asyncio.get_running_loop().time()
        carried = Carried(len(self.carried) + 1, operation, asked, now)
        self.carried.append(carried)
        journey = _Journey(self, carried, tracker, self._draw_fate())
        names = " ".join(key(operation, one) for one in asked)
        self.log(f"#{carried.number} {operation} {journey.fate} {seconds:.3f} s: {names}")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            journey.start()
            async with asyncio.timeout(seconds):
                reply = await journey.arrived
        except TimeoutError:
            problem: GatewayError = OutcomeUnknownError("timed out")
            if not tracker.revoke():
                problem = NotSentError("timed out before")
        except asyncio.CancelledError:
            carried.cancelled = True
            raise
        except GatewayError as error:
            problem = error
        else:
            carried.replied = reply.status == 200
            return reply
        finally:
            journey.abandon()
            self._at_once -= 1
            carried.left = asyncio.get_running_loop().time()
            self.log(f"#{carried.number} ends{' cancelled' * carried.cancelled}")
        raise problem

    def calm_down(self) -> None:
        """Let nothing go wrong from here on."""
        self._trouble = 0
        self._is_dead = False
        self._manners = attrs.evolve(self._manners, sloppiness=0)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    def latency(self) -> float:
        """Draw a latency; a coarse grid makes many things happen at the same instant."""
        drawn = min(self._random.expovariate(2.0), LONGEST_LATENCY)
        return round(drawn / self._grid) * self._grid

    def _draw_fate(self) -> str:
        if self._is_dead:
            return self._random.choice(_DEAD_FATES)
        if self._random.random() >= self._trouble:
            return "answered"
        return self._random.choices(_FATES, _WEIGHTS)[0]

    def arrive(self, carried: Carried) -> bytes:
        """Have the gateway do what the request asks for."""
        now = EPOCH + asyncio.get_running_loop().time()
        self.gateway.now = datetime.fromtimestamp(now, UTC)
        body = write_reply(
            self._random, self.gateway, self._manners, carried.operation, carried.asked
        )
        self.log(f"#{carried.number} done: {sum(self.gateway.effects.values())} effects")
        return body

    def draw_status(self) -> tuple[int, dict[str, str], float | None]:
        """Draw a status other than 200, with headers and what Retry-After says."""
        status = self._random.choice((302, 400, NOTHING_DONE_HTTP, 404, 429, 500, 502, 503))
        if self._random.random() < 0.5:
            return status, {}, None
        pause = float(self._random.randint(0, 40))
        if self._random.random() < 0.5:
            return status, {"Retry-After": f"{pause:.0f}"}, pause
        now = EPOCH + asyncio.get_running_loop().time()
        until = int(now + pause)
        text = format_datetime(datetime.fromtimestamp(until, UTC), usegmt=True)
        return status, {"Retry-After": text}, max(0.0, until - now)

    def garble(self, body: bytes) -> bytes:
        """Make a reply unreadable."""
        cut = body[: self._random.randrange(len(body))]
        return self._random.choice((cut, b"", b"[]", b"<html>busy</html>", body + b"}", b"\xff"))

    def vouches_nothing_done(self, status: int) -> bool:
        """Whether the client believes that this status means that nothing was done."""
        return self._manners.is_listing_codes and status == NOTHING_DONE_HTTP

    def draw(self) -> float:
        """Draw a number below 1."""
        return self._random.random()

    @property
    def reply_seconds(self) -> float:
        """How long a reply is waited for."""
        return self._reply_seconds


class _Journey:
    """One request on its way there and back; it goes on where its sender has given up."""

    def __init__(self, network: Network, carried: Carried, tracker: SendTracker, fate: str) -> None:
        self.fate = fate
        self.abandoned = False
        self._network = network
        self._carried = carried
        self._tracker = tracker
        self._loop = asyncio.get_running_loop()
        self.arrived: asyncio.Future[HttpResponse] = self._loop.create_future()

    def start(self) -> None:
        if self.fate == "unconnected":
            return
        seconds = self._network.latency()
        if self.fate in ("late_writer", "slow"):
            seconds += self._network.latency() * 4
        if seconds == 0:
            self._connected()
        else:
            self._loop.call_later(seconds, self._connected)

    def abandon(self) -> None:
        """Note that nobody waits any more."""
        self.abandoned = True
        if self.arrived.done() and not self.arrived.cancelled():
            self.arrived.exception()

    def _connected(self) -> None:
        if self.abandoned and self.fate != "late_writer":
            return
        if self.fate == "refused":
            self._fail(NotSentError("refused"))
        elif self.fate == "certificate":
            self._fail(CertificateError("self-signed"))
        else:
            self._write()

    def _write(self) -> None:
        try:
            self._tracker.begin()
        except ConnectionAbortedError as error:
            self._network.log(f"#{self._carried.number} not written: {error}")
            return
        self._carried.begun = self._loop.time()
        self._network.log(f"#{self._carried.number} written")
        self._loop.call_later(
            self._network.reply_seconds, self._fail, OutcomeUnknownError("silence")
        )
        travel: Callable[[], Any] = getattr(self, f"_travel_{self.fate}", self._travel_answered)
        self._loop.call_later(self._network.latency(), travel)

    def _travel_answered(self) -> None:
        body = self._network.arrive(self._carried)
        self._loop.call_later(self._network.latency(), self._reply, body)

    def _travel_garbled(self) -> None:
        body = self._network.garble(self._network.arrive(self._carried))
        self._loop.call_later(self._network.latency(), self._reply, body)

    def _travel_huge(self) -> None:
        self._network.arrive(self._carried)
        self._fail(ReplyTooLargeError("huge"))

    def _travel_hanging(self) -> None:
        if self._network.draw() < 0.5:
            self._network.arrive(self._carried)

    def _travel_late(self) -> None:
        later = self._network.latency() + self._network.draw() * 50
        self._loop.call_later(later, self._network.arrive, self._carried)
        if self._network.draw() < 0.5:
            self._fail(OutcomeUnknownError("reset"))

    def _travel_lost_after(self) -> None:
        self._network.arrive(self._carried)
        self._fail(OutcomeUnknownError("reset"))

    def _travel_lost_before(self) -> None:
        self._fail(OutcomeUnknownError("reset"))

    def _travel_status(self) -> None:
        status, headers, pause = self._network.draw_status()
        if not self._network.vouches_nothing_done(status) and self._network.draw() < 0.5:
            later = self._network.latency() * 10 if self._network.draw() < 0.5 else 0
            self._loop.call_later(later, self._network.arrive, self._carried)
        self._reply(b"no", status, headers, pause)

    def _reply(
        self,
        body: bytes,
        status: int = 200,
        headers: dict[str, str] | None = None,
        pause: float | None = None,
    ) -> None:
        if not self.abandoned and not self.arrived.done():
            self._carried.pause = pause
            self._network.log(f"#{self._carried.number} reply {status} {_shown(body)}")
            self.arrived.set_result(HttpResponse(status, headers or {}, body))

    def _fail(self, error: GatewayError) -> None:
        if not self.abandoned and not self.arrived.done():
            self._network.log(f"#{self._carried.number} fails: {error}")
            self.arrived.set_exception(error)


def _shown(body: bytes) -> str:
    """Show a reply in one line."""
    return str(orjson.dumps(body.decode(errors="replace")), "utf-8")

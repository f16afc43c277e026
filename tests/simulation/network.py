"""A network in memory, between the client's session and the model of the gateway.

Law: `SendTracker.begin` is called at the very instant at which the body leaves; a request that has
left reaches the gateway or not, whatever becomes of its sender; one that has not left never does.
"""

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import attrs

from gateway_async.errors import (
    CertificateError,
    GatewayError,
    NotSentError,
    OutcomeUnknownError,
    ReplyTooLargeError,
)
from tests.memory import HttpRequest, HttpResponse, SendTracker, fields_of
from tests.simulation.gateway import NOTHING_DONE_HTTP, PATHS, Gateway, Item, key, wanted
from tests.simulation.replies import Writer
from tests.simulation.scenario import EPOCH, LONGEST_LATENCY, Scenario

_FATES = (
    *("certificate", "garbled", "hanging", "huge", "late", "late_writer", "lost_after"),
    *("lost_before", "refused", "slow", "status", "unconnected"),
)
"""What may happen to a request; any other is answered."""

_DEAD_FATES = ("hanging", "lost_after", "lost_before", "refused", "unconnected")
_WEIGHTS = [1 if fate == "certificate" else 6 for fate in _FATES]
_STATUSES = (302, 400, NOTHING_DONE_HTTP, 404, 429, 500, 502, 503)
TASK = "network"
"""The name of its tasks, which go on where their senders have given up."""


@attrs.define(eq=False)
class Carried:
    """One request on the network, as the checks want to know it.

    Attributes:
        number: Its number, from 1.
        operation: What it asks for.
        asked: The orders or references.
        fate: What happens to it.
        entered: When the transport was asked to send it.
        begun: When its body left; None if it never did.
        left: When the transport came back.
        cancelled: Whether the sender was cancelled meanwhile.
        pause: What its reply asked for by Retry-After.
    """

    number: int
    operation: str
    asked: list[Item]
    fate: str
    entered: float
    begun: float | None = None
    left: float | None = None
    cancelled: bool = False
    pause: float | None = None


class Network:
    """Implements the client's transport.

    Attributes:
        carried: Every request, in order.
        trace: What happened, line by line.
        gateway: What stands behind it.
        most_at_once: How many requests were under way at once, at most.
    """

    def __init__(self, scenario: Scenario, gateway: Gateway, random: Random) -> None:
        self.carried: list[Carried] = []
        self.trace: list[str] = []
        self.gateway = gateway
        self.most_at_once = 0
        self._at_once = 0
        self._scenario = scenario
        self._random = random
        self._tasks: list[asyncio.Task[None]] = []

    def log(self, text: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{asyncio.get_running_loop().time():.3f} {text}")

    def calm_down(self) -> None:
        """Let nothing go wrong from here on."""
        self._scenario = attrs.evolve(self._scenario, trouble=0, is_dead=False, sloppiness=0)

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        """Send one request; see `gateway_async.transport.AiohttpTransport`."""
        loop, operation = asyncio.get_running_loop(), PATHS[message.path]
        asked, fate = wanted(operation, fields_of(message)), self._draw_fate()
        one = Carried(len(self.carried) + 1, operation, asked, fate, loop.time())
        self.carried.append(one)
        names = " ".join(key(operation, order) for order in asked)
        self.log(f"#{one.number} {operation} {fate} {seconds:.3f} s: {names}")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        arrived: asyncio.Future[HttpResponse] = loop.create_future()
        self._tasks.append(loop.create_task(self._travel(one, tracker, arrived), name=TASK))
        try:
            async with asyncio.timeout(seconds):
                return await arrived
        except TimeoutError:
            if tracker.revoke():
                raise OutcomeUnknownError("timed out") from None
            raise NotSentError("timed out before") from None
        except asyncio.CancelledError:
            one.cancelled = True
            raise
        finally:
            if not arrived.cancel() and not arrived.cancelled():
                arrived.exception()  # which the sender may not have come to see
            self._at_once -= 1
            one.left = loop.time()
            self.log(f"#{one.number} ends{' cancelled' * one.cancelled}")

    async def aclose(self) -> None:
        """Do nothing: there is nothing to close."""

    async def _travel(
        self, one: Carried, tracker: SendTracker, arrived: "asyncio.Future[HttpResponse]"
    ) -> None:
        """Take one request to the gateway; nothing is written any more once its sender is gone."""
        if one.fate == "unconnected":
            return
        is_slow = one.fate in ("late_writer", "slow")
        await asyncio.sleep(self._latency() + (self._latency() * 4 if is_slow else 0))
        if arrived.done() and one.fate != "late_writer":
            return
        if one.fate in ("refused", "certificate"):
            refused = one.fate == "refused"
            self._end(one, arrived, NotSentError("") if refused else CertificateError(""))
            return
        try:
            tracker.begin()
        except ConnectionAbortedError as error:
            self.log(f"#{one.number} not written: {error}")
            return
        loop = asyncio.get_running_loop()
        one.begun = loop.time()
        self.log(f"#{one.number} written")
        silence = OutcomeUnknownError("silence")
        seconds = self._scenario.timeouts.reply_seconds
        loop.call_later(seconds, self._end, one, arrived, silence)
        await asyncio.sleep(self._latency())
        await self._come_back(one, arrived)

    async def _come_back(self, one: Carried, arrived: "asyncio.Future[HttpResponse]") -> None:
        """Let the gateway do what is asked for, or not, and take its reply back, or none."""
        reset, coin = OutcomeUnknownError("reset"), self._random.random() < 0.5
        if one.fate == "hanging":
            if coin:
                self._arrive(one)
        elif one.fate == "late":
            if coin:
                self._end(one, arrived, reset)
            await asyncio.sleep(self._latency() + self._random.random() * 50)
            self._arrive(one)
        elif one.fate == "status":
            reply, pause = self._draw_status()
            one.pause = None if arrived.done() else pause
            self._end(one, arrived, reply)
            is_vouched = self._scenario.lists_codes and reply.status == NOTHING_DONE_HTTP
            if not is_vouched and coin:
                await asyncio.sleep(self._latency() * 10 if self._random.random() < 0.5 else 0)
                self._arrive(one)
        elif one.fate == "lost_before":
            self._end(one, arrived, reset)
        else:
            body = self._arrive(one)
            if one.fate in ("lost_after", "huge"):
                is_huge = one.fate == "huge"
                self._end(one, arrived, ReplyTooLargeError("huge") if is_huge else reset)
                return
            await asyncio.sleep(self._latency())
            if one.fate == "garbled":
                cut = body[: self._random.randrange(len(body))]
                wrong = (cut, b"", b"[]", b"<html>busy</html>", body + b"}", b"\xff")
                body = self._random.choice(wrong)
            self._end(one, arrived, HttpResponse(200, {}, body))

    def _end(
        self,
        one: Carried,
        arrived: "asyncio.Future[HttpResponse]",
        what: HttpResponse | GatewayError,
    ) -> None:
        """Give the sender what came of it, if it still waits."""
        if arrived.done():
            return
        if isinstance(what, GatewayError):
            self.log(f"#{one.number} fails: {what!r}")
            arrived.set_exception(what)
        else:
            self.log(f"#{one.number} reply {what.status} {what.body!r}")
            arrived.set_result(what)

    def _latency(self) -> float:
        """Draw a latency; a coarse grid makes many things happen at the same instant."""
        drawn = min(self._random.expovariate(2.0), LONGEST_LATENCY)
        return round(drawn / self._scenario.grid) * self._scenario.grid

    def _draw_fate(self) -> str:
        if self._scenario.is_dead:
            return self._random.choice(_DEAD_FATES)
        if self._random.random() >= self._scenario.trouble:
            return "answered"
        return self._random.choices(_FATES, _WEIGHTS)[0]

    def _arrive(self, one: Carried) -> bytes:
        """Have the gateway do what the request asks for."""
        now = EPOCH + asyncio.get_running_loop().time()
        self.gateway.now = datetime.fromtimestamp(now, UTC)
        writer = Writer(self._random, self.gateway, self._scenario)
        body = writer.write(one.operation, one.asked)
        self.log(f"#{one.number} done: {sum(self.gateway.effects.values())} effects")
        return body

    def _draw_status(self) -> tuple[HttpResponse, float | None]:
        """Draw a reply of another status than 200, and the pause that it asks for."""
        status = self._random.choice(_STATUSES)
        if self._random.random() < 0.5:
            return HttpResponse(status, {}, b"no"), None
        pause = float(self._random.randint(0, 40))
        text = f"{pause:.0f}"
        if self._random.random() < 0.5:
            now = EPOCH + asyncio.get_running_loop().time()
            until = int(now + pause)
            text = format_datetime(datetime.fromtimestamp(until, UTC), usegmt=True)
            pause = max(0.0, until - now)
        return HttpResponse(status, {"Retry-After": text}, b"no"), pause

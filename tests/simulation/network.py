"""A network in memory, between the client's session and the model of the gateway.

Law: `SendTracker.begin` is called at the very instant at which the body leaves; a request that has
left reaches the gateway or not, whatever becomes of its sender; one that has not left never does.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random
from typing import Any

import attrs
import orjson

from gateway_async.errors import (
    CertificateError,
    GatewayError,
    NotSentError,
    OutcomeUnknownError,
    ReplyTooLargeError,
)
from tests.simulation.scenario import (
    ABSENT_RESULT,
    DECLINED,
    EPOCH,
    FAILED,
    LONGEST_LATENCY,
    NOTHING_DONE,
    NOTHING_DONE_HTTP,
    PATHS,
    PENDING,
    REPLY_LIMIT,
    Gateway,
    Item,
    Scenario,
    key,
    wanted,
)
from tests.support.memory import HttpRequest, HttpResponse, SendTracker, fields_of
from tests.support.orders import LIST_FIELDS, LOOK_UPS, reply_to

TASK = "network"
"""The name of its tasks, which go on where their senders have given up."""
_STATUSES = (302, 400, NOTHING_DONE_HTTP, 404, 429, 500, 502, 503)
_GARBLED = (b"", b"[]", b"<html>busy</html>", b'{"return_status": "1", ', b"\xff")
_Arrived = asyncio.Future[HttpResponse]
_MISLEADING = (
    *("complaint", "contradicting", "doubled", "missing", "pending", "silent"),
    *("two_names", "unclear"),
)
_ENVELOPES = ("failed", "nothing_done", "null", "strangers", "unlisted")
_LISTS = ("failed", "ignored", "null", "reordered", "strange", "unlisted")
_STRANGER = {"transaction_id": "777", "order_no": "S7", "currency": "EUR", "amount": "1.00"}


@attrs.define(eq=False)
class Carried:
    """One request on the network, as the checks want to know it."""

    number: int  # its number, from 1
    operation: str  # what it asks for
    asked: list[Item]  # the orders or references
    entered: float  # when the transport was asked to send it
    begun: float | None = None  # when its body left; None if it never did
    left: float | None = None  # when the transport came back
    cancelled: bool = False  # whether the sender was cancelled meanwhile
    pause: float | None = None  # what its reply asked for by Retry-After


@attrs.define(eq=False)
class Network:
    _scenario: Scenario
    gateway: Gateway  # what stands behind it
    _random: Random
    carried: list[Carried] = attrs.field(factory=list)  # every request, in order
    trace: list[str] = attrs.field(factory=list)  # what happened, line by line
    most_at_once: int = 0  # how many requests were under way at once, at most
    _at_once: int = 0
    _tasks: list[asyncio.Task[None]] = attrs.field(factory=list)

    def log(self, text: str) -> None:
        self.trace.append(f"{asyncio.get_running_loop().time():.3f} {text}")

    def calm_down(self) -> None:
        """Let nothing go wrong from here on."""
        self._scenario = copy.copy(self._scenario)
        self._scenario.trouble = self._scenario.sloppiness = 0.0
        self._scenario.is_dead = False

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        """Send one request; see `gateway_async.transport.AiohttpTransport`."""
        loop, operation = asyncio.get_running_loop(), PATHS[message.path]
        asked = wanted(operation, fields_of(message))
        one = Carried(len(self.carried) + 1, operation, asked, loop.time())
        self.carried.append(one)
        self.log(f"#{one.number} {operation} {seconds:.3f} s: {' '.join(map(key, asked))}")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        arrived: _Arrived = loop.create_future()
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

    async def _travel(self, one: Carried, tracker: SendTracker, arrived: _Arrived) -> None:
        is_dead = self._scenario.is_dead
        in_trouble = is_dead or self._random.random() < self._scenario.trouble
        way = "open"
        if in_trouble:
            weights = (40, 12, 6, 6, not is_dead)
            ways = ("open", "slow", "refused", "unconnected", "certificate")
            (way,) = self._random.choices(ways, weights)
        self.log(f"#{one.number} {way}{' trouble' * in_trouble}")
        if way == "unconnected":
            return
        await asyncio.sleep(self._latency() + (way == "slow") * self._latency() * 4)
        if way in ("refused", "certificate"):
            error = NotSentError("refused") if way == "refused" else CertificateError("wrong")
            self._end(one, arrived, error)
            return
        try:
            tracker.begin()
        except ConnectionAbortedError as error:  # the sender is gone
            self.log(f"#{one.number} not written: {error}")
            return
        loop = asyncio.get_running_loop()
        one.begun = loop.time()
        self.log(f"#{one.number} written")
        silence, seconds = OutcomeUnknownError("silence"), self._scenario.timeouts.reply_seconds
        loop.call_later(seconds, self._end, one, arrived, silence)
        await asyncio.sleep(self._latency())
        if in_trouble and (is_dead or way == "open"):
            await self._break(one, arrived)
        else:
            body = self._arrive(one)
            await asyncio.sleep(self._latency())
            self._end(one, arrived, HttpResponse(200, {}, body))

    async def _break(self, one: Carried, arrived: _Arrived) -> None:
        """Let the gateway do what is asked for now, later or never, and lose or spoil its reply."""
        random, is_dead = self._random, self._scenario.is_dead
        effect = random.choice(("now", "later", "never"))
        replies = ("silence", "reset", "too large", "garbled", "status")
        reply = random.choice(replies[:2] if is_dead else replies)
        self.log(f"#{one.number} done {effect}; {reply}")
        if effect == "now":
            self._arrive(one)
            await asyncio.sleep(self._latency())
        if reply == "reset":
            self._end(one, arrived, OutcomeUnknownError("reset"))
        elif reply == "too large":
            self._end(one, arrived, ReplyTooLargeError("too large"))
        elif reply == "garbled":
            self._end(one, arrived, HttpResponse(200, {}, random.choice(_GARBLED)))
        elif reply == "status":
            vouching = NOTHING_DONE_HTTP if self._scenario.knows_codes else None
            is_done = effect != "never"
            status = random.choice([one for one in _STATUSES if not (is_done and one == vouching)])
            headers, pause = self._draw_pause()
            one.pause = None if arrived.done() else pause
            self._end(one, arrived, HttpResponse(status, headers, b"no"))
        if effect == "later":
            await asyncio.sleep(self._latency() + random.random() * 50)
            self._arrive(one)

    def _end(self, one: Carried, arrived: _Arrived, what: HttpResponse | GatewayError) -> None:
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

    def _arrive(self, one: Carried) -> bytes:
        """Do what a request asks for, as far as it is done, and write the reply."""
        self.gateway.now = EPOCH + asyncio.get_running_loop().time()
        if one.operation in LOOK_UPS:
            body = self._look_up(one.operation, one.asked, self._odd(_LISTS))
        elif one.operation == "payout":
            body = self._payout(one.asked[0], self._odd(("contradicting", "silent")))
        else:
            body = self._batch(one.operation, one.asked, self._odd(_ENVELOPES))
        self.log(f"#{one.number} done: {sum(self.gateway.effects.values())} effects")
        return body

    def _draw_pause(self) -> tuple[dict[str, str], float | None]:
        form = self._random.choice(("none", "none", "seconds", "date"))
        pause = float(self._random.randint(0, 40))
        if form == "none":
            return {}, None
        if form == "seconds":
            return {"Retry-After": f"{pause:.0f}"}, pause
        now = EPOCH + asyncio.get_running_loop().time()
        until = int(now + pause)
        text = format_datetime(datetime.fromtimestamp(until, UTC), usegmt=True)
        return {"Retry-After": text}, max(0.0, until - now)

    # What a reply says, and what may be wrong with it
    #
    # Wherever a reply misleads, whether the order was really done is drawn by lot: a reader who
    # believes it is wrong half of the time. A plain item is always the truth, and a decline always
    # means that nothing was done.

    def _odd(self, kinds: Sequence[str]) -> str:
        is_odd = self._random.random() < self._scenario.sloppiness
        return self._random.choice(kinds) if is_odd else "plain"

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _batch(self, operation: str, orders: list[Item], envelope: str) -> bytes:
        if envelope == "nothing_done":
            if self._scenario.knows_codes:
                return _envelope(operation, [], status=NOTHING_DONE)
            envelope = "failed"
        is_silent = envelope in ("null", "unlisted")
        items: list[Item] = []
        for position, kind in enumerate(self._draw_kinds(orders)):
            order = orders[position]
            is_left_out = envelope == "failed" and kind == "plain" and self._coin()
            said = "missing" if is_left_out else kind
            misleads = is_silent or said in (*_MISLEADING, "confused")
            if said != "declined" and not (misleads and self._coin()):
                self.gateway.execute(operation, order)
            other = orders[(position + 1) % len(orders)]["order_no"]
            items += self._items(said, operation, self.gateway.item(operation, order), other)
        if envelope == "strangers":
            items += [{**_STRANGER, f"{operation}_status": "1"}] * self._random.randint(1, 3)
        if self._random.random() < self._scenario.sloppiness:
            self._random.shuffle(items)
        if is_silent:
            return _envelope(operation, None, without=envelope == "unlisted")
        return _envelope(operation, items, status="0" if envelope == "failed" else "1")

    def _draw_kinds(self, orders: list[Item]) -> list[str]:
        kinds = []
        for order in orders:
            kind = self._odd(_MISLEADING)
            if kind == "pending" and not self._scenario.knows_codes:
                kind = "unclear"
            kinds.append("declined" if key(order) in self._scenario.declined else kind)
        names = Counter(order["order_no"] for order in orders)
        for position, kind in enumerate(kinds):
            if kind == "two_names":
                other = (position + 1) % len(orders)
                is_clear = names[orders[other]["order_no"]] == 1 and other != position
                if is_clear and kinds[other] == "plain":
                    kinds[other] = "confused"
                else:
                    kinds[position] = "contradicting"
        return kinds

    def _items(self, kind: str, operation: str, item: Item, other: str) -> list[Item]:
        """Make of the right item of an order what the reply says, for a kind of oddity."""
        status = f"{operation}_status"
        text = "refund_message" if operation == "refund" else "error_message"
        wrong = {"amount": "9.99", "currency": "XXX", "order_no": "ANOTHER"}
        if operation == "refund":
            wrong["refund_amount"] = "9.99"
        field = self._random.choice(list(wrong))
        said = self._random.choice(["", "P0001:Request accepted, in process", "pending approval"])
        reason = self._random.choice(["E12:insufficient funds", "not possible"])
        declined = {**item, status: DECLINED, text: reason}
        made: dict[str, list[Item]] = {
            "complaint": [{**item, text: "E05:it did not work"}],
            "contradicting": [{**item, field: wrong[field]}],
            "declined": [declined],
            "doubled": [item, declined],
            "missing": [],
            "pending": [{**item, status: PENDING, text: "P1:under way"}],
            "silent": [{name: value for name, value in item.items() if name != status}],
            "two_names": [{**item, "order_no": other}],
            "unclear": [{**item, status: self._random.choice(["0", "7"]), text: said}],
        }
        return made.get(kind, [item])

    def _look_up(self, operation: str, refs: list[Item], kind: str) -> bytes:
        listed = self.gateway.listed(operation, refs)
        if self._scenario.knows_codes and operation == "query":
            names = [ref for ref in refs if not self.gateway.records(operation, ref)]
            listed += [{**ref, "query_result": ABSENT_RESULT} for ref in names]
        if kind == "failed":
            return _envelope(operation, [], status="0")
        if kind == "unlisted" or (kind == "null" and not listed):
            return _envelope(operation, None, without=kind == "unlisted")
        if kind == "strange" and operation == "query":
            listed = [{**item, "query_result": "5"} for item in listed]
        if kind == "ignored":
            some = self._random.sample(refs, self._random.randint(0, len(refs)))
            strangers = [{**_STRANGER, "query_result": "1"}] * self._random.randint(1, 30)
            listed = [*self.gateway.listed(operation, some), *strangers]
        listed = listed[:REPLY_LIMIT]
        if kind in ("ignored", "reordered"):
            self._random.shuffle(listed)
        return _envelope(operation, listed)

    def _payout(self, order: Item, kind: str) -> bytes:
        said = {**order, "transaction_id": "5", "status": "COMPLETED"}
        if key(order) in self._scenario.declined:
            return orjson.dumps({**said, "status": FAILED, "failure_reason": "closed account"})
        if kind == "plain" or self._coin():
            self.gateway.execute("payout", order)
        if kind == "contradicting":
            said["payment_amount"] = 9.99
        elif kind == "silent":
            said = {"return_status": "0", "return_message": "no"}
        return orjson.dumps(said)


def _envelope(operation: str, listed: Any, *, status: str = "1", without: bool = False) -> bytes:
    said = "OK" if status == "1" else "not OK"
    fields = reply_to(operation, listed, return_status=status, return_message=said)
    if without:
        del fields[LIST_FIELDS[operation]]
    return orjson.dumps({**fields, "encryption_data": "signature"})

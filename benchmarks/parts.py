"""What does each part of a batch add to what can be written by hand?

Run as ``python -m benchmarks.parts``. All sides send the same refunds in the loop of the floor. The
first does by hand, for this signer, these orders and this reply alone, the least that care can do:
write and sign them, note when their body is written, and compare with the reply, item by item, what
each was to move. Each of the next takes one part more from the client, and all the cases with it
that the hand leaves out; the last is a batch, awaited. Figures are CPU time of this process.
"""

import asyncio
import functools
import hashlib
import hmac
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import aiohttp
import attrs
import orjson

from benchmarks.figures import Figure, alternate, cpu_seconds, ratio_of, show
from benchmarks.refund_batch import (
    CONCURRENCY,
    REQUESTS,
    ROUNDS,
    awaited,
    client_at,
    expect,
    floor,
    made_orders,
)
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async.batching.glance import Glance
from gateway_async.batching.judge import judge
from gateway_async.batching.results import overall_of
from gateway_async.operations import REFUND
from gateway_async.session import Request, Session
from gateway_async.transport import HttpRequest, HttpResponse, SendTracker
from gateway_async.wire.decode import decode_surely, without_signatures
from gateway_async.wire.encode import EncodedChunk, encode_chunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from gateway_async import RefundOrder

    Orders = tuple[RefundOrder, ...]
    Judge = Callable[[Orders, "Written", bytes], bool]

PARTS = (
    "writing and judging (no secret kept, no field named twice)",
    "signing by any signer",
    "reading (any status and charset, no signature of ours kept)",
    "sending (size limited, no connection that has ended)",
)
"""What is taken from the client, one after the other."""

_compared = itemgetter("transaction_id", "order_no", "currency", "amount", "refund_amount")
_status = itemgetter("refund_status")


@attrs.frozen
class Written:
    """The orders of one request.

    Attributes:
        chunk: The orders as they go out.
        rows: What the one by hand compares a reply with.
    """

    chunk: EncodedChunk
    rows: "list[dict[str, str]]" = attrs.field(factory=list)


@attrs.frozen(kw_only=True)
class Parts:
    """How each step of a request is done.

    Attributes:
        write: Writes orders.
        compose: Signs them, and makes the message.
        send: Sends it, and knows whether anything left.
        read: Reads the body of the reply.
        is_done: Says whether it calls every order done, by what was sent of each.
    """

    write: "Callable[[Orders], Written]"
    compose: "Callable[[Written], HttpRequest]"
    send: "Callable[[HttpRequest], Awaitable[HttpResponse]]"
    read: "Callable[[Written, HttpRequest, HttpResponse], bytes]"
    is_done: "Judge"


def _row(order: "RefundOrder") -> dict[str, str]:
    return {
        "transaction_id": order.transaction_id,
        "order_no": order.order_no,
        "currency": order.currency,
        "amount": str(order.amount),
        "refund_amount": str(order.refund_amount),
        "refund_reason": order.refund_reason,
    }


class _Noting(aiohttp.BytesPayload):
    """A body that notes when it is written, and nothing else."""

    is_written = False

    async def write_with_length(self, *arguments: Any) -> None:  # noqa: ANN401  # aiohttp's
        self.is_written = True
        await super().write_with_length(*arguments)


def by_hand(session: aiohttp.ClientSession, url: str) -> Parts:
    """Return the least that can be done."""

    def write(orders: "Orders") -> Written:
        rows = list(map(_row, orders))
        text = orjson.dumps(rows)
        return Written(EncodedChunk({"refund_orders": text.decode()}, text), rows)

    def compose(written: Written) -> HttpRequest:
        text = written.chunk.fields["refund_orders"]
        signed = f"account_id=A1&merchant_id=M1&refund_orders={text}".encode()
        signature = hmac.digest(b"secret", signed, hashlib.sha256).hex()
        body = f'{{"merchant_id":"M1","account_id":"A1","refund_orders":{text},"encryption_data":"'
        return HttpRequest("/v1/refund", "application/json", f'{body}{signature}"}}'.encode())

    async def send(message: HttpRequest) -> HttpResponse:
        payload = _Noting(message.body, content_type=message.content_type)
        async with session.post(url + message.path, data=payload) as reply:
            raw = HttpResponse(reply.status, reply.headers, await reply.read())
        expect(payload.is_written, orders=1)
        return raw

    def is_done(_: object, written: Written, body: bytes) -> bool:
        payload = orjson.loads(body)
        items = payload["refund_orders"]
        is_right = list(map(_compared, items)) == list(map(_compared, written.rows))
        return is_right and payload["return_status"] == "1" and set(map(_status, items)) == {"1"}

    return Parts(
        write=write,
        compose=compose,
        send=send,
        read=lambda written, message, raw: raw.body,  # noqa: ARG005
        is_done=is_done,
    )


def of_client(session: Session) -> "list[dict[str, Callable[..., Any]]]":
    """Return the client's own parts, in the order of `PARTS`."""

    def request(written: Written) -> "Request[bytes]":
        return Request(operation=REFUND, fields=written.chunk.fields, decode=lambda raw: raw.body)

    return [
        {
            "write": lambda orders: Written(encode_chunk(REFUND, orders, session.dialect)),
            "is_done": judge_of(session),
        },
        {"compose": lambda written: session.compose(request(written))},
        {
            "read": lambda written, message, raw: session.decode(
                request(written), raw, message.signature
            )
        },
        {
            "send": lambda message: session.transport.send(
                message, tracker=SendTracker(), seconds=60
            )
        },
    ]


def judge_of(session: Session) -> "Judge":
    """Return how a batch judges: at a glance, once the first reply was judged with care."""
    glance = Glance(REFUND)

    def is_done(orders: "Orders", written: Written, body: bytes) -> bool:
        listed = written.chunk.listed
        if glance.prove(body, listed, len(orders)) is not None:
            return True
        kept, payload = without_signatures(body, decode_surely(body))
        judgement = judge(REFUND, orders, payload, session.dialect)
        if judgement.all_echoed:
            glance.learn(kept, payload, listed, overall_of(payload))
        return judgement.all_echoed

    return is_done


async def refund(taken: int, url: str) -> None:
    """Refund all orders, with so many parts of the client's in place of those by hand."""
    orders = made_orders()
    turns = iter(range(REQUESTS))
    kept: list[tuple[HttpResponse, bool]] = []
    cookies = aiohttp.DummyCookieJar()
    async with client_at(url) as gateway, aiohttp.ClientSession(cookie_jar=cookies) as session:
        parts = by_hand(session, url)
        for added in of_client(gateway._session)[:taken]:  # noqa: SLF001  # its parts
            parts = attrs.evolve(parts, **added)

        async def work() -> None:
            for _ in turns:
                written = parts.write(orders)
                message = parts.compose(written)
                raw = await parts.send(message)
                body = parts.read(written, message, raw)
                kept.append((raw, parts.is_done(orders, written, body)))

        await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    expect(sum(is_done for _, is_done in kept) * ORDERS, REQUESTS * ORDERS)


def measure() -> list[Figure]:
    """Run all sides in turn.

    Returns:
        The CPU time of an order for each, as a multiple of the floor.
    """
    runs: dict[str, Callable[[str], Coroutine[Any, Any, object]]] = {
        "aiohttp and orjson alone": floor,
        "by hand": functools.partial(refund, 0),
    }
    for number, part in enumerate(PARTS, 1):
        runs[f"and the client's {part}"] = functools.partial(refund, number)
    runs["and all else of a batch"] = awaited
    with stub() as url:

        def side(run: "Callable[[str], Coroutine[Any, Any, object]]") -> "Callable[[], float]":
            return lambda: cpu_seconds(lambda: run(url))

        costs = alternate({name: side(run) for name, run in runs.items()}, ROUNDS)
    least, *others = costs
    return [ratio_of(name, costs[name], costs[least], "x floor") for name in others]


if __name__ == "__main__":
    show(measure())

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
    make_orders,
)
from benchmarks.replies import ORDERS
from benchmarks.stub import stub
from gateway_async.batching.matching import judge
from gateway_async.batching.outcomes import without_signatures
from gateway_async.batching.plans import PLANS
from gateway_async.batching.sheets import Sheet, SheetWriter
from gateway_async.operations import REFUND
from gateway_async.session import Request, Session
from gateway_async.transport import Evidence, Message, RawReply
from gateway_async.wire.decoding import decode_surely
from gateway_async.wire.encoding import JsonText

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from gateway_async import RefundOrder

    Orders = tuple[RefundOrder, ...]
    Payload = Mapping[str, Any]

PARTS = (
    "writing and judging",
    "signing by any signer",
    "reading (no secret kept, no field named twice)",
    "sending (size limited, no connection that has ended)",
)
"""What is taken from the client, one after the other."""

_compared = itemgetter("transaction_id", "order_no", "currency", "amount", "refund_amount")
_status = itemgetter("refund_status")


@attrs.frozen(kw_only=True)
class Parts:
    """How each step of a request is done.

    Attributes:
        write: Writes orders.
        compose: Signs them, and makes the message.
        send: Sends it, and knows whether anything left.
        read: Reads the reply.
        is_done: Says whether it calls every order done, by what was sent of each.
    """

    write: "Callable[[Orders], Sheet]"
    compose: "Callable[[Sheet], Message]"
    send: "Callable[[Message], Awaitable[RawReply]]"
    read: "Callable[[Sheet, Message, RawReply], Payload]"
    is_done: "Callable[[Orders, Sheet, Payload], bool]"


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

    def write(orders: "Orders") -> Sheet:
        rows = list(map(_row, orders))
        text = JsonText(orjson.dumps(rows).decode())
        return Sheet(range(ORDERS), {"refund_orders": text}, list(map(_compared, rows)))

    def compose(sheet: Sheet) -> Message:
        text = sheet.fields["refund_orders"]
        signed = f"account_id=A1&merchant_id=M1&refund_orders={text}".encode()
        signature = hmac.digest(b"secret", signed, hashlib.sha256).hex()
        body = f'{{"merchant_id":"M1","account_id":"A1","refund_orders":{text},"encryption_data":"'
        return Message("/v1/refund", "application/json", f'{body}{signature}"}}'.encode())

    async def send(message: Message) -> RawReply:
        payload = _Noting(message.body, content_type=message.content_type)
        async with session.post(url + message.path, data=payload) as reply:
            raw = RawReply(reply.status, reply.headers, await reply.read())
        expect(payload.is_written, orders=1)
        return raw

    def is_done(_: object, sheet: Sheet, payload: "Payload") -> bool:
        items = payload["refund_orders"]
        is_right = payload["return_status"] == "1" and list(map(_compared, items)) == sheet.sent
        return is_right and set(map(_status, items)) == {"1"}

    return Parts(
        write=write,
        compose=compose,
        send=send,
        read=lambda sheet, message, raw: orjson.loads(raw.body),  # noqa: ARG005
        is_done=is_done,
    )


def of_client(session: Session) -> "list[dict[str, Callable[..., Any]]]":
    """Return the client's own parts, in the order of `PARTS`."""
    writer = SheetWriter(plan=PLANS[REFUND.name], dialect=session.dialect)

    def request(sheet: Sheet) -> "Request[Payload]":
        return Request(operation=REFUND, fields=sheet.fields, decode=payload_of)

    def payload_of(raw: RawReply) -> "Payload":
        return without_signatures(raw.body, decode_surely(raw.body))[1]

    return [
        {
            "write": lambda orders: writer.write(orders, range(ORDERS)),
            "is_done": lambda orders, sheet, payload: (
                judge(REFUND, orders, payload, session.dialect, sheet.sent).plain
            ),
        },
        {"compose": lambda sheet: session.compose(request(sheet))},
        {
            "read": lambda sheet, message, raw: session.decode(
                request(sheet), raw, message.signature
            )
        },
        {"send": lambda message: session.transport.send(message, evidence=Evidence(), seconds=60)},
    ]


async def refund(taken: int, url: str) -> None:
    """Refund all orders, with so many parts of the client's in place of those by hand."""
    orders = make_orders()
    turns = iter(range(REQUESTS))
    kept: list[tuple[RawReply, bool]] = []
    cookies = aiohttp.DummyCookieJar()
    async with client_at(url) as gateway, aiohttp.ClientSession(cookie_jar=cookies) as session:
        parts = by_hand(session, url)
        for added in of_client(gateway._session)[:taken]:  # noqa: SLF001  # its parts
            parts = attrs.evolve(parts, **added)

        async def work() -> None:
            for _ in turns:
                sheet = parts.write(orders)
                message = parts.compose(sheet)
                raw = await parts.send(message)
                payload = parts.read(sheet, message, raw)
                kept.append((raw, parts.is_done(orders, sheet, payload)))

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

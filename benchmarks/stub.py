"""A gateway that answers every request with the same bytes: nearly all time is the client's.

Run as ``python -m benchmarks.stub [SECONDS]``; it prints its port and serves until its input is
closed. Each answer comes that many seconds after its request, at once by default.
"""

import asyncio
import sys

import orjson

ORDERS = 50
"""Orders in the one reply, and so in every request."""

_ITEM = {
    "currency": "EUR",
    "amount": "100.00",
    "refund_amount": "10.00",
    "refund_reason": "customer request",
    "refund_status": "1",
    "refund_reference": "",
    "refund_message": "V0000:success",
}


def names(number: int) -> dict[str, str]:
    """Return the identifiers of one of the orders."""
    return {"transaction_id": f"T{number:020}", "order_no": f"N{number:010}"}


def reply() -> bytes:
    """Return the whole reply, headers and all."""
    items = [
        {**names(number), **_ITEM, "refund_reference_id": f"T{number:020}-01"}
        for number in range(ORDERS)
    ]
    envelope = {
        "merchant_id": "M1",
        "account_id": "A1",
        "encryption_data": "0" * 64,
        "return_status": "1",
        "return_message": "OK",
        "refund_orders": items,
    }
    body = orjson.dumps(envelope)
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Stub(asyncio.Protocol):
    """Answers each request once its last byte is there."""

    def __init__(self, answer: bytes, seconds: float) -> None:
        self._answer = answer
        self._seconds = seconds
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what answers go to."""
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]  # of a socket

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._received) < end + 4 + length:
                return
            self._received = self._received[end + 4 + length :]
            if self._seconds:
                loop = asyncio.get_running_loop()
                loop.call_later(self._seconds, self._transport.write, self._answer)
            else:
                self._transport.write(self._answer)


async def serve(seconds: float) -> None:
    """Serve on a free port of this machine until the standard input is closed."""
    loop = asyncio.get_running_loop()
    answer = reply()
    server = await loop.create_server(lambda: Stub(answer, seconds), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) if sys.argv[1:] else 0.0))

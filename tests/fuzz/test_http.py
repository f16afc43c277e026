"""Whatever bytes come from the socket, they come to outcomes, or to an error of ours."""

import asyncio
import contextlib
import logging
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, strategies as st

from gateway_async import (
    BatchPolicy,
    CaptureOrder,
    GatewayClient,
    GatewayError,
    OrderRef,
    OutcomeStatus,
)
from tests.fuzz.examples import examples
from tests.memory import QUICK
from tests.orders import client_at, direct_payment
from tests.support.clock import PATIENT, Clock
from tests.support.servers import Server, read_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BODY = (
    b'{"return_status":"1","return_message":"OK","capture_orders":[{"transaction_id":"T1",'
    b'"capture_status":"1","error_message":""}],"orders_list":[{"order_no":"N1","query_result":"1"}]}'
)
STATUS_LINES = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 200\r\n",
    b"HTTP/1.1 099 Low\r\n",
    b"HTTP/1.1 1000 High\r\n",
    b"HTTP/1.1 -200 OK\r\n",
    b"HTTP/9.9 200 OK\r\n",
    b"HTTP/1.1 200 \xff\xfe\r\n",
    b"HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 307 Again\r\nLocation: http://127.0.0.1:1/\r\n",
    b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\n",
    b"SSH-2.0-OpenSSH\r\n",
    b"HTTP/1.1 200 OK\n",
    b"",
]
HEADERS = [
    b"Content-Length: %d\r\n" % len(BODY),
    b"Content-Length: %d\r\n" % (len(BODY) - 5),
    b"Content-Length: %d\r\n" % (len(BODY) + 5),
    b"Content-Length: -1\r\n",
    b"Content-Length: 1_0\r\n",
    b"Content-Length: 99999999999999999999999\r\n",
    b"Content-Length: \xd9\xa3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding: nonsense\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: deflate\r\n",
    b"Content-Encoding: br\r\n",
    b"Content-Encoding: zstd\r\n",
    b"Content-Encoding: nonsense\r\n",
    b"Content-Type: application/json; charset=nonsense\r\n",
    b"Content-Type: \xff\r\n",
    b"Set-Cookie: a=b; Expires=never; Domain=..; Path\r\n",
    b"Set-Cookie: \xff\x01=;;;=\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\n",
    b"Upgrade: h2c\r\n",
    b"Retry-After: \xff\r\n",
    b"Retry-After: 1e9\r\n",
    b"No-Colon\r\n",
    b": no name\r\n",
    b"Folded: one\r\n two\r\n",
    b"Nul: \x00\r\n",
    b"Long: " + b"x" * 20_000 + b"\r\n",
    b"Link: <\xff>; rel=\r\n",
    b"Keep-Alive: timeout=never\r\n",
]
BODIES = [
    BODY,
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    b"%x;ext=\xff\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    b"5\r\n" + BODY[:5] + b"\r\n",
    b"fffffffffffffffffff\r\n" + BODY,
    b"-1\r\n" + BODY,
    b"0x5\r\n" + BODY[:5],
    b"zz\r\n",
    b"5\n12345\n0\n\n",
    b"5\r\n1234567890\r\n0\r\n\r\n",
    b"0\r\nTrailer: \xff\r\n\r\n",
    b"\x1f\x8b\x08\x00",
    b"\x78\x9c\xff\xff",
    b"\x28\xb5\x2f\xfd\xff\xff\xff",
    b"",
]
CAPTURE = CaptureOrder(transaction_id="T1", order_no="N1", currency="EUR", amount=Decimal(1))

pieces = st.tuples(
    st.sampled_from(STATUS_LINES),
    st.lists(st.sampled_from(HEADERS), max_size=4).map(b"".join),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b""]),
    st.sampled_from(BODIES),
    st.binary(max_size=6),
).map(b"".join)


@st.composite
def _flipped(draw: st.DrawFn) -> bytes:
    answer = bytearray(draw(pieces))
    for _ in range(draw(st.integers(0, 3)) if answer else 0):
        answer[draw(st.integers(0, len(answer) - 1))] = draw(st.integers(0, 255))
    return bytes(answer)


answers = st.one_of(pieces, pieces, _flipped(), st.binary(max_size=80))


class RawServer(Server):
    """Reads a request and answers with any bytes; then it closes, or waits for another."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = b""
        self.stays_open = False
        self.asked = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_message(reader)
            self.asked += 1
            writer.write(self.answer)
            await writer.drain()
            if not self.stays_open:
                return
            for _ in range(20):  # mostly it has been read by then
                await asyncio.sleep(0)
            self.on_silence()


@contextlib.asynccontextmanager
async def opened(server: RawServer) -> "AsyncIterator[GatewayClient]":
    settings = {"timeouts": PATIENT, "retry": QUICK, "policy": BatchPolicy(concurrency=1)}
    async with server, client_at(server.base_url, **settings) as client:
        yield client


@examples(100)
@given(answer=answers, stays_open=st.booleans())
@example(answer=STATUS_LINES[0] + HEADERS[0] + b"\r\n" + BODY, stays_open=False)
async def test_any_bytes_come_to_outcomes(
    caplog: pytest.LogCaptureFixture, clock: Clock, answer: bytes, stays_open: bool
) -> None:
    caplog.set_level(logging.CRITICAL)
    server = RawServer()
    server.on_silence = clock.advance
    server.answer, server.stays_open = answer, stays_open
    async with opened(server) as client:
        captured = await client.capture([CAPTURE])
        assert server.asked <= 1
        assert [outcome.status for outcome in captured] in (
            [OutcomeStatus.SUCCEEDED],
            [OutcomeStatus.UNKNOWN],
        )
        found = await client.query([OrderRef(order_no="N1")])
        assert sum(found.counts.values()) == 1
        errors = [outcome.error for outcome in captured] + [outcome.error for outcome in found]
        assert all(error is None or isinstance(error, GatewayError) for error in errors)
        asked = server.asked
        with pytest.raises(GatewayError):  # whatever the bytes are, they are not of a payment
            await client.pay_direct(direct_payment())
        assert server.asked <= asked + 1
    assert len(asyncio.all_tasks()) == 1


async def test_the_right_bytes_are_right() -> None:
    server = RawServer()
    server.answer = STATUS_LINES[0] + HEADERS[0] + b"\r\n" + BODY
    async with opened(server) as client:
        assert (await client.capture([CAPTURE])).ok
        assert server.asked == 1
        assert (await client.query([OrderRef(order_no="N1")])).ok

"""Whatever bytes come from the socket, they come to outcomes, or to an error of ours."""

import asyncio
import logging
import re
from collections import Counter
from decimal import Decimal
from random import Random
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, CaptureOrder, GatewayError, OrderRef, OutcomeStatus
from tests.fuzz.conftest import times
from tests.support.clock import PATIENT, Clock
from tests.support.memory import QUICK
from tests.support.orders import client_at, direct_payment
from tests.support.servers import read_message, serving

BODY = (
    b'{"return_status":"1","return_message":"OK","capture_orders":[{"transaction_id":"T1",'
    b'"capture_status":"1","error_message":""}],"orders_list":[{"order_no":"N1","query_result":"1"}]}'
)
_MONEY = re.compile(rb"(?:CAP|PAY)-[0-9]+")
STATUS_LINES = [
    *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200\r\n", b"HTTP/1.1 200 OK\n"),
    *(b"", b"HTTP/1.1 1000 High\r\n", b"HTTP/9.9 200 OK\r\n", b"HTTP/1.1 200 \xff\xfe\r\n"),
    *(b"HTTP/1.1 204 No Content\r\n", b"SSH-2.0-OpenSSH\r\n"),
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n",
    b"HTTP/1.1 307 Again\r\nLocation: http://127.0.0.1:1/\r\n",
    b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\n",
]
HEADERS = [
    *(b"Content-Length: %d" % length for length in (len(BODY), len(BODY) - 5, len(BODY) + 5, -1)),
    *(b"Content-Length: " + said for said in (b"1_0", b"9" * 23, b"\xd9\xa3")),
    *(b"Transfer-Encoding: " + said for said in (b"chunked", b"gzip, chunked", b"nonsense")),
    *(b"Content-Encoding: " + said for said in (b"gzip", b"deflate", b"br", b"zstd", b"nonsense")),
    *(b"Content-Type: \xff", b"Set-Cookie: a=b; Expires=never; Domain=..; Path"),
    *(b"Connection: close", b"Connection: upgrade", b"Retry-After: \xff", b"Nul: \x00"),
    *(b"Long: " + b"x" * 20_000, b"No-Colon", b": no name", b"Folded: one\r\n two"),
]
BODIES = [
    BODY,
    b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY),
    *(size + b"\r\n" + BODY for size in (b"5", b"fffffffffffffffffff", b"-1", b"zz")),
    *(b"5\r\n1234567890\r\n0\r\n\r\n", b"0\r\nTrailer: \xff\r\n\r\n"),
    *(b"\x1f\x8b\x08\x00", b"\x78\x9c\xff\xff", b"\x28\xb5\x2f\xfd\xff\xff\xff", b""),
]
CAPTURE = CaptureOrder(transaction_id="T1", order_no="N1", currency="EUR", amount=Decimal(1))

RIGHT = STATUS_LINES[0] + HEADERS[0] + b"\r\n\r\n" + BODY
ONE = BatchPolicy(concurrency=1)
SETTINGS: dict[str, Any] = {"timeouts": PATIENT, "retry": QUICK, "policy": ONE}


def _drawn(random: Random) -> bytes:
    """Put an answer together, and change some bytes of it; or draw any bytes."""
    if random.random() < 0.1:
        return random.randbytes(random.randint(0, 80))
    headers = b"".join(one + b"\r\n" for one in random.choices(HEADERS, k=random.randint(0, 4)))
    end = random.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b""))
    left = random.randbytes(random.randint(0, 6))
    answer = bytearray(random.choice(STATUS_LINES) + headers + end + random.choice(BODIES) + left)
    for _ in range(random.randint(0, 3) if answer and random.random() < 0.3 else 0):
        answer[random.randrange(len(answer))] = random.randrange(256)
    return bytes(answer)


async def test_any_bytes_come_to_outcomes(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    caplog.set_level(logging.CRITICAL)
    random, answer, stays_open = Random(1), RIGHT, False
    asked: Counter[bytes] = Counter()  # a request that was given up may be read later

    async def give(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.update(set(_MONEY.findall(await read_message(reader))))
            writer.write(answer)
            await writer.drain()
            if not stays_open:
                return
            for _ in range(20):  # mostly it has been read by then
                await asyncio.sleep(0)
            clock.advance()

    async with serving(give) as url:
        for number in range(times(100)):
            async with client_at(url, **SETTINGS) as client:
                captured = await client.capture([attrs.evolve(CAPTURE, order_no=f"CAP-{number}")])
                found = await client.query([OrderRef(order_no="N1")])
                assert number or (captured.ok and found.ok)
                (status,) = (outcome.status for outcome in captured)
                assert status in (OutcomeStatus.SUCCEEDED, OutcomeStatus.UNKNOWN)
                errors = [outcome.error for outcome in (*captured, *found)]
                assert all(error is None or isinstance(error, GatewayError) for error in errors)
                assert len(errors) == 2
                with pytest.raises(GatewayError):  # whatever the bytes are, they are no payment's
                    await client.pay_direct(direct_payment(f"PAY-{number}"))
            answer, stays_open = _drawn(random), random.random() < 0.5
    assert len(asked) > times(100)
    assert set(asked.values()) == {1}

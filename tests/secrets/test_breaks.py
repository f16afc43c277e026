"""Connections that break while the request is written, or as soon as it is, show nothing of it."""

import asyncio
import socket
from typing import TYPE_CHECKING

import attrs
import pytest

from gateway_async import (
    GatewayError,
    HmacSigner,
    OutcomeUnknownError,
    RetryPolicy,
)
from tests.memory import QUICK, Asked, HttpResponse, MemoryTransport, client_over, rewritten
from tests.orders import client_at
from tests.secrets.data import CARD, SIGNER_SECRET, direct_payment
from tests.secrets.dragnet import links_of
from tests.support.servers import bind, body_of, read_message, serving

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.secrets.dragnet import Dragnet

SIGNER = HmacSigner(SIGNER_SECRET)
LONGER_THAN_ANY_BUFFER = 12_000_000


def breaking(after_bytes: int) -> "AbstractAsyncContextManager[str]":
    """Listen on this machine, take so many bytes of each connection, and reset it."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if after_bytes:
            await reader.read(after_bytes)
        writer.transport.abort()

    bound = bind()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return serving(take, bound=bound)


@pytest.mark.parametrize("after_bytes", [0, 1, 1000])
@pytest.mark.parametrize("length", [0, LONGER_THAN_ANY_BUFFER])
async def test_a_broken_connection_shows_nothing(
    net: "Dragnet", after_bytes: int, length: int
) -> None:
    # Not shown in the repr, so that the net need not search it in every frame.
    payment = attrs.evolve(direct_payment(), document="x" * length)
    async with (
        breaking(after_bytes) as address,
        client_at(address, signer=SIGNER, retry=RetryPolicy(attempts=1)) as client,
    ):
        with pytest.raises(GatewayError) as caught:
            await client.pay_direct(payment)
        net.catch_error("broken", caught.value)
        causes = list(links_of(caught.value))[1:]
        assert causes
        assert [cause for cause in causes if cause.__traceback__] == []


async def repeat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Repeat the request in the headers of the reply, and break off."""
    body = body_of(await read_message(reader))
    writer.write(b"HTTP/1.1 200 OK\r\nX-Request: " + body + b"\r\nContent-Type: text/xml\r\n")


async def test_headers_that_break_off_are_not_shown(net: "Dragnet") -> None:
    """The exception of aiohttp carries those that came."""
    async with serving(repeat) as address, client_at(address, signer=SIGNER) as client:
        with pytest.raises(OutcomeUnknownError, match="ServerDisconnectedError;") as caught:
            await client.pay_direct(direct_payment())
    net.catch_error("broken off", caught.value)


async def test_a_wrapped_secret_goes_out_whole_in_any_call_and_shows_in_none(
    net: "Dragnet",
) -> None:
    sent: list[str] = []

    def note(asked: Asked, reply: HttpResponse) -> HttpResponse:
        sent.append(asked.fields["card"])
        return attrs.evolve(reply, status=503)

    client = client_over(MemoryTransport(rewritten(note)), retry=QUICK)
    wrapped = direct_payment()
    for body in ("form", "json"):
        fields = {"order_no": "1", "amount": "1", "currency": "EUR", "card": wrapped.card}
        with pytest.raises(GatewayError) as caught:
            await client.call("/v1/authorise", fields, body=body)
        trace = caught.value.__traceback__
        assert trace is not None
        # Without the first frame, which is this test's own and knows what was sent.
        net.catch_error("call", caught.value.with_traceback(trace.tb_next))
    assert sent == [CARD, CARD]

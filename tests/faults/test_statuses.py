"""Replies under other HTTP statuses, and in other shapes of HTTP."""

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp

from gateway_async import ReplyStatusError
from gateway_async.sandbox import faults
from tests.faults.deeds import ATTEMPTS, SUCCEEDED, UNKNOWN, Trial, with_deeds
from tests.support.servers import End, Proxy, Trouble, body_of, serving


@with_deeds("status", [b"201 Created", b"202 Accepted", b"299 OK"])
async def test_a_right_reply_under_a_status_that_the_interface_does_not_show(
    trial: Trial, proxy: Proxy, status: bytes
) -> None:
    proxy.always(Trouble(said=lambda reply: reply.replace(b"200 OK", status, 1)))
    told = await trial.run(proxy.base_url)
    assert told.status is UNKNOWN
    assert isinstance(told.error, ReplyStatusError)
    assert trial.requests == trial.by_kind(read=ATTEMPTS, money=1)


OTHER_SHAPES: dict[str, Callable[[bytes], bytes]] = {
    "a continuation": lambda reply: b"HTTP/1.1 100 Continue\r\n\r\n" + reply,
    "an early hint": lambda reply: b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + reply,
    "no length": lambda reply: b"HTTP/1.0 200 OK\r\n\r\n" + body_of(reply),
    "chunks": lambda reply: (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%x\r\n%s\r\n0\r\n\r\n" % (len(body_of(reply)), body_of(reply))
    ),
    "twice": lambda reply: reply + reply,
}


@with_deeds("name", OTHER_SHAPES)
async def test_a_reply_in_another_shape_of_http(trial: Trial, proxy: Proxy, name: str) -> None:
    proxy.once(Trouble(said=OTHER_SHAPES[name], end=None if name == "twice" else End.CLOSE))
    for number in (1, 2):
        assert (await trial.run(proxy.base_url)).status is SUCCEEDED
        assert proxy.requests == number


# Redirects: a status like any other, and not one byte of a request goes elsewhere


@with_deeds("status", [301, 303, 307, 308])
async def test_a_redirect_is_not_followed(trial: Trial, status: int) -> None:
    """By a session of the caller's, which would follow it, as by our own."""
    connections = 0

    async def note(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1

    async with serving(note) as elsewhere, aiohttp.ClientSession() as session:
        to = "" if status == 301 else elsewhere  # or to the gateway itself
        trial.sandbox.faults.add(trial.operation, faults.Redirect(f"{to}/v1/capture", status))
        given: list[dict[str, Any]] = [{}, {"session": session}]
        for settings in given:
            told = await trial.run(**settings)
            assert (told.status, connections) == (UNKNOWN, 0)
            assert isinstance(told.error, ReplyStatusError)
            assert told.error.status == status
            assert "redirects are not followed" in str(told.error)
    assert trial.sandbox.requests.total() == 2 * trial.by_kind(read=ATTEMPTS, money=1)

"""Exchanges that break off below HTTP, end with another status, or have another shape of HTTP.

A look-up is repeated; money is `unknown` and sent once, unless the reply is the right one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import pytest

from gateway_async import ReplyStatusError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.deeds import ATTEMPTS, SUCCEEDED, UNKNOWN, Trial, refunds, with_deeds
from tests.support.clock import Clock
from tests.support.servers import PLACES, End, Proxy, Trouble, body_of, cut, nothing, serving


def _share(percent: int, message: bytes) -> int:
    return len(message) * percent // 100


ANYWHERE = [partial(_share, percent) for percent in range(0, 100, 2)]
BREAKS = (End.RESET, End.CLOSE)
SILENT = ("before its first byte", "between headers and body", "before its last byte")
# Each row: what happens, and how often each order is carried out when it happens once.
ONCE: list[tuple[Trouble, int]] = [
    *((Trouble(place, end=end), 0) for place in PLACES.values() for end in BREAKS),
    *((Trouble(said=cut(place), end=end), 1) for place in ANYWHERE for end in BREAKS),
    *((Trouble(said=cut(PLACES[place]), end=End.SILENCE), 1) for place in SILENT),
]


async def test_an_exchange_that_breaks_off_once(trial: Trial, proxy: Proxy, clock: Clock) -> None:
    proxy.on_silence = clock.advance
    for trouble, effects in ONCE:
        before, known = proxy.requests, trial.requests
        proxy.once(trouble)
        told = await trial.run(proxy.base_url)
        assert told.status is trial.by_kind(read=SUCCEEDED, money=UNKNOWN), trouble
        assert proxy.requests - before == trial.by_kind(read=2, money=1)
        assert trial.requests - known == trial.by_kind(read=1, money=0) + effects
        assert trial.reads or set(trial.effects) == {effects}
        assert told.result is not None
        assert told.result.requests == trial.by_kind(read=2, money=1)
        assert told.result.retries == trial.by_kind(read=1, money=0)
        is_late = trouble.end is End.SILENCE and not trial.reads
        assert ("reply_seconds=60" in str(told.errors[0])) is is_late


async def test_an_exchange_that_breaks_off_every_time(trial: Trial, proxy: Proxy) -> None:
    proxy.always(Trouble(PLACES["within its body"], end=End.RESET))
    told = await trial.run(proxy.base_url)
    assert (told.status, proxy.requests) == (UNKNOWN, trial.by_kind(read=ATTEMPTS, money=1))


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"])
async def test_a_body_that_is_cut_while_it_is_written(
    sandbox: Sandbox, proxy: Proxy, end: End, says: bytes
) -> None:
    """It fits no socket buffer. An early reply may be seen or not; it is `unknown` all the same."""
    trial = Trial(sandbox, "refund")
    proxy.always(Trouble(nothing, lambda _: says, end))
    async with trial.client(proxy.base_url) as gateway:
        told = await trial.run_with(gateway, refunds(sandbox, 10, "x" * 1_000_000))
    assert (told.status, proxy.requests, trial.requests) == (UNKNOWN, 1, 0)


# Other statuses, and other shapes of HTTP


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

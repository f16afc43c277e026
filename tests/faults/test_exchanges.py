"""Exchanges that break off below HTTP, end with another status, or have another shape of HTTP.

A look-up is repeated; money is `unknown` and sent once, unless the reply is the right one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
import pytest

from gateway_async import OutcomeStatus, ReplyStatusError
from gateway_async.sandbox import Sandbox, faults
from tests.faults.trial import ATTEMPTS, SUCCEEDED, UNKNOWN, Trial, error_of, status_of
from tests.support.clock import Clock
from tests.support.servers import PLACES, End, Proxy, Trouble, body_of, cut, serving


def _share(percent: int, message: bytes) -> int:
    return len(message) * percent // 100


ANYWHERE = [partial(_share, percent) for percent in range(0, 100, 4)]
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
        result = await trial.run(proxy.base_url)
        assert status_of(result) is trial.by_kind(read=SUCCEEDED, money=UNKNOWN), trouble
        assert proxy.requests - before == result.requests == trial.by_kind(read=2, money=1)
        assert result.retries == trial.by_kind(read=1, money=0)
        assert trial.requests - known == result.retries + effects
        assert trial.reads or set(trial.effects) == {effects}
        is_late = trouble.end is End.SILENCE and not trial.reads
        assert ("reply_seconds=60" in str(result[0].error)) is is_late


@pytest.mark.parametrize("end", BREAKS)
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"])
async def test_a_body_that_is_cut_while_it_is_written(
    sandbox: Sandbox, proxy: Proxy, end: End, says: bytes
) -> None:
    """It fits no socket buffer. An early reply may be seen or not; it is `unknown` all the same."""
    trial = Trial(sandbox, "refund")
    proxy.always(Trouble(None, lambda _: says, end))
    async with trial.client(proxy.base_url) as gateway:
        orders = trial.orders(10, refund_reason="x" * 1_000_000)
        result = await trial.run_with(gateway, orders)
    assert (status_of(result), proxy.requests, trial.requests) == (UNKNOWN, 1, 0)


def _status(status: bytes) -> Callable[[bytes], bytes]:
    return lambda reply: reply.replace(b"200 OK", status, 1)


SHAPES: dict[str, tuple[OutcomeStatus, Callable[[bytes], bytes]]] = {
    "a continuation": (SUCCEEDED, lambda reply: b"HTTP/1.1 100 Continue\r\n\r\n" + reply),
    "an early hint": (SUCCEEDED, lambda reply: b"HTTP/1.1 103 Hint\r\nLink: </x>\r\n\r\n" + reply),
    "no length": (SUCCEEDED, lambda reply: b"HTTP/1.0 200 OK\r\n\r\n" + body_of(reply)),
    "chunks": (
        SUCCEEDED,
        lambda reply: (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x\r\n%s\r\n0\r\n\r\n" % (len(body_of(reply)), body_of(reply))
        ),
    ),
    "twice": (SUCCEEDED, lambda reply: reply + reply),
    "created": (UNKNOWN, _status(b"201 Created")),
    "accepted": (UNKNOWN, _status(b"202 Accepted")),
    "another status of success": (UNKNOWN, _status(b"299 OK")),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_a_right_reply_in_another_shape_of_http(
    trial: Trial, proxy: Proxy, name: str
) -> None:
    """The status counts as an answer only where it is the one that the interface shows."""
    status, said = SHAPES[name]
    proxy.always(Trouble(said=said, end=End.CLOSE if name == "no length" else None))
    for number in (1, 2):
        result = await trial.run(proxy.base_url)
        assert status_of(result) is status
        attempts = ATTEMPTS if status is UNKNOWN and trial.reads else 1
        assert proxy.requests == number * attempts
        assert status is SUCCEEDED or isinstance(error_of(result), ReplyStatusError)


@pytest.mark.parametrize("status", [301, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_not_one_byte_goes_elsewhere(
    trial: Trial, status: int
) -> None:
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
            result = await trial.run(**settings)
            assert (status_of(result), connections) == (UNKNOWN, 0)
            assert f"HTTP {status}" in str(result[0].error)
            assert "redirects are not followed" in str(result[0].error)
    assert trial.sandbox.requests.total() == 2 * trial.by_kind(read=ATTEMPTS, money=1)

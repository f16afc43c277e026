"""Exchanges that break off below HTTP: a look-up is repeated, money is `unknown` and sent once."""

from functools import partial

import pytest

from gateway_async.sandbox import Sandbox
from tests.faults.deeds import (
    ATTEMPTS,
    SUCCEEDED,
    UNKNOWN,
    Refund,
    Told,
    Trial,
    client,
)
from tests.support.clock import Clock
from tests.support.servers import PLACES, End, OnReply, OnRequest, Proxy, Unread


@pytest.fixture
def proxy(proxy: Proxy, clock: Clock) -> Proxy:
    """A proxy whose silence is over the time limits of its client at once."""
    proxy.on_silence = clock.advance
    return proxy


def check_lost_once(trial: Trial, told: Told, seen: int) -> None:
    """The first exchange was lost, and all others were not."""
    assert told.status is trial.by_kind(read=SUCCEEDED, money=UNKNOWN)
    assert seen == trial.by_kind(read=2, money=1)
    if told.result is not None:
        assert told.result.requests == trial.by_kind(read=2, money=1)
        assert told.result.retries == trial.by_kind(read=1, money=0)


def check_lost_always(trial: Trial, told: Told, seen: int) -> None:
    assert told.status is UNKNOWN
    assert seen == trial.by_kind(read=ATTEMPTS, money=1)


# The request


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
async def test_a_request_that_breaks_off(trial: Trial, proxy: Proxy, end: End) -> None:
    async with client(trial.sandbox, proxy.base_url) as gateway:
        for place in PLACES.values():
            before, known = proxy.requests, trial.requests
            proxy.once(OnRequest(place, end))
            told = await trial.run_with(gateway)
            check_lost_once(trial, told, proxy.requests - before)
            assert trial.requests - known == trial.by_kind(read=1, money=0)
            assert trial.by_kind(read=True, money=not any(trial.effects))


@pytest.mark.parametrize("end", End)
async def test_a_connection_that_ends_after_the_whole_request(
    trial: Trial, proxy: Proxy, end: End
) -> None:
    proxy.once(OnRequest(len, end))
    told = await trial.run(proxy.base_url)
    check_lost_once(trial, told, proxy.requests)
    assert set(trial.effects) == {1}


async def test_a_request_that_breaks_off_every_time(trial: Trial, proxy: Proxy) -> None:
    proxy.always(OnRequest(PLACES["within its body"]))
    told = await trial.run(proxy.base_url)
    check_lost_always(trial, told, proxy.requests)
    assert trial.requests == 0


class BulkyRefund(Refund):
    """A refund whose body fits no socket buffer: it is reset while it is still being written."""

    size = 10
    reason = "x" * 1_000_000


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n"])
async def test_a_body_that_is_cut_while_it_is_written(
    sandbox: Sandbox, proxy: Proxy, end: End, says: bytes
) -> None:
    """Whether an early reply is seen before the end is a race; it is `unknown` all the same."""
    trial = Trial(sandbox, BulkyRefund)
    proxy.always(Unread(end, says))
    told = await trial.run(proxy.base_url)
    check_lost_always(trial, told, proxy.requests)
    assert sandbox.requests.total() == 0


# The reply


@pytest.mark.parametrize(
    "place", ["before its first byte", "between headers and body", "before its last byte"]
)
async def test_a_reply_that_falls_silent(trial: Trial, proxy: Proxy, place: str) -> None:
    proxy.once(OnReply(PLACES[place], End.SILENCE))
    told = await trial.run(proxy.base_url)
    check_lost_once(trial, told, proxy.requests)
    assert set(trial.effects) == {1}


async def test_a_reply_that_breaks_off_every_time(trial: Trial, proxy: Proxy) -> None:
    proxy.always(OnReply(PLACES["within its body"]))
    told = await trial.run(proxy.base_url)
    check_lost_always(trial, told, proxy.requests)


@pytest.mark.parametrize("end", [End.RESET, End.CLOSE])
async def test_a_reply_that_breaks_off_anywhere(trial: Trial, proxy: Proxy, end: End) -> None:
    """At fifty places all over it."""
    async with client(trial.sandbox, proxy.base_url) as gateway:
        for percent in range(0, 100, 2):
            before = proxy.requests
            proxy.once(OnReply(partial(_share, percent), end))
            told = await trial.run_with(gateway)
            check_lost_once(trial, told, proxy.requests - before)


def _share(percent: int, message: bytes) -> int:
    return len(message) * percent // 100

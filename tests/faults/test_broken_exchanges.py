"""Exchanges that break off below HTTP: a look-up is repeated, money is `unknown` and sent once."""

from functools import partial

import pytest

from gateway_async.sandbox import Sandbox
from tests.faults.deeds import ATTEMPTS, SUCCEEDED, UNKNOWN, Trial, refunds
from tests.support.clock import Clock
from tests.support.servers import PLACES, End, Proxy, Trouble, cut, nothing


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

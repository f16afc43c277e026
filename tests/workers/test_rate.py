"""The rate that processes share, on a real PostgreSQL."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from gateway_async import NotSentError
from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.sandbox import Sandbox
from gateway_async.workers.rate import SharedRate, shared_rate
from tests.journal.tables import Tables
from tests.support.orders import client_of, seeded
from tests.support.postgres import emptied


@pytest.fixture
def url(postgres: str) -> str:
    return emptied(postgres)


async def _take(limiter: SharedRate, times: int) -> None:
    for _ in range(times):
        async with limiter:
            pass


def _turns(tables: Tables) -> Sequence[object]:
    return tables.run("SELECT at FROM gateway_rate_turns")


async def test_processes_share_a_rate_whatever_their_time_zone(
    url: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "UTC")
    async with shared_rate(url, "M1", requests=20, seconds=0.5) as one:
        monkeypatch.setenv("PGTZ", "Asia/Tokyo")
        async with shared_rate(url, "M1", requests=20, seconds=0.5) as other:
            before = time.monotonic()
            await asyncio.gather(_take(one, 30), _take(other, 30))
    # From before the first turn to after the last, however slow this machine is.
    assert time.monotonic() - before > (60 / 20 - 1) * 0.5 * 0.8
    assert len(_turns(tables)) < 60  # earlier ones are forgotten


async def test_turns_that_are_used_late_let_no_more_leave(url: str) -> None:
    async with shared_rate(url, "M1", requests=2, seconds=0.5) as limiter:
        before = time.monotonic()
        await _take(limiter, 3)
    # The first may leave a tenth of the window after its turn, and still none is too many.
    assert time.monotonic() - before >= 0.54


async def test_a_client_takes_a_turn_for_each_request_or_sends_nothing(
    sandbox: Sandbox, url: str, tables: Tables
) -> None:
    async with (
        shared_rate(url, "M1", requests=1000) as limiter,
        client_of(sandbox, limiter=limiter) as client,
    ):
        assert (await client.refund(seeded(sandbox, 60))).ok
        assert len(_turns(tables)) == 2
        emptied(url)
        result = await client.refund(seeded(sandbox, 3))
    errors = [outcome.error for outcome in result.not_sent]
    assert [type(error) for error in errors] == [NotSentError] * 3
    assert "the shared rate could not be asked (cannot take a turn: relation" in str(errors[0])
    assert sandbox.requests["refund"] == 2


async def test_a_store_that_is_away() -> None:
    with pytest.raises(JournalError, match="the shared rate 'M1' cannot be opened"):
        async with shared_rate("postgresql://me:secret@127.0.0.1:1/none", "M1", requests=1):
            pass


@pytest.mark.parametrize(
    ("url", "figures", "named"),
    [
        ("sqlite:///journal.db", {"requests": 1}, "aiolimiter"),
        ("mysql://host/database", {"requests": 1}, "journal URL"),
        ("postgresql://host/database", {"requests": 0}, "requests: expected an int"),
        ("postgresql://host/database", {"requests": 1, "seconds": 0}, "seconds: expected"),
        ("postgresql://host/database", {"requests": 1, "seconds": "1"}, "seconds: expected"),
        ("postgresql://host/database", {"requests": 1, "seconds": 10**400}, "seconds: expected"),
    ],
)
def test_wrong_figures(url: str, figures: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        shared_rate(url, "M1", **figures)  # type: ignore[arg-type]  # wrong on purpose

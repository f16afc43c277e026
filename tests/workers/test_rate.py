"""The rate that processes share, on a real PostgreSQL."""

import asyncio
import sys
import time

import psycopg
import pytest

from gateway_async import NotSentError
from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.sandbox import Sandbox
from gateway_async.workers.rate import shared_rate
from tests.orders import client_of, seeded
from tests.postgres import postgres_url
from tests.support.processes import ROOT

REQUESTS = 20
WINDOW_SECONDS = 0.5

TAKING = """
import asyncio, sys, time
from gateway_async.workers.rate import shared_rate

async def main(url, requests, seconds, at_once, times):
    async with shared_rate(url, "M1", requests=int(requests), seconds=float(seconds)) as limiter:

        async def take():
            for _ in range(int(times)):
                print(time.monotonic(), flush=True)
                async with limiter:
                    print(time.monotonic(), flush=True)

        await asyncio.gather(*(take() for _ in range(int(at_once))))

asyncio.run(main(*sys.argv[1:]))
"""


async def _taking(*arguments: object, zone: str = "UTC") -> asyncio.subprocess.Process:
    """Start a process that takes turns, and prints the time before and after each."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", TAKING, *map(str, arguments)),
        cwd=ROOT,
        env={"PGTZ": zone},
        stdout=asyncio.subprocess.PIPE,
    )


@pytest.mark.slow
async def test_processes_share_a_rate_whatever_their_time_zone() -> None:
    with postgres_url() as url:
        processes = [
            await _taking(url, REQUESTS, WINDOW_SECONDS, 1, 30, zone=zone)
            for zone in ("UTC", "Asia/Tokyo")
        ]
        said = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    times = sorted(float(line) for stdout, _ in said for line in stdout.split())
    assert len(times) == 2 * 60
    # From before the first turn to after the last, however slow the processes are.
    assert times[-1] - times[0] > (60 / REQUESTS - 1) * WINDOW_SECONDS * 0.8


@pytest.mark.slow
async def test_turns_that_are_used_late_let_no_more_leave() -> None:
    with postgres_url() as url:
        async with shared_rate(url, "M1", requests=2, seconds=0.5) as limiter:
            before = time.monotonic()
            for _ in range(3):
                async with limiter:
                    after = time.monotonic()
    # The first may leave a tenth of the window after its turn, and still none is too many.
    assert after - before >= 0.54


@pytest.mark.slow
async def test_a_client_takes_a_turn_for_each_request_or_sends_nothing(sandbox: Sandbox) -> None:
    with postgres_url() as url, psycopg.connect(url, autocommit=True) as connection:
        async with (
            shared_rate(url, "M1", requests=1000) as limiter,
            client_of(sandbox, limiter=limiter) as client,
        ):
            assert (await client.refund(seeded(sandbox, 60))).ok
            taken = connection.execute("SELECT COUNT(*) FROM gateway_rate_turns").fetchone()
            assert taken == (2,)
            assert repr(limiter) == "<SharedRate 'M1'>"
            connection.execute("DROP SCHEMA public CASCADE")
            before = sandbox.requests["refund"]
            result = await client.refund(seeded(sandbox, 3))
    errors = [outcome.error for outcome in result.not_sent]
    assert len(errors) == 3
    assert all(isinstance(error, NotSentError) for error in errors)
    assert "the shared rate could not be asked (cannot take a turn: relation" in str(errors[0])
    assert sandbox.requests["refund"] == before


@pytest.mark.slow
async def test_one_who_gives_up_leaves_the_turn_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    has_turn = asyncio.Event()

    async def wait_for_the_turn(_: float) -> None:
        has_turn.set()
        await asyncio.Event().wait()

    with postgres_url() as url:
        async with shared_rate(url, "M1", requests=1) as limiter:
            monkeypatch.setattr(asyncio, "sleep", wait_for_the_turn)
            waiting = asyncio.create_task(limiter.__aenter__())
            await has_turn.wait()
            assert len(_turns(url)) == 1
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert _turns(url) == []


@pytest.mark.slow
async def test_a_process_that_is_killed_leaves_no_turns_far_ahead() -> None:
    with postgres_url() as url, psycopg.connect(url) as connection:
        process = await _taking(url, 1, 1, 60, 1)
        assert process.stdout is not None
        for _ in range(60 + 2):  # by the second turn, all have asked
            assert await process.stdout.readline()
        process.kill()
        await process.wait()
        ahead = connection.execute(
            "SELECT max(at) - extract(epoch FROM clock_timestamp())::float FROM gateway_rate_turns"
        ).fetchone()
    assert ahead is not None
    assert ahead[0] <= 1


@pytest.mark.slow
async def test_other_event_loops_take_turns_as_long_as_the_first_one_runs() -> None:
    with postgres_url() as url:
        async with shared_rate(url, "M1", requests=2, seconds=600) as limiter:
            for _ in range(2):
                await asyncio.to_thread(asyncio.run, limiter.__aenter__())
            assert len(_turns(url)) == 2
        with pytest.raises(NotSentError, match="the journal was closed"):
            await asyncio.to_thread(asyncio.run, limiter.__aenter__())


@pytest.mark.slow
def test_nothing_is_sent_once_the_first_event_loop_has_ended() -> None:
    with postgres_url() as url:
        limiter = asyncio.run(shared_rate(url, "M1", requests=1).__aenter__())
        with pytest.raises(NotSentError, match="could not be asked"):
            asyncio.run(limiter.__aenter__())


def _turns(url: str) -> list[float]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT at FROM gateway_rate_turns ORDER BY at").fetchall()
    return [at for (at,) in found]


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
        ("postgresql://host/database", {"requests": 1, "seconds": 1e308}, "seconds: expected"),
    ],
)
async def test_wrong_figures(url: str, figures: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        async with shared_rate(url, "M1", **figures):  # type: ignore[arg-type]  # wrong on purpose
            pass

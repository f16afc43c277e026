"""The rate that processes share, on a real PostgreSQL."""

import asyncio
import sys
import time
from pathlib import Path

import psycopg
import pytest

from gateway_async import NotSentError
from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.sandbox import Sandbox
from gateway_async.workers.rate import shared_rate
from tests.orders import client_of, seeded
from tests.postgres import postgres_url

ROOT = Path(__file__).parents[2]
REQUESTS = 20
WINDOW_SECONDS = 0.5

TAKING = """
import asyncio, sys, time
from gateway_async.workers.rate import shared_rate

async def take(url):
    async with shared_rate(url, "M1", requests=20, seconds=0.5) as limiter:
        for _ in range(30):
            print(time.monotonic())
            async with limiter:
                print(time.monotonic())

asyncio.run(take(sys.argv[1]))
"""


async def _taken(url: str, zone: str) -> list[float]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", TAKING, url),
        cwd=ROOT,
        env={"PGTZ": zone},
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return [float(line) for line in said.split()]


@pytest.mark.slow
async def test_processes_share_a_rate_whatever_their_time_zone() -> None:
    with postgres_url() as url:
        taken = await asyncio.gather(_taken(url, "UTC"), _taken(url, "Asia/Tokyo"))
    times = sorted(time for each in taken for time in each)
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
async def test_one_who_gives_up_leaves_the_turn_to_others() -> None:
    with postgres_url() as url:
        async with shared_rate(url, "M1", requests=1, seconds=0.3) as limiter:
            async with limiter:
                pass
            waiting = asyncio.create_task(limiter.__aenter__())
            while len(_turns(url)) < 2:  # noqa: ASYNC110  # the database has no event
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            while len(_turns(url)) > 1:  # noqa: ASYNC110  # the database has no event
                await asyncio.sleep(0)
            (first,) = _turns(url)
            async with limiter:
                pass
            assert _turns(url)[-1] - first < 2 * 0.3


ASKING = """
import asyncio, sys
from gateway_async.workers.rate import shared_rate

async def main(url):
    async with shared_rate(url, "M1", requests=1) as limiter:

        async def ask():
            async with limiter:
                print("asked", flush=True)

        await asyncio.gather(*(ask() for _ in range(60)))

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
async def test_a_process_that_is_killed_leaves_no_turns_far_ahead() -> None:
    with postgres_url() as url, psycopg.connect(url) as connection:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", ASKING, url), cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(2):  # by the second turn, all have asked
            assert await process.stdout.readline() == b"asked\n"
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
        shared = shared_rate(url, "M1", requests=1, seconds=0.3)
        async with shared as limiter:
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

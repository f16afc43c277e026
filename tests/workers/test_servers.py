"""On a real RabbitMQ and PostgreSQL: `submit`, `worker` and `watch`, and a rate that is shared."""

import asyncio
import json
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway_async import NotSentError
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from gateway_async.workers.rate import SharedRate, shared_rate
from tests.cli.running import Shell
from tests.journal.tables import Tables
from tests.support.orders import client_of, seeded
from tests.support.postgres import emptied
from tests.workers.rabbit import own_queue, server_url

pytestmark = pytest.mark.slow
NEW = "columns that are not sent: 'customer'\nnew job month-end in "
ALONE = "; workers alone run its 30 orders from now on (`gateway-async worker`)\n"


@pytest.fixture
def shell(sandbox: Sandbox, url: str, tmp_path: Path) -> Shell:
    """Where the lines of a test run, with a journal and a file of orders."""
    shell = Shell(sandbox, tmp_path, {"GATEWAY_JOURNAL": url})
    shell.refunds(30)
    return shell


async def test_a_file_is_run_by_a_worker(shell: Shell) -> None:
    shell.settings["GATEWAY_BROKER"] = server_url()
    async with own_queue() as name:
        worker = await shell.start(f"worker --slices 2 --queue {name} --log-format json")
        try:
            began = json.loads(await worker.stderr.readline())
            assert began["message"] == f"working for queue {name}"
            submit = "submit orders.csv --job month-end --slice-size 10 --yes"
            assert (await shell(submit, 0, ALONE)).stderr.startswith(NEW)
            watched = (await shell("watch month-end")).stderr
            assert watched.splitlines()[-1] == "job month-end: 30 succeeded"
            await shell(submit, 0, "is done: 30 succeeded; nothing is left to send\n")
            worker.send_signal(signal.SIGTERM)
            _, rest = await worker.communicate()
            assert worker.returncode == 0
            said = json.loads(rest.splitlines()[-1])["message"]
            assert said.startswith("stopping: waiting for what is in flight")
        finally:
            if worker.returncode is None:
                worker.kill()
                await worker.communicate()
    assert shell.effects() == {1}


async def test_two_signals_break_slices_off_and_the_exit_code_says_so(shell: Shell) -> None:
    shell.settings["GATEWAY_BROKER"] = server_url()
    shell.sandbox.faults.add("*", Latency(seconds=3600))
    async with own_queue() as name:
        await shell("submit orders.csv --job month-end --slice-size 10 --yes")
        worker, ended = await shell.under_way(f"worker --queue {name}", requests=3)
        for _ in range(2):
            worker.send_signal(signal.SIGINT)
            await asyncio.sleep(0.1)
        said = (await ended)[1].decode()
    assert worker.returncode == 3, said
    assert "unhandled" not in said
    await shell("jobs list", 0, "30 new")


async def test_workers_send_no_more_at_once_than_a_second_has(shell: Shell, postgres: str) -> None:
    shell.settings.update(GATEWAY_BROKER=server_url(), GATEWAY_JOURNAL=postgres)
    async with own_queue() as name:
        await shell("submit orders.csv --job month-end --slice-size 1 --yes")
        began = time.monotonic()
        worker, ended = await shell.under_way(f"worker --queue {name} --rate 0.7", requests=4)
        assert time.monotonic() - began > 4  # three times the 1.4 s that one has to wait
        worker.kill()
        await ended


async def test_a_job_is_submitted_without_a_queue_and_said_to_be_new(
    shell: Shell, url: str
) -> None:
    submit = "submit orders.csv --job month-end --slice-size 20 --yes"
    assert (await shell(submit, 0, ALONE)).stderr.startswith(NEW)
    await shell(submit, 0, " goes on: 30 new; workers alone run its 30 orders")
    for command in ("refund orders.csv --job month-end", "jobs resume month-end"):
        await shell(f"{command} --yes --out out.csv", 2, "was cut into slices")
    told = await shell("jobs outcomes month-end --out -", 3, "gateway-async watch month-end")
    assert "jobs resume" not in told.stderr
    async with Journal.open(url) as journal:
        assert [each.total for each in await journal.slices("month-end")] == [20, 10]


async def test_what_is_held_is_said_where_a_job_is_watched(shell: Shell, tables: Tables) -> None:
    await shell("submit orders.csv --job month-end --yes")
    tables.put(state="succeeded")
    tables.put(4, state="held")
    tables.run("UPDATE gateway_slices SET finished = 1")
    shown = "\n  gateway-async jobs show month-end\n"
    await shell("watch month-end", 3, "29 succeeded, 1 held", shown)
    tables.put(5, state="new")  # it may wait for the one that is held, and the job with it
    watching = await shell.start("watch month-end")
    await watching.stderr.readuntil(shown.encode())
    tables.put(5, state="succeeded")
    assert await watching.wait() == 3
    tables.put(4, state="succeeded")
    outcomes = await shell("jobs outcomes month-end --out -")
    assert outcomes.stdout.count(",month-end\n") == 30


# The rate that processes share


@pytest.fixture
def rate_url(postgres: str) -> str:
    return emptied(postgres)


async def _take(limiter: SharedRate, times: int) -> None:
    for _ in range(times):
        async with limiter:
            pass


def _turns(url: str) -> Sequence[object]:
    return Tables(url).run("SELECT at FROM gateway_rate_turns")


async def test_processes_share_a_rate_whatever_their_time_zone(
    rate_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "UTC")
    async with shared_rate(rate_url, "M1", requests=20, seconds=0.5) as one:
        monkeypatch.setenv("PGTZ", "Asia/Tokyo")
        async with shared_rate(rate_url, "M1", requests=20, seconds=0.5) as other:
            before = time.monotonic()
            await asyncio.gather(_take(one, 30), _take(other, 30))
    # From before the first turn to after the last, however slow this machine is.
    assert time.monotonic() - before > (60 / 20 - 1) * 0.5 * 0.8
    assert len(_turns(rate_url)) < 60  # earlier ones are forgotten


async def test_turns_that_are_used_late_let_no_more_leave(rate_url: str) -> None:
    async with shared_rate(rate_url, "M1", requests=2, seconds=0.5) as limiter:
        before = time.monotonic()
        await _take(limiter, 3)
    # The first may leave a tenth of the window after its turn, and still none is too many.
    assert time.monotonic() - before >= 0.54


async def test_a_client_takes_a_turn_for_each_request_or_sends_nothing(
    sandbox: Sandbox, rate_url: str
) -> None:
    async with (
        shared_rate(rate_url, "M1", requests=1000) as limiter,
        client_of(sandbox, limiter=limiter) as client,
    ):
        assert (await client.refund(seeded(sandbox, 60))).ok
        assert len(_turns(rate_url)) == 2
        emptied(rate_url)
        result = await client.refund(seeded(sandbox, 3))
    errors = [outcome.error for outcome in result.not_sent]
    assert [type(error) for error in errors] == [NotSentError] * 3
    assert "the shared rate could not be asked (cannot take a turn: relation" in str(errors[0])
    assert sandbox.requests["refund"] == 2

"""`submit`, `worker` and `watch`: once as a user runs them, on a real RabbitMQ."""

import json
import signal
import time
from pathlib import Path

import pytest

from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.cli.running import Shell
from tests.journal.tables import Tables
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

"""`submit`, `worker` and `watch`: once as a user runs them, on a real RabbitMQ."""

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from gateway_async.cli.app import run
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.cli.running import Shell, write
from tests.journal.tables import Tables
from tests.support.orders import COLUMNS, refunds
from tests.workers.rabbit import own_queue, server_url


@pytest.mark.slow
async def test_a_file_is_run_by_a_worker(sandbox: Sandbox, url: str, tmp_path: Path) -> None:
    shell = Shell(sandbox, tmp_path)
    shell.refunds(30)
    env = {"GATEWAY_JOURNAL": url, "GATEWAY_BROKER": server_url()}
    async with own_queue() as name:
        worker = await shell.start(f"worker --slices 2 --queue {name} --log-format json", env=env)
        try:
            began = json.loads(await worker.stderr.readline())
            assert began["message"] == f"working for queue {name}"
            submit = "submit orders.csv --job month-end --slice-size 10 --yes"
            said = (await shell(submit, env=env)).stderr
            assert said.startswith("new job month-end in ")
            assert "; workers alone run its 30 orders from now on (`gateway" in said
            watched = (await shell("watch month-end", env=env)).stderr
            assert watched.splitlines()[-1] == "job month-end: 30 succeeded"
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


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> Path:
    """A file of orders, and an environment that names a gateway which nobody calls."""
    for name in [name for name in os.environ if name.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    given = {"MERCHANT_ID": "M1", "ACCOUNT_ID": "A1", "SECRET": "secret", "JOURNAL": url}
    for name, value in {**given, "BASE_URL": "https://gateway.example"}.items():
        monkeypatch.setenv(f"GATEWAY_{name}", value)
    columns = (*COLUMNS, "refund_amount")
    rows = [[getattr(order, name) for name in columns] for order in refunds(5)]
    return write(tmp_path / "refunds.csv", columns, rows)


def test_a_job_is_submitted_without_a_queue_and_said_to_be_new(
    settings: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit = ["submit", str(settings), "--job", "month-end", "--slice-size", "2", "--yes"]
    assert run(submit) == run(submit) == 0
    first, again = capsys.readouterr().err.splitlines()
    how = "(`gateway-async worker`)"
    assert first.startswith("new job month-end in ")
    assert first.endswith(f"; workers alone run its 5 orders from now on {how}")
    assert " goes on: 5 new; workers alone run its 5 orders" in again
    for command in (["refund", str(settings), "--job"], ["jobs", "resume"]):
        assert run([*command, "month-end", "--yes", "--out", "out.csv"]) == 2
        assert "was cut into slices" in capsys.readouterr().err
    assert run(["jobs", "outcomes", "month-end", "--out", "-"]) == 3
    told = capsys.readouterr().err
    assert "gateway-async watch month-end" in told
    assert "jobs resume" not in told

    async def totals() -> list[int]:
        async with Journal.open(url) as journal:
            return [each.total for each in await journal.slices("month-end")]

    assert asyncio.run(totals()) == [2, 2, 1]


def test_what_is_held_is_said_where_a_job_is_watched(
    settings: Path, tables: Tables, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["submit", str(settings), "--job", "month-end", "--yes"]) == 0
    tables.put(state="succeeded")
    tables.put(4, state="held")
    tables.run("UPDATE gateway_slices SET finished = 1")
    assert run(["watch", "month-end"]) == 3
    told = capsys.readouterr().err
    assert "4 succeeded, 1 held" in told
    assert "\n  gateway-async jobs show month-end\n" in told
    tables.put(4, state="succeeded")
    assert run(["jobs", "outcomes", "month-end", "--out", "-"]) == 0
    assert capsys.readouterr().out.count(",month-end\n") == 5

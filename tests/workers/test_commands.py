"""`submit`, `worker` and `watch`: once as a user runs them, on a real RabbitMQ."""

import asyncio
import csv
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gateway_async.cli.app import run
from gateway_async.journal import JobState, Journal
from gateway_async.sandbox import Sandbox
from gateway_async.workers.workers import JobProgress
from tests.jobs.books import effects, seeded
from tests.orders import refunds
from tests.workers.rabbit import own_queue, server_url

START = "from gateway_async.cli import main; main()"
COLUMNS = ("transaction_id", "order_no", "currency", "amount", "refund_amount")


class Commands:
    """Runs commands against one sandbox, journal and queue."""

    def __init__(self, sandbox: Sandbox, url: str, queue: str) -> None:
        self.queue = queue
        self._settings = {
            "GATEWAY_BASE_URL": sandbox.base_url,
            "GATEWAY_MERCHANT_ID": sandbox.merchant_id,
            "GATEWAY_ACCOUNT_ID": sandbox.account_id,
            "GATEWAY_SECRET": sandbox.secret,
            "GATEWAY_JOURNAL": url,
            "COLUMNS": "200",
        }

    async def start(self, *arguments: object, broker: str = "") -> asyncio.subprocess.Process:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GATEWAY_")}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", START, *map(str, arguments)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, **self._settings, **({"GATEWAY_BROKER": broker} if broker else {})},
        )

    async def run(self, *arguments: object, broker: str = "") -> tuple[int | None, str]:
        process = await self.start(*arguments, broker=broker)
        _, stderr = await process.communicate()
        return process.returncode, stderr.decode()


@pytest.fixture
async def commands(sandbox: Sandbox, url: str) -> AsyncIterator[Commands]:
    async with own_queue() as name:
        yield Commands(sandbox, url, name)


def write_orders(orders: Sequence[object], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([getattr(order, name) for name in COLUMNS] for order in orders)


@pytest.mark.slow
async def test_a_file_is_submitted_worked_on_and_watched(
    commands: Commands, sandbox: Sandbox, tmp_path: Path
) -> None:
    file = tmp_path / "refunds.csv"
    orders = seeded(sandbox, 30)
    write_orders(orders, file)
    queue = ("--queue", commands.queue)
    worker = await commands.start("worker", "--slices", 2, *queue, broker=server_url())
    try:
        assert worker.stderr is not None
        said = await worker.stderr.readline()
        assert f"working for queue {commands.queue}".encode() in said
        submit = ("submit", file, "--job", "month-end", "--slice-size", 10, "--yes", *queue)
        code, said_first = await commands.run(*submit, broker=server_url())
        assert (code, said_first.startswith("new job month-end in ")) == (0, True)
        assert "; its 30 orders wait for workers (start one with `gateway" in said_first
        code, said_last = await commands.run("watch", "month-end")
        assert (code, said_last.splitlines()[-1]) == (0, "job month-end: 30 succeeded")
        worker.send_signal(signal.SIGTERM)
        _, rest = await worker.communicate()
        assert worker.returncode == 0
        assert b"stopping: waiting for what is in flight" in rest
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.communicate()
    assert effects(sandbox, orders) == [1] * 30


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> Path:
    """A file of orders, and an environment that names a gateway which nobody calls."""
    for name in [name for name in os.environ if name.startswith("GATEWAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_BASE_URL", "https://gateway.example")
    monkeypatch.setenv("GATEWAY_MERCHANT_ID", "M1")
    monkeypatch.setenv("GATEWAY_ACCOUNT_ID", "A1")
    monkeypatch.setenv("GATEWAY_SECRET", "secret")
    monkeypatch.setenv("GATEWAY_JOURNAL", url)
    write_orders(refunds(5), tmp_path / "refunds.csv")
    return tmp_path / "refunds.csv"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["worker", "submit"])
def test_a_virtual_host_that_is_not_there(
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
) -> None:
    url = urlsplit(server_url())
    monkeypatch.setenv("GATEWAY_BROKER", url._replace(path="/nothing-like-it").geturl())
    given = ("submit", str(settings), "--job", "month-end", "--yes")
    assert run(given if command == "submit" else (command,)) == 2
    told = capsys.readouterr().err
    assert "gateway-async: broker: RabbitMQ refused (InvalidFrameError): check that" in told
    assert "Traceback" not in told
    assert f":{url.password}@" not in told


def test_a_job_is_submitted_without_a_queue_and_said_to_be_new(
    settings: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit = ["submit", str(settings), "--job", "month-end", "--slice-size", "2", "--yes"]
    assert run(submit) == run(submit) == 0
    first, again = capsys.readouterr().err.splitlines()
    how = "(start one with `gateway-async worker --broker amqp://HOST/`)"
    assert first.startswith("new job month-end in ")
    assert first.endswith(f"; its 5 orders wait for workers {how}")
    assert " goes on: 5 new; workers send what is left" in again
    assert again.endswith(how)
    capture = ["refund", str(settings), "--job", "month-end", "--yes", "--out", "out.csv"]
    assert run(capture) == 2
    assert "Workers run it: start one with `gateway-async worker" in capsys.readouterr().err

    async def due() -> tuple[list[int], list[tuple[str, int]]]:
        async with Journal.open(url) as journal:
            totals = [each.total for each in await journal.slices("month-end")]
            gateway = (await journal.job("month-end").head()).gateway
            return totals, await journal.claim_due(("M1", "A1", gateway), 60, 9)

    assert asyncio.run(due()) == ([2, 2, 1], [("month-end", number) for number in (1, 2, 3)])


def test_what_is_held_is_said_where_a_job_is_watched(
    settings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ""

    async def watched(*_: object) -> AsyncIterator[JobProgress]:
        nonlocal told
        counts = dict.fromkeys(JobState, 0) | {JobState.SUCCEEDED: 4, JobState.HELD: 1}
        yield JobProgress(
            job="month-end",
            submitted=True,
            total=5,
            counts=counts,
            slices=3,
            finished=3,
            running=0,
        )
        async with asyncio.timeout(10):  # it is shown again and again, also where nothing changes
            while told.count("month-end: 5 of 5, ") < 3:
                await asyncio.sleep(0)
                told += capsys.readouterr().err

    assert run(["submit", str(settings), "--job", "month-end", "--yes"]) == 0
    monkeypatch.setattr("gateway_async.cli.workers.watch_job", watched)
    monkeypatch.setattr("gateway_async.cli.console.SECONDS_BETWEEN_LINES", 0)
    monkeypatch.setattr("gateway_async.cli.run._SECONDS_BETWEEN_TICKS", 0)
    assert run(["watch", "month-end"]) == 3
    told += capsys.readouterr().err
    assert "4 succeeded, 1 held" in told
    assert "\n  gateway-async jobs show month-end\n" in told


@pytest.mark.parametrize(
    ("arguments", "broker", "said"),
    [
        (("submit", "FILE", "--job", "month-end"), "", "there is no terminal to confirm it at"),
        (("submit", "FILE", "--job", "x", "--report", "x.html"), "", "Unknown option: "),
        (("worker",), "", "--broker: name the RabbitMQ to work for"),
        (("worker", "--broker", "amqp://me:hidden@host/"), "", "a password in an option shows"),
        (("worker",), "http://host/", "broker: expected amqp://user:password@host/"),
        (("worker",), "amqp://host:port/", "broker: expected amqp://user:password@host/"),
        (("worker",), "amqp://127.0.0.1:1/", "--broker: it cannot be reached"),
        (("watch", "nothing"), "", "there is no journal sqlite:////"),
    ],
)
def test_commands_that_are_wrong(
    settings: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    broker: str,
    said: str,
) -> None:
    monkeypatch.setenv("GATEWAY_BROKER", broker)
    assert run([str(settings) if each == "FILE" else each for each in arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "hidden" not in told

"""A command that is interrupted writes what is known, and its exit code tells."""

import asyncio
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.cli.running import outcomes, start, start_installed, statuses, write_refunds

ORDERS = 300
CONFIG = """
journal = "sqlite:///jobs.db"
journal_lease_seconds = 1
[recovery]
settle_seconds = 0.1
"""


async def interrupted(
    sandbox: Sandbox, arguments: Sequence[str], cwd: Path, number: signal.Signals, requests: int
) -> tuple[int | None, str]:
    """Run a command, and send it a signal once so many more requests came."""
    wanted = sandbox.requests.total() + requests
    process = await start(sandbox, *arguments, cwd=cwd)
    ended = asyncio.ensure_future(process.communicate())
    while sandbox.requests.total() < wanted and not ended.done():
        await asyncio.wait({ended}, timeout=0.002)
    if process.returncode is None:
        process.send_signal(number)
    _, stderr = await ended
    return process.returncode, stderr.decode()


async def test_what_a_stopped_job_did_not_come_to_was_not_sent(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", ORDERS)
    (tmp_path / "config.toml").write_text(CONFIG)
    sandbox.faults.add("refund", Latency(seconds=0.05))
    line = (
        "refund orders.csv --yes --job night --out out.csv --config config.toml "
        "--chunk-size 10 --concurrency 1 --report night.html"
    )
    code, said = await interrupted(sandbox, line.split(), tmp_path, signal.SIGINT, 4)
    assert code == 3, said
    rows = outcomes(tmp_path / "out.csv")
    for row in rows:
        done = sandbox.ledger.effects("refund", row["transaction_id"])
        assert (row["status"], done) in {("succeeded", 1), ("not_sent", 0)}, said
    left = sum(row["status"] == "not_sent" for row in rows)
    assert ORDERS // 2 < left < ORDERS
    assert f"0 unknown and {left} not sent; go on with" in said
    assert "the same command" in said
    assert "may have been done" not in (tmp_path / "night.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "line",
    [
        "refund orders.csv --yes --out out.csv --job night --journal sqlite:///j.db",
        "search-refunds orders.csv --by order_no --out out.csv",
        "reconcile orders.csv --out out.csv",
    ],
)
async def test_outcomes_that_cannot_be_put_in_place_are_told_by_the_exit_code(
    line: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    sandbox.faults.add("*", Latency(seconds=0.5))
    process = await start(sandbox, *shlex.split(line), cwd=tmp_path)
    while not sandbox.requests.total():  # noqa: ASYNC110  # the sandbox has no event for it
        await asyncio.sleep(0.01)
    (tmp_path / "out.csv").mkdir()
    _, stderr = await process.communicate()
    assert "cannot be put in place" in stderr.decode()
    assert process.returncode == 3


async def test_a_command_of_nohup_goes_on_where_the_terminal_is_closed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders, out = write_refunds(sandbox, tmp_path / "orders.csv", 20), tmp_path / "out.csv"
    sandbox.faults.add("refund", Latency(seconds=0.2, times=1))
    line = ("refund", orders, "--yes", "--out", out, "--chunk-size", 10, "--concurrency", 1)
    process = await start_installed(sandbox, *line, through=["nohup"])
    ended = asyncio.ensure_future(process.communicate())
    while not sandbox.requests.total() and not ended.done():
        await asyncio.wait({ended}, timeout=0.002)
    process.send_signal(signal.SIGHUP)
    _, stderr = await ended
    assert process.returncode == 0, stderr
    assert statuses(out) == {"succeeded": 20}


@pytest.mark.parametrize("module", ["cyclopts", "rich", "gateway_async.cli.commands.money"])
def test_a_command_that_is_stopped_while_it_is_loaded_ends_quietly(module: str) -> None:
    code = f"""
import sys
from gateway_async.cli import main

class Stopped:
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Stopped)
main(["refund", "orders.csv", "--out", "outcomes.csv"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)  # noqa: S603  # ours
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


def test_a_defect_is_not_taken_for_orders_that_were_declined() -> None:
    code = """
import gateway_async.cli.app
from gateway_async.cli import main

def run(arguments):
    raise RuntimeError("a defect")

gateway_async.cli.app.run = run
main(["refund"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)  # noqa: S603  # ours
    assert done.returncode == 3
    assert done.stderr.endswith(b"RuntimeError: a defect\n")

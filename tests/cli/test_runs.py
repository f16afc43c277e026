"""Commands that are asked, watched, stopped, hung up or closed: every outcome is written."""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway_async.cli import main
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Drip, Latency, NoReply, ResetBeforeEffect
from tests import nursery
from tests.cli.running import (
    SCRIPT,
    Ended,
    Shell,
    environment,
    names,
    outcomes,
    run,
    start_installed,
    statuses,
    write,
    write_refunds,
)
from tests.cli.terminal import CTRL_C, Terminal
from tests.jobs.books import sent

# In a terminal


async def test_a_refund_asks_with_its_totals_and_takes_no_for_an_answer(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 3)
    unread = "(columns that are not sent: 'customer')"
    asked = f"refund 3 orders, EUR 3.00 at {sandbox.base_url} {unread}. Go on? [y/N]"
    for key in ("\r", CTRL_C):
        command = ("refund", orders, "--out", "out.csv")
        async with Terminal(sandbox, *command, cwd=tmp_path) as terminal:
            await terminal.until(asked)
            assert await terminal.ended_by(key) == 2
        assert "gateway-async: nothing was sent" in terminal.text
    assert sandbox.requests.total() == 0
    assert names(tmp_path) == ["orders.csv"]


async def test_a_bar_shows_what_became_of_orders_until_two_ctrl_c_end_it(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 500)
    sandbox.faults.add("refund", Drip(100_000, 0.0, times=3))
    sandbox.faults.add("refund", NoReply())
    command = ("refund", orders, "--out", "out.csv", "--concurrency", 1)
    async with Terminal(sandbox, *command, cwd=tmp_path) as terminal:
        await terminal.until("Go on? [y/N]")
        terminal.type("yes\r")
        await terminal.until("150 of 500")
        await terminal.until("150 succeeded")
        assert "/s, 150 succeeded" in terminal.text
        await sent(sandbox, 4)
        terminal.type(CTRL_C)
        await terminal.until("stopping: waiting for what is in flight")
        terminal.type(CTRL_C)
        await terminal.until("stopping at once")
        assert await terminal.ended() == 3
    assert statuses(tmp_path / "out.csv") == {"succeeded": 150, "unknown": 50, "not_sent": 300}
    shown = " ".join(terminal.text.split())
    assert f"go on with: {shlex.join(('gateway-async', *map(str, command)))}" in shown
    assert "gateway-async jobs show refund-" in shown
    assert sandbox.secret not in terminal.text


async def test_every_outcome_is_written_where_the_terminal_is_closed(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    orders = write_refunds(sandbox, tmp_path / "orders.csv", 500)
    sandbox.faults.add("refund", Latency(0.3))
    command = ("refund", orders, "--yes", "--out", "out.csv", "--concurrency", 1)
    async with Terminal(sandbox, *command, cwd=tmp_path) as terminal:
        await terminal.until("50 of 500")
        assert await terminal.hung_up() == 3
    found = statuses(tmp_path / "out.csv")
    assert found.keys() == {"succeeded", "not_sent"}
    assert found.total() == 500
    assert found["succeeded"] == sum(
        sandbox.ledger.effects("refund", row["transaction_id"]) for row in outcomes(orders)
    )


async def test_differences_go_where_standard_output_goes(sandbox: Sandbox, tmp_path: Path) -> None:
    rows = [(one.order_no, one.currency, "8.00") for one in sandbox.seed(3, amount="9.00")]
    write(tmp_path / "ledger.csv", ("order_no", "currency", "amount"), rows)
    command, output = ("reconcile", "ledger.csv"), tmp_path / "differences.txt"
    async with Terminal(sandbox, *command, cwd=tmp_path, output=output) as terminal:
        assert await terminal.ended() == 1
    printed = [line.partition(":")[0] for line in output.read_text().splitlines()]
    assert printed == ["line 2", "line 3", "line 4"]
    assert "ledger 8.00" not in terminal.text
    assert "3 of 3" in terminal.text


# Stopped


@pytest.mark.parametrize(
    ("line", "count", "how", "advice"),
    [
        (
            "refund orders.csv --yes --job night --journal sqlite:///jobs.db --chunk-size 10",
            *(300, signal.SIGTERM),
            "0 unknown and {left} not sent; go on with:\n  gateway-async {line}",
        ),
        ("query orders.csv --by order_no", 3000, signal.SIGINT, "with:\n  gateway-async {line}"),
    ],
)
async def test_what_a_stopped_run_did_not_come_to_was_not_sent(
    line: str, count: int, how: signal.Signals, advice: str, shell: Shell
) -> None:
    shell.refunds(count)
    shell.sandbox.faults.add("*", Latency(seconds=0.05))
    line += " --out out.csv --concurrency 1 --report night.html"
    process, ended = await shell.under_way(line, 4)
    process.send_signal(how)
    said = (await ended)[1].decode()
    assert process.returncode == 3, said
    rows = shell.rows()
    left = sum(row["status"] == "not_sent" for row in rows)
    assert count / 2 < left < count == len(rows)
    for row in rows:
        done = shell.sandbox.ledger.effects("refund", row["transaction_id"])
        is_done = row["status"] == "succeeded"
        assert is_done or row["status"] == "not_sent"
        assert done == (is_done and "refund" in line), said
    assert advice.format(left=left, line=line) in said
    in_job = "not sent yet: the job has not come"
    last = in_job if "--job" in line else "nothing was sent: the run ended"
    assert rows[-1]["error"].startswith(last)
    page = (shell.folder / "night.html").read_text(encoding="utf-8")
    assert f"{left:,}" in page
    assert "may have been done" not in page


async def test_while_another_process_has_the_job_nothing_is_called_not_sent(
    shell: Shell,
) -> None:
    shell.refunds(60)
    url, out = f"sqlite:///{shell.folder}/j.db", shell.folder / "out.csv"
    line = f"refund orders.csv --yes --out out.csv --job night --journal {url}"
    shell.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    stopped = await shell(f"{line} --concurrency 1 --stop-after-unknown 1", 3)
    assert "10 not sent" in stopped.stderr
    assert out.read_text().count("(stop_after_unknown)") == 10
    async with Journal.open(url, lease_seconds=300) as journal:
        await journal.job("night").take("another")
        listed = await shell(f"jobs list --journal {url}")
        assert "running, or its process ended within 15 s" in listed.stdout
        with (shell.folder / "stderr").open("wb") as errors:
            process = nursery.start_with(
                (0, 1, errors.fileno()),
                main,
                line.split(),
                env=environment(shell.sandbox),
                cwd=shell.folder,
            )
        ended = asyncio.ensure_future(process.wait())
        while b"waits" not in (stderr := (shell.folder / "stderr").read_bytes()):
            assert not ended.done(), stderr
            await asyncio.wait({ended}, timeout=0.01)
        process.send_signal(signal.SIGINT)
        assert await ended == 3
    assert shell.statuses() == {"unknown": 60}
    assert "another process has the job" in out.read_text()
    assert shell.sandbox.requests["refund"] == 1


async def test_outcomes_that_cannot_be_put_in_place_are_told_by_the_exit_code(
    shell: Shell,
) -> None:
    shell.refunds(3)
    shell.sandbox.faults.add("*", Latency(seconds=0.5))
    line = "search-refunds orders.csv --by order_no --out out.csv"
    process, ended = await shell.under_way(line)
    (shell.folder / "out.csv").mkdir()
    said = (await ended)[1].decode()
    assert (process.returncode, "cannot be put in place" in said) == (3, True), said
    (beside,) = [name for name in names(shell.folder) if name.startswith(".out.csv.")]
    assert beside in said
    assert shell.statuses(beside) == {"absent": 3}


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


MISSING = """
import sys
sys.modules['cyclopts'] = None
from gateway_async.cli import main
main()
"""
DEFECT = """
import gateway_async.cli.app
from gateway_async.cli import main

def run(arguments):
    raise RuntimeError("a defect")

gateway_async.cli.app.run = run
main(["refund"])
"""


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (DEFECT, 3, b"RuntimeError: a defect\n"),  # 1 would say that orders were declined
        (
            MISSING,
            2,
            (
                b"gateway-async: the command line needs cyclopts; "
                b"install it with: pip install 'gateway-async[cli]'\n"
            ),
        ),
    ],
)
def test_a_command_that_cannot_be_loaded_or_has_a_defect(
    code: str, status: int, said: bytes
) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)  # noqa: S603  # ours
    assert (done.returncode, done.stdout) == (status, b"")
    assert done.stderr.endswith(said)


# Streams that are closed, full, or take few letters


async def run_in_shell(
    sandbox: Sandbox, line: str, cwd: Path, more: Mapping[str, str] | None = None
) -> Ended:
    process = await asyncio.create_subprocess_shell(
        f"exec {sys.executable} {SCRIPT} {line}",
        cwd=cwd,
        env={**environment(sandbox), "TMPDIR": str(cwd), **(more or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    return Ended(process.returncode, stdout.decode(), stderr.decode())


async def test_an_output_without_width_that_takes_few_letters(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    rows = [(one.order_no, one.currency, "8.00", "付款") for one in sandbox.seed(1, amount="9.00")]
    write(tmp_path / "ledger.csv", ("order_no", "currency", "amount", "state"), rows)
    poor = {"PYTHONIOENCODING": "ascii", "COLUMNS": "0"}
    ended = await run_in_shell(sandbox, "reconcile ledger.csv --state 4100=x", tmp_path, poor)
    assert (ended.code, "1 entry: 0 matched" in ended.stderr) == (1, True), ended.stderr
    assert r"state: ledger \u4ed8\u6b3e, gateway 4100" in ended.stdout


async def run_to_full_disk(sandbox: Sandbox, line: str, cwd: Path) -> Ended:
    """Run a command whose standard output takes nothing."""
    with (
        Path(os.devnull).open("rb") as nothing,  # noqa: ASYNC230  # it is there at once
        Path("/dev/full").open("wb") as full,  # noqa: ASYNC230  # the same
        (cwd / "stderr").open("wb") as errors,
    ):
        process = nursery.start_with(
            (nothing.fileno(), full.fileno(), errors.fileno()),
            main,
            shlex.split(line),
            env=environment(sandbox),
            cwd=cwd,
        )
        code = await process.wait()
    return Ended(code, "", (cwd / "stderr").read_text())


async def test_outcomes_that_standard_output_does_not_take_are_in_the_journal(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    line = "refund orders.csv --yes --out - --journal sqlite:///j.db"
    ended = await run_to_full_disk(sandbox, line, tmp_path)
    assert ended.code == 3, ended.stderr  # a script that reads the code alone must notice
    line = ended.stderr.rpartition("  gateway-async ")[2]
    assert line.startswith("jobs outcomes refund-")
    resume = line.replace("outcomes", "resume", 1).replace("outcomes.csv", "- --yes")
    resumed = await run_to_full_disk(sandbox, resume, tmp_path)
    assert (resumed.code, "jobs outcomes" in resumed.stderr) == (3, True), resumed.stderr
    written = await run(sandbox, *shlex.split(line), cwd=tmp_path)
    assert written.code == 0, written.stderr
    assert statuses(tmp_path / "outcomes.csv") == {"succeeded": 3}
    dry = await run_to_full_disk(sandbox, "refund orders.csv --dry-run", tmp_path)
    assert (dry.code, "gateway-async: it ended early: " in dry.stderr) == (3, True)


@pytest.mark.parametrize("closed", ["<&-", "2>&-"])
async def test_nothing_is_sent_where_a_standard_stream_is_closed(
    sandbox: Sandbox, tmp_path: Path, closed: str
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    ended = await run_in_shell(sandbox, f"refund orders.csv --yes --out o {closed}", tmp_path)
    assert (ended.code, ended.stdout) == (2, "")
    assert ("use /dev/null for it" in ended.stderr) == ("2>" not in closed)
    assert sandbox.requests.total() == 0

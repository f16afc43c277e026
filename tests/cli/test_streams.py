"""Commands whose standard output or standard error is closed, full, or takes few letters."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway_async.sandbox import Sandbox
from tests.cli.running import SCRIPT, Ended, environment, statuses, write, write_refunds


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


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
async def test_the_exit_code_is_that_of_the_orders(
    sandbox: Sandbox, tmp_path: Path, closed: str
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    line = f"refund orders.csv --yes --out out.csv --job night --journal sqlite:///j.db {closed}"
    ended = await run_in_shell(sandbox, line, tmp_path)
    assert ended.code == 0, ended.stderr
    assert statuses(tmp_path / "out.csv") == {"succeeded": 3}


async def test_an_input_that_is_closed_is_empty(sandbox: Sandbox, tmp_path: Path) -> None:
    ended = await run_in_shell(sandbox, "refund - --yes --out out.csv <&-", tmp_path)
    assert ended.code == 2
    assert "line 1: the file is empty" in ended.stderr


async def test_letters_that_the_output_does_not_know_are_escaped(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    rows = [(one.order_no, one.currency, "8.00", "付款") for one in sandbox.seed(1, amount="9.00")]
    write(tmp_path / "ledger.csv", ("order_no", "currency", "amount", "state"), rows)
    line = "reconcile ledger.csv --state 4100=x"
    ended = await run_in_shell(sandbox, line, tmp_path, {"PYTHONIOENCODING": "ascii"})
    assert ended.code == 1
    assert r"state: ledger \u4ed8\u6b3e, gateway 4100" in ended.stdout
    assert "1 differing" in ended.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("refund orders.csv --out out.csv", "there is no terminal to confirm it at"),
        ("refund orders.csv --rate fast", 'unable to convert "fast" into float'),
    ],
)
async def test_a_terminal_without_width_hides_nothing(
    sandbox: Sandbox, tmp_path: Path, line: str, said: str
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    ended = await run_in_shell(sandbox, line, tmp_path, {"COLUMNS": "0"})
    assert ended.code == 2
    assert said in ended.stderr


async def test_a_dry_run_that_cannot_be_shown(sandbox: Sandbox, tmp_path: Path) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    ended = await run_in_shell(sandbox, "refund orders.csv --dry-run >&-", tmp_path)
    assert ended.code == 3
    (said,) = ended.stderr.splitlines()[1:]  # the first names the job
    assert said.startswith("gateway-async: it ended early: ")


@pytest.mark.parametrize("output", [">&-", ">/dev/full"])
async def test_outcomes_that_standard_output_does_not_take_are_in_the_journal(
    sandbox: Sandbox, tmp_path: Path, output: str
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    line = f"refund orders.csv --yes --out - --journal sqlite:///j.db {output}"
    ended = await run_in_shell(sandbox, line, tmp_path)
    assert ended.code == 3, ended.stderr  # a script that reads the code alone must notice
    line = ended.stderr.rpartition("  gateway-async ")[2]
    assert line.startswith("jobs outcomes refund-")
    resume = line.replace("outcomes", "resume", 1).replace("outcomes.csv", f"- --yes {output}")
    resumed = await run_in_shell(sandbox, resume.strip().replace("\n", " "), tmp_path)
    assert (resumed.code, "jobs outcomes" in resumed.stderr) == (3, True), resumed.stderr
    written = await run_in_shell(sandbox, line, tmp_path)
    assert written.code == 0, written.stderr
    assert statuses(tmp_path / "outcomes.csv") == {"succeeded": 3}

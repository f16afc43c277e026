"""Commands whose standard output or standard error somebody has closed."""

import asyncio
import sys
from pathlib import Path

import pytest

from gateway_async.sandbox import Sandbox
from tests.cli.running import SCRIPT, Ended, environment, names, statuses, write_refunds


async def run_in_shell(sandbox: Sandbox, line: str, cwd: Path) -> Ended:
    process = await asyncio.create_subprocess_shell(
        f"exec {sys.executable} {SCRIPT} {line}",
        cwd=cwd,
        env={**environment(sandbox), "TMPDIR": str(cwd)},
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


async def test_a_dry_run_that_cannot_be_shown(sandbox: Sandbox, tmp_path: Path) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    ended = await run_in_shell(sandbox, "refund orders.csv --dry-run >&-", tmp_path)
    assert ended.code == 3
    (said,) = ended.stderr.splitlines()
    assert said.startswith("gateway-async: it ended early: ")


@pytest.mark.parametrize("output", [">&-", ">/dev/full"])
async def test_outcomes_that_standard_output_does_not_take_go_to_a_file(
    sandbox: Sandbox, tmp_path: Path, output: str
) -> None:
    write_refunds(sandbox, tmp_path / "orders.csv", 3)
    ended = await run_in_shell(sandbox, f"refund orders.csv --yes --out - {output}", tmp_path)
    assert ended.code == 0, ended.stderr
    (name,) = set(names(tmp_path)) - {"orders.csv"}
    assert name in ended.stderr
    assert statuses(tmp_path / name) == {"succeeded": 3}

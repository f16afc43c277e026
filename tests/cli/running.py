"""The command, run as a user runs it: a process of its own, forked where all is imported."""

import asyncio
import atexit
import csv
import functools
import os
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from gateway_async.cli import main
from gateway_async.sandbox import Sandbox
from tests import nursery
from tests.nursery import Forked

SCRIPT = Path(sys.executable).with_name("gateway-async")
COLUMNS = ("transaction_id", "order_no", "currency", "amount")
REFUND_COLUMNS = (*COLUMNS, "refund_amount", "refund_reason")


@attrs.frozen
class Ended:
    """How a command ended."""

    code: int | None
    stdout: str
    stderr: str


@functools.cache
def home() -> Path:
    """Return where settings and journals are that nothing else names; recovery waits shortly."""
    made = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made)
    (made / "gateway-async").mkdir()
    (made / "gateway-async" / "config.toml").write_text("[recovery]\nsettle_seconds = 0.1\n")
    return made


def environment(sandbox: Sandbox | None) -> dict[str, str]:
    """Return the environment of a command that talks to a sandbox, and of nothing else."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "COLUMNS"))}
    homes = {"XDG_CONFIG_HOME": str(home()), "XDG_STATE_HOME": str(home())}
    usual = {**kept, "COLUMNS": "200", **homes}
    if sandbox is None:
        return usual
    return {
        **usual,
        "GATEWAY_BASE_URL": sandbox.base_url,
        "GATEWAY_MERCHANT_ID": sandbox.merchant_id,
        "GATEWAY_ACCOUNT_ID": sandbox.account_id,
        "GATEWAY_SECRET": sandbox.secret,
    }


async def start(
    sandbox: Sandbox | None,
    *arguments: object,
    cwd: Path | None = None,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
) -> Forked:
    """Start a command; `env` goes over its usual environment."""
    around = {**environment(sandbox), **(env or {})}
    given = [*map(str, arguments)]
    return await nursery.start(main, given, env=around, cwd=cwd, stdin=stdin.encode())


async def run(
    sandbox: Sandbox | None, *arguments: object, cwd: Path | None = None, stdin: str = ""
) -> Ended:
    """Run a command to its end."""
    process = await start(sandbox, *arguments, cwd=cwd, stdin=stdin)
    stdout, stderr = await process.communicate()
    return Ended(process.returncode, stdout.decode(), stderr.decode())


@attrs.frozen
class Shell:
    """Runs lines in a folder of their own, where the files are that they name.

    Attributes:
        sandbox: The gateway that they talk to.
        folder: The folder.
    """

    sandbox: Sandbox
    folder: Path

    async def __call__(
        self, line: str, code: int = 0, *, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> Ended:
        """Run a line to its end, which must have this exit code."""
        words = shlex.split(line)
        process = await start(self.sandbox, *words, cwd=self.folder, stdin=stdin, env=env)
        stdout, stderr = await process.communicate()
        assert process.returncode == code, stderr.decode()
        return Ended(code, stdout.decode(), stderr.decode())

    async def under_way(
        self, line: str, requests: int = 1
    ) -> tuple[Forked, "asyncio.Future[tuple[bytes, bytes]]"]:
        """Start a line; return once the sandbox has had so many requests, or it has ended."""
        process = await start(self.sandbox, *shlex.split(line), cwd=self.folder)
        ended = asyncio.ensure_future(process.communicate())
        while self.sandbox.requests.total() < requests and not ended.done():
            await asyncio.wait({ended}, timeout=0.002)
        return process, ended

    def rows(self, name: str = "out.csv") -> list[dict[str, str]]:
        """Read a CSV file."""
        return outcomes(self.folder / name)

    def statuses(self, name: str = "out.csv") -> Counter[str]:
        """Count the statuses of an outcome file."""
        return statuses(self.folder / name)

    def refunds(self, count: int, name: str = "orders.csv") -> Path:
        """Write refunds of payments that the sandbox then has."""
        return write_refunds(self.sandbox, self.folder / name, count)

    def effects(self) -> set[int]:
        """Return how often the refunds of the file were done."""
        rows = self.rows("orders.csv")
        return {self.sandbox.ledger.effects("refund", row["transaction_id"]) for row in rows}


async def start_installed(
    sandbox: Sandbox | None, *arguments: object, through: Sequence[str] = ()
) -> asyncio.subprocess.Process:
    """Start the script that was installed in an interpreter of its own, through another command."""
    return await asyncio.create_subprocess_exec(
        *(*through, sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(sandbox),
    )


async def run_installed(sandbox: Sandbox | None, *arguments: object) -> Ended:
    """Run the script that was installed to its end."""
    process = await start_installed(sandbox, *arguments)
    stdout, stderr = await process.communicate()
    return Ended(process.returncode, stdout.decode(), stderr.decode())


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_refunds(sandbox: Sandbox, path: Path, count: int) -> Path:
    """Write refunds of payments that the sandbox then has."""
    rows = [
        (f"customer {i}", p.transaction_id, p.order_no, p.currency, p.amount, "1.00", "broken")
        for i, p in enumerate(sandbox.seed(count, status="captured", amount="9.00"))
    ]
    return write(path, ("customer", *REFUND_COLUMNS), rows)


def outcomes(path: Path) -> list[dict[str, str]]:
    """Read a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def statuses(path: Path) -> Counter[str]:
    """Count the statuses of an outcome file."""
    return Counter(row["status"] for row in outcomes(path))


def names(directory: Path) -> list[str]:
    """Return the names of the files in a directory."""
    return sorted(path.name for path in directory.iterdir())

"""The command, run as a user runs it: a process of its own, forked where all is imported."""

import asyncio
import atexit
import csv
import functools
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from gateway_async.cli import main
from gateway_async.sandbox import Sandbox
from tests.support import nursery
from tests.support.nursery import Forked
from tests.support.orders import COLUMNS

SCRIPT = Path(sys.executable).with_name("gateway-async")
REFUND_COLUMNS = (*COLUMNS, "refund_amount", "refund_reason")


@attrs.frozen
class Ended:
    """How a command ended."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def facts(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.stdout)

    def advice(self, command: str) -> str:
        """Return the one line of this command that it says to give next."""
        (line,) = re.findall(rf"^  gateway-async ({command} .*)$", self.stderr, re.MULTILINE)
        return str(line)


@functools.cache
def home() -> Path:
    """Return where settings are that nothing else names; recovery waits shortly."""
    made = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made)
    (made / "gateway-async").mkdir()
    (made / "gateway-async" / "config.toml").write_text("[recovery]\nsettle_seconds = 0.1\n")
    return made


@attrs.frozen
class Shell:
    """Runs lines in a folder of their own, where the files are that they name."""

    sandbox: Sandbox  # the gateway that they talk to
    folder: Path  # the folder
    # variables of every line, beside those that name the sandbox
    settings: dict[str, str] = attrs.field(factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a line: the sandbox, and none of who runs the tests."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "COLUMNS"))}
        return {
            **kept,
            "COLUMNS": "200",
            "XDG_CONFIG_HOME": str(home()),
            "XDG_STATE_HOME": f"{self.folder}-state",  # other tests may have like orders
            "GATEWAY_BASE_URL": self.sandbox.base_url,
            "GATEWAY_MERCHANT_ID": self.sandbox.merchant_id,
            "GATEWAY_ACCOUNT_ID": self.sandbox.account_id,
            "GATEWAY_SECRET": self.sandbox.secret,
            **self.settings,
        }

    async def start(
        self, line: str, *, stdin: str = "", env: Mapping[str, str] | None = None
    ) -> Forked:
        """Start a line; `env` goes over its usual environment."""
        words, around = shlex.split(line), {**self.environment, **(env or {})}
        return await nursery.start(main, words, env=around, cwd=self.folder, stdin=stdin.encode())

    async def __call__(
        self,
        line: str,
        code: int | None = 0,
        *words: str,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a line to its end, which must have this exit code, if one is named, and say this."""
        process = await self.start(line, stdin=stdin, env=env)
        output = await process.communicate()
        return _ended(process.returncode, output, code, words)

    async def under_way(
        self, line: str, requests: int = 1
    ) -> tuple[Forked, "asyncio.Future[tuple[bytes, bytes]]"]:
        """Start a line; return once the sandbox has had so many requests, or it has ended."""
        process = await self.start(line)
        ended = asyncio.ensure_future(process.communicate())
        while self.sandbox.requests.total() < requests and not ended.done():
            await asyncio.wait({ended}, timeout=0.002)
        return process, ended

    async def installed(
        self, line: str, code: int = 0, *words: str, env: Mapping[str, str] | None = None
    ) -> Ended:
        """Run the script that was installed, by a shell, to an end like this."""
        process = await asyncio.create_subprocess_shell(
            f"exec {sys.executable} -W error {SCRIPT} {line}",
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output = await process.communicate()
        return _ended(process.returncode, output, code, words)

    def rows(self, name: str = "out.csv") -> list[dict[str, str]]:
        """Read a CSV file."""
        with (self.folder / name).open(newline="") as file:
            return list(csv.DictReader(file))

    def statuses(self, name: str = "out.csv") -> Counter[str]:
        """Count the statuses of an outcome file."""
        return Counter(row["status"] for row in self.rows(name))

    def refunds(self, count: int, name: str = "orders.csv") -> Path:
        """Write refunds of payments that the sandbox then has."""
        rows = [
            (f"customer {i}", p.transaction_id, p.order_no, p.currency, p.amount, "1.00", "broken")
            for i, p in enumerate(self.sandbox.seed(count, status="captured", amount="9.00"))
        ]
        return write(self.folder / name, ("customer", *REFUND_COLUMNS), rows)

    def effects(self) -> set[int]:
        """Return how often the refunds of the file were done."""
        rows = self.rows("orders.csv")
        return {self.sandbox.ledger.effects("refund", row["transaction_id"]) for row in rows}


def _ended(
    returned: int | None, output: tuple[bytes, bytes], code: int | None, words: Sequence[str]
) -> Ended:
    """Return how a command ended; it must have this exit code, if one is named, and say this."""
    ended = Ended(returned, *(stream.decode() for stream in output))
    assert code in (None, returned), ended.stderr
    for one in words:
        assert one in ended.stdout + ended.stderr
    return ended


def write(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    """Write a CSV file."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def names(directory: Path) -> list[str]:
    """Return the names of the files in a directory."""
    return sorted(path.name for path in directory.iterdir())

"""The command, run as a user runs it: a process of its own, forked where all is imported."""

import asyncio
import csv
import json
import os
import pty
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import attrs

from gateway_async.cli import main
from gateway_async.sandbox import Sandbox, Transaction
from tests.support import nursery
from tests.support.nursery import Forked
from tests.support.orders import COLUMNS

SCRIPT = Path(sys.executable).with_name("gateway-async")
REFUND_COLUMNS = (*COLUMNS, "refund_amount", "refund_reason")
CTRL_C = "\x03"
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


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


Here = Callable[..., Ended]
"""Runs a line within the process of the tests, to an end with this code."""


@attrs.frozen
class Shell:
    """Runs lines in a folder of their own, where the files are that they name."""

    sandbox: Sandbox  # the gateway that they talk to
    folder: Path  # the folder; beside it, the usual settings and journal
    # variables of every line, beside those that name the sandbox
    settings: dict[str, str] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        usual = Path(f"{self.folder}-config", "gateway-async")
        usual.mkdir(parents=True)
        (usual / "config.toml").write_text("[recovery]\nsettle_seconds = 0.1\n")

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a line: the sandbox, and none of who runs the tests."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("GATEWAY_", "COLUMNS"))}
        return {
            **kept,
            "COLUMNS": "200",
            "TERM": "xterm",
            "XDG_CONFIG_HOME": f"{self.folder}-config",
            "XDG_STATE_HOME": f"{self.folder}-state",
            "GATEWAY_BASE_URL": self.sandbox.base_url,
            "GATEWAY_MERCHANT_ID": self.sandbox.merchant_id,
            "GATEWAY_ACCOUNT_ID": self.sandbox.account_id,
            "GATEWAY_SECRET": self.sandbox.secret,
            **self.settings,
        }

    def start_with(self, files: tuple[int, int, int], line: str) -> Forked:
        """Start a line with three open files for its own."""
        around = self.environment
        return nursery.start_with(files, main, shlex.split(line), env=around, cwd=self.folder)

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

    async def installed(self, line: str, code: int, *words: str) -> Ended:
        """Run the script that was installed, by a shell, to an end like this."""
        process = await asyncio.create_subprocess_shell(
            f"exec {sys.executable} -W error {SCRIPT} {line}",
            cwd=self.folder,
            env=self.environment,
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

    def captures(self, count: int, name: str = "orders.csv") -> list[Transaction]:
        """Write captures of payments that the sandbox then has."""
        paid = self.sandbox.seed(count, status="authorised", amount="1.00", currency="EUR")
        rows = [[getattr(one, column) for column in COLUMNS] for one in paid]
        write(self.folder / name, COLUMNS, rows)
        return paid

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


class Terminal:
    """A line that has a terminal for itself: what a person sees, and may type."""

    def __init__(self, shell: Shell, line: str) -> None:
        self._shell = shell
        self._line = line
        self._shown = asyncio.StreamReader()
        self._seen = b""

    async def __aenter__(self) -> Self:
        self._master, slave = pty.openpty()
        self._process = self._shell.start_with((slave, slave, slave), self._line)
        os.close(slave)
        asyncio.get_running_loop().add_reader(self._master, self._read)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._process.kill()
        await self._process.wait()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            self._shown.feed_data(os.read(self._master, 65_536))
        except OSError:  # as Linux says that nobody has the other end
            self._shown.feed_eof()
            asyncio.get_running_loop().remove_reader(self._master)

    @property
    def text(self) -> str:
        """What was awaited so far, without colours and movements of the cursor."""
        return _ESCAPES.sub(b"", self._seen).decode(errors="replace")

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    async def until(self, words: str) -> None:
        """Wait until something is shown."""
        while words not in self.text:
            piece = await self._shown.read(65_536)
            assert piece, f"{words!r} was not shown:\n{self.text}"
            self._seen += piece

    async def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        self._seen += await self._shown.read()
        return await self._process.wait()

    async def ended_by(self, keys: str) -> int:
        """Press keys, again where nobody was listening yet, until it ends."""
        end = asyncio.ensure_future(self.ended())
        while not end.done():
            self.type(keys)
            await asyncio.wait({end}, timeout=10)
        return end.result()

"""Processes that a test starts, kills and freezes, each with a client of the test's sandbox.

What a process works with is its start: a file that its environment names.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from gateway_async import GatewayClient, HmacSigner
from tests.support.orders import client_at

ROOT = Path(__file__).parents[2]
START = "GATEWAY_TEST_START"
_END_SECONDS = 20.0


def write_start(path: Path, **start: Any) -> dict[str, str]:
    """Write what a process works with, and return the environment in which it finds that.

    That is `base_url` and `secret` of the sandbox, the settings of the `client`, and what else.
    """
    path.write_bytes(pickle.dumps(start))
    return {**os.environ, START: str(path)}


def read_start() -> dict[str, Any]:
    start: dict[str, Any] = pickle.loads(Path(os.environ[START]).read_bytes())  # noqa: S301  # our own
    return start


def client_from(start: dict[str, Any]) -> GatewayClient:
    return client_at(start["base_url"], signer=HmacSigner(start["secret"]), **start["client"])


def missing(reason: str) -> NoReturn:
    """Skip the test that runs now, or fail it in CI, where nothing may be missing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Process:
    """A command and all that it starts, in a process group of its own; `log` has its output."""

    def __init__(
        self, command: Sequence[str | Path], log: Path, env: Mapping[str, str], **how: Any
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  # what tests name
                command,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env=env,
                **{"cwd": ROOT, **how},
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def has(self, process_id: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return os.getpgid(process_id) == self._process.pid
        return False

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """End all of it at once, as a machine ends that loses its power."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    async def freeze(self, seconds: float) -> None:
        """Stop all of it for so long, and let it go on."""
        self._signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self._signal(signal.SIGCONT)

    async def end(self) -> None:
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(self._process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

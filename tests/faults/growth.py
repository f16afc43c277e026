"""How far the memory of a client grows over hostile replies, measured in a process of its own.

`python -m tests.faults.growth BOMB` starts a server in another process, lets a client meet first
a small reply and then, once for each of the four deeds, the bomb, and prints what it found.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from gateway_async import RetryPolicy, Timeouts
from gateway_async.sandbox import Sandbox
from tests.faults.bombs import MIB
from tests.faults.deeds import DEEDS, client

ONE_ATTEMPT = RetryPolicy(attempts=1)
PATIENT = Timeouts(connect_seconds=10, reply_seconds=30, total_seconds=50)


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def _meet(port: int) -> dict[str, dict[str, object]]:
    figures: dict[str, dict[str, object]] = {}
    sandbox = Sandbox()  # never started: its orders serve, and its secret
    async with client(
        sandbox,
        f"http://127.0.0.1:{port}",
        max_reply_bytes=MIB,
        timeouts=PATIENT,
        retry=ONE_ATTEMPT,
    ) as gateway:
        await DEEDS["query"](sandbox).do(gateway)
        for name, deed in DEEDS.items():
            _forget_peak()
            before = _peak_bytes()
            told = await deed(sandbox).do(gateway)
            figures[name] = {
                "status": told.status,
                "error": type(told.error).__name__,
                "growth": _peak_bytes() - before,
            }
    return figures


def main(bomb: str) -> None:
    """Measure, and print the figures of each deed as JSON."""
    command = [sys.executable, "-m", "tests.faults.bombs", bomb]
    with subprocess.Popen(  # noqa: S603  # this interpreter, and a module of these tests
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        figures = asyncio.run(_meet(int(server.stdout.readline())))
        served = int(server.communicate()[0])
    sys.stdout.write(json.dumps({"served": served, "deeds": figures}))


if __name__ == "__main__":
    main(sys.argv[1])

"""How far the memory of a client grows over hostile replies, measured in a process of its own.

`python -m tests.faults.growth` starts a server in another process, lets a client meet first a
small reply and then each bomb, once for each of the four deeds, and prints what it found.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from gateway_async import GatewayClient, RetryPolicy, Timeouts
from gateway_async.sandbox import Sandbox
from tests.faults.bombs import BOMBS, MIB
from tests.faults.deeds import DEEDS, client

ONE_ATTEMPT = RetryPolicy(attempts=1)
PATIENT = Timeouts(connect_seconds=10, reply_seconds=30, total_seconds=50)


def _peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def _meet(url: str) -> dict[str, dict[str, dict[str, object]]]:
    sandbox = Sandbox()  # never started: its orders serve, and its secret
    settings = {"max_reply_bytes": MIB, "timeouts": PATIENT, "retry": ONE_ATTEMPT}
    async with client(sandbox, f"{url}/small", **settings) as gateway:
        await DEEDS["query"](sandbox).do(gateway)
    figures: dict[str, dict[str, dict[str, object]]] = {}
    for bomb in BOMBS.keys() - {"small"}:
        async with client(sandbox, f"{url}/{bomb}", **settings) as gateway:
            figures[bomb] = {name: await _measure(gateway, sandbox, name) for name in DEEDS}
    return figures


async def _measure(gateway: GatewayClient, sandbox: Sandbox, name: str) -> dict[str, object]:
    _forget_peak()
    before = _peak_bytes()
    told = await DEEDS[name](sandbox).do(gateway)
    return {
        "status": told.status,
        "error": type(told.error).__name__ if told.errors[0] else "",
        "growth": _peak_bytes() - before,
    }


def main() -> None:
    """Measure, and print the figures of each bomb and deed as JSON."""
    command = [sys.executable, "-m", "tests.faults.bombs"]
    with subprocess.Popen(  # noqa: S603  # this interpreter, and a module of these tests
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        figures = asyncio.run(_meet(f"http://127.0.0.1:{int(server.stdout.readline())}"))
        served = json.loads(server.communicate()[0])
    sys.stdout.write(json.dumps({"served": served, "figures": figures}))


if __name__ == "__main__":
    main()

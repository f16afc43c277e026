"""Replies made to do harm: refused, and memory does not grow with them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_async.sandbox import faults
from tests.faults.bombs import BOMBS, MIB
from tests.faults.deeds import DEEDS, UNKNOWN, Trial, with_deeds

MOST_GROWTH = 16 * MIB
REFUSED_AS = dict.fromkeys(("headers", "header", "entities"), "ReplyUnreadableError")


@with_deeds("fault", [faults.HugeReply(MIB), faults.GzipBomb(MIB)])
async def test_a_reply_of_just_the_limit_is_read(trial: Trial, fault: faults.Fault) -> None:
    trial.sandbox.faults.add(trial.operation, fault)
    told = await trial.run(max_reply_bytes=MIB)
    assert not [error for error in told.errors if error]


@pytest.fixture(scope="module")
def bombs() -> Iterator[str]:
    """Where a process of its own serves them."""
    command = [sys.executable, "-m", "tests.faults.bombs"]
    root = Path(__file__).parents[2]
    with subprocess.Popen(  # noqa: S603  # this interpreter, and a module of these tests
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.communicate()


def peak_bytes(*, forget: bool = False) -> int:
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in lines if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through /proc")
@pytest.mark.parametrize("trial", DEEDS, indirect=True)
@pytest.mark.parametrize("bomb", [name for name in BOMBS if name != "small"])
async def test_memory_does_not_grow_with_a_hostile_reply(
    trial: Trial, bomb: str, bombs: str
) -> None:
    await trial.run(f"{bombs}/small", max_reply_bytes=MIB)
    before = peak_bytes(forget=True)
    told = await trial.run(f"{bombs}/{bomb}", max_reply_bytes=MIB)
    assert peak_bytes() - before < MOST_GROWTH
    assert told.status is UNKNOWN
    assert type(told.error).__name__ == REFUSED_AS.get(bomb, "ReplyTooLargeError")

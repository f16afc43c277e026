"""Replies made to do harm: refused, and memory does not grow with them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway_async.sandbox import faults
from tests.faults.bombs import BOMBS
from tests.faults.deeds import DEEDS, UNKNOWN, Trial, with_deeds

LARGE = 1024 * 1024
MOST_GROWTH = 16 * 1024 * 1024
REFUSED_AS = dict.fromkeys(("headers", "header", "entities"), "ReplyUnreadableError")


@with_deeds("fault", [faults.HugeReply(LARGE), faults.GzipBomb(LARGE)])
async def test_a_reply_of_just_the_limit_is_read(trial: Trial, fault: faults.Fault) -> None:
    trial.sandbox.faults.add(trial.kind.operation, fault)
    told = await trial.run(max_reply_bytes=LARGE)
    assert not [error for error in told.errors if error]


@pytest.fixture(scope="module")
def measured() -> Any:
    """What a client does with each bomb: client and server are processes of their own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.growth"],
        capture_output=True,
        check=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measured through /proc")
@pytest.mark.parametrize("bomb", [name for name in BOMBS if name != "small"])
def test_memory_does_not_grow_with_a_hostile_reply(bomb: str, measured: Any) -> None:
    assert measured["served"][bomb] == len(DEEDS)
    assert set(measured["figures"][bomb]) == set(DEEDS)
    for figures in measured["figures"][bomb].values():
        assert figures["status"] == UNKNOWN
        assert figures["error"] == REFUSED_AS.get(bomb, "ReplyTooLargeError")
        assert figures["growth"] < MOST_GROWTH

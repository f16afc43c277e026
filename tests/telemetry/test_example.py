"""The example runs, and shows what its page says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def test_the_example_prints_its_spans() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs" / "examples" / "telemetry.py")]
    done = subprocess.run(  # noqa: S603  # our own file
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout in (ROOT / "docs" / "how-to" / "telemetry.md").read_text()
    assert done.stdout.splitlines() == [
        "refund: {'unknown': 50} ERROR",
        "refund: {'succeeded': 50} UNSET",
        "refund: {'succeeded': 20} UNSET",
        "refund batch: {'succeeded': 70, 'unknown': 50} ERROR",
    ]

"""The example runs, and finds what its books have wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent


def test_the_example_finds_both_differences() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs" / "examples" / "reconcile.py")]
    done = subprocess.run(  # noqa: S603  # our own file
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "S00000041 amount 25.00",
        "S00000071 refund_absent_at_gateway 0",
        "1,000 entries: 998 matched, 2 differing, 0 unanswered",
        "amount: 1",
        "refund_absent_at_gateway: 1",
        "EUR ledger: 1000 payments of 25027.00, refunded 5.00",
        "EUR gateway: 1000 payments of 25000.00, refunded 0",
    ]

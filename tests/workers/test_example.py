"""The example runs: slices on a queue that is not taskiq's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import postgres_url

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_the_example_runs_slices_on_procrastinate() -> None:
    example = ROOT / "docs" / "examples" / "procrastinate_workers.py"
    with postgres_url() as url:
        done = subprocess.run(  # noqa: S603  # our own file
            [sys.executable, str(example), url],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1000 succeeded\n"
    assert done.stderr.splitlines()[-1] == "1000 of 1000 orders"

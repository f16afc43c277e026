"""What does `import gateway_async` cost, beside `import aiohttp`, which it needs?

Run as ``python -m benchmarks.import_time``. Each import happens in an interpreter of its own, with
compiled files at hand, as after an installation; figures are the CPU time of the import alone.
"""

import functools
import os
import subprocess
import sys
import tempfile

from benchmarks.figures import Figure, alternate, at_most, median_of, ratio_of, show

ROUNDS = 15

_IMPORT = """
import time
started = time.process_time()
{}
print(time.process_time() - started)
"""
_FLOOR = "import aiohttp"
_STATEMENTS = {
    "import gateway_async": at_most(1.4),
    "from gateway_async import DirectPayment, PayoutRequest": None,
}


def _milliseconds(statement: str, *, compiled: str) -> float:
    """Measure one import; the first one leaves compiled files in a folder for those that follow."""
    command = [sys.executable, "-c", _IMPORT.format(statement)]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(  # noqa: S603  # this interpreter
        command, capture_output=True, check=True, text=True, env=environment
    )
    return float(done.stdout) * 1e3


def measure() -> list[Figure]:
    """Return what the imports cost, as a ratio to that of aiohttp."""
    with tempfile.TemporaryDirectory() as compiled:
        sides = {
            text: functools.partial(_milliseconds, text, compiled=compiled)
            for text in (_FLOOR, *_STATEMENTS)
        }
        costs = alternate(sides, ROUNDS)
    return [
        median_of(_FLOOR, costs[_FLOOR], "ms CPU"),
        *(
            ratio_of(text, costs[text], costs[_FLOOR], "x import aiohttp", goal=goal)
            for text, goal in _STATEMENTS.items()
        ),
    ]


if __name__ == "__main__":
    show(measure())

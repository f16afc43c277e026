"""Which share of lines and branches the tests reach, room by room.

``python -m tests.support.coverage build/coverage.json`` prints a table, with the lines that no
test reaches, and ends with 1 where a room is below its floor.
"""

import json
import sys
from pathlib import Path
from typing import Any

FLOORS = {"batching": 98.5, "session": 97.5, "recovery": 97.5, "jobs": 97.0, "journal": 96.0}
"""The least share of a room, in percent, that the tests which are not slow reach."""
_COUNTED = ("covered_lines", "covered_branches")
_ALL = ("num_statements", "num_branches")


def shares(files: dict[str, Any]) -> dict[str, float]:
    """Return the share of each room, from the files of a JSON report."""
    found = {}
    for room in FLOORS:
        sums = [one["summary"] for path, one in files.items() if _room(path) == room]
        reached = sum(one[name] for one in sums for name in _COUNTED)
        found[room] = 100 * reached / (sum(one[name] for one in sums for name in _ALL) or 1)
    return found


def _room(path: str) -> str:
    """Return the name of a folder or module below the package."""
    return Path(path).with_suffix("").parts[1]


def main(report: Path) -> int:
    """Print the table; 1 where a room is below its floor, or is not in the report."""
    files = json.loads(report.read_text())["files"]
    found = shares(files)
    sys.stdout.write(f"{'room':<10} {'reached':>8} {'floor':>7}\n")
    for room, share in found.items():
        sys.stdout.write(f"{room:<10} {share:>7.2f}% {FLOORS[room]:>6.2f}%\n")
    for path, one in sorted(files.items()):
        branches = [f"{start}->{end}" for start, end in one["missing_branches"]]
        missing = [*map(str, one["missing_lines"]), *branches]
        if _room(path) in FLOORS and missing:
            sys.stdout.write(f"not reached in {path}: {', '.join(missing)}\n")
    return int(any(round(found[room], 2) < floor for room, floor in FLOORS.items()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

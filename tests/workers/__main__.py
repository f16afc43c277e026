"""Play the faults at full size: ``python -m tests.workers --refunds 20000``.

Each fault strikes in a run of its own, at two thirds of the job, and all of them in a last one;
leases are as long as they are by default. It prints what is wrong by the gateway's books.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway_async.workers import WorkerPolicy
from tests.workers.scenes import FAULTS, play

_RUNS = {
    **{name: {name: 0.66} for name in FAULTS},
    "all": {"double": 0.1, "kill": 0.25, "freeze": 0.45, "broker": 0.66},
}


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.workers", description=__doc__)
    parser.add_argument("--refunds", type=int, default=20_000, help="how many refunds a job has")
    parser.add_argument("--latency", type=float, default=0.1, help="the gateway's, in seconds")
    parser.add_argument("--fault", choices=[*_RUNS], help="this one only")
    options = parser.parse_args()
    for name in ("aio_pika", "aiormq"):  # they tell at length of what we cut off
        logging.getLogger(name).setLevel(logging.CRITICAL)
    is_right = True
    for name in [options.fault] if options.fault else _RUNS:
        with TemporaryDirectory() as folder:
            played = play(
                _RUNS[name],
                refunds=options.refunds,
                latency_seconds=options.latency,
                policy=WorkerPolicy(watch_seconds=0.2),
                folder=Path(folder),
            )
            wrong = asyncio.run(played)
        is_right = is_right and not wrong
        said = dict(wrong) or "each was made once, and is told so"
        sys.stdout.write(f"{name}: {options.refunds} refunds on 3 workers: {said}\n")
        sys.stdout.flush()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

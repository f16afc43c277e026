"""Play the faults at full size: ``python -m tests.workers --refunds 20000``.

Each fault strikes in a run of its own, at two thirds of the job, and all of them in a last one;
leases are as long as they are by default. It prints what the gateway's books say, how long after
the fault everything was done, and how long the fault lasted: RabbitMQ may be slow to start again.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway_async.workers import WorkerPolicy
from tests.support.books import Wrong
from tests.workers.scenes import FAULTS, play

_LATE = 0.66
_ALL = {"double": 0.1, "kill": 0.25, "freeze": 0.45, "broker": 0.66}


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.workers", description=__doc__)
    parser.add_argument("--refunds", type=int, default=20_000, help="how many refunds a job has")
    parser.add_argument("--latency", type=float, default=0.1, help="the gateway's, in seconds")
    parser.add_argument("--fault", choices=[*FAULTS, "all"], help="this one only")
    options = parser.parse_args()
    for name in ("aio_pika", "aiormq"):  # they tell at length of what we kill
        logging.getLogger(name).setLevel(logging.CRITICAL)
    runs = {**{name: {name: _LATE} for name in FAULTS}, "all": _ALL}
    is_right = True
    for name, faults in runs.items():
        if options.fault not in {None, name}:
            continue
        with TemporaryDirectory() as folder:
            played = play(
                faults,
                refunds=options.refunds,
                latency_seconds=options.latency,
                policy=WorkerPolicy(watch_seconds=0.2),
                folder=Path(folder),
            )
            verdict = asyncio.run(played)
        is_right = is_right and verdict.is_right
        wrong = "/".join(str(verdict.problems[kind]) for kind in Wrong)
        after = [
            f"{seconds:.1f} s after {fault} (which lasted {verdict.lasted[fault]:.1f} s)"
            for fault, seconds in verdict.seconds.items()
        ]
        sys.stdout.write(
            f"{name}: {options.refunds} refunds on 3 workers, {dict(verdict.counts)}; "
            f"{'/'.join(Wrong)} {wrong}; done {', '.join(after)}\n"
        )
        sys.stdout.flush()
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())

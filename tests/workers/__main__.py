"""Play the faults at full size: ``python -m tests.workers --refunds 20000``.

Leases are as long as they are by default. It prints what the gateway's books say, and how long
after each fault everything was done.
"""

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway_async.workers import WorkerPolicy
from tests.support.books import Wrong
from tests.workers.scenes import play


def main() -> int:
    """Run the command; exit code 1 where something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.workers", description=__doc__)
    parser.add_argument("--refunds", type=int, default=20_000, help="how many refunds the job has")
    parser.add_argument("--latency", type=float, default=0.1, help="the gateway's, in seconds")
    options = parser.parse_args()
    for name in ("aio_pika", "aiormq"):  # they tell at length of what we kill
        logging.getLogger(name).setLevel(logging.CRITICAL)
    policy = WorkerPolicy(watch_seconds=0.2)
    with TemporaryDirectory() as folder:
        playing = play(options.refunds, options.latency, policy, Path(folder))
        problems, counts, seconds = asyncio.run(playing)
    wrong = "/".join(str(problems[kind]) for kind in Wrong)
    after = ", ".join(f"{passed:.1f} s after {fault}" for fault, passed in seconds.items())
    sys.stdout.write(f"{dict(counts)}; {'/'.join(Wrong)} {wrong}; done {after}\n")
    return 0 if not problems and [*counts] == ["succeeded"] else 1


if __name__ == "__main__":
    sys.exit(main())

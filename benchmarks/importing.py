"""What does it take to keep a million orders in a journal, and to compare them once more?

Run as ``python -m benchmarks.importing``. The orders come from a generator, are cut into slices,
and submitted a second time as after a crash. CPU time is that of the process with all of its
threads, less that of making the orders; memory is how far its peak (VmHWM, so on Linux alone) lies
above where it was after a small job.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, at_most, show
from benchmarks.memory import MANY, MEGABYTE, WARM_UP, peak_bytes
from gateway_async import Credentials, GatewayClient, HmacSigner, RefundOrder
from gateway_async.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator


def orders(count: int) -> "Iterator[RefundOrder]":
    """Make refunds, each of a transaction of its own."""
    amount = Decimal("10.00")
    for number in range(count):
        yield RefundOrder(
            order_no=f"N{number:08}",
            transaction_id=f"T{number:016}",
            amount=amount,
            currency="EUR",
            refund_amount=amount,
            refund_reason="returned",
        )


async def submit(directory: str, count: int) -> float:
    """Submit a job twice, and return the CPU seconds of that."""
    began = time.process_time()
    for _ in orders(count):
        pass
    making = time.process_time() - began
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
    began = time.process_time()
    async with (
        GatewayClient("http://127.0.0.1:9", credentials) as gateway,
        Journal.open(f"sqlite:///{directory}/journal.db") as journal,
    ):
        for _ in range(2):
            await gateway.submit("refund", orders(count), job=journal.job(f"job of {count}"))
    return time.process_time() - began - 2 * making


def measure() -> list[Figure]:
    """Measure it in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.importing", str(MANY)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603  # this module
    seconds, grown = map(float, done.stdout.split())
    name = f"{MANY:,} orders kept in a journal and compared"
    return [
        Figure(name=name, value=seconds, unit="s CPU", goal=at_most(12)),
        Figure(name=f"{name}, memory", value=grown / MEGABYTE, unit="MB", goal=at_most(70)),
    ]


if __name__ == "__main__":
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(submit(folder, WARM_UP))
            before = peak_bytes()
            print(asyncio.run(submit(folder, int(sys.argv[1]))), peak_bytes() - before)
    else:
        show(measure())

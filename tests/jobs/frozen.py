"""A process that resumes a job, and freezes right before the first byte of a refund leaves it.

Run as ``python -m tests.jobs.frozen JOURNAL GATEWAY``; it prints how the job ended for it.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from gateway_async import BatchPolicy, GatewayError, HmacSigner
from gateway_async.journal import Journal, leases
from gateway_async.journal.database import Database
from gateway_async.transport import AiohttpTransport, HttpRequest, HttpResponse
from tests.orders import client_at

LEASE_SECONDS = 60.0
POLICY = BatchPolicy(concurrency=1, chunk_size=2)


def freeze_before_the_first_refund() -> None:
    """Stop this process once, before a refund, and in no transaction, for longer than a lease.

    In a transaction, it would keep a SQLite file locked: the next page of orders may just be read.
    """
    lock, transact, send = threading.Lock(), Database._transact, AiohttpTransport.send
    left, read_clocks = ["once"], leases.read_clocks

    def later() -> tuple[float, float]:
        awake, wall = read_clocks()
        return awake + LEASE_SECONDS, wall + LEASE_SECONDS

    def locked(database: Database, group: Sequence[Any], *, is_first: bool = False) -> list[Any]:
        with lock:
            return transact(database, group, is_first=is_first)

    async def frozen(transport: AiohttpTransport, message: HttpRequest, **how: Any) -> HttpResponse:
        if message.path.endswith("/refund") and left:
            left.clear()
            with lock:
                os.kill(os.getpid(), signal.SIGSTOP)
                leases.read_clocks = later
        return await send(transport, message, **how)

    Database._transact = locked  # type: ignore[method-assign, assignment]
    AiohttpTransport.send = frozen  # type: ignore[method-assign, assignment]


async def _resume(url: str, base_url: str) -> str:
    async with (
        Journal.open(url, lease_seconds=LEASE_SECONDS) as journal,
        client_at(base_url, signer=HmacSigner("sandbox-secret"), policy=POLICY) as gateway,
    ):
        batch = gateway.resume(journal.job("job"))
        try:
            await batch
        except GatewayError as error:
            said = sorted({str(outcome.status) for outcome in batch.result})
            return " ".join([type(error).__name__, *said])
        return "finished"


if __name__ == "__main__":
    freeze_before_the_first_refund()
    sys.stdout.write(asyncio.run(_resume(*sys.argv[1:])))

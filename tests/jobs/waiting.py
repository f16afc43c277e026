"""A process that runs a job, or its one slice, under a limiter that grants so many turns.

Run as ``python -m tests.jobs.waiting JOURNAL GATEWAY OPERATION SLICE TURNS TRANSACTION...``; it
prints a line for each turn that is asked for.
"""

import asyncio
import contextlib
import sys
from decimal import Decimal

from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RetryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import SeededOrder
from tests.orders import orders_for

LEASE_SECONDS = 1.0
SECRET = "sandbox-secret"
POLICY = BatchPolicy(concurrency=3, chunk_size=2, stop_after_unknown=100)
RETRY = RetryPolicy(first_pause_seconds=0)


class Granting(contextlib.AbstractAsyncContextManager[None]):
    """A limiter that grants so many turns."""

    def __init__(self, turns: int) -> None:
        self._turns = asyncio.Semaphore(turns)

    async def __aenter__(self) -> None:
        sys.stdout.write("asked\n")
        sys.stdout.flush()
        await self._turns.acquire()

    async def __aexit__(self, *_: object) -> None:
        return None


async def _run(
    url: str, base_url: str, operation: str, slice_number: str, turns: str, *transactions: str
) -> None:
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(SECRET))
    limiter = Granting(int(turns))
    orders = orders_for(
        operation,
        [
            SeededOrder(
                transaction_id=transaction_id,
                order_no=order_no,
                currency="EUR",
                amount=Decimal("10.00"),
            )
            for transaction_id, _, order_no in (name.partition("/") for name in transactions)
        ],
    )
    async with (
        Journal.open(url, lease_seconds=LEASE_SECONDS) as journal,
        GatewayClient(
            base_url, credentials, policy=POLICY, retry=RETRY, limiter=limiter
        ) as gateway,
    ):
        job = journal.job("job")
        if slice_number != "0":
            await gateway.submit(operation, orders, job=job)
            await gateway.resume(job, slice_number=int(slice_number))
        else:
            await getattr(gateway, operation)(orders, job=job)


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))

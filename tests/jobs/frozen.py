"""A process that resumes a job, and freezes right before the first byte of a refund leaves it.

Run as ``python -m tests.jobs.frozen JOURNAL GATEWAY``; it prints how the job ended for it.
"""

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async import BatchPolicy, Credentials, GatewayClient, GatewayError, HmacSigner
from gateway_async.journal import Journal
from gateway_async.transport import AiohttpTransport, HttpRequest, HttpResponse, SendTracker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway_async.journal.database import Database

LEASE_SECONDS = 1.0
SECRET = "sandbox-secret"
POLICY = BatchPolicy(concurrency=1, chunk_size=2)


def lock_of(writer: "Database") -> threading.Lock:
    """Return a lock that a journal holds whenever it is in a transaction."""
    lock, transact = threading.Lock(), writer._transact

    def locked(group: "Sequence[Any]", *, is_first: bool = False) -> list[Any]:
        with lock:
            return transact(group, is_first=is_first)

    writer._transact = locked  # type: ignore[method-assign]  # of this one
    return lock


@attrs.define
class Freezing:
    """A transport that stops its process once, before a refund, and in no transaction.

    Else it would keep a SQLite file locked: the next page of orders may just be read.
    """

    inner: AiohttpTransport
    transaction: threading.Lock
    froze: bool = False

    async def send(
        self, message: HttpRequest, *, tracker: SendTracker, seconds: float
    ) -> HttpResponse:
        if message.path.endswith("/refund") and not self.froze:
            self.froze = True
            with self.transaction:
                os.kill(os.getpid(), signal.SIGSTOP)
        return await self.inner.send(message, tracker=tracker, seconds=seconds)

    async def aclose(self) -> None:
        await self.inner.aclose()


async def _resume(url: str, base_url: str) -> str:
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(SECRET))
    async with (
        Journal.open(url, lease_seconds=LEASE_SECONDS) as journal,
        GatewayClient(base_url, credentials, policy=POLICY) as gateway,
    ):
        frozen = Freezing(gateway._session.transport, lock_of(journal.database))
        gateway._session = attrs.evolve(gateway._session, transport=frozen)  # type: ignore[arg-type]  # a fake
        batch = gateway.resume(journal.job("job"))
        try:
            await batch
        except GatewayError as error:
            told = sorted({str(outcome.status) for outcome in batch.result})
            return " ".join([type(error).__name__, *told])
        return "finished"


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(_resume(*sys.argv[1:])))

"""What a program of a newer release does with a journal; run with that release on `PYTHONPATH`.

Run as ``python newer_release.py PACKAGE JOURNAL GATEWAY``. It finishes the job `tonight` by giving
its orders again, and keeps them once more as the job `newer`; it prints what it found, as JSON.
"""

import asyncio
import json
import sys

import attrs

import gateway_async
from gateway_async import (
    BatchPolicy,
    Credentials,
    GatewayClient,
    HmacSigner,
    Journal,
    RecoveryPolicy,
)
from gateway_async.errors import JobConflictError

POLICY = BatchPolicy(chunk_size=2)
RECOVERY = RecoveryPolicy(settle_seconds=0, resend_absent=True)


async def _finish(url: str, base_url: str) -> dict[str, object]:
    who = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("sandbox-secret"))
    async with (
        Journal.open(url) as journal,
        GatewayClient(base_url, who, policy=POLICY, recovery=RECOVERY) as gateway,
    ):
        job = journal.job("tonight")
        orders = [outcome.order async for outcome in journal.outcomes(job.name)]
        found: dict[str, object] = {"fields": sorted({(o.urgency, str(o.fee)) for o in orders})}
        changed = [attrs.evolve(orders[0], urgency="high"), *orders[1:]]
        try:
            await gateway.refund(changed, job=job)
        except JobConflictError as error:
            found["conflict"] = str(error)
        result = await gateway.refund(orders, job=job)
        found["statuses"] = [str(outcome.status) for outcome in result]
        await gateway.submit("refund", orders, job=journal.job("newer"))
    return found


if __name__ == "__main__":
    package, *arguments = sys.argv[1:]
    if not str(gateway_async.__file__).startswith(package):
        sys.exit(f"{gateway_async.__file__} is not the newer release")
    sys.stdout.write(json.dumps(asyncio.run(_finish(*arguments))))

"""The process that is killed: it runs one job, and writes down what it was told.

``python -m tests.kills.worker start.json`` runs one; most are forked where all is imported.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    Credentials,
    Dialect,
    GatewayClient,
    HmacSigner,
    Outcome,
    PayoutRequest,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.dialect import PaymentState
from gateway_async.errors import JobBusyError, JobNotFoundError, LeaseLostError
from gateway_async.journal import Journal
from tests.kills.gateway import LATEST_SECONDS, NOTHING_DONE_CODE, NOTHING_DONE_STATUS
from tests.kills.plans import Kill
from tests.kills.steps import Steps, count_commits, count_requests
from tests.kills.verdict import reference_of
from tests.orders import ORDER_CLASSES

DONE, FAILED, OUSTED = 0, 1, 3
"""Exit statuses; ousted is one that lost its lease, or found it taken."""

_LONGEST_SECONDS = 60
_DIALECT = Dialect(
    declined_statuses={"0"},
    payout_declined_statuses={"FAILED"},
    payment_states={
        "3000": PaymentState.CAPTURED,
        "4100": PaymentState.AUTHORISED,
        "4200": PaymentState.CANCELLED,
    },
    nothing_done_return_statuses={NOTHING_DONE_CODE},
    nothing_done_http_statuses=frozenset({NOTHING_DONE_STATUS}),
)


class Report:
    """What a process was told, a line for each thing; what was written survives its death."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *line: object) -> None:
        """Write one line."""
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def tell(self, outcome: Outcome[Any, Any]) -> None:
        """Write down an outcome."""
        self.write("outcome", outcome.index, outcome.status, reference_of(outcome))


def _client(start: dict[str, Any]) -> GatewayClient:
    is_shared = start["shared"] > 0
    return GatewayClient(
        start["base_url"],
        Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(start["secret"])),
        timeouts=Timeouts(connect_seconds=20, reply_seconds=20, total_seconds=30),
        retry=RetryPolicy(first_pause_seconds=0.01, max_pause_seconds=0.02),
        policy=BatchPolicy(
            concurrency=4,
            chunk_size=start["chunk_size"],
            stop_after_unknown=1000,
            duplicates="serialize" if is_shared else "reject",
        ),
        recovery=RecoveryPolicy(
            settle_seconds=2 * LATEST_SECONDS,
            resend_absent=start["resent"],
            refund_evidence="marker" if start["marked"] else "references",
        ),
        dialect=_DIALECT,
    )


async def _pulled(orders: list[Any]) -> AsyncIterator[Any]:
    for order in orders:
        yield order


def _order(operation: str, fields: dict[str, Any]) -> Any:
    if operation != "payout":
        return ORDER_CLASSES[operation](**fields)
    bank = BankDetails(account_number=fields.pop("account_number"))
    return PayoutRequest(**fields, beneficiary=Beneficiary(bank_details=bank))


async def _is_kept(journal: Journal, name: str) -> bool:
    try:
        return (await journal.status(name)).imported
    except JobNotFoundError:
        return False


async def _run(start: dict[str, Any], report: Report) -> None:
    journal = Journal.open(start["journal"], lease_seconds=start["lease_seconds"])
    async with journal, _client(start) as gateway:
        job = journal.job(start["job"])
        if start["resume"] and await _is_kept(journal, job.name):
            batch = gateway.resume(job)
        else:
            orders = [_order(start["operation"], fields) for fields in start["orders"]]
            given = _pulled(orders) if start["pulled"] else orders
            batch = gateway.batch(start["operation"], given, job=job)
        if start["streamed"]:
            async with batch:
                async for outcome in batch:
                    report.tell(outcome)
        else:
            for outcome in await batch:
                report.tell(outcome)


def work(path: str) -> int:
    """Run the job that a file describes, and return the exit status."""
    start = json.loads(Path(path).read_bytes())
    signal.alarm(_LONGEST_SECONDS)
    report = Report(start["report"])
    kill = Kill(**start["kill"]) if start["kill"] else None
    steps = Steps(kill, lambda kind: report.write("killed", kind))
    count_commits(steps)
    count_requests(steps)
    try:
        asyncio.run(_run(start, report))
    except (LeaseLostError, JobBusyError) as error:
        report.write("ousted", str(error))
        return OUSTED
    return DONE


def main() -> None:
    """Run the job of the file that the command line names."""
    sys.exit(work(sys.argv[1]))


if __name__ == "__main__":
    main()

"""A process that runs a job of payouts, and prints a line for each outcome.

Run as ``python -m tests.jobs.paying JOURNAL GATEWAY COUNT``.
"""

import asyncio
import sys
import uuid

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    BeneficiaryInfo,
    Credentials,
    GatewayClient,
    HmacSigner,
    PayoutRequest,
    PersonDocument,
)
from gateway_async.journal import Journal

LEASE_SECONDS = 1.0
SECRET = "sandbox-secret"
POLICY = BatchPolicy(concurrency=3)


def payouts_of(count: int, **changes: object) -> list[PayoutRequest]:
    """Return payouts whose models are nested, each to an account of its own."""
    fields = {"payment_amount": "10.00", "payment_currency": "EUR", "payment_date": "2026-11-20"}
    return [
        PayoutRequest(
            request_id=uuid.UUID(int=number),
            beneficiary=Beneficiary(
                first_name="Ada",
                date_of_birth="1990-01-31",
                additional_info=BeneficiaryInfo(personal_id_number=f"P{number}"),
                bank_details=BankDetails(account_number=f"DE{number:08}"),
                person_documents=[PersonDocument(file_type="ID", labels=["front", "back"])],
            ),
            **{**fields, **changes},  # type: ignore[arg-type]  # of the fields
        )
        for number in range(count)
    ]


async def _run(url: str, base_url: str, count: str) -> None:
    credentials = Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner(SECRET))
    async with (
        Journal.open(url, lease_seconds=LEASE_SECONDS) as journal,
        GatewayClient(base_url, credentials, policy=POLICY) as gateway,
        gateway.payouts(payouts_of(int(count)), job=journal.job("job")) as batch,
    ):
        async for outcome in batch:
            sys.stdout.write(f"{outcome.index}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:]))

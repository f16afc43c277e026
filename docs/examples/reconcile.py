"""A night's reconciliation, against a gateway that runs inside this script."""

import asyncio
from collections.abc import Iterator
from decimal import Decimal

from gateway_async import GatewayClient
from gateway_async.reconciliation import LedgerEntry, reconcile
from gateway_async.sandbox import Sandbox, Transaction

MISTAKES = {40: (Decimal("52.00"), Decimal(0)), 70: (Decimal("25.00"), Decimal("5.00"))}


def books(payments: list[Transaction]) -> Iterator[LedgerEntry]:
    """Read the merchant's own books, which are wrong in two places."""
    for number, payment in enumerate(payments):
        amount, refunded = MISTAKES.get(number, (payment.amount, Decimal(0)))
        yield LedgerEntry(
            order_no=payment.order_no,
            transaction_id=payment.transaction_id,
            currency=payment.currency,
            amount=amount,
            refunded=refunded,
            state="paid",
        )


async def main() -> None:
    """Compare 1,000 payments, show every difference, and sum up."""
    async with Sandbox() as sandbox:
        payments = sandbox.seed(1000, status="captured", amount="25.00", currency="EUR")
        states = {"3000": {"paid", "refunded"}, "4100": "reserved"}  # the sandbox's, not shown
        async with (
            GatewayClient(
                sandbox.base_url, sandbox.credentials, dialect=sandbox.dialect
            ) as gateway,
            reconcile(gateway, books(payments), states=states) as reconciliation,
        ):
            async for difference in reconciliation:
                print(difference.entry.order_no, difference.kind, difference.gateway)
    print(reconciliation.summary)


if __name__ == "__main__":
    asyncio.run(main())

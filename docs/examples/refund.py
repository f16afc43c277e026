"""Your first refund, against a gateway that runs inside this script."""

import asyncio
from decimal import Decimal

from gateway_async import Credentials, GatewayClient, HmacSigner, RefundOrder
from gateway_async.sandbox import Sandbox


async def main() -> None:
    """Refund 5.00 of each of 120 payments, and say what became of every one."""
    async with Sandbox() as sandbox:
        payments = sandbox.seed(120, status="captured", amount="25.00", currency="EUR")
        orders = [
            RefundOrder(
                transaction_id=payment.transaction_id,
                order_no=payment.order_no,
                currency=payment.currency,
                amount=payment.amount,
                refund_amount=Decimal("5.00"),
                refund_reason="arrived broken",
            )
            for payment in payments
        ]
        credentials = Credentials(
            merchant_id=sandbox.merchant_id,
            account_id=sandbox.account_id,
            signer=HmacSigner(sandbox.secret),
        )
        async with GatewayClient(sandbox.base_url, credentials, dialect=sandbox.dialect) as gateway:
            result = await gateway.refund(orders)

    for outcome in result[:3]:
        reference = outcome.record.refund_reference_id if outcome.record else "no record"
        print(outcome.order.order_no, outcome.status, reference)
    print({str(status): count for status, count in result.counts.items()})


if __name__ == "__main__":
    asyncio.run(main())

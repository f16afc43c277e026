import asyncio

from gateway_async import Credentials, GatewayClient, HmacSigner, RefundOrder
from gateway_async.sandbox import Sandbox, Transaction  # a gateway inside this program
from gateway_async.sandbox.faults import MissingItems


def refund_of(paid: Transaction) -> RefundOrder:
    ids = {"transaction_id": paid.transaction_id, "order_no": paid.order_no}
    return RefundOrder(**ids, currency="EUR", amount="25.00", refund_amount="5.00")


async def main() -> None:
    async with Sandbox() as sandbox:
        sandbox.faults.add("refund", MissingItems(count=1))  # its reply leaves out the first order
        payments = sandbox.seed(3, status="captured", amount="25.00", currency="EUR")
        signer = HmacSigner(sandbox.secret)
        credentials = Credentials(merchant_id="M1", account_id="A1", signer=signer)
        async with GatewayClient(sandbox.base_url, credentials) as gateway:
            for outcome in await gateway.refund([refund_of(paid) for paid in payments]):
                print(outcome.order.order_no, outcome.status, outcome.error or "")


asyncio.run(main())

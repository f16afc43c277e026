"""Spans of a batch of refunds, printed; a gateway runs inside this script.

It needs `pip install 'gateway-async[otel]' opentelemetry-sdk`.
"""

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from gateway_async import BatchPolicy, GatewayClient, RefundOrder
from gateway_async.otel import OpenTelemetry
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply

if TYPE_CHECKING:
    from gateway_async.sandbox import Transaction


def line(span: ReadableSpan) -> str:
    """Show the outcomes of the orders of a span."""
    shown = (span.attributes or {}).items()
    outcomes = {name.rpartition(".")[2]: count for name, count in shown if ".outcomes." in name}
    return f"{span.name}: {outcomes} {span.status.status_code.name}\n"


def refund_of(payment: "Transaction") -> RefundOrder:
    """Give 5.00 back."""
    return RefundOrder(
        transaction_id=payment.transaction_id,
        order_no=payment.order_no,
        currency=payment.currency,
        amount=payment.amount,
        refund_amount=Decimal("5.00"),
    )


async def main() -> None:
    """Refund 120 payments; the gateway does not answer the first request."""
    spans = TracerProvider()
    spans.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=line)))
    async with Sandbox() as sandbox:
        sandbox.faults.add("refund", DropReply(times=1))
        payments = sandbox.seed(120, status="captured", amount="25.00", currency="EUR")
        async with GatewayClient(
            sandbox.base_url,
            sandbox.credentials,
            dialect=sandbox.dialect,
            policy=BatchPolicy(concurrency=1),
            telemetry=OpenTelemetry(tracer_provider=spans),
        ) as gateway:
            await gateway.refund([refund_of(payment) for payment in payments])


if __name__ == "__main__":
    asyncio.run(main())

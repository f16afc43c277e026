"""Orders, payments and clients for tests: made up, or of what a sandbox holds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import attrs

from gateway_async import (
    BankDetails,
    BatchPolicy,
    Beneficiary,
    CancelOrder,
    CaptureOrder,
    Credentials,
    DirectPayment,
    GatewayClient,
    HmacSigner,
    OrderRef,
    PayoutRequest,
    RecoveryPolicy,
    RefundOrder,
    RetryPolicy,
    ReviewOrder,
)
from gateway_async.sandbox import Sandbox, Transaction

COLUMNS = ("transaction_id", "order_no", "currency", "amount")
ORDER_CLASSES = {
    "capture": CaptureOrder,
    "cancel": CancelOrder,
    "review": ReviewOrder,
    "refund": RefundOrder,
}
MONEY_OPERATIONS = tuple(ORDER_CLASSES)
LOOK_UPS = ("query", "search_refunds")
PAYMENT: dict[str, Any] = {"order_no": "N1", "currency": "EUR", "amount": "12.50"}
CARD: dict[str, Any] = {
    "card": "4111111111111111",
    "expiration_month": "12",
    "expiration_year": "2030",
    "security_code": "123",
}
REQUEST_ID = "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11"


def client_at(url: str, *, signer: Any = None, **settings: Any) -> GatewayClient:
    credentials = Credentials(
        merchant_id="M1", account_id="A1", signer=signer or HmacSigner("s3cret")
    )
    return GatewayClient(url, credentials, **settings)


def client_of(sandbox: Sandbox, base_url: Any = None, **settings: Any) -> GatewayClient:
    """Return a client that knows the sandbox's merchant and dialect."""
    settings = {"dialect": sandbox.dialect, **settings}
    return GatewayClient(base_url or sandbox.base_url, sandbox.credentials, **settings)


Make = Callable[..., GatewayClient]
POLICY = BatchPolicy(concurrency=2, chunk_size=2)
ONE_BY_ONE = attrs.evolve(POLICY, concurrency=1)
AT_ONCE = RecoveryPolicy(settle_seconds=0)
RESENDING = attrs.evolve(AT_ONCE, resend_absent=True)
REFERENCES = attrs.evolve(AT_ONCE, record_baseline=True)
AGAIN = attrs.evolve(REFERENCES, hold_alike_hours=None)
MARKER = attrs.evolve(AT_ONCE, refund_evidence="marker")


def make_client(sandbox: Sandbox, **settings: Any) -> GatewayClient:
    """Return a client of the sandbox that waits for nothing, and sends two orders a request."""
    quick = {
        "policy": POLICY,
        "recovery": AT_ONCE,
        "retry": RetryPolicy(first_pause_seconds=0, max_pause_seconds=0),
    }
    return client_of(sandbox, **{**quick, **settings})


def direct_payment(order_no: str = "N1") -> DirectPayment:
    return DirectPayment(**{**PAYMENT, **CARD, "order_no": order_no})


def payout_request(number: int = 1) -> PayoutRequest:
    """Return a payout with a `request_id` of its own."""
    return PayoutRequest(
        request_id=f"{REQUEST_ID[:24]}{number:012x}",
        payment_amount="25.00",
        payment_currency="EUR",
        beneficiary=Beneficiary(bank_details=BankDetails(iban="NL00SANDBOX0000000000")),
    )


def made_up(count: int, first: int = 0) -> list[Transaction]:
    """Return orders that no gateway holds."""
    return [
        Transaction(
            transaction_id=f"T{number:06d}",
            order_no=f"N{number:06d}",
            currency="EUR",
            amount=Decimal("10.00"),
            created_at=datetime.now(UTC),
        )
        for number in range(first, first + count)
    ]


def orders_for(operation: str, orders: Iterable[Transaction], **changes: Any) -> list[Any]:
    """Return the orders as an operation takes them; look-ups ask by transaction."""
    if operation in LOOK_UPS:
        return [OrderRef(transaction_id=order.transaction_id) for order in orders]
    if operation == "refund":
        changes = {"refund_amount": "1.00", **changes}
    if operation == "review":
        changes = {"review_flag": "1", **changes}
    return [
        ORDER_CLASSES[operation](**{name: getattr(order, name) for name in COLUMNS} | changes)
        for order in orders
    ]


NEEDS: dict[str, Any] = dict.fromkeys(("capture", "cancel", "review"), "authorised")
"""The status that orders need to have; of other operations, captured."""


def seeded(
    sandbox: Sandbox, count: int = 6, operation: str = "refund", **changes: Any
) -> list[Any]:
    """Return orders that a sandbox can carry out."""
    held = sandbox.seed(count, status=NEEDS.get(operation, "captured"))
    return orders_for(operation, held, **changes)


async def awaited(orders: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield orders from an asynchronous generator."""
    for order in orders:
        await asyncio.sleep(0)
        yield order


def refunds(count: int) -> list[RefundOrder]:
    return orders_for("refund", made_up(count))


def references(count: int) -> list[OrderRef]:
    return orders_for("query", made_up(count))


def as_sent(order: Any) -> dict[str, Any]:
    if isinstance(order, OrderRef):
        return {order.kind: order.value}
    return {
        name: f"{value:.2f}" if isinstance(value, Decimal) else value
        for name, value in attrs.asdict(order, recurse=False).items()
    }


def item_of(operation: str, order: Any, **changes: Any) -> dict[str, Any]:
    """Return what a gateway says of an order that it did."""
    if operation in LOOK_UPS:
        return {**as_sent(order), "query_result": "1", "amount": "10.00", **changes}
    text = {"refund_message": "V0000:success"} if operation == "refund" else {"error_message": ""}
    return {**as_sent(order), f"{operation}_status": "1", **text, **changes}


LIST_FIELDS = {
    **{operation: f"{operation}_orders" for operation in MONEY_OPERATIONS},
    "query": "orders_list",
    "search_refunds": "refund_orders",
}


def reply_to(operation: str, items: "Sequence[object] | None", **envelope: Any) -> dict[str, Any]:
    return {
        "merchant_id": "M1",
        "account_id": "A1",
        "return_status": "1",
        "return_message": "OK",
        LIST_FIELDS[operation]: None if items is None else list(items),
        **envelope,
    }

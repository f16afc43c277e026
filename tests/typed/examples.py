"""What users write, as type checkers see it: nothing here runs.

A line that must be refused has a `type: ignore`; where checkers accept it, that is an error itself.
"""

import uuid
from datetime import date
from decimal import Decimal
from typing import Any, assert_type

import attrs

from gateway_async import (
    ApmPayment,
    BankDetails,
    BatchResult,
    Beneficiary,
    CancelOrder,
    CaptureOrder,
    CaptureRecord,
    Credentials,
    Dialect,
    DirectPayment,
    GatewayClient,
    HmacSigner,
    OrderRef,
    Outcome,
    Payer,
    PayoutRequest,
    PayoutResult,
    RedirectPayment,
    RefundOrder,
    RefundRecord,
    ReviewOrder,
    ReviewRecord,
    TransactionRecord,
)
from gateway_async.models.payments import Item, Price, Subscription
from gateway_async.models.payouts import PersonDocument
from gateway_async.reconciliation import LedgerEntry

ID = "T-1"

# Settings: what converters take.

Credentials(merchant_id="M1", account_id="A1", signer=HmacSigner("secret"))
HmacSigner("secret", excluded={"encryption_data", "note"})
Credentials(
    merchant_id="M1", account_id="A1", signer=lambda operation, fields: f"{operation} {fields}"
)
Credentials(merchant_id="M1", account_id="A1", signer=5)  # type: ignore[arg-type]
Credentials(account_id="A1", signer=HmacSigner("secret"))  # type: ignore[call-arg]
Dialect(declined_statuses=["0"], nothing_done_http_statuses={429})
Dialect(payment_states={"3000": "captured"}, echo_fields={"refund": ["amount"]})

# Amounts: Decimal, text or whole numbers; read as Decimal.

CaptureOrder(transaction_id=ID, order_no="A-1", currency="EUR", amount="9.90")
CancelOrder(transaction_id=ID, order_no="A-1", currency="EUR", amount=9)
refund = RefundOrder(
    transaction_id=ID, order_no="A-1", currency="EUR", amount=Decimal("9.90"), refund_amount="5"
)
assert_type(refund.amount, Decimal)
assert_type(refund.refund_amount, Decimal)
attrs.evolve(refund, refund_amount="4.00")
DirectPayment(order_no="A-1", currency="EUR", amount="9.90", card="4111111111111111", tax_total=1)
RedirectPayment(
    order_no="A-1",
    currency="EUR",
    amount="9.90",
    shipping=3,
    items=[Item(parts=["SKU-1", "Tea"])],
    subscription=Subscription(contract_amount="9.90"),
)
ApmPayment(order_no="A-1", currency="EUR", amount=9, payment_method="PIX", discount="0.10")
LedgerEntry(order_no="A-1", currency="EUR", amount="9.90", refunded=3)
assert_type(Price(amount_usd="10.80").amount_usd, Decimal | None)

# Payouts: the key as UUID or text, dates as date or text.

payout = PayoutRequest(
    request_id=uuid.uuid4(),
    source_amount="100.00",
    source_currency="EUR",
    payment_date="2026-01-31",
    payer=Payer(date_of_birth="1980-12-01"),
    beneficiary=Beneficiary(
        date_of_birth=date(1990, 2, 28),
        person_documents=[PersonDocument(labels=["passport"])],
        bank_details=BankDetails(iban="DE02120300000000202051"),
    ),
)
assert_type(payout.request_id, str)
assert_type(payout.payment_amount, Decimal | None)
assert_type(payout.payment_date, date | None)
PayoutRequest(request_id="5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11", payment_date=date(2026, 1, 31))

# What is refused.

CaptureOrder(transaction_id=ID, order_no="A-1", currency="EUR", amount=9.9)  # type: ignore[arg-type]
CaptureOrder(transaction_id=ID, order_no="A-1", currency="EUR")  # type: ignore[call-arg]
ReviewOrder(transaction_id=ID, order_no="A-1", currency="EUR", amount=9)  # type: ignore[call-arg]
DirectPayment(order_no="A-1", currency="EUR", amount=9, shipping=1.5)  # type: ignore[arg-type]
PayoutRequest(payment_amount="9.90")  # type: ignore[call-arg]
PayoutRequest(request_id=7)  # type: ignore[arg-type]
PersonDocument(labels=[1])  # type: ignore[list-item]


async def results(gateway: GatewayClient) -> None:
    """What recovery gives has the type of what it was given."""
    refunded = await gateway.refund([refund])
    assert_type(refunded, BatchResult[RefundOrder, RefundRecord])
    refunded = await gateway.recover(refunded)
    assert_type(await gateway.recover(refunded.unknown), BatchResult[RefundOrder, RefundRecord])
    for outcome in refunded:
        assert_type(outcome.order.amount, Decimal)
        assert_type(outcome.record, RefundRecord | None)

    one: Outcome[RefundOrder, RefundRecord] = refunded[0]
    assert_type(await gateway.recover([one]), BatchResult[RefundOrder, RefundRecord])

    reviewed = await gateway.review([])
    assert_type(await gateway.recover(reviewed), BatchResult[ReviewOrder, ReviewRecord])
    found = await gateway.query([OrderRef(order_no="A-1")])
    found = await gateway.recover(found)
    assert_type(found[0].record, tuple[TransactionRecord, ...] | None)

    paid = await gateway.recover(await gateway.payouts([payout]))
    assert_type(paid, BatchResult[PayoutRequest, PayoutResult])

    # A capture may be settled by the record of its transaction.
    captured: BatchResult[CaptureOrder, CaptureRecord | TransactionRecord]
    captured = await gateway.capture([])
    captured = await gateway.recover(captured)
    assert_type(captured.to_dicts(), list[dict[str, Any]])
    assert_type(captured[0].record, CaptureRecord | TransactionRecord | None)

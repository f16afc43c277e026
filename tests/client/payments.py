"""What the tests of payments and payouts send."""

from typing import Any

PAYMENT: dict[str, Any] = {"order_no": "N1", "currency": "EUR", "amount": "12.50"}
CARD: dict[str, Any] = {
    "card": "4111111111111111",
    "expiration_month": "12",
    "expiration_year": "2030",
    "security_code": "123",
}
REQUEST_ID = "5f0c2f3e-8d43-4f5e-9a57-0c6f1f3f8d11"

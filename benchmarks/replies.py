"""The replies that the stub can give, headers and all, by name."""

from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ORDERS = 50
"""Orders in the one reply, and so in every request."""

_ENVELOPE = {
    "merchant_id": "M1",
    "account_id": "A1",
    "encryption_data": "0" * 64,
    "return_status": "1",
    "return_message": "OK",
}

_PAID = {"currency": "EUR", "amount": "100.00"}
_CAPTURED = {"capture_status": "1", "error_message": ""}
_REFUNDED = {
    "refund_amount": "10.00",
    "refund_reason": "customer request",
    "refund_status": "1",
    "refund_reference": "",
    "refund_message": "V0000:success",
}


def names(number: int) -> dict[str, str]:
    """Return the identifiers of one of the orders."""
    return {"transaction_id": f"T{number:020}", "order_no": f"N{number:010}"}


def http(body: bytes, *, content_type: str = "application/json", more: str = "") -> bytes:
    """Return a whole reply with this body."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{more}Content-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def refund() -> bytes:
    """Every order of a refund request was refunded (section 4, row 8)."""
    items = [
        {**names(number), **_PAID, **_REFUNDED, "refund_reference_id": f"T{number:020}-01"}
        for number in range(ORDERS)
    ]
    return http(orjson.dumps({**_ENVELOPE, "refund_orders": items}))


def capture() -> bytes:
    """Every order of a capture request was captured (section 4, row 5)."""
    items = [{**names(number), **_PAID, **_CAPTURED} for number in range(ORDERS)]
    return http(orjson.dumps({**_ENVELOPE, "capture_orders": items}))


def payment() -> bytes:
    """A payment by card was made; every field that the interface lists is there (2.3)."""
    fields = {
        "merchant_id": "M1",
        "account_id": "A1",
        "order_no": "N0000000001",
        "amount": "129.90",
        "currency": "EUR",
        "transaction_id": "T00000000000000000001",
        "card": "411111******1111",
        "order_status": "1",
        "result_info": "V0000:success",
        "contract_name": "monthly",
        "recurring_id": "S000000000001",
        "recurring_deduction_period": "30",
        "recurring_deduction_time": "2023-06-16 12:30:12",
        "note": "leave it at the door",
        "token_id": "tok-0123456789abcdef",
        "connector": "connector",
        "threeds_result": "authenticated",
        "risk_action": "ACCEPT",
        "risk_score": "12",
        "risk_reasons": "<name>ip address</name><status>ok</status>",
        "encryption_data": "0" * 64,
    }
    elements = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
    text = f'<?xml version="1.0" encoding="UTF-8"?><respon>{elements}</respon>'
    return http(text.encode(), content_type="application/xml")


def elasticsearch_bulk() -> bytes:
    """Elasticsearch indexed every document of a bulk request."""
    shards = {"total": 2, "successful": 1, "failed": 0}
    items = [
        {
            "index": {
                "_index": "refunds",
                "_id": names(number)["transaction_id"],
                "_version": 1,
                "result": "created",
                "_shards": shards,
                "_seq_no": number,
                "_primary_term": 1,
                "status": 201,
            }
        }
        for number in range(ORDERS)
    ]
    body = orjson.dumps({"took": 1, "errors": False, "items": items})
    return http(
        body,
        content_type="application/vnd.elasticsearch+json;compatible-with=9",
        more="X-Elastic-Product: Elasticsearch\r\n",
    )


def stripe_refund() -> bytes:
    """Stripe made one refund."""
    refund = {
        "id": "re_1Nispe2eZvKYlo2Cd31jOCgZ",
        "object": "refund",
        "amount": 1000,
        "balance_transaction": "txn_1Nispe2eZvKYlo2CYezqFhEx",
        "charge": "ch_1NirD82eZvKYlo2CIvbtLWuY",
        "created": 1692942318,
        "currency": "eur",
        "metadata": {},
        "payment_intent": "pi_1GszsK2eZvKYlo2CfhZyoZLp",
        "reason": "requested_by_customer",
        "receipt_number": None,
        "status": "succeeded",
    }
    return http(orjson.dumps(refund))


REPLIES: "Mapping[str, Callable[[], bytes]]" = {
    "refund": refund,
    "capture": capture,
    "payment": payment,
    "elasticsearch_bulk": elasticsearch_bulk,
    "stripe_refund": stripe_refund,
}

"""The records of a reply, field by field as in sections 2.3 to 2.8 of the interface."""

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gateway_async.operations import REFUND, Operation
from gateway_async.sandbox.ledger import to_amount, to_text
from gateway_async.sandbox.messages import Fields, Record, read_nested

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.sandbox.ledger import Payout, Refund, Transaction, Verdict

DONE, REFUSED = "1", "0"
"""The sandbox's own item statuses; the interface shows the first only."""

# Cards: any other number than these is authorised

_CARD_NUMBER = re.compile("[0-9]{12,19}")
AUTHORISED, DECLINED = "0000:success", "2001:declined"
NOT_A_CARD, UNKNOWN_TOKEN = "2000:not a card number", "2016:unknown token"

TEST_CARDS = {
    "4000000000000002": DECLINED,
    "4000000000009995": "2011:insufficient funds",
    "4000000000000069": "2012:expired card",
    "4000000000000127": "2013:wrong security code",
    "4000000000000119": "2014:issuer not available",
}
"""By number, the `result_info` of a payment with this card: code, colon, text."""


def card_result(number: str) -> str:
    """Return the `result_info` of a payment with this card."""
    digits = number.replace(" ", "")
    return TEST_CARDS.get(digits, AUTHORISED) if _CARD_NUMBER.fullmatch(digits) else NOT_A_CARD


def masked(number: str) -> str:
    """Return the first six and last four digits, and nothing of what is no card number."""
    digits = number.replace(" ", "")
    is_card = _CARD_NUMBER.fullmatch(digits)
    return f"{digits[:6]}{'*' * (len(digits) - 10)}{digits[-4:]}" if is_card else "***"


# Records

_TIME = "%Y%m%d%H%M%S"
PAYOUT_FEE = Decimal("5.00")
CLOSED_ACCOUNT = "000000000"
"""A payout to this `account_number` fails."""

_DELIVERY = tuple(
    f"delivery_{part}"
    for part in ("address", "city", "country", "firstname", "lastname", "postal_code", "state")
)
_OF_A_SUBSCRIPTION = (
    *("contract_name", "recurring_id", "recurring_deduction_period"),
    "recurring_deduction_time",
)
_SHOWN_DETAILS = ("website", "shopper_email", "shopper_phone")
_ON_PAGES = ("first_name", "last_name", "items", "note", "payment_method")
KEPT_DETAILS = (*_SHOWN_DETAILS, *_DELIVERY, *_ON_PAGES, "notify_url")
"""What a transaction keeps of a payment request; no card data is among it."""
_PAYOUT_OBJECTS = ("beneficiary", "payer")


def amount_text(amount: Decimal) -> str:
    """Write an amount with two decimal places, or with more if it has more."""
    return f"{amount:.2f}" if amount == round(amount, 2) else str(amount)


def batch_record(operation: Operation, item: "Mapping[str, object]", verdict: "Verdict") -> Record:
    """Return one element of a batch reply: what was asked (2.6, 2.7), and its result."""
    echoed = {n: to_text(item.get(n)) for n in ("transaction_id", *operation.echo_fields)}
    status = {f"{operation.name}_status": DONE if verdict.done else REFUSED}
    if operation != REFUND:
        return {**echoed, **status, "error_message": "" if verdict.done else verdict.text}
    reference = verdict.refund.refund_reference_id if verdict.refund else ""
    message = f"{verdict.code}:{verdict.text}"
    return {
        **echoed,
        **{name: to_text(item.get(name)) for name in ("refund_reason", "refund_reference")},
        **status,
        "refund_reference_id": reference,
        "refund_message": message,
    }


def named(transaction: "Transaction") -> dict[str, str]:
    """Return the fields that say which payment is meant, and of how much money."""
    return {
        "transaction_id": transaction.transaction_id,
        "order_no": transaction.order_no,
        "amount": amount_text(transaction.amount),
        "currency": transaction.currency,
    }


def transaction_record(transaction: "Transaction") -> Record:
    """Return one element of `orders_list` (2.5)."""
    details = transaction.details
    return {
        **named(transaction),
        "reference_no": f"R{transaction.transaction_id}",
        "payment_status": transaction.status.value,
        "query_result": "1",
        "is3ds": "0",
        "transaction_date": f"{transaction.created_at:{_TIME}}",
        **{name: details.get(name, "") for name in _SHOWN_DETAILS},
        "delivery_information": {name: details.get(name, "") for name in _DELIVERY},
        "antifraud_provider": "sandbox",
        "fraud_check_result": [{"check_items": "sandbox", "status": "ACCEPT"}],
        "subscription_result": {},
    }


def refund_record(refund: "Refund", transaction: "Transaction") -> Record:
    """Return one element of a refund search (2.6)."""
    return {
        **named(transaction),
        "refund_amount": amount_text(refund.amount),
        "refund_reason": refund.reason,
        "refund_status": "1",
        "refund_reference": "",
        "refund_reference_id": refund.refund_reference_id,
        "payment_status": transaction.status.value,
        "refund_date": f"{refund.at:{_TIME}}",
        "refund_processing_date": "",
    }


def token_of(transaction: "Transaction") -> str:
    """Return what stands for the card that a transaction was paid with."""
    return f"T{transaction.transaction_id}"


def result_fields(result_info: str) -> dict[str, str]:
    """Return the fields of the result of a payment."""
    return {"order_status": "1" if result_info == AUTHORISED else "0", "result_info": result_info}


def payment_record(transaction: "Transaction", fields: Fields, result_info: str) -> Record:
    """Return a direct payment result (2.3)."""
    wants_token = fields.get("token_flag") == "YES"
    token = token_of(transaction) if wants_token else fields.get("token_id", "")
    return {
        **named(transaction),
        "amount": fields["amount"],  # as it came
        "card": masked(fields.get("card", "")),
        **result_fields(result_info),
        **dict.fromkeys(_OF_A_SUBSCRIPTION, ""),
        "note": fields.get("note", ""),
        "token_id": token,
        "connector": "SANDBOX",
        "threeds_result": "",
        "risk_action": "ACCEPT",
        "risk_score": "5",
        "risk_reasons": {"name": "sandbox", "status": "ACCEPT"},
    }


def payout_sum(fields: Fields) -> tuple[Decimal, str]:
    """Return what arrives, in which currency: one to one where only the source side is given."""
    amount = to_amount(fields.get("payment_amount") or fields.get("source_amount"))
    return amount or Decimal(0), fields.get("payment_currency") or fields.get("source_currency", "")


def payout_problem(fields: Fields) -> str:
    """Say why a payout fails; empty text where it does not."""
    amount, currency = payout_sum(fields)
    beneficiary = read_nested(fields.get("beneficiary"))
    bank = beneficiary.get("bank_details") if isinstance(beneficiary, dict) else None
    account_number = bank.get("account_number") if isinstance(bank, dict) else None
    checks = {
        "request_id is missing": not fields.get("request_id"),
        "payment_amount, or source_amount in its place, is not above zero": not amount,
        "payment_currency, or source_currency in its place, is missing": not currency,
        "beneficiary.bank_details is missing": not isinstance(bank, dict),
        "the beneficiary's account is closed": account_number == CLOSED_ACCOUNT,
    }
    return next((text for text, failed in checks.items() if failed), "")


def payout_summary(payout: "Payout") -> dict[str, str]:
    """Return what a notification says of a payout."""
    return {
        "request_id": payout.request_id,
        "transaction_id": payout.transaction_id,
        "payment_amount": amount_text(payout.amount),
        "payment_currency": payout.currency,
        "status": "COMPLETED",
    }


def payout_record(fields: Fields, payout: "Payout") -> Record:
    """Return a payout's reply: the request again, and what section 2.8 adds to it."""
    echo: dict[str, Any] = dict(fields)
    echo |= {name: read_nested(fields[name]) for name in _PAYOUT_OBJECTS if name in fields}
    beneficiary = echo["beneficiary"]
    bank = {n: v for n, v in beneficiary["bank_details"].items() if n != "bank_code"}
    bank["local_clearing_system"] = "SANDBOX"
    paid = to_amount(fields.get("source_amount")) or payout.amount
    return {
        **echo,
        "beneficiary": {**beneficiary, "bank_details": bank},
        "amount_beneficiary_receives": float(payout.amount),
        "amount_payer_pays": float(paid + PAYOUT_FEE),
        "created_at": payout.at.isoformat(),
        "last_updated_at": payout.at.isoformat(),
        "failure_reason": "",
        "failure_type": "",
        "fee_amount": float(PAYOUT_FEE),
        "fee_currency": fields.get("source_currency") or payout.currency,
        "payer_id": "P1",
        "transaction_id": payout.transaction_id,
        "short_reference_id": payout.transaction_id[-8:],
        "status": "COMPLETED",
    }

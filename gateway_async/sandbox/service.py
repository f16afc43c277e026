"""What the sandbox does with a request: check who asks, carry it out, say what happened.

Shapes are those of sections 2.3 to 2.8 of the interface; where it shows none, what is here is the
sandbox's own: orders are selected by `order_no` or `transaction_id`, joined by commas, and refused
requests carry a `return_status` of 0. No input or output, no clock, no HTTP.
"""

import hashlib
import hmac
from decimal import Decimal
from ipaddress import ip_address
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from gateway_async.operations import (
    CANCEL,
    CAPTURE,
    CHECKOUT,
    PAY_APM,
    PAY_DIRECT,
    PAYOUT,
    QUERY,
    REFUND,
    REVIEW,
    SEARCH_REFUNDS,
    Operation,
)
from gateway_async.sandbox import pages, records
from gateway_async.sandbox.cards import AUTHORISED, card_result, masked
from gateway_async.sandbox.entries import (
    Instruction,
    PaymentStatus,
    Transaction,
    to_amount,
)
from gateway_async.sandbox.ledger import RECORD_LIMIT, Ledger
from gateway_async.sandbox.messages import Answer, read_nested
from gateway_async.signing import SIGNATURE_FIELD, HmacSigner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

SELECTION_FIELDS = ("transaction_id", "order_no")
_CARD_FIELDS = frozenset({"card", "expiration_month", "expiration_year", "security_code"})
_PAGE_KEY_LENGTH = 32


@attrs.frozen(kw_only=True)
class Merchant:
    """The one merchant that the sandbox knows.

    Attributes:
        merchant_id: The merchant identifier.
        account_id: The merchant account identifier.
        secret: What its messages are signed with. Never shown.
    """

    merchant_id: str = "M1"
    account_id: str = "A1"
    secret: str = attrs.field(default="sandbox-secret", repr=False)

    @property
    def signer(self) -> HmacSigner:
        """The signature of requests, replies and notifications alike."""
        return HmacSigner(self.secret)


@attrs.frozen(kw_only=True)
class Service:
    """The gateway behind the HTTP server.

    Attributes:
        merchant: Who may ask.
        ledger: Where everything is entered.
        base_url: Where shoppers reach the payment page.
        deduplicate_payouts: Whether a `request_id` is paid once only.
    """

    merchant: Merchant
    ledger: Ledger
    base_url: str
    deduplicate_payouts: bool = False

    # Who asks

    def refusal(self, operation: Operation, fields: "Mapping[str, str]") -> str:
        """Say why a request is refused as a whole; empty text where it is not."""
        if fields.get("merchant_id") != self.merchant.merchant_id:
            return "unknown merchant_id"
        if fields.get("account_id") != self.merchant.account_id:
            return "unknown account_id"
        expected = self.merchant.signer.sign(operation, fields)
        if not hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode()):
            return "encryption_data does not match"
        return ""

    def refuse(self, operation: Operation, fields: "Mapping[str, str]", text: str) -> Answer:
        """Answer that nothing was done."""
        if operation == CHECKOUT:
            return Answer(operation=operation, page=pages.message_page("Refused", text))
        shape = _REFUSALS.get(operation.name, _refused_list)
        return Answer(
            operation=operation,
            fields={**self._identity(), **shape(fields, text)}
            | ({operation.list_field: []} if operation.list_field else {}),
        )

    def _identity(self) -> dict[str, Any]:
        return {
            "merchant_id": self.merchant.merchant_id,
            "account_id": self.merchant.account_id,
        }

    def _listed(self, operation: Operation, found: list[dict[str, Any]]) -> Answer:
        envelope = {"return_status": "1", "return_message": "OK"}
        return Answer(
            operation=operation,
            fields={**self._identity(), **envelope, operation.list_field or "": found},
        )

    # What is asked

    def perform(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Carry out a request that is not refused, and answer it."""
        return _PERFORMERS[operation.name](self, operation, fields, now)

    def batch(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Capture, cancel, review or refund."""
        items = read_nested(fields.get(operation.list_field or ""))
        problem = _list_problem(operation, items)
        if problem:
            return self.refuse(operation, fields, problem)
        done = []
        for item in items:
            verdict = self.ledger.carry_out(operation.name, Instruction.from_item(item), now)
            done.append(records.batch_record(operation, item, verdict))
        return self._listed(operation, done)

    def look_up(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Query transactions or search refunds."""
        del now
        asked = {name: _split(fields.get(name, "")) for name in SELECTION_FIELDS}
        if sum(map(len, asked.values())) > RECORD_LIMIT:
            return self.refuse(operation, fields, _too_many(RECORD_LIMIT))
        chosen = self.ledger.select(asked["transaction_id"], asked["order_no"])
        selected = any(asked.values())
        if operation == QUERY:
            transactions = chosen if selected else self.ledger.recent()
            found = [records.transaction_record(one) for one in transactions[:RECORD_LIMIT]]
        else:
            refunds = [r for t in chosen for r in t.refunds]
            found = [
                records.refund_record(refund, self.ledger.transaction(refund.transaction_id))
                for refund in (refunds if selected else self.ledger.recent_refunds())[:RECORD_LIMIT]
            ]
        return self._listed(operation, found)

    def pay_direct(
        self, operation: Operation, fields: "Mapping[str, str]", now: "datetime"
    ) -> Answer:
        """Take a card payment; a declined one is entered as well."""
        problem = _payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        card = fields.get("card", "")
        result = card_result(card)
        status = PaymentStatus.AUTHORISED if result.authorised else PaymentStatus.DECLINED
        transaction = self._open(operation, fields, status, now)
        return Answer(
            operation=operation,
            fields={
                **self._identity(),
                **records.payment_record(transaction, fields, result, masked(card)),
            },
        )

    def pay_apm(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Begin a payment that the shopper decides on the payment page."""
        problem = _payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: fields[name] for name in ("order_no", "amount", "currency")}
        page_url = f"{self.base_url}/pay/{self.page_id(waiting)}"
        return Answer(
            operation=operation, fields={**self._identity(), **shown, "issuer_url": page_url}
        )

    def checkout(
        self, operation: Operation, fields: "Mapping[str, str]", now: "datetime"
    ) -> Answer:
        """Answer with the page that forwards the shopper to the payment page."""
        problem = _payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: value for name, value in fields.items() if name not in _CARD_FIELDS}
        inputs = pages.checkout_inputs(shown, self.page_id(waiting))
        page = pages.loading_page(self.base_url + operation.path, inputs)
        return Answer(operation=operation, page=page)

    def payout(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Pay out, and again for the same `request_id` unless payouts are deduplicated."""
        problem = records.payout_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        before = self.ledger.payouts_of(fields["request_id"]) if self.deduplicate_payouts else []
        paid = (
            before[0]
            if before
            else self.ledger.pay_out(
                request_id=fields["request_id"],
                amount=to_amount(fields["payment_amount"]) or Decimal(0),
                currency=fields["payment_currency"],
                now=now,
            )
        )
        return Answer(operation=operation, fields=records.payout_record(fields, paid))

    def _open(
        self,
        operation: Operation,
        fields: "Mapping[str, str]",
        status: PaymentStatus,
        now: "datetime",
    ) -> Transaction:
        return self.ledger.open(
            order_no=fields["order_no"],
            currency=fields["currency"],
            amount=to_amount(fields["amount"]) or Decimal(0),
            now=now,
            status=status,
            operation=operation.name,
            details=records.details_of(fields),
        )

    # The shopper

    def page_id(self, transaction: Transaction) -> str:
        """Return what leads to a transaction's payment page, and cannot be guessed."""
        key = hmac.new(
            self.merchant.secret.encode(), transaction.transaction_id.encode(), hashlib.sha256
        )
        return f"{transaction.transaction_id}-{key.hexdigest()[:_PAGE_KEY_LENGTH]}"

    def of_page(self, page_id: str) -> Transaction | None:
        """Return the transaction that a payment page is about, None where there is none."""
        transaction = self.ledger.find(page_id.partition("-")[0])
        if transaction is None:
            return None
        known = hmac.compare_digest(self.page_id(transaction).encode(), page_id.encode())
        return transaction if known else None

    def page_of(self, transaction: Transaction | None) -> str:
        """Return the payment page, or a page that says why there is none."""
        if transaction is None:
            return pages.message_page("Not found", "There is no such payment.")
        if transaction.status is not PaymentStatus.WAITING:
            return pages.message_page("Decided", "This payment was decided before.")
        return pages.payment_page(
            action=f"{self.base_url}/pay/{self.page_id(transaction)}",
            order_no=transaction.order_no,
            amount=records.amount_text(transaction.amount),
            currency=transaction.currency,
        )

    def way_back(self, transaction: Transaction, *, left: bool) -> str:
        """Return where the merchant wants the shopper; empty text where that is no web address."""
        back = transaction.details.get("return_url", "")
        url = (transaction.details.get("cancel_url") or back) if left else back
        return url if urlsplit(url).scheme in ("http", "https") else ""

    def notification(self, transaction: Transaction) -> dict[str, str]:
        """Return the signed form that tells the merchant what the shopper decided."""
        authorised = transaction.status is PaymentStatus.AUTHORISED
        fields = {
            **self._identity(),
            "order_no": transaction.order_no,
            "transaction_id": transaction.transaction_id,
            "amount": records.amount_text(transaction.amount),
            "currency": transaction.currency,
            "order_status": "1" if authorised else "0",
            "result_info": AUTHORISED.result_info if authorised else "2001:declined",
            "payment_status": transaction.status.value,
        }
        return {**fields, SIGNATURE_FIELD: self.merchant.signer.sign(PAY_APM, fields)}


def is_loopback(url: str) -> bool:
    """Say whether an address is on this machine, without asking a name server."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
    return known and parts.scheme in ("http", "https")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def count_orders(operation: Operation, fields: "Mapping[str, str]") -> int:
    """Return how many orders a request names, whether or not it is right."""
    if operation in (QUERY, SEARCH_REFUNDS):
        return sum(len(_split(fields.get(name, ""))) for name in SELECTION_FIELDS)
    items = read_nested(fields.get(operation.list_field or ""))
    return len(items) if isinstance(items, list) else 0


def _too_many(limit: int) -> str:
    return f"more than {limit} orders in one request"


def _list_problem(operation: Operation, items: object) -> str:
    if not isinstance(items, list) or not items:
        return f"{operation.list_field}: missing, empty or not a list"
    if not all(isinstance(item, dict) for item in items):
        return f"{operation.list_field}: not a list of objects"
    limit = operation.limit or 0
    return _too_many(limit) if len(items) > limit else ""


def _payment_problem(fields: "Mapping[str, str]") -> str:
    wrong = [name for name in ("order_no", "currency") if not fields.get(name)]
    if not to_amount(fields.get("amount")):
        wrong.append("amount")
    return f"missing or wrong: {', '.join(wrong)}" if wrong else ""


def _refused_list(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    del fields
    return {"return_status": "0", "return_message": text}


def _refused_payment(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    shown = {name: fields.get(name, "") for name in ("order_no", "amount", "currency")}
    return {
        **shown,
        "order_status": "0",
        "result_info": f"1000:{text}",
    }


def _refused_payout(fields: "Mapping[str, str]", text: str) -> dict[str, Any]:
    failure = {"status": "FAILED", "failure_type": "UNKNOWN", "failure_reason": text}
    return {**_refused_list(fields, text), "request_id": fields.get("request_id", ""), **failure}


_REFUSALS: "Mapping[str, Callable[[Mapping[str, str], str], dict[str, Any]]]" = MappingProxyType(
    {
        PAY_DIRECT.name: _refused_payment,
        PAY_APM.name: _refused_payment,
        PAYOUT.name: _refused_payout,
    }
)
_PERFORMERS: "Mapping[str, Callable[[Service, Operation, Mapping[str, str], datetime], Answer]]" = (
    MappingProxyType(
        {
            **dict.fromkeys((op.name for op in (CAPTURE, CANCEL, REVIEW, REFUND)), Service.batch),
            **dict.fromkeys((op.name for op in (QUERY, SEARCH_REFUNDS)), Service.look_up),
            PAY_DIRECT.name: Service.pay_direct,
            PAY_APM.name: Service.pay_apm,
            CHECKOUT.name: Service.checkout,
            PAYOUT.name: Service.payout,
        }
    )
)

"""What the sandbox does with a request: check who asks, carry it out, say what happened.

Shapes are those of sections 2.3 to 2.8 of the interface; where it shows none, what is here is the
sandbox's own: orders are selected by `order_no` or `transaction_id`, joined by commas, and refused
requests carry a `return_status` of 0. A shopper's first choice counts: whatever is pressed after it
(twice, again, or something else, after Back or Reload) changes nothing and leads to the same place.
No input or output, no clock, no HTTP.
"""

import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import attrs

from gateway_async.operations import CHECKOUT, PAY_APM, PAY_DIRECT, PAYOUT, QUERY, Operation
from gateway_async.sandbox import records
from gateway_async.sandbox.checkout import loading_page, payment_page, render, to_location
from gateway_async.sandbox.ledger import RECORD_LIMIT, Ledger, PaymentStatus, Transaction, to_amount
from gateway_async.sandbox.messages import Answer, Fields, Record, read_nested, with_brackets_joined
from gateway_async.signing import SIGNATURE_FIELD, Signer

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

SELECTION_FIELDS = ("transaction_id", "order_no")
_PAYMENTS = (PAY_DIRECT, PAY_APM)
_PAYMENT_FIELDS = ("order_no", "amount", "currency")
_CARD_FIELDS = frozenset({"card", "expiration_month", "expiration_year", "security_code"})
_TOO_MANY = "more than {} orders in one request"
_CHOICES = {
    "pay": (PaymentStatus.AUTHORISED, records.AUTHORISED),
    "decline": (PaymentStatus.DECLINED, records.DECLINED),
}


@attrs.frozen(kw_only=True)
class Service:
    """The gateway behind the HTTP server.

    Attributes:
        identity: The one merchant's `merchant_id` and `account_id`.
        signer: Signs requests, replies and notifications alike.
        ledger: Where everything is entered.
        clock: What time it is.
        notify: Sends a result to a `notify_url`, of an operation, with its fields.
        deduplicate_payouts: Whether a `request_id` is paid once only.
        base_url: Where shoppers reach the pages.
        ways: Where they go, as a payment's `return_url` and `cancel_url` say it, if a payment says
            nothing; `{order_no}` in it stands for the order number.
    """

    identity: Fields
    signer: Signer
    ledger: Ledger
    clock: "Callable[[], datetime]"
    notify: "Callable[[str, Operation, Fields], None]"
    deduplicate_payouts: bool
    base_url: str
    ways: Fields

    # Who asks

    def refusal(self, operation: Operation, fields: Fields) -> str:
        """Say why a request is refused as a whole; empty text where it is not."""
        for name, value in self.identity.items():
            if fields.get(name) != value:
                return f"unknown {name}"
        expected = self.signer.sign(operation, fields)
        is_right = hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode())
        return "" if is_right else "encryption_data does not match"

    def refuse(self, operation: Operation, fields: Fields, text: str) -> Answer:
        """Answer that nothing was done."""
        if operation == CHECKOUT:
            return Answer(operation=operation, page=render("message", title="Refused", text=text))
        said: dict[str, Any] = {"return_status": "0", "return_message": text}
        if operation in _PAYMENTS:
            said = {name: fields.get(name, "") for name in _PAYMENT_FIELDS}
            said |= {"order_status": "0", "result_info": f"1000:{text}"}
        elif operation == PAYOUT:
            failure = {"status": "FAILED", "failure_type": "UNKNOWN", "failure_reason": text}
            said |= {"request_id": fields.get("request_id", ""), **failure}
        else:
            said[operation.list_field] = []
        return Answer(operation=operation, fields={**self.identity, **said})

    # What is asked

    def perform(self, operation: Operation, fields: Fields) -> Answer:
        """Carry out a request that is not refused, and answer it."""
        fields = with_brackets_joined(fields)
        if operation == PAYOUT:
            return self._pay_out(fields)
        if operation in (*_PAYMENTS, CHECKOUT):
            return self._pay(operation, fields)
        if operation.is_look_up:
            found = self._look_up(operation, fields)
        else:
            found = self._batch(operation, fields)
        if isinstance(found, str):
            return self.refuse(operation, fields, found)
        said = {"return_status": "1", "return_message": "OK", operation.list_field: found}
        return Answer(operation=operation, fields={**self.identity, **said})

    def _batch(self, operation: Operation, fields: Fields) -> list[Record] | str:
        """Capture, cancel, review, refund, or do what else takes a list of orders."""
        items = read_nested(fields.get(operation.list_field))
        is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items)
        if not items or not is_list:
            return f"{operation.list_field}: expected a list of objects"
        if len(items) > (operation.limit or 0):
            return _TOO_MANY.format(operation.limit)
        now = self.clock()
        return [
            records.batch_record(operation, item, self.ledger.carry_out(operation.name, item, now))
            for item in items
        ]

    def _look_up(self, operation: Operation, fields: Fields) -> list[Record] | str:
        """Query transactions or search refunds: those that are asked for, or the most recent."""
        asked = {
            name: [part.strip() for part in fields.get(name, "").split(",") if part.strip()]
            for name in SELECTION_FIELDS
        }
        count = sum(map(len, asked.values()))
        if count > RECORD_LIMIT:
            return _TOO_MANY.format(RECORD_LIMIT)
        chosen = self.ledger.select(**asked) if count else self.ledger.recent()
        if operation == QUERY:
            return [records.transaction_record(one) for one in chosen[:RECORD_LIMIT]]
        refunds = [r for t in chosen for r in t.refunds] if count else self.ledger.recent_refunds()
        return [
            records.refund_record(refund, self.ledger.transaction(refund.transaction_id))
            for refund in refunds[:RECORD_LIMIT]
        ]

    def _pay(self, operation: Operation, fields: Fields) -> Answer:
        """Begin a payment: a card is decided on now, and entered if it is declined as well.

        The others wait for the shopper's decision on the payment page.
        """
        wrong = [name for name in ("order_no", "currency") if not fields.get(name)]
        amount = to_amount(fields.get("amount"))
        if wrong or not amount:
            names = ", ".join([*wrong, *([] if amount else ["amount"])])
            return self.refuse(operation, fields, f"missing or wrong: {names}")
        status, result = PaymentStatus.WAITING, ""
        if operation == PAY_DIRECT:
            result = self._card_result(fields)
            is_paid = result == records.AUTHORISED
            status = PaymentStatus.AUTHORISED if is_paid else PaymentStatus.DECLINED
        ways = self._ways(fields)
        transaction = self.ledger.open(
            order_no=fields["order_no"],
            currency=fields["currency"],
            amount=amount,
            now=self.clock(),
            status=status,
            operation=operation.name,
            details={n: fields[n] for n in records.KEPT_DETAILS if fields.get(n)} | ways,
        )
        if operation == CHECKOUT:
            shown = {name: value for name, value in fields.items() if name not in _CARD_FIELDS}
            action = self.base_url + operation.path
            page = loading_page(action, transaction.transaction_id, shown | ways)
            return Answer(operation=operation, page=page)
        if not result:
            said = {name: fields[name] for name in _PAYMENT_FIELDS}
            said["issuer_url"] = self._page_url(transaction)
        else:
            said = records.payment_record(transaction, fields, result)
            self._notify_of_payment(transaction, result)
        return Answer(operation=operation, fields={**self.identity, **said})

    def _card_result(self, fields: Fields) -> str:
        """Say what becomes of a card, or of the token that an earlier payment was given."""
        card, token = fields.get("card", ""), fields.get("token_id", "")
        if card or not token:
            return records.card_result(card)
        earlier = self.ledger.find(token[1:])
        is_known = earlier is not None and token == records.token_of(earlier)
        return records.AUTHORISED if is_known else records.UNKNOWN_TOKEN

    def _pay_out(self, fields: Fields) -> Answer:
        """Pay out, and again for the same `request_id` unless payouts are deduplicated."""
        problem = records.payout_problem(fields)
        if problem:
            return self.refuse(PAYOUT, fields, problem)
        request_id = fields["request_id"]
        before = self.ledger.payouts_of(request_id) if self.deduplicate_payouts else []
        if before:
            paid = before[0]
        else:
            amount, currency = records.payout_sum(fields)
            paid = self.ledger.pay_out(
                request_id=request_id, amount=amount, currency=currency, now=self.clock()
            )
            self._notify(fields, PAYOUT, records.payout_summary(paid))
        return Answer(operation=PAYOUT, fields=records.payout_record(fields, paid))

    # Notifications

    def _notify_of_payment(self, transaction: Transaction, result: str) -> None:
        made_by = next((op for op in _PAYMENTS if transaction.effects[op.name]), CHECKOUT)
        said = {
            **records.named(transaction),
            **records.result_fields(result),
            "payment_status": transaction.status.value,
        }
        self._notify(transaction.details, made_by, said)

    def _notify(self, asked: Fields, operation: Operation, said: dict[str, str]) -> None:
        if url := asked.get("notify_url"):
            self.notify(url, operation, {**self.identity, **said})

    # Shoppers

    def _ways(self, fields: Fields) -> dict[str, str]:
        """Return the `return_url` and `cancel_url` of a payment, as far as there are any."""
        order_no = quote(fields["order_no"], safe="")
        ways = {
            n: fields.get(n) or url.replace("{order_no}", order_no) for n, url in self.ways.items()
        }
        return {name: url for name, url in ways.items() if url}

    def _page_url(self, transaction: Transaction) -> str:
        return f"{self.base_url}/pay/{transaction.transaction_id}"

    def page(self, transaction: Transaction | None) -> str:
        """Return the payment page, or a page that says why there is none."""
        if transaction is None:
            return render("message", title="Not found", text="There is no such payment.")
        return payment_page(transaction, self._page_url(transaction), self.way_back(transaction))

    def decide(self, transaction: Transaction, choice: str) -> None:
        """Enter what the shopper chose, if it is the first choice, and notify the merchant."""
        if choice in _CHOICES and transaction.status is PaymentStatus.WAITING:
            transaction.status, result = _CHOICES[choice]
            self._notify_of_payment(transaction, result)

    def way_back(self, transaction: Transaction) -> str:
        """Return where the merchant wants the shopper; empty text where that is no web address."""
        back = transaction.details.get("return_url", "")
        left = transaction.details.get("cancel_url") or back
        return to_location(left if transaction.status is PaymentStatus.WAITING else back)

"""What the sandbox does with a request: check who asks, carry it out, say what happened.

Shapes are those of sections 2.3 to 2.8 of the interface; where it shows none, what is here is the
sandbox's own: orders are selected by `order_no` or `transaction_id`, joined by commas, and refused
requests carry a `return_status` of 0. No input or output, no clock, no HTTP.
"""

import hmac
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.operations import CHECKOUT, PAY_APM, PAY_DIRECT, PAYOUT, QUERY, Operation
from gateway_async.sandbox import checkout, records
from gateway_async.sandbox.cards import AUTHORISED, UNKNOWN_TOKEN, CardResult, card_result
from gateway_async.sandbox.ledger import (
    RECORD_LIMIT,
    Instruction,
    Ledger,
    PaymentStatus,
    to_amount,
)
from gateway_async.sandbox.messages import (
    Answer,
    Merchant,
    Notice,
    read_nested,
    with_brackets_joined,
)
from gateway_async.sandbox.notifier import payment_notice, payout_notice
from gateway_async.signing import SIGNATURE_FIELD

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SELECTION_FIELDS = ("transaction_id", "order_no")
_PAYMENTS = (PAY_DIRECT, PAY_APM)
_PAYMENT_FIELDS = ("order_no", "amount", "currency")
_CARD_FIELDS = frozenset({"card", "expiration_month", "expiration_year", "security_code"})
_TOO_MANY = "more than {} orders in one request"


@attrs.frozen(kw_only=True)
class Service:
    """The gateway behind the HTTP server.

    Attributes:
        merchant: Who may ask.
        ledger: Where everything is entered.
        pages: The pages that shoppers are led to.
        deduplicate_payouts: Whether a `request_id` is paid once only.
    """

    merchant: Merchant
    ledger: Ledger
    pages: checkout.Checkout
    deduplicate_payouts: bool

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
            page = checkout.render("message", title="Refused", text=text)
            return Answer(operation=operation, page=page)
        said: dict[str, Any] = {"return_status": "0", "return_message": text}
        if operation in _PAYMENTS:
            said = {name: fields.get(name, "") for name in _PAYMENT_FIELDS}
            said |= {"order_status": "0", "result_info": f"1000:{text}"}
        elif operation == PAYOUT:
            failure = {"status": "FAILED", "failure_type": "UNKNOWN", "failure_reason": text}
            said |= {"request_id": fields.get("request_id", ""), **failure}
        elif operation.list_field:
            said[operation.list_field] = []
        return self._answer(operation, said)

    def _answer(
        self, operation: Operation, said: dict[str, Any], notice: Notice | None = None
    ) -> Answer:
        fields = self.merchant.identity | said
        return Answer(operation=operation, fields=fields, notice=notice)

    def _listed(self, operation: Operation, found: list[dict[str, Any]]) -> Answer:
        said = {"return_status": "1", "return_message": "OK", operation.list_field or "": found}
        return self._answer(operation, said)

    # What is asked

    def perform(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Carry out a request that is not refused, and answer it."""
        fields = with_brackets_joined(fields)
        if operation.is_look_up:
            return self._look_up(operation, fields)
        if operation == PAYOUT:
            return self._pay_out(fields, now)
        perform = self._pay if operation in (*_PAYMENTS, CHECKOUT) else self._batch
        return perform(operation, fields, now)

    def _batch(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Capture, cancel, review, refund, or do what else takes a list of orders."""
        items = read_nested(fields.get(operation.list_field or ""))
        problem = ""
        if not isinstance(items, list) or not items:
            problem = f"{operation.list_field}: missing, empty or not a list"
        elif not all(isinstance(item, dict) for item in items):
            problem = f"{operation.list_field}: not a list of objects"
        elif len(items) > (operation.limit or 0):
            problem = _TOO_MANY.format(operation.limit)
        if problem:
            return self.refuse(operation, fields, problem)
        done = []
        for item in items:
            verdict = self.ledger.carry_out(operation.name, Instruction.from_item(item), now)
            done.append(records.batch_record(operation, item, verdict))
        return self._listed(operation, done)

    def _look_up(self, operation: Operation, fields: "Mapping[str, str]") -> Answer:
        """Query transactions or search refunds: those that are asked for, or the most recent."""
        asked = {name: _split(fields.get(name, "")) for name in SELECTION_FIELDS}
        count = sum(map(len, asked.values()))
        if count > RECORD_LIMIT:
            return self.refuse(operation, fields, _TOO_MANY.format(RECORD_LIMIT))
        chosen = self.ledger.select(**asked) if count else self.ledger.recent()
        if operation == QUERY:
            found = [records.transaction_record(one) for one in chosen[:RECORD_LIMIT]]
            return self._listed(operation, found)
        refunds = [r for t in chosen for r in t.refunds] if count else self.ledger.recent_refunds()
        return self._listed(
            operation,
            [
                records.refund_record(refund, self.ledger.transaction(refund.transaction_id))
                for refund in refunds[:RECORD_LIMIT]
            ],
        )

    def _pay(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Begin a payment: a card is decided on now, and entered if it is declined as well.

        The others wait for the shopper's decision on the payment page.
        """
        wrong = [name for name in ("order_no", "currency") if not fields.get(name)]
        amount = to_amount(fields.get("amount"))
        if wrong or not amount:
            names = ", ".join([*wrong, *([] if amount else ["amount"])])
            return self.refuse(operation, fields, f"missing or wrong: {names}")
        status, result = PaymentStatus.WAITING, None
        if operation == PAY_DIRECT:
            result = self._card_result(fields)
            status = PaymentStatus.AUTHORISED if result.authorised else PaymentStatus.DECLINED
        transaction = self.ledger.open(
            order_no=fields["order_no"],
            currency=fields["currency"],
            amount=amount,
            now=now,
            status=status,
            operation=operation.name,
            details=records.details_of(fields) | self.pages.ways(fields),
        )
        if result is not None:
            said = records.payment_record(transaction, fields, result)
            notice = payment_notice(self.merchant, transaction, result_info=result.result_info)
            return self._answer(operation, said, notice)
        if operation == CHECKOUT:
            shown = {name: value for name, value in fields.items() if name not in _CARD_FIELDS}
            page = self.pages.loading_page(operation.path, shown, transaction)
            return Answer(operation=operation, page=page)
        said = {name: fields[name] for name in _PAYMENT_FIELDS}
        return self._answer(operation, said | {"issuer_url": self.pages.page_url(transaction)})

    def _card_result(self, fields: "Mapping[str, str]") -> CardResult:
        """Say what becomes of a card, or of the token that an earlier payment was given."""
        card, token = fields.get("card", ""), fields.get("token_id", "")
        if card or not token:
            return card_result(card)
        earlier = self.ledger.find(token[1:])
        is_known = earlier is not None and token == records.token_of(earlier)
        return AUTHORISED if is_known else UNKNOWN_TOKEN

    def _pay_out(self, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Pay out, and again for the same `request_id` unless payouts are deduplicated."""
        problem = records.payout_problem(fields)
        if problem:
            return self.refuse(PAYOUT, fields, problem)
        before = self.ledger.payouts_of(fields["request_id"]) if self.deduplicate_payouts else []
        if before:
            return Answer(operation=PAYOUT, fields=records.payout_record(fields, before[0]))
        amount, currency = records.payout_sum(fields)
        paid = self.ledger.pay_out(
            request_id=fields["request_id"], amount=amount, currency=currency, now=now
        )
        return Answer(
            operation=PAYOUT,
            fields=records.payout_record(fields, paid),
            notice=payout_notice(self.merchant, fields, paid),
        )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def count_orders(operation: Operation, fields: "Mapping[str, str]") -> int:
    """Return how many orders a request names, whether or not it is right."""
    if operation.is_look_up:
        return sum(len(_split(fields.get(name, ""))) for name in SELECTION_FIELDS)
    items = read_nested(with_brackets_joined(fields).get(operation.list_field or ""))
    return len(items) if isinstance(items, list) else 0

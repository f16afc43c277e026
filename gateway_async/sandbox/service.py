"""What the sandbox does with a request: check who asks, carry it out, say what happened.

Shapes are those of sections 2.3 to 2.8 of the interface; where it shows none, what is here is the
sandbox's own: orders are selected by `order_no` or `transaction_id`, joined by commas, and refused
requests carry a `return_status` of 0. No input or output, no clock, no HTTP.
"""

import hmac
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.operations import (
    CHECKOUT,
    PAY_APM,
    PAY_DIRECT,
    PAYOUT,
    QUERY,
    SEARCH_REFUNDS,
    Operation,
)
from gateway_async.sandbox import checkout, records
from gateway_async.sandbox.cards import AUTHORISED, UNKNOWN_TOKEN, card_result, masked
from gateway_async.sandbox.ledger import (
    RECORD_LIMIT,
    Instruction,
    Ledger,
    PaymentStatus,
    Transaction,
    to_amount,
)
from gateway_async.sandbox.messages import Answer, Merchant, read_nested, with_brackets_joined
from gateway_async.sandbox.notifier import payment_notice, payout_notice
from gateway_async.signing import SIGNATURE_FIELD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

SELECTION_FIELDS = ("transaction_id", "order_no")
_CARD_FIELDS = frozenset({"card", "expiration_month", "expiration_year", "security_code"})


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
            page = checkout.render("message", title="Refused", text=text)
            return Answer(operation=operation, page=page)
        echoed, refusal = _REFUSED.get(operation.name, ((), _refused_list))
        said = {name: fields.get(name, "") for name in echoed} | refusal(text)
        if operation.list_field:
            said[operation.list_field] = []
        return Answer(operation=operation, fields=self.merchant.identity | said)

    def _listed(self, operation: Operation, found: list[dict[str, Any]]) -> Answer:
        envelope = {"return_status": "1", "return_message": "OK"}
        listed = {**envelope, operation.list_field or "": found}
        return Answer(operation=operation, fields=self.merchant.identity | listed)

    # What is asked

    def perform(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Carry out a request that is not refused, and answer it."""
        perform = _PERFORMERS.get(operation.name, Service.batch)
        return perform(self, operation, with_brackets_joined(fields), now)

    def batch(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Capture, cancel, review, refund, or do what else takes a list of orders."""
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
        token = fields.get("token_id", "")
        result = card_result(card)
        if token and not card:  # which an earlier payment was given
            earlier = self.ledger.find(token[1:])
            is_known = earlier is not None and token == records.token_of(earlier)
            result = AUTHORISED if is_known else UNKNOWN_TOKEN
        status = PaymentStatus.AUTHORISED if result.authorised else PaymentStatus.DECLINED
        transaction = self._open(operation, fields, status, now)
        said = records.payment_record(transaction, fields, result, masked(card))
        return Answer(
            operation=operation,
            fields=self.merchant.identity | said,
            notice=payment_notice(self.merchant, transaction, result_info=result.result_info),
        )

    def pay_apm(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Begin a payment that the shopper decides on the payment page."""
        problem = _payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: fields[name] for name in _PAYMENT_FIELDS}
        shown["issuer_url"] = self.pages.page_url(waiting)
        return Answer(operation=operation, fields=self.merchant.identity | shown)

    def checkout(
        self, operation: Operation, fields: "Mapping[str, str]", now: "datetime"
    ) -> Answer:
        """Answer with the page that forwards the shopper to the payment page."""
        problem = _payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: value for name, value in fields.items() if name not in _CARD_FIELDS}
        page = self.pages.loading_page(operation.path, shown, waiting)
        return Answer(operation=operation, page=page)

    def payout(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Pay out, and again for the same `request_id` unless payouts are deduplicated."""
        problem = records.payout_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        before = self.ledger.payouts_of(fields["request_id"]) if self.deduplicate_payouts else []
        if before:
            return Answer(operation=operation, fields=records.payout_record(fields, before[0]))
        amount, currency = records.payout_sum(fields)
        paid = self.ledger.pay_out(
            request_id=fields["request_id"], amount=amount, currency=currency, now=now
        )
        return Answer(
            operation=operation,
            fields=records.payout_record(fields, paid),
            notice=payout_notice(self.merchant, fields, paid),
        )

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
            details=records.details_of(fields) | self.pages.ways(fields),
        )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def count_orders(operation: Operation, fields: "Mapping[str, str]") -> int:
    """Return how many orders a request names, whether or not it is right."""
    if operation.is_look_up:
        return sum(len(_split(fields.get(name, ""))) for name in SELECTION_FIELDS)
    items = read_nested(with_brackets_joined(fields).get(operation.list_field or ""))
    return len(items) if isinstance(items, list) else 0


def _too_many(limit: int) -> str:
    """Say that a request names more orders than section 8 allows."""
    return f"more than {limit} orders in one request"


def _list_problem(operation: Operation, items: object) -> str:
    """Say what is wrong with the list of a batch; empty text where nothing is."""
    if not isinstance(items, list) or not items:
        return f"{operation.list_field}: missing, empty or not a list"
    if not all(isinstance(item, dict) for item in items):
        return f"{operation.list_field}: not a list of objects"
    limit = operation.limit or 0
    return _too_many(limit) if len(items) > limit else ""


def _payment_problem(fields: "Mapping[str, str]") -> str:
    """Say what is wrong with a payment; empty text where nothing is."""
    wrong = [name for name in ("order_no", "currency") if not fields.get(name)]
    if not to_amount(fields.get("amount")):
        wrong.append("amount")
    return f"missing or wrong: {', '.join(wrong)}" if wrong else ""


def _refused_list(text: str) -> dict[str, Any]:
    return {"return_status": "0", "return_message": text}


def _refused_payment(text: str) -> dict[str, Any]:
    return {"order_status": "0", "result_info": f"1000:{text}"}


def _refused_payout(text: str) -> dict[str, Any]:
    failure = {"status": "FAILED", "failure_type": "UNKNOWN", "failure_reason": text}
    return {**_refused_list(text), **failure}


_PAYMENT_FIELDS = ("order_no", "amount", "currency")
_REFUSED: "Mapping[str, tuple[tuple[str, ...], Callable[[str], dict[str, Any]]]]" = (
    MappingProxyType(
        {
            PAY_DIRECT.name: (_PAYMENT_FIELDS, _refused_payment),
            PAY_APM.name: (_PAYMENT_FIELDS, _refused_payment),
            PAYOUT.name: (("request_id",), _refused_payout),
        }
    )
)
"""What a refused request repeats, and what it says; that of a batch or look-up is the usual."""

_PERFORMERS: "Mapping[str, Callable[[Service, Operation, Mapping[str, str], datetime], Answer]]" = (
    MappingProxyType(
        {
            QUERY.name: Service.look_up,
            SEARCH_REFUNDS.name: Service.look_up,
            PAY_DIRECT.name: Service.pay_direct,
            PAY_APM.name: Service.pay_apm,
            CHECKOUT.name: Service.checkout,
            PAYOUT.name: Service.payout,
        }
    )
)

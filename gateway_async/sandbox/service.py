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
from gateway_async.sandbox import pages, records
from gateway_async.sandbox.cards import (
    AUTHORISED,
    UNKNOWN_TOKEN,
    CardResult,
    card_result,
    masked,
)
from gateway_async.sandbox.entries import (
    Instruction,
    PaymentStatus,
    Transaction,
    to_amount,
)
from gateway_async.sandbox.inputs import checkout_inputs
from gateway_async.sandbox.ledger import RECORD_LIMIT, Ledger
from gateway_async.sandbox.merchant import Merchant
from gateway_async.sandbox.messages import Answer, read_nested, with_brackets_joined
from gateway_async.sandbox.notices import payment_notice, payout_notice
from gateway_async.sandbox.refusals import list_problem, payment_problem, refused, too_many
from gateway_async.sandbox.scene import Scene
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
        scene: Where shoppers are led to.
        deduplicate_payouts: Whether a `request_id` is paid once only.
    """

    merchant: Merchant
    ledger: Ledger
    scene: Scene
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
        said = refused(operation, fields, text)
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
        problem = list_problem(operation, items)
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
            return self.refuse(operation, fields, too_many(RECORD_LIMIT))
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
        problem = payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        card = fields.get("card", "")
        token = fields.get("token_id", "")
        result = self._token_result(token) if token and not card else card_result(card)
        status = PaymentStatus.AUTHORISED if result.authorised else PaymentStatus.DECLINED
        transaction = self._open(operation, fields, status, now)
        said = records.payment_record(transaction, fields, result, masked(card))
        return Answer(
            operation=operation,
            fields=self.merchant.identity | said,
            notice=payment_notice(self.merchant, transaction, result_info=result.result_info),
        )

    def _token_result(self, token: str) -> CardResult:
        """Say what becomes of a payment with a card that an earlier one gave a token."""
        earlier = self.ledger.find(token[1:])
        is_known = earlier is not None and token == records.token_of(earlier)
        return AUTHORISED if is_known else UNKNOWN_TOKEN

    def pay_apm(self, operation: Operation, fields: "Mapping[str, str]", now: "datetime") -> Answer:
        """Begin a payment that the shopper decides on the payment page."""
        problem = payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: fields[name] for name in ("order_no", "amount", "currency")}
        shown["issuer_url"] = self.scene.page_url(waiting)
        return Answer(operation=operation, fields=self.merchant.identity | shown)

    def checkout(
        self, operation: Operation, fields: "Mapping[str, str]", now: "datetime"
    ) -> Answer:
        """Answer with the page that forwards the shopper to the payment page."""
        problem = payment_problem(fields)
        if problem:
            return self.refuse(operation, fields, problem)
        waiting = self._open(operation, fields, PaymentStatus.WAITING, now)
        shown = {name: value for name, value in fields.items() if name not in _CARD_FIELDS}
        inputs = checkout_inputs(shown | self.scene.ways(fields), self.scene.page_id(waiting))
        page = pages.loading_page(self.scene.base_url + operation.path, inputs)
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
            details=records.details_of(fields) | self.scene.ways(fields),
        )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def count_orders(operation: Operation, fields: "Mapping[str, str]") -> int:
    """Return how many orders a request names, whether or not it is right."""
    if operation.is_look_up:
        return sum(len(_split(fields.get(name, ""))) for name in SELECTION_FIELDS)
    items = read_nested(with_brackets_joined(fields).get(operation.list_field or ""))
    return len(items) if isinstance(items, list) else 0


_PERFORMERS: "Mapping[str, Callable[[Service, Operation, Mapping[str, str], datetime], Answer]]" = (
    MappingProxyType(
        {
            **dict.fromkeys((op.name for op in (QUERY, SEARCH_REFUNDS)), Service.look_up),
            PAY_DIRECT.name: Service.pay_direct,
            PAY_APM.name: Service.pay_apm,
            CHECKOUT.name: Service.checkout,
            PAYOUT.name: Service.payout,
        }
    )
)

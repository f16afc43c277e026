"""The sandbox's books: what was really done, and how often.

An instruction is carried out each time that it comes; nothing here recognises a repeat. A second
identical refund is a second refund, as long as the captured amount lasts. So these books can tell
afterwards whether a client moved money twice.

No input or output, no clock (time is passed in), and no knowledge of bodies, HTTP or signatures.
"""

import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import count, islice
from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

RECORD_LIMIT = 100
_ZERO = Decimal(0)
_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,8})?")


class PaymentStatus(StrEnum):
    """The `payment_status` values of the sandbox.

    The interface shows 3000 and 4100, and the meaning of neither. The meanings here, and the
    values beside those two, are the sandbox's own; the real gateway's may differ.
    """

    CAPTURED = "3000"
    """Captured, whether or not refunded since."""

    AUTHORISED = "4100"
    """Reserved; neither captured nor cancelled."""

    WAITING = "4000"
    """The shopper has not decided on the payment page yet."""

    CANCELLED = "4200"
    """Cancelled before capture."""

    DECLINED = "4900"
    """Declined by the card's issuer or by the shopper."""


def to_amount(text: object) -> Decimal | None:
    """Read an amount, which is decimal text (section 2); None for anything else."""
    return Decimal(text) if isinstance(text, str) and _AMOUNT.fullmatch(text) else None


def to_text(value: object) -> str:
    """Let text pass; anything else is no text."""
    return value if isinstance(value, str) else ""


@attrs.frozen(kw_only=True)
class Refund:
    """A refund that was carried out.

    Attributes:
        refund_reference_id: The transaction_id, a hyphen and a number of two digits.
        transaction_id: The transaction that was refunded.
        amount: What was given back, in units of the currency.
        reason: The merchant's text.
        at: When.
    """

    refund_reference_id: str
    transaction_id: str
    amount: Decimal
    reason: str
    at: datetime


@attrs.define(kw_only=True, eq=False)
class Transaction:
    """A payment and all that became of it.

    Attributes:
        transaction_id: The gateway's identifier, digits only.
        order_no: The merchant's order number; several transactions may share one.
        currency: Currency code.
        amount: The authorised amount, in units of the currency.
        created_at: When the payment was made.
        status: Where it stands.
        captured_amount: What was captured; zero before.
        refunded_amount: The sum of the refunds.
        refunds: The refunds, oldest first.
        review_flag: The verdict of the last review, empty without one.
        effects: How often each operation was carried out, by its name.
        refusals: How often each operation was refused, by its name.
        details: Fields of the payment request that look-ups show again; never card data.
    """

    transaction_id: str
    order_no: str
    currency: str
    amount: Decimal
    created_at: datetime
    status: PaymentStatus = PaymentStatus.AUTHORISED
    captured_amount: Decimal = _ZERO
    refunded_amount: Decimal = _ZERO
    refunds: list[Refund] = attrs.field(factory=list)
    review_flag: str = ""
    effects: Counter[str] = attrs.field(factory=Counter)
    refusals: Counter[str] = attrs.field(factory=Counter)
    details: dict[str, str] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Payout:
    """A payout that was carried out.

    Attributes:
        transaction_id: The gateway's identifier, digits only.
        request_id: The merchant's identifier.
        amount: What was paid, in units of the currency.
        currency: Currency code.
        at: When.
    """

    transaction_id: str
    request_id: str
    amount: Decimal
    currency: str
    at: datetime


@attrs.frozen(kw_only=True)
class Verdict:
    """What the gateway says of one instruction.

    Attributes:
        done: Whether it was carried out.
        code: V0000, or the code of the rule that forbids it.
        text: The rule's text, or "success".
        refund: The refund, where one was made.
    """

    done: bool
    code: str = "V0000"
    text: str = "success"
    refund: Refund | None = None


Item = Mapping[str, object]
"""One element of a request's list, as it came."""


def _amount_of(item: Item, name: str = "amount") -> Decimal:
    return to_amount(item.get(name)) or _ZERO


_RULES: "Mapping[str, tuple[str, Callable[[Transaction, Item], bool]]]" = {
    "2002": (
        "order_no belongs to another transaction",
        lambda t, item: item.get("order_no") != t.order_no,
    ),
    "2003": ("currency is not the order's", lambda t, item: item.get("currency") != t.currency),
    "2005": ("amount is not the order's", lambda t, item: _amount_of(item) != t.amount),
    "2101": ("already captured", lambda t, _: t.status is PaymentStatus.CAPTURED),
    "2102": ("already cancelled", lambda t, _: t.status is PaymentStatus.CANCELLED),
    "2103": ("not authorised", lambda t, _: t.status is not PaymentStatus.AUTHORISED),
    "2104": (
        "amount is not above zero, or above the authorised amount",
        lambda t, item: not 0 < _amount_of(item) <= t.amount,
    ),
    "2201": ("not captured", lambda t, _: t.status is not PaymentStatus.CAPTURED),
    "2202": (
        "refund_amount is not an amount above zero",
        lambda _, item: not _amount_of(item, "refund_amount"),
    ),
    "2203": (
        "refund_amount is above what is left of the captured amount",
        lambda t, item: t.refunded_amount + _amount_of(item, "refund_amount") > t.captured_amount,
    ),
}
"""By code: the text of a rule that forbids an order, and whether one breaks it."""

_APPLY = {
    "capture": ("2002", "2003", "2101", "2102", "2103", "2104"),
    "cancel": ("2002", "2003", "2005", "2101", "2102", "2103"),
    "refund": ("2002", "2003", "2005", "2201", "2202", "2203"),
}
_APPLY_ELSE = ("2002", "2003", "2005")


class Ledger:
    """Every transaction, refund and payout of one merchant."""

    def __init__(self) -> None:
        self._transactions: dict[str, Transaction] = {}
        self._by_order_no: dict[str, list[Transaction]] = {}
        self._by_request_id: dict[str, list[Payout]] = {}
        self._refunds: list[Refund] = []
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> "Iterator[Transaction]":
        return iter(self._transactions.values())

    def _next_id(self, now: datetime) -> str:
        return f"{now:%Y%m%d%H%M%S}{next(self._numbers):08d}"

    # Writing

    def open(  # noqa: PLR0913  # the parts of a payment
        self,
        *,
        order_no: str,
        currency: str,
        amount: Decimal,
        now: "datetime",
        status: PaymentStatus = PaymentStatus.AUTHORISED,
        operation: str | None = None,
        details: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Make a transaction; `operation` names the payment operation that asked for it."""
        transaction = Transaction(
            transaction_id=self._next_id(now),
            order_no=order_no,
            currency=currency,
            amount=amount,
            created_at=now,
            status=status,
            captured_amount=amount if status is PaymentStatus.CAPTURED else _ZERO,
            effects=Counter([operation] if operation else []),
            details=dict(details or {}),
        )
        self._transactions[transaction.transaction_id] = transaction
        self._by_order_no.setdefault(order_no, []).append(transaction)
        return transaction

    def carry_out(self, operation: str, item: Item, now: "datetime") -> Verdict:
        """Carry out one order of a batch, or refuse it."""
        transaction = self.find(to_text(item.get("transaction_id")))
        if transaction is None:
            return Verdict(done=False, code="2001", text="unknown transaction")
        for code in _APPLY.get(operation, _APPLY_ELSE):
            text, is_broken = _RULES[code]
            if is_broken(transaction, item):
                transaction.refusals[operation] += 1
                return Verdict(done=False, code=code, text=text)
        refund = None
        match operation:
            case "capture":
                transaction.status = PaymentStatus.CAPTURED
                transaction.captured_amount = _amount_of(item)
            case "cancel":
                transaction.status = PaymentStatus.CANCELLED
            case "review":
                transaction.review_flag = to_text(item.get("review_flag"))
            case "refund":
                number = len(transaction.refunds) + 1
                refund = Refund(
                    refund_reference_id=f"{transaction.transaction_id}-{number:02d}",
                    transaction_id=transaction.transaction_id,
                    amount=_amount_of(item, "refund_amount"),
                    reason=to_text(item.get("refund_reason")),
                    at=now,
                )
                transaction.refunds.append(refund)
                transaction.refunded_amount += refund.amount
                self._refunds.append(refund)
        transaction.effects[operation] += 1
        return Verdict(done=True, refund=refund)

    def pay_out(
        self, *, request_id: str, amount: Decimal, currency: str, now: "datetime"
    ) -> Payout:
        """Pay out, whether or not this `request_id` was paid before."""
        payout = Payout(
            transaction_id=self._next_id(now),
            request_id=request_id,
            amount=amount,
            currency=currency,
            at=now,
        )
        self._by_request_id.setdefault(request_id, []).append(payout)
        return payout

    # Reading

    def find(self, transaction_id: str) -> Transaction | None:
        """Return a transaction, or None."""
        return self._transactions.get(transaction_id)

    def transaction(self, transaction_id: str) -> Transaction:
        """Return a transaction.

        Raises:
            ConfigurationError: If there is no record of that identifier.
        """
        transaction = self.find(transaction_id)
        if transaction is None:
            raise ConfigurationError(f"Ledger: there is no transaction {transaction_id!r}")
        return transaction

    def payments_of(self, order_no: str) -> list[Transaction]:
        """Return every transaction of an order number, declined ones included."""
        return list(self._by_order_no.get(order_no, ()))

    def payouts_of(self, request_id: str) -> list[Payout]:
        """Return every payout of a request id: more than one means paid more than once."""
        return list(self._by_request_id.get(request_id, ()))

    def effects(self, operation: str, transaction_id: str) -> int:
        """Return how often an operation was carried out on a transaction."""
        transaction = self.find(transaction_id)
        return transaction.effects[operation] if transaction else 0

    def select(
        self, transaction_id: "Iterable[str]", order_no: "Iterable[str]"
    ) -> list[Transaction]:
        """Return the transactions that are asked for, each once, in the order of the question."""
        by_id = (self._transactions.get(one) for one in transaction_id)
        by_order_no = (t for one in order_no for t in self._by_order_no.get(one, ()))
        return list({t.transaction_id: t for t in (*filter(None, by_id), *by_order_no)}.values())

    def recent(self) -> list[Transaction]:
        """Return the most recent transactions, at most 100, newest first."""
        return list(islice(reversed(self._transactions.values()), RECORD_LIMIT))

    def recent_refunds(self) -> list[Refund]:
        """Return the most recent refunds, at most 100, newest first."""
        return list(islice(reversed(self._refunds), RECORD_LIMIT))

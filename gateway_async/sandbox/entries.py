"""What the sandbox's books are made of: payments, refunds, payouts, instructions and verdicts."""

import re
from collections import Counter
from datetime import datetime  # the store reads the types of these classes
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if isinstance(text, str) and _AMOUNT.fullmatch(text):
        return Decimal(text)
    return None


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


@attrs.define(kw_only=True)
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
    captured_amount: Decimal = Decimal(0)
    refunded_amount: Decimal = Decimal(0)
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
class Instruction:
    """One element of a batch, as the gateway understands it.

    Attributes:
        transaction_id: The transaction it is about.
        order_no: The merchant's order number.
        currency: Currency code.
        amount: The order's amount; None where it is no decimal text.
        refund_amount: How much to give back; None where it is no decimal text.
        refund_reason: Free text.
        review_flag: The verdict of a review.
    """

    transaction_id: str
    order_no: str
    currency: str
    amount: Decimal | None
    refund_amount: Decimal | None = None
    refund_reason: str = ""
    review_flag: str = ""

    @classmethod
    def from_item(cls, item: "Mapping[str, object]") -> "Instruction":
        """Read one element of a request's list."""
        return cls(
            transaction_id=to_text(item.get("transaction_id")),
            order_no=to_text(item.get("order_no")),
            currency=to_text(item.get("currency")),
            amount=to_amount(item.get("amount")),
            refund_amount=to_amount(item.get("refund_amount")),
            refund_reason=to_text(item.get("refund_reason")),
            review_flag=to_text(item.get("review_flag")),
        )


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

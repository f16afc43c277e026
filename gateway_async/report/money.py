"""What amounts add up to, by currency and status, exactly."""

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.models.records import RefundRecord
from gateway_async.reconciliation.differences import exact_context, is_summable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from decimal import Decimal

_CODE = re.compile(r"[A-Z]{3}")
_MONEY = (
    ("refund_amount", "currency"),
    ("payment_amount", "payment_currency"),
    ("source_amount", "source_currency"),
    ("amount", "currency"),
)
"""Fields of what an order moves, and of its currency; the first amount that is there counts."""


@attrs.frozen
class Sum:
    """Amounts of one currency and status.

    Attributes:
        count: How many.
        amount: Their sum.
    """

    count: int
    amount: "Decimal"


class Money:
    """Adds amounts up; those of a currency that is no code of three letters are left out."""

    def __init__(self) -> None:
        self._context = exact_context()
        self._sums: dict[str, dict[str, Sum]] = defaultdict(dict)

    def add(self, status: str, outcome: Any) -> None:  # noqa: ANN401  # of any order
        """Add what one order moves, or what the gateway lists for one that was looked up."""
        moved = moved_by(outcome.order)
        for currency, amount in [moved] if moved is not None else _listed(outcome.record):
            self._add(status, currency, amount)

    def _add(self, status: str, currency: str | None, amount: "Decimal | None") -> None:
        code = (currency or "").upper()
        if amount is None or not is_summable(amount) or not _CODE.fullmatch(code):
            return
        sums = self._sums[code]
        so_far = sums.get(status)
        if so_far is None:
            sums[status] = Sum(1, amount)
        else:
            sums[status] = Sum(so_far.count + 1, self._context.add(so_far.amount, amount))

    def by_currency(self) -> "Mapping[str, Mapping[str, Sum]]":
        """Return the sums by currency and status, the currencies sorted."""
        return {code: self._sums[code] for code in sorted(self._sums)}

    def total(self, sums: "Mapping[str, Sum]") -> Sum:
        """Return the sum over every status."""
        count, amount = 0, self._context.create_decimal(0)
        for one in sums.values():
            count, amount = count + one.count, self._context.add(amount, one.amount)
        return Sum(count, amount)


def moved_by(order: object) -> "tuple[str, Decimal] | None":
    """Return currency and amount that an order or a payout moves; None for a look-up."""
    for name, currency_name in _MONEY:
        amount, currency = getattr(order, name, None), getattr(order, currency_name, None)
        if amount is not None:
            return None if currency is None else (currency, amount)
    return None


def _listed(record: object) -> "Iterator[tuple[str | None, Decimal | None]]":
    for one in record if isinstance(record, tuple) else ():
        amount = one.refund_amount if isinstance(one, RefundRecord) else one.amount
        yield one.currency, amount

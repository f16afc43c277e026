"""What a ledger is made of. Pure."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import InvalidOrderError
from gateway_async.models.orders import OrderRef
from gateway_async.models.values import (
    as_amount,
    as_identifier,
    describe,
    identifier_field,
    text_field,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LONGEST_AMOUNT = 100
"""Digits before the point at most, and after it: so every sum of amounts is exact."""
_PROBLEMS_SHOWN = 20


def is_summable(amount: Decimal | None) -> bool:
    """Say whether an amount is there, and of a length that can be added up exactly."""
    if amount is None or not amount.is_finite():
        return False
    exponent = amount.as_tuple().exponent
    return amount.adjusted() < LONGEST_AMOUNT and int(exponent) >= -LONGEST_AMOUNT


def _summable(instance: object, attribute: "attrs.Attribute[Any]", value: Decimal) -> None:
    if not is_summable(value):
        raise InvalidOrderError(
            f"{describe(instance)}.{attribute.name}: {value!r} has more than "
            f"{LONGEST_AMOUNT} digits before or after the point"
        )


@attrs.frozen(kw_only=True)
class LedgerEntry:
    """One payment as the merchant's books have it.

    An entry with a `transaction_id` is looked up by it, and one without by its `order_no`, which
    may find several transactions; one of the two must be there.

    Attributes:
        order_no: The merchant's order number.
        transaction_id: The gateway's identifier of the payment.
        currency: Currency code; compared without case.
        amount: Amount of the payment, in units of the currency, not in cents.
        refunded: The sum of its refunds, in units of the currency; 0 without any.
        state: The merchant's own word for where it stands; None is not compared.
    """

    order_no: str | None = identifier_field(default=None)
    transaction_id: str | None = identifier_field(default=None)
    currency: str = attrs.field(converter=as_identifier)
    amount: Decimal = attrs.field(converter=as_amount, validator=_summable)
    refunded: Decimal = attrs.field(default=Decimal(0), converter=as_amount, validator=_summable)
    state: str | None = text_field(default=None)

    def __attrs_post_init__(self) -> None:
        if self.order_no is None and self.transaction_id is None:
            raise InvalidOrderError(
                f"{describe(self)}: order_no and transaction_id are both None; give one of them"
            )

    @property
    def ref(self) -> OrderRef:
        """By what it is looked up."""
        if self.transaction_id is not None:
            return OrderRef(transaction_id=self.transaction_id)
        return OrderRef(order_no=self.order_no)


def entry_problem(index: int, entry: object) -> InvalidOrderError | None:
    """Return why something is no ledger entry, with its position; None if it is one."""
    if isinstance(entry, LedgerEntry):
        return None
    return InvalidOrderError(f"ledger[{index}]: expected LedgerEntry, got {type(entry).__name__}")


def check_entries(entries: "Sequence[object]") -> None:
    """Check a ledger that is there as a whole.

    Raises:
        InvalidOrderError: Naming what is wrong, each with its position.
    """
    problems = {
        index: problem
        for index, entry in enumerate(entries)
        if (problem := entry_problem(index, entry)) is not None
    }
    if problems:
        raise _refusal(problems, len(entries))


def _refusal(problems: "Mapping[int, InvalidOrderError]", total: int) -> InvalidOrderError:
    shown = [f"  {problem}" for problem in list(problems.values())[:_PROBLEMS_SHOWN]]
    if len(problems) > _PROBLEMS_SHOWN:
        shown.append(f"  and {len(problems) - _PROBLEMS_SHOWN} more, in `problems`")
    text = f"{len(problems)} of {total} ledger entries are wrong, so nothing was looked up:"
    return InvalidOrderError("\n".join([text, *shown]), problems=problems)

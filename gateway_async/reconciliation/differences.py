"""What may be different between an entry of the ledger and the gateway's records. Pure."""

from decimal import Decimal
from typing import ClassVar

import attrs

from gateway_async.errors import GatewayError
from gateway_async.models.records import RefundRecord, TransactionRecord
from gateway_async.reconciliation.entries import LedgerEntry


@attrs.frozen(kw_only=True)
class Difference:
    """One difference; an entry may have several.

    Attributes:
        kind: The name of the class of difference, as the summary counts it.
        index: The position of the entry in the ledger, from 0.
        entry: The entry.
        records: What the gateway lists for the entry: its transactions, then its refunds.
        ledger: What the ledger says; None if it says nothing that can be compared.
        gateway: What the gateway says; None if it says nothing.
    """

    kind: ClassVar[str] = ""

    index: int
    entry: LedgerEntry
    records: tuple[TransactionRecord | RefundRecord, ...] = attrs.field(default=(), repr=False)
    ledger: object = None
    gateway: object = None

    def __str__(self) -> str:
        return f"[{self.index}] {self.text}"

    @property
    def text(self) -> str:
        """What differs, in words: the reference of the entry, the kind, and both values."""
        ref = self.entry.ref
        return f"{ref.kind} {_shown(ref.value)}: {self.kind}: {self._values}"

    @property
    def _values(self) -> str:
        return f"ledger {_shown(self.ledger)}, gateway {_shown(self.gateway)}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    text = "nothing" if value is None else str(value)
    return text if text.isprintable() else repr(text)


@attrs.frozen(kw_only=True)
class AbsentAtGateway(Difference):
    """The gateway lists no such transaction. `ledger` is the reference that was looked up."""

    kind: ClassVar[str] = "absent_at_gateway"

    ledger: str
    gateway: None = None


@attrs.frozen(kw_only=True)
class SeveralTransactions(Difference):
    """The gateway has several transactions for an order number. `gateway` has their identifiers.

    Nothing else of the entry is compared, since nothing says with which of them.
    """

    kind: ClassVar[str] = "several_transactions"

    ledger: str | None
    gateway: tuple[str | None, ...]


@attrs.frozen(kw_only=True)
class OrderNoDiffers(Difference):
    """The transaction belongs to another order number."""

    kind: ClassVar[str] = "order_no"

    ledger: str
    gateway: str


@attrs.frozen(kw_only=True)
class AmountDiffers(Difference):
    """The amounts differ, as numbers."""

    kind: ClassVar[str] = "amount"

    ledger: Decimal
    gateway: Decimal


@attrs.frozen(kw_only=True)
class CurrencyDiffers(Difference):
    """The currencies differ: the transaction's, or that of one of its refunds."""

    kind: ClassVar[str] = "currency"

    ledger: str
    gateway: str


@attrs.frozen(kw_only=True)
class RefundedDiffers(Difference):
    """Both sides know of refunds, and the sums differ."""

    kind: ClassVar[str] = "refunded_total"

    ledger: Decimal
    gateway: Decimal


@attrs.frozen(kw_only=True)
class RefundUnknownToLedger(Difference):
    """The gateway lists refunds, and the ledger knows of none."""

    kind: ClassVar[str] = "refund_unknown_to_ledger"

    ledger: Decimal
    gateway: Decimal


@attrs.frozen(kw_only=True)
class RefundAbsentAtGateway(Difference):
    """The ledger has refunds, and the gateway lists none that gave money back."""

    kind: ClassVar[str] = "refund_absent_at_gateway"

    ledger: Decimal
    gateway: Decimal


@attrs.frozen(kw_only=True)
class StateDiffers(Difference):
    """The ledger's word is none of those for the gateway's `payment_status`.

    Attributes:
        means: The ledger's words for this `payment_status`, as you gave them.
    """

    kind: ClassVar[str] = "state"

    ledger: str
    gateway: str
    means: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Unreadable(Difference):
    """A field of a record could not be read, is missing, or has a value without a known meaning.

    What hangs on the field is not compared. `gateway` is its text; empty where it is missing.

    Attributes:
        field: The name of the field.
    """

    kind: ClassVar[str] = "unreadable"

    ledger: None = None
    gateway: str
    field: str

    @property
    def _values(self) -> str:
        return f"{super()._values} ({self.field})"


@attrs.frozen(kw_only=True)
class Unanswered(Difference):
    """The look-up of the transaction, or that of the refunds, had no answer; nothing is compared.

    Attributes:
        error: Why.
    """

    kind: ClassVar[str] = "unanswered"

    ledger: None = None
    gateway: None = None
    error: GatewayError

    @property
    def _values(self) -> str:
        return str(self.error)


DIFFERENCES: tuple[type[Difference], ...] = (
    AbsentAtGateway,
    SeveralTransactions,
    OrderNoDiffers,
    AmountDiffers,
    CurrencyDiffers,
    RefundedDiffers,
    RefundUnknownToLedger,
    RefundAbsentAtGateway,
    StateDiffers,
    Unreadable,
    Unanswered,
)
"""Every class of difference."""

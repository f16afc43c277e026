"""An entry of the ledger beside what the gateway lists for it, and each way in which they differ.

Pure. A field that cannot be read, or whose value has no known meaning, is a difference of its own,
and what depends on it is not compared. How the records came is not known here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from enum import StrEnum
from functools import reduce
from typing import Any, TypeVar

import attrs

from gateway_async.errors import GatewayError, InvalidOrderError
from gateway_async.models.orders import OrderRef
from gateway_async.models.records import Record, RefundRecord, TransactionRecord
from gateway_async.models.values import Identifier, Model, checked, describe, to_amount


class Kind(StrEnum):
    """What differs.

    Attributes:
        ABSENT_AT_GATEWAY: the gateway lists no such payment; `ledger` is the reference that was
            looked up, and refunds are compared only if it lists some
        SEVERAL_TRANSACTIONS: an `order_no` has several, in `gateway`; nothing else is compared,
            since nothing says with which
        ORDER_NO: the transaction belongs to another order
        AMOUNT: as numbers: 10 and 10.00 are equal
        CURRENCY: without case; also where a refund is in another currency than its payment
        REFUNDED_TOTAL: both know of refunds, and the sums differ
        REFUND_UNKNOWN_TO_LEDGER: the gateway gave money back, and the ledger says 0
        REFUND_ABSENT_AT_GATEWAY: the ledger says it was given back, and the gateway lists nothing
            that was
        STATE: the ledger's word is none of those that you gave for the `payment_status`
        UNREADABLE: a `field` of a record cannot be read, is missing, or has a value without a
            known meaning; what depends on it is not compared
        UNANSWERED: one of the two look-ups had no answer; nothing of the entry is compared
    """

    ABSENT_AT_GATEWAY = "absent_at_gateway"
    SEVERAL_TRANSACTIONS = "several_transactions"
    ORDER_NO = "order_no"
    AMOUNT = "amount"
    CURRENCY = "currency"
    REFUNDED_TOTAL = "refunded_total"
    REFUND_UNKNOWN_TO_LEDGER = "refund_unknown_to_ledger"
    REFUND_ABSENT_AT_GATEWAY = "refund_absent_at_gateway"
    STATE = "state"
    UNREADABLE = "unreadable"
    UNANSWERED = "unanswered"


_Record = TypeVar("_Record", bound=Record)

_STRIPPED = ("transaction_id", "order_no", "currency", "payment_status", "refund_status")
_COMPARED = (*_STRIPPED, "amount", "refund_amount")
_NOTHING = Decimal(0)
EXACT = Context(prec=100, traps=[])
"""Adds amounts up exactly, whatever the precision of the program's own context."""


@attrs.frozen(kw_only=True, field_transformer=checked)
class LedgerEntry(Model):
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

    order_no: Identifier | None = None
    transaction_id: Identifier | None = None
    currency: Identifier
    amount: Decimal = attrs.field(converter=to_amount)
    refunded: Decimal = attrs.field(default=Decimal(0), converter=to_amount)
    state: str | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.order_no is None and self.transaction_id is None:
            raise InvalidOrderError(
                f"{describe(self)}: order_no and transaction_id are both missing; give one of them"
            )

    @property
    def ref(self) -> OrderRef:
        """By what it is looked up."""
        if self.transaction_id is not None:
            return OrderRef(transaction_id=self.transaction_id)
        return OrderRef(order_no=self.order_no)


# One difference


@attrs.frozen(kw_only=True)
class Difference:
    """One difference; an entry may have several.

    Attributes:
        kind: What differs.
        index: The position of the entry in the ledger, from 0.
        entry: The entry.
        records: What the gateway lists for the entry: its transactions, then its refunds.
        ledger: What the ledger says: a `Decimal` for an amount, else text; None if it says nothing
            that can be compared.
        gateway: What the gateway says, likewise; a tuple of transaction ids where it has several.
        field: ``"unreadable"``: the name of the field, whose text is in `gateway`.
        error: ``"unanswered"``: why.
    """

    kind: Kind
    index: int
    entry: LedgerEntry
    records: tuple[TransactionRecord | RefundRecord, ...] = attrs.field(default=(), repr=False)
    ledger: Decimal | str | None = None
    gateway: Decimal | str | tuple[str | None, ...] | None = None
    field: str | None = None
    error: GatewayError | None = None

    def __str__(self) -> str:
        return f"[{self.index}] {self.text}"

    @property
    def text(self) -> str:
        """What differs, in words: the reference of the entry, the kind, and both values."""
        ref = self.entry.ref
        values = f"ledger {_shown(self.ledger)}, gateway {_shown(self.gateway)}"
        if self.field is not None:
            values += f" ({self.field})"
        return f"{ref.kind} {_shown(ref.value)}: {self.kind}: {self.error or values}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_shown, value))
    text = "nothing" if value is None else str(value)
    return text if text.isprintable() else repr(text)


# One entry beside what the gateway lists for it


def _distinct(records: Iterable[_Record]) -> tuple[_Record, ...]:
    """Keep one of the records that are alike in all that is compared.

    White space around identifiers and codes goes, as where a reply is matched. Refunds without a
    reference are never alike.
    """
    kept: dict[object, _Record] = {}
    for number, record in enumerate(records):
        said: dict[str, Any] = {name: getattr(record, name, None) for name in _COMPARED}
        shown = said | {name: (said[name] or "").strip() or None for name in _STRIPPED}
        changed = {name: shown[name] for name in shown if said[name] not in (shown[name], "")}
        reference = getattr(record, "refund_reference_id", "") or number
        if isinstance(record, TransactionRecord):
            reference = None
        # `extra` is left out: it may be nested too deep to be compared.
        key = (reference, *shown.values(), frozenset(record.unreadable.items()))
        kept[key] = attrs.evolve(record, **changed)
    return tuple(kept.values())


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """One entry, and what the gateway lists for it.

    Attributes:
        index: The position of the entry in the ledger.
        entry: The entry.
        states: By `payment_status`, the ledger's words for it; without any, no state is compared.
        refund_statuses: By `refund_status`, whether such a refund gave money back.
        transactions: Its transactions; those that are alike stand once.
        refunds: Its refunds; those of the same reference that are alike stand once.
        error: Why a look-up had no answer, if one had none.
        differences: Every difference of the entry.
    """

    index: int
    entry: LedgerEntry
    states: Mapping[str, frozenset[str]]
    refund_statuses: Mapping[str, bool]
    transactions: tuple[TransactionRecord, ...] = attrs.field(default=(), converter=_distinct)
    refunds: tuple[RefundRecord, ...] = attrs.field(default=(), converter=_distinct)
    error: GatewayError | None = None
    differences: tuple[Difference, ...] = attrs.field(init=False)

    @differences.default
    def _compared(self) -> tuple[Difference, ...]:
        return tuple(_compare(self))

    def note(self, kind: Kind, **values: Any) -> Difference:  # noqa: ANN401  # by kind
        """Make a difference of this entry."""
        records: tuple[TransactionRecord | RefundRecord, ...] = (*self.transactions, *self.refunds)
        return Difference(kind=kind, index=self.index, entry=self.entry, records=records, **values)

    def unreadable(self, problems: Mapping[str, str]) -> Iterator[Difference]:
        """Make a difference of each field that cannot be read, with its text."""
        for field, text in problems.items():
            yield self.note(Kind.UNREADABLE, field=field, gateway=text)

    def gave_back(self, refund: RefundRecord) -> bool | None:
        """Say whether a refund gave money back; None where its status has no known meaning."""
        return self.refund_statuses.get(refund.refund_status or "")

    def doubts(self, refund: RefundRecord) -> dict[str, str]:
        """Return what keeps a refund from being added up: by field, its text."""
        is_done, found = self.gave_back(refund), {}
        if is_done is None:
            found["refund_status"] = refund.refund_status or ""
        if is_done is not False and refund.refund_amount is None:
            found["refund_amount"] = ""
        said, own = refund.transaction_id, {one.transaction_id for one in self.transactions}
        if is_done and said and any(own) and said not in own:  # it belongs to another payment
            found["transaction_id"] = said
        if is_done and not refund.currency:
            found["currency"] = ""
        return found

    @property
    def contradicted(self) -> list[str]:
        """The references that several refunds have, and differently."""
        names = Counter(one.refund_reference_id for one in self.refunds)
        return [name for name, count in names.items() if name and count > 1]

    @property
    def sure_refunds(self) -> list[RefundRecord]:
        """The refunds that gave money back, if nothing is in doubt that a sum needs."""
        doubtful = self.contradicted
        sure = [one for one in self.refunds if one.refund_reference_id not in doubtful]
        return [one for one in sure if self.gave_back(one) and not self.doubts(one)]


def _compare(case: Case) -> Iterator[Difference]:
    names = tuple(record.transaction_id for record in case.transactions)
    if case.error is not None:
        yield case.note(Kind.UNANSWERED, error=case.error)
    elif len(names) > 1 and names[0] is not None and len(set(names)) == 1:
        yield from case.unreadable({"transaction_id": names[0]})  # listed twice, and differently
    elif len(names) > 1:
        yield case.note(Kind.SEVERAL_TRANSACTIONS, gateway=names)
    elif names:
        yield from _compare_transaction(case)
        yield from _compare_refunds(case)
    else:
        yield case.note(Kind.ABSENT_AT_GATEWAY, ledger=case.entry.ref.value)
        if case.refunds:
            yield from _compare_refunds(case)


def _compare_transaction(case: Case) -> Iterator[Difference]:
    entry, record = case.entry, case.transactions[0]
    means = case.states.get(record.payment_status or "")
    state = entry.state if case.states else None
    currencies = {entry.currency.casefold(), (record.currency or "").casefold()}
    # The finding, the field, the ledger's value, whether the gateway's is known, whether they agree
    same_order, same_amount = entry.order_no == record.order_no, entry.amount == record.amount
    findings: tuple[tuple[Kind, str, object, bool, bool], ...] = (
        (Kind.ORDER_NO, "order_no", entry.order_no, bool(record.order_no), same_order),
        (Kind.AMOUNT, "amount", entry.amount, record.amount is not None, same_amount),
        (Kind.CURRENCY, "currency", entry.currency, bool(record.currency), len(currencies) == 1),
        (Kind.STATE, "payment_status", state, means is not None, state in (means or ())),
    )
    problems = dict(record.unreadable)
    for kind, field, wanted, is_known, agree in findings:
        said = getattr(record, field)
        if wanted is None:
            continue
        if not is_known:
            problems.setdefault(field, "" if said is None else str(said))
        elif not agree:
            yield case.note(kind, ledger=wanted, gateway=said)
    yield from case.unreadable(problems)


def _compare_refunds(case: Case) -> Iterator[Difference]:
    """Compare the sum of the refunds, unless it is not known."""
    for refund in case.refunds:
        yield from case.unreadable({**case.doubts(refund), **refund.unreadable})
    for name in case.contradicted:
        yield from case.unreadable({"refund_reference_id": name})
    record_currency = case.transactions[0].currency if case.transactions else None
    own = (record_currency or case.entry.currency).casefold()
    found = dict.fromkeys(one.currency or own for one in case.refunds if case.gave_back(one))
    foreign = [currency for currency in found if currency.casefold() != own]
    for currency in foreign:
        yield case.note(Kind.CURRENCY, ledger=case.entry.currency, gateway=currency)
    if case.contradicted or foreign or any(map(case.doubts, case.refunds)):
        return
    amounts = (one.refund_amount or _NOTHING for one in case.sure_refunds)
    wanted, said = case.entry.refunded, reduce(EXACT.add, amounts, _NOTHING)
    if wanted != said:
        kind = Kind.REFUNDED_TOTAL if said else Kind.REFUND_ABSENT_AT_GATEWAY
        kind = kind if wanted else Kind.REFUND_UNKNOWN_TO_LEDGER
        yield case.note(kind, ledger=wanted, gateway=said)

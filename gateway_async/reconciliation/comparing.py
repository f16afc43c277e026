"""An entry of the ledger beside what the gateway lists for it.

Law: what is not known is not called equal. A field that cannot be read, or whose value nobody gave
a meaning, is a difference of its own, and what hangs on it is not compared. This module is pure,
and does not know how the records came.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Context, Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.reconciliation.differences import (
    AbsentAtGateway,
    AmountDiffers,
    CurrencyDiffers,
    Difference,
    OrderNoDiffers,
    RefundAbsentAtGateway,
    RefundedDiffers,
    RefundUnknownToLedger,
    SeveralTransactions,
    StateDiffers,
    Unanswered,
    Unreadable,
)
from gateway_async.reconciliation.entries import LONGEST_AMOUNT, is_summable

if TYPE_CHECKING:
    from gateway_async.errors import GatewayError
    from gateway_async.models.records import Record, RefundRecord, TransactionRecord
    from gateway_async.reconciliation.entries import LedgerEntry

_Kind = TypeVar("_Kind", bound="Record")

_TRANSACTION_KEY = ("transaction_id", "order_no", "amount", "currency", "payment_status")
_REFUND_KEY = ("transaction_id", "order_no", "currency", "refund_amount", "refund_status")
_STRIPPED = ("transaction_id", "order_no", "currency", "payment_status", "refund_status")
_NAMES = ("transaction_id", "order_no")
_LONGEST_COUNT = 50
_NOTHING = Decimal(0)


def exact_context() -> Context:
    """Return a decimal context in which amounts are added up without rounding."""
    return Context(prec=2 * LONGEST_AMOUNT + _LONGEST_COUNT)


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """Add amounts up, without rounding."""
    context, total = exact_context(), _NOTHING
    for amount in amounts:
        total = context.add(total, amount)
    return total


def _words(value: Any) -> Any:  # noqa: ANN401  # the validator says what is wrong with it
    if isinstance(value, str):
        return frozenset([value])
    return frozenset(value) if isinstance(value, Iterable) else value


def _states(value: Any) -> Any:  # noqa: ANN401  # the same
    if not isinstance(value, Mapping):
        return value
    return {status: _words(words) for status, words in value.items()}


def _statuses(value: Any) -> Any:  # noqa: ANN401  # the same
    return {"1": True} if value is None else value


def _are_words(value: object) -> bool:
    return isinstance(value, frozenset) and all(isinstance(word, str) for word in value)


def _check_states(_: object, __: object, value: Any) -> None:  # noqa: ANN401  # anything may come
    if value is not None and not (
        isinstance(value, Mapping)
        and all(isinstance(status, str) for status in value)
        and all(map(_are_words, value.values()))
    ):
        raise ConfigurationError(
            "states: expected a mapping from payment_status to a ledger's word or words, such as "
            f"{{'3000': 'paid'}}, got {value!r}"
        )


def _check_refund_statuses(_: object, __: object, value: Any) -> None:  # noqa: ANN401  # the same
    if not isinstance(value, Mapping) or not all(
        isinstance(status, str) and isinstance(refunded, bool) for status, refunded in value.items()
    ):
        raise ConfigurationError(
            "refund_statuses: expected a mapping from refund_status to whether money went back, "
            f"such as {{'1': True, '9': False}}, got {value!r}"
        )


@attrs.frozen(kw_only=True)
class Rules:
    """What the interface does not say, and the merchant does.

    Attributes:
        states: By `payment_status`, the ledger's word for it, or several; None compares no state.
        refund_statuses: By `refund_status`, whether a refund with it gave money back. The
            interface shows the value 1 alone, taken to say "done" as `Dialect.done_statuses` does.
    """

    states: Mapping[str, frozenset[str]] | None = attrs.field(
        default=None, converter=_states, validator=_check_states
    )
    refund_statuses: Mapping[str, bool] = attrs.field(
        default=None,
        converter=_statuses,
        validator=_check_refund_statuses,
    )


def _stripped(record: "_Kind") -> "_Kind":
    """Take white space off identifiers and codes, as they are read when a reply is matched."""
    said = {name: getattr(record, name, None) for name in _STRIPPED}
    changes = {name: text.strip() or None for name, text in said.items() if text}
    changed: dict[str, Any] = {name: t for name, t in changes.items() if t != said[name]}
    return attrs.evolve(record, **changed) if changed else record


def _distinct_transactions(
    records: "Iterable[TransactionRecord]",
) -> "tuple[TransactionRecord, ...]":
    """Keep one of the transactions that are alike in all that is compared."""
    listed = tuple(map(_stripped, records))
    if len(listed) < 2:  # noqa: PLR2004  # the usual case
        return listed
    return tuple({_key(record, _TRANSACTION_KEY): record for record in listed}.values())


def _distinct_refunds(records: "Iterable[RefundRecord]") -> "tuple[RefundRecord, ...]":
    """Keep one of the refunds that are alike and have the same reference."""
    listed = tuple(map(_stripped, records))
    if len(listed) < 2:  # noqa: PLR2004  # the usual case
        return listed
    return tuple(
        {
            (r.refund_reference_id or number, _key(r, _REFUND_KEY)): r
            for number, r in enumerate(listed)
        }.values()
    )


def _key(record: "Record", fields: tuple[str, ...]) -> tuple[object, ...]:
    # `extra` is left out: it may be nested too deep to be compared.
    return (*(getattr(record, name) for name in fields), frozenset(record.unreadable.items()))


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """One entry, and what the gateway lists for it.

    Attributes:
        index: The position of the entry in the ledger.
        entry: The entry.
        rules: What the merchant says of the gateway's values.
        transactions: Its transactions; those that are alike stand once.
        refunds: Its refunds; those of the same reference that are alike stand once.
        error: Why a look-up had no answer, if one had none.
    """

    index: int
    entry: "LedgerEntry"
    rules: Rules = attrs.field(factory=Rules)
    transactions: "tuple[TransactionRecord, ...]" = attrs.field(
        default=(), converter=_distinct_transactions
    )
    refunds: "tuple[RefundRecord, ...]" = attrs.field(default=(), converter=_distinct_refunds)
    error: "GatewayError | None" = None

    @property
    def records(self) -> "tuple[TransactionRecord | RefundRecord, ...]":
        """All of them."""
        return (*self.transactions, *self.refunds)

    @property
    def done_refunds(self) -> "Iterator[RefundRecord]":
        """The refunds that gave money back, as far as that is known."""
        statuses = self.rules.refund_statuses
        return (r for r in self.refunds if statuses.get(r.refund_status or ""))

    @property
    def sure_refunds(self) -> "Iterator[RefundRecord]":
        """Those of them of which nothing is in doubt that a sum needs."""
        doubtful = frozenset(_contradicted(self.refunds))
        return (
            refund
            for refund in self.done_refunds
            if refund.refund_reference_id not in doubtful and not _refund_problems(refund, self)[0]
        )


def compare(case: Case) -> tuple[Difference, ...]:
    """Return every difference of one entry."""
    if case.error is not None:
        return (_note(case, Unanswered, error=case.error),)
    if not case.transactions:
        absent = _note(case, AbsentAtGateway, ledger=case.entry.ref.value)
        return (absent, *(_find_refunded(case) if case.refunds else ()))
    if len(case.transactions) > 1:
        return (_several(case),)
    return tuple(chain.from_iterable(find(case) for find in _FINDERS))


def _note(case: Case, kind: type[Difference], **values: Any) -> Difference:  # noqa: ANN401  # by kind
    return kind(index=case.index, entry=case.entry, records=case.records, **values)


def _several(case: Case) -> Difference:
    names = tuple(record.transaction_id for record in case.transactions)
    if len(set(names)) == 1 and names[0] is not None:
        return _note(case, Unreadable, field="transaction_id", gateway=names[0])
    return _note(case, SeveralTransactions, ledger=case.entry.transaction_id, gateway=names)


# One transaction


def _find_order_no(case: Case) -> "Iterator[Difference]":
    wanted, said = case.entry.order_no, case.transactions[0].order_no
    if wanted and said and wanted != said:
        yield _note(case, OrderNoDiffers, ledger=wanted, gateway=said)


def _find_currency(case: Case) -> "Iterator[Difference]":
    wanted, said = case.entry.currency, case.transactions[0].currency
    if said and wanted.casefold() != said.casefold():
        yield _note(case, CurrencyDiffers, ledger=wanted, gateway=said)


def _find_amount(case: Case) -> "Iterator[Difference]":
    wanted, said = case.entry.amount, case.transactions[0].amount
    if said is not None and is_summable(said) and wanted != said:
        yield _note(case, AmountDiffers, ledger=wanted, gateway=said)


def _find_state(case: Case) -> "Iterator[Difference]":
    wanted, said = case.entry.state, case.transactions[0].payment_status
    means = (case.rules.states or {}).get(said or "")
    if wanted is not None and means is not None and wanted not in means:
        yield _note(case, StateDiffers, ledger=wanted, gateway=said, means=tuple(sorted(means)))


def _find_unreadable(case: Case) -> "Iterator[Difference]":
    for field, text in _transaction_problems(case).items():
        yield _note(case, Unreadable, field=field, gateway=text)


def _transaction_problems(case: Case) -> dict[str, str]:
    """Return, by field, what is wrong with the transaction that keeps it from being compared."""
    record = case.transactions[0]
    problems = dict(record.unreadable)
    if not is_summable(record.amount):
        problems.setdefault("amount", _text(record.amount))
    if not record.currency:
        problems.setdefault("currency", "")
    if case.entry.order_no and not record.order_no:
        problems.setdefault("order_no", "")
    is_compared = case.rules.states is not None and case.entry.state is not None
    if is_compared and (record.payment_status or "") not in (case.rules.states or {}):
        problems.setdefault("payment_status", _text(record.payment_status))
    return problems


def _text(value: object) -> str:
    return "" if value is None else str(value)


# Its refunds


def _find_refunded(case: Case) -> "Iterator[Difference]":
    """Compare the sum of the refunds, unless it is not known."""
    is_known = True
    for refund in case.refunds:
        needed, others = _refund_problems(refund, case)
        is_known = is_known and not needed
        for field, text in {**others, **needed}.items():
            yield _note(case, Unreadable, field=field, gateway=text)
    for name in _contradicted(case.refunds):
        is_known = False
        yield _note(case, Unreadable, field="refund_reference_id", gateway=name)
    for currency in _foreign_currencies(case):
        is_known = False
        yield _note(case, CurrencyDiffers, ledger=case.entry.currency, gateway=currency)
    if is_known:
        yield from _compare_refunded(case)


def _refund_problems(refund: "RefundRecord", case: Case) -> tuple[dict[str, str], dict[str, str]]:
    """Return what keeps a refund from being added up, and what else of it cannot be read."""
    others = dict(refund.unreadable)
    needed = {}
    is_done = case.rules.refund_statuses.get(refund.refund_status or "")
    if is_done is None:
        text = _text(refund.refund_status)
        needed["refund_status"] = others.pop("refund_status", text)
    if is_done is not False and not is_summable(refund.refund_amount):
        text = _text(refund.refund_amount)
        needed["refund_amount"] = others.pop("refund_amount", text)
    if is_done:
        needed |= _foreign_names(refund, case)
        if not refund.currency:
            needed["currency"] = others.pop("currency", "")
    return needed, others


def _foreign_names(refund: "RefundRecord", case: Case) -> dict[str, str]:
    """Return, by field, the names of another payment that a refund has."""
    found = {}
    for field in _NAMES:
        said = getattr(refund, field)
        own = {getattr(record, field) for record in case.transactions} - {None}
        own = own or {getattr(case.entry, field)} - {None}
        if said and own and said not in own:
            found[field] = said
    return found


def _contradicted(refunds: "tuple[RefundRecord, ...]") -> list[str]:
    """Return the references that several refunds have, and differently."""
    names = [refund.refund_reference_id for refund in refunds if refund.refund_reference_id]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]


def _foreign_currencies(case: Case) -> list[str]:
    """Return the currencies of refunds that are not the transaction's."""
    said = case.transactions[0].currency if case.transactions else None
    own = (said or case.entry.currency).casefold()
    found = [refund.currency for refund in case.done_refunds if refund.currency]
    return [currency for currency in dict.fromkeys(found) if currency.casefold() != own]


def _compare_refunded(case: Case) -> "Iterator[Difference]":
    wanted = case.entry.refunded
    said = exact_sum(refund.refund_amount or _NOTHING for refund in case.done_refunds)
    if wanted == said:
        return
    if not wanted:
        kind: type[Difference] = RefundUnknownToLedger
    else:
        kind = RefundedDiffers if said else RefundAbsentAtGateway
    yield _note(case, kind, ledger=wanted, gateway=said)


_FINDERS = (
    _find_order_no,
    _find_amount,
    _find_currency,
    _find_state,
    _find_unreadable,
    _find_refunded,
)

"""What a reconciliation came to: counts, and exact totals per currency. Pure.

Law: every entry that was taken in is counted once, as matched, differing or unanswered.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, overload

import attrs

from gateway_async.reconciliation.comparing import exact_context
from gateway_async.reconciliation.differences import DIFFERENCES, Difference, Unanswered
from gateway_async.reconciliation.entries import is_summable

if TYPE_CHECKING:
    from gateway_async.reconciliation.comparing import Case

_NOTHING = Decimal(0)
_TOTALS = ("count", "amount", "refunded")


@attrs.frozen(kw_only=True)
class CurrencyTotals:
    """Both sides of one currency. Amounts are in units of it, and exact.

    The ledger's side has every entry that was taken in. The gateway's has what it lists for those
    that were answered, entry by entry: a transaction that two entries name counts for both. A
    transaction that does not tell its currency counts under the entry's; such a refund does not
    count.

    Attributes:
        ledger_count: Entries.
        gateway_count: Transactions that the gateway lists for the entries.
        ledger_amount: The sum of the entries' amounts.
        gateway_amount: The sum of the transactions' amounts, as far as they can be read.
        ledger_refunded: The sum of what the entries say was refunded.
        gateway_refunded: The sum of the refunds that gave money back, as far as that is known.
    """

    ledger_count: int = 0
    gateway_count: int = 0
    ledger_amount: Decimal = _NOTHING
    gateway_amount: Decimal = _NOTHING
    ledger_refunded: Decimal = _NOTHING
    gateway_refunded: Decimal = _NOTHING


@attrs.frozen(kw_only=True)
class Summary:
    """What a reconciliation came to, or has come to so far.

    Attributes:
        matched: Entries without a difference.
        differing: Entries with one difference or more, and both look-ups answered.
        unanswered: Entries of which a look-up had no answer, or was never made.
        differences: By `Difference.kind`, how many there were; every kind is present.
        currencies: By currency code in capitals, the totals of both sides.
        unexpected: Records that the gateway listed and nobody had asked for.
        requests: Requests of which something was sent.
        exhausted: Whether the ledger was taken to its end.
    """

    matched: int
    differing: int
    unanswered: int
    differences: Mapping[str, int]
    currencies: Mapping[str, CurrencyTotals]
    unexpected: int
    requests: int
    exhausted: bool

    @property
    def entries(self) -> int:
        """Entries that were taken in: matched, differing and unanswered ones."""
        return self.matched + self.differing + self.unanswered

    @property
    def ok(self) -> bool:
        """Whether every entry matched, none was left, and nothing unexpected came back."""
        return self.matched == self.entries and self.exhausted and not self.unexpected

    def __str__(self) -> str:
        counts = f"{self.matched} matched, {self.differing} differing"
        lines = [f"{self.entries} entries: {counts}, {self.unanswered} unanswered"]
        if not self.exhausted:
            lines.append("the ledger was not taken to its end")
        lines += [f"{kind}: {count}" for kind, count in self.differences.items() if count]
        if self.unexpected:
            lines.append(f"records that nobody asked for: {self.unexpected}")
        for currency, totals in self.currencies.items():
            lines += [_line(currency, side, totals) for side in ("ledger", "gateway")]
        return "\n".join(lines)


def _line(currency: str, side: str, totals: CurrencyTotals) -> str:
    count, amount, refunded = (getattr(totals, f"{side}_{name}") for name in _TOTALS)
    return f"{currency} {side}: {count} payments of {amount:f}, refunded {refunded:f}"


@attrs.frozen(kw_only=True, eq=False)
class ReconciliationResult(Sequence[Difference]):
    """The differences, in the order of the ledger.

    After a stream, it holds those that were found and not yet yielded.

    Attributes:
        differences: The differences.
        summary: Counts and totals of every entry that was taken in.
    """

    differences: tuple[Difference, ...] = attrs.field(repr=False)
    summary: Summary

    @property
    def ok(self) -> bool:
        """Whether every entry matched, none was left, and nothing unexpected came back."""
        return self.summary.ok

    def __len__(self) -> int:
        return len(self.differences)

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)

    @overload
    def __getitem__(self, position: int) -> Difference: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Difference, ...]: ...
    def __getitem__(self, position: int | slice) -> Difference | tuple[Difference, ...]:
        return self.differences[position]


@attrs.frozen
class Found:
    """Differences that are kept together until somebody takes them.

    Attributes:
        differences: The differences.
    """

    differences: Sequence[Difference]

    def outcomes(self) -> list[Difference]:
        """Return the differences, as a block of a batch returns its outcomes."""
        return list(self.differences)


@attrs.define
class _Side:
    """What one side of a currency has added up to."""

    context: Context
    count: int = 0
    amount: Decimal = _NOTHING
    refunded: Decimal = _NOTHING

    def add(self, amount: Decimal | None) -> None:
        self.count += 1
        if amount is not None and is_summable(amount):
            self.amount = self.context.add(self.amount, amount)

    def refund(self, amount: Decimal | None) -> None:
        if amount is not None and is_summable(amount):
            self.refunded = self.context.add(self.refunded, amount)


class Books:
    """Counts everything, and keeps the differences that nobody took yet.

    Attributes:
        finished: Differences that were found and not yet taken.
        exhausted: Whether the ledger was taken to its end.
    """

    def __init__(self) -> None:
        self.finished: deque[Found] = deque()
        self.exhausted = False
        self._requests = self._unexpected = 0
        self._matched = self._differing = self._unanswered = 0
        self._kinds = Counter(dict.fromkeys((kind.kind for kind in DIFFERENCES), 0))
        self._context = exact_context()
        self._sides: dict[str, tuple[_Side, _Side]] = {}

    def settle(self, compared: "Sequence[tuple[Case, Sequence[Difference]]]") -> None:
        """Note what was found of some entries, each of which is settled once."""
        for case, differences in compared:
            self._count(differences)
            self._add_up(case)
        found = [difference for _, differences in compared for difference in differences]
        if found:
            self.finished.append(Found(found))

    def note_look_up(self, *, requests: int = 0, unexpected: int = 0) -> None:
        """Note what a look-up cost, and how much came back unasked."""
        self._requests += requests
        self._unexpected += unexpected

    def put_back(self, differences: Sequence[Difference]) -> None:
        """Keep differences that were taken and not yielded; they are counted already."""
        if differences:
            self.finished.appendleft(Found(differences))

    def _count(self, differences: "Sequence[Difference]") -> None:
        self._kinds.update(difference.kind for difference in differences)
        if not differences:
            self._matched += 1
        elif any(isinstance(difference, Unanswered) for difference in differences):
            self._unanswered += 1
        else:
            self._differing += 1

    def _add_up(self, case: "Case") -> None:
        entry = case.entry
        ledger, _ = self._of(entry.currency)
        ledger.add(entry.amount)
        ledger.refund(entry.refunded)
        if case.error is not None:
            return
        for record in case.transactions:
            self._of(record.currency or entry.currency)[1].add(record.amount)
        for refund in case.sure_refunds:
            self._of(refund.currency or entry.currency)[1].refund(refund.refund_amount)

    def _of(self, currency: str) -> tuple[_Side, _Side]:
        code = currency.upper()
        if code not in self._sides:
            self._sides[code] = _Side(self._context), _Side(self._context)
        return self._sides[code]

    def summary(self) -> Summary:
        """Return what it has come to so far."""
        return Summary(
            matched=self._matched,
            differing=self._differing,
            unanswered=self._unanswered,
            differences=dict(self._kinds),
            currencies={code: _totals(*self._sides[code]) for code in sorted(self._sides)},
            unexpected=self._unexpected,
            requests=self._requests,
            exhausted=self.exhausted,
        )

    def result(self, *, exhausted: bool) -> ReconciliationResult:
        """Return all of it."""
        self.exhausted = exhausted
        kept = tuple(difference for found in self.finished for difference in found.differences)
        return ReconciliationResult(differences=kept, summary=self.summary())


def _totals(ledger: _Side, gateway: _Side) -> CurrencyTotals:
    return CurrencyTotals(
        ledger_count=ledger.count,
        gateway_count=gateway.count,
        ledger_amount=ledger.amount,
        gateway_amount=gateway.amount,
        ledger_refunded=ledger.refunded,
        gateway_refunded=gateway.refunded,
    )

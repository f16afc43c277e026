"""What a reconciliation came to: counts, and exact totals per currency. Pure.

Every entry that was taken in is counted once: matched, differing or unanswered.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, overload

import attrs

from gateway_async.reconciliation.differences import Difference, Kind, exact_context, is_summable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gateway_async.reconciliation.differences import Case

_NOTHING = Decimal(0)


@attrs.frozen(kw_only=True)
class CurrencyTotals:
    """Both sides of one currency. Amounts are in units of it, and exact.

    The ledger's side has every entry that was taken in. The gateway's has what it lists for those
    that were answered, entry by entry: a transaction that two entries name counts for both. A
    transaction without a currency counts under the entry's; such a refund does not
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
        unexpected: Records that the gateway listed and were not asked for.
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
        counts = f"{self.matched:,} matched, {self.differing:,} differing"
        noun = "entry" if self.entries == 1 else "entries"
        lines = [f"{self.entries:,} {noun}: {counts}, {self.unanswered:,} unanswered"]
        if not self.exhausted:
            lines.append("the ledger was not taken to its end")
        lines += [f"{kind}: {count:,}" for kind, count in self.differences.items() if count]
        if self.unexpected:
            lines.append(f"records that were not asked for: {self.unexpected:,}")
        for code, totals in self.currencies.items():
            for side in ("ledger", "gateway"):
                count, amount, refunded = (
                    getattr(totals, f"{side}_{name}") for name in ("count", "amount", "refunded")
                )
                payments = f"{count} payment{'s' * (count != 1)}"
                lines.append(f"{code} {side}: {payments} of {amount:f}, refunded {refunded:f}")
        return "\n".join(lines)


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

    @overload
    def __getitem__(self, position: int) -> Difference: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[Difference, ...]: ...
    def __getitem__(self, position: int | slice) -> Difference | tuple[Difference, ...]:
        return self.differences[position]


class Books:
    """Counts everything.

    Attributes:
        exhausted: Whether the ledger was taken to its end.
        requests: Requests of which something was sent.
        unexpected: Records that were listed and not asked for.
    """

    def __init__(self) -> None:
        self.exhausted = False
        self.requests = self.unexpected = 0
        self._entries = Counter(matched=0, differing=0, unanswered=0)
        self._kinds: Counter[str] = Counter(dict.fromkeys(map(str, Kind), 0))
        self._totals: defaultdict[str, dict[str, Any]] = defaultdict(
            lambda: attrs.asdict(CurrencyTotals())
        )

    def settle(self, cases: "Iterable[Case]") -> None:
        """Count some entries, each of which is settled once."""
        with localcontext(exact_context()):
            for case in cases:
                self._kinds.update(difference.kind for difference in case.differences)
                outcome = "differing" if case.differences else "matched"
                self._entries["unanswered" if case.error else outcome] += 1
                self._add_up(case)

    def _add_up(self, case: "Case") -> None:
        entry, own = case.entry, case.entry.currency
        self._add(own, ledger_count=1, ledger_amount=entry.amount, ledger_refunded=entry.refunded)
        if case.error is not None:
            return
        for record in case.transactions:
            self._add(record.currency or own, gateway_count=1, gateway_amount=record.amount)
        for refund in case.sure_refunds:
            self._add(refund.currency or own, gateway_refunded=refund.refund_amount)

    def _add(self, currency: str, **values: Decimal | int | None) -> None:
        totals = self._totals[currency.upper()]
        for name, value in values.items():
            if isinstance(value, int) or is_summable(value):
                totals[name] += value

    def summary(self) -> Summary:
        """Return what it has come to so far."""
        return Summary(
            **self._entries,
            differences=dict(self._kinds),
            currencies={
                code: CurrencyTotals(**self._totals[code]) for code in sorted(self._totals)
            },
            unexpected=self.unexpected,
            requests=self.requests,
            exhausted=self.exhausted,
        )

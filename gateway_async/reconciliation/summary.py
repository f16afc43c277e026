"""What a reconciliation came to: counts, and exact totals per currency. Pure.

Every entry that was taken in is counted once: matched, differing or unanswered.
"""

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal

import attrs

from gateway_async.reconciliation.differences import EXACT, Case, Difference, Kind

_NOTHING = Decimal(0)


@attrs.define(kw_only=True)
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


@attrs.define(kw_only=True)
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
        retries: Attempts beyond the first.
        exhausted: Whether the ledger was taken to its end.
    """

    matched: int = 0
    differing: int = 0
    unanswered: int = 0
    differences: Counter[str] = attrs.field(
        factory=lambda: Counter({str(kind): 0 for kind in Kind})
    )
    currencies: dict[str, CurrencyTotals] = attrs.field(factory=dict)
    unexpected: int = 0
    requests: int = 0
    retries: int = 0
    exhausted: bool = False

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
        for code, totals in sorted(self.currencies.items()):
            for side in ("ledger", "gateway"):
                count, amount, refunded = (
                    getattr(totals, f"{side}_{name}") for name in ("count", "amount", "refunded")
                )
                payments = f"{count} payment{'s' * (count != 1)}"
                sums = f"{amount:f} in all, refunded {refunded:f}"
                lines.append(f"{code} {side}: {payments}, {sums}")
        return "\n".join(lines)


@attrs.frozen(kw_only=True, eq=False)
class ReconciliationResult:
    """The differences, in the order of the ledger; iterate to get each.

    After a stream, it holds those that were found and not yet yielded.

    Attributes:
        differences: The differences.
        summary: Counts and totals of every entry that was taken in.
    """

    differences: tuple[Difference, ...] = attrs.field(repr=False)
    summary: Summary

    def __iter__(self) -> Iterator[Difference]:
        return iter(self.differences)


def count(case: Case, summary: Summary) -> None:
    """Count one entry, and add up both sides of it."""

    def totals_of(currency: str) -> CurrencyTotals:
        return summary.currencies.setdefault(currency.upper(), CurrencyTotals())

    entry = case.entry
    own = totals_of(entry.currency)
    own.ledger_count += 1
    own.ledger_amount = EXACT.add(own.ledger_amount, entry.amount)
    own.ledger_refunded = EXACT.add(own.ledger_refunded, entry.refunded)
    summary.differences.update(difference.kind for difference in case.differences)
    if case.error is not None:
        summary.unanswered += 1
        return
    summary.differing += bool(case.differences)
    summary.matched += not case.differences
    for record in case.transactions:
        totals = totals_of(record.currency or entry.currency)
        totals.gateway_count += 1
        totals.gateway_amount = EXACT.add(totals.gateway_amount, record.amount or _NOTHING)
    for refund in case.sure_refunds:
        totals, given_back = totals_of(refund.currency or entry.currency), refund.refund_amount
        totals.gateway_refunded = EXACT.add(totals.gateway_refunded, given_back or _NOTHING)

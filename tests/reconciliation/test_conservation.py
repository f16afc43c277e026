"""Whatever the books say: every entry is counted once, and the sums are exact."""

from decimal import Decimal, localcontext
from typing import Any

from hypothesis import given, settings, strategies as st

from gateway_async.reconciliation import LedgerEntry
from gateway_async.transport import HttpResponse
from tests.reconciliation.books import Books, begin
from tests.support.memory import Asked

AMOUNTS = st.decimals(0, Decimal(10) ** 40, allow_nan=False, places=2)
CURRENCIES = st.sampled_from(["EUR", "eur", "USD", "JPY"])
ENTRIES = st.builds(
    lambda number, **fields: LedgerEntry(transaction_id=f"T{number:06d}", **fields),
    number=st.integers(0, 20),
    order_no=st.none() | st.just("N000001"),
    currency=CURRENCIES,
    amount=AMOUNTS,
    refunded=AMOUNTS,
    state=st.none() | st.sampled_from(["paid", "reserved"]),
)
_NAMES = st.integers(0, 20).map(lambda number: f"T{number:06d}")
_JUNK = st.none() | st.text(max_size=3) | st.floats() | st.lists(st.integers(), max_size=1)


def records(**fields: Any) -> Any:
    """Draw records of which any field is right, missing or junk."""
    return st.fixed_dictionaries({}, optional={n: right | _JUNK for n, right in fields.items()})


BOOKS = st.builds(
    Books,
    transactions=st.dictionaries(
        _NAMES,
        st.none()
        | records(
            amount=AMOUNTS.map(str),
            currency=CURRENCIES,
            payment_status=st.sampled_from(["3000", "4100", "9"]),
            query_result=st.sampled_from(["1", "2"]),
            order_no=st.just("N000001"),
            transaction_date=st.just("20230516120000"),
        ),
        max_size=8,
    ),
    refunds=st.dictionaries(
        _NAMES,
        st.lists(
            records(
                refund_amount=AMOUNTS.map(str),
                currency=CURRENCIES,
                refund_status=st.sampled_from(["1", "9"]),
                refund_reference_id=st.sampled_from(["", "R1", "R2"]),
            ),
            max_size=3,
        ),
        max_size=8,
    ),
)


@settings(max_examples=50)
@given(st.lists(ENTRIES, max_size=25), BOOKS, st.integers(1, 12), st.sets(st.integers(0, 20)))
async def test_every_entry_is_counted_once(
    ledger: list[LedgerEntry], books: Books, window: int, failing: set[int]
) -> None:
    def handler(asked: Asked) -> Any:
        reply = books(asked)
        return HttpResponse(302, {}, b"") if books.requests in failing else reply

    states = {"3000": "paid", "4100": "reserved"}
    meanings: dict[str, Any] = {"states": states, "refund_statuses": {"1": True}}
    result = await begin(ledger, handler, window=window, **meanings)
    summary = result.summary
    with_some = {difference.index for difference in result}
    unanswered = {d.index for d in result if d.kind == "unanswered"}
    assert summary.entries == len(ledger)
    assert summary.matched == len(ledger) - len(with_some)
    assert summary.unanswered == len(unanswered)
    gateway = sum(totals.gateway_count for totals in summary.currencies.values())
    assert gateway <= len(ledger) - len(unanswered)
    assert sum(summary.differences.values()) == len(result.differences)
    assert [d.index for d in result] == sorted(d.index for d in result)
    with localcontext(prec=500):
        for name in ("amount", "refunded"):
            for code, totals in summary.currencies.items():
                expected = sum(getattr(e, name) for e in ledger if e.currency.upper() == code)
                assert getattr(totals, f"ledger_{name}") == expected

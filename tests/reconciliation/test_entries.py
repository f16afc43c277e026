"""Entries of a ledger: checked when they are made, and named where they are none."""

from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest

from gateway_async import BatchPolicy, ConfigurationError, InvalidOrderError, OrderRef
from gateway_async.reconciliation import Difference, LedgerEntry, Reconciliation, reconcile
from tests.memory import MemoryTransport, client_over
from tests.reconciliation.books import Books, entries, entry
from tests.reconciliation.planting import found


def test_what_an_entry_is_looked_up_by() -> None:
    assert entry(1).ref == OrderRef(transaction_id="T000001")
    assert entry(1, transaction_id=None).ref == OrderRef(order_no="N000001")
    assert entry(1, order_no=None).ref == OrderRef(transaction_id="T000001")


def test_amounts_are_converted() -> None:
    made = LedgerEntry(order_no="N1", currency="EUR", amount="12.50", refunded=3)
    assert (made.amount, made.refunded, made.state) == (Decimal("12.50"), Decimal(3), None)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"amount": "12,50"}, InvalidOrderError, r"N000001.*\.amount: '12,50'"),
        ({"amount": "-1"}, InvalidOrderError, r"\.amount: .*-1'"),
        ({"refunded": "NaN"}, InvalidOrderError, r"\.refunded: 'NaN'"),
        ({"amount": "1e100"}, InvalidOrderError, r"\.amount: .*100 digits"),
        ({"refunded": "1e-101"}, InvalidOrderError, r"\.refunded: .*100 digits"),
        ({"currency": " "}, InvalidOrderError, r"\.currency: ' '"),
        ({"amount": 12.5}, InvalidOrderError, r"\.amount: .*float"),
        ({"transaction_id": None, "order_no": None}, InvalidOrderError, "both None"),
    ],
)
def test_wrong_entries(changes: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        entry(1, **changes)


@pytest.mark.parametrize("ledger", [3, "abc", {"a": entry(1)}, entry(1)])
def test_what_is_no_ledger(ledger: Any) -> None:
    with pytest.raises(InvalidOrderError, match="ledger: expected an iterable"):
        reconcile(client_over(MemoryTransport(Books())), ledger)


def test_what_is_no_client_and_too_large_a_chunk() -> None:
    with pytest.raises(ConfigurationError, match="gateway: expected GatewayClient"):
        reconcile([], [])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ConfigurationError, match="chunk_size"):
        reconcile(client_over(MemoryTransport(Books())), [], policy=BatchPolicy(chunk_size=101))


async def test_a_sequence_is_checked_whole() -> None:
    books = Books()
    ledger: list[Any] = [*entries(3), {"amount": 1}, entry(4), None]
    reconciliation = reconcile(client_over(MemoryTransport(books)), ledger)
    with pytest.raises(InvalidOrderError, match=r"2 of 6 .*\n.*ledger\[3\]: .*got dict") as caught:
        await reconciliation
    assert list(caught.value.problems) == [3, 5]
    assert books.requests == 0


async def test_many_wrong_entries_are_not_all_shown() -> None:
    with pytest.raises(InvalidOrderError, match="and 5 more"):
        await reconcile(client_over(MemoryTransport(Books())), [None] * 25)  # type: ignore[list-item]  # on purpose


def _bad(error: Exception | None) -> Iterator[Any]:
    yield from entries(7)
    if error is not None:
        raise error
    yield {"amount": 1}
    pytest.fail("taken too far")


async def _later(ledger: Iterator[Any]) -> AsyncIterator[Any]:
    for one in ledger:
        yield one


async def _take(streamed: Reconciliation, seen: list[Difference]) -> None:
    async with streamed:
        async for difference in streamed:
            seen.append(difference)  # noqa: PERF401  # what was seen before it raised


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("error", [None, LookupError("the database is gone"), TimeoutError("it")])
async def test_a_stream_that_breaks_raises_once_the_rest_is_compared(
    error: Exception | None, later: bool
) -> None:
    def ledger() -> Any:
        return _later(_bad(error)) if later else _bad(error)

    gateway = client_over(MemoryTransport(Books({"T000006": None})))
    expected = (InvalidOrderError, r"ledger\[7\]") if error is None else (type(error), str(error))
    awaited = reconcile(gateway, ledger(), window=5)
    with pytest.raises(expected[0], match=expected[1]):
        await awaited
    assert found(awaited.result) == [(6, "absent_at_gateway")]
    streamed = reconcile(gateway, ledger(), window=5)
    seen: list[Difference] = []
    with pytest.raises(expected[0], match=expected[1]):
        await _take(streamed, seen)
    assert found(seen) == [(6, "absent_at_gateway")]
    for summary in (awaited.summary, streamed.summary):
        assert (summary.entries, summary.matched, summary.exhausted) == (7, 6, False)
        assert "not taken to its end" in str(summary)

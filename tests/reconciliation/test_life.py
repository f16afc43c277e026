"""A reconciliation is used as a batch is, and every entry that it took in is counted once."""

import asyncio
import os
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway_async import BatchPolicy, ConfigurationError, InvalidOrderError, RetryPolicy
from gateway_async.reconciliation import (
    Difference,
    LedgerEntry,
    Reconciliation,
    Summary,
    reconcile,
)
from gateway_async.transport import HttpResponse
from tests.memory import Asked, MemoryTransport, client_over
from tests.reconciliation.books import Books, entries, entry
from tests.reconciliation.planting import found

EVERY_TENTH = Books({f"T{number:06d}": None for number in range(0, 1000, 10)})
ROOT = Path(__file__).parents[2]
LOST = HttpResponse(302, {}, b"")
WAYS = pytest.mark.parametrize("later", [False, True])
"""A ledger is an iterable, or an asynchronous one."""


class _Counted:
    """Entries that are made when they are taken, and know how many were."""

    def __init__(self, count: int) -> None:
        self.taken = 0
        self.closed = False
        self._count = count

    def __iter__(self) -> Iterator[LedgerEntry]:
        try:
            for one in entries(self._count):
                self.taken += 1
                yield one
        finally:
            self.closed = True


async def _later(ledger: Any) -> AsyncIterator[Any]:
    taken = iter(ledger)
    try:
        for one in taken:
            await asyncio.sleep(0)
            yield one
    finally:
        taken.close()


def _begin(ledger: Any, answers: Any = EVERY_TENTH, **options: Any) -> Reconciliation:
    gateway = client_over(MemoryTransport(answers), retry=RetryPolicy(attempts=1))
    return reconcile(gateway, ledger, **options)


def _check(summary: Summary, taken: int) -> None:
    """Check that every entry taken in is counted, once, and that no task is left."""
    assert summary.entries == taken
    assert summary.unanswered == summary.differences["unanswered"]
    assert sum(totals.ledger_count for totals in summary.currencies.values()) == taken
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def _stream(reconciliation: Reconciliation, seen: list[Difference]) -> None:
    async with reconciliation:
        async for difference in reconciliation:
            seen.append(difference)  # noqa: PERF401  # what was seen before the end


# What goes in


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"amount": "12,50"}, r"N000001.*\.amount: '12,50'"),
        ({"refunded": "NaN"}, r"\.refunded: 'NaN'"),
        ({"amount": "1e100"}, r"\.amount: .*100 digits"),
        ({"refunded": "1e-101"}, r"\.refunded: .*100 digits"),
        ({"amount": 12.5}, r"\.amount: .*float"),
        ({"transaction_id": None, "order_no": None}, "both None"),
    ],
)
def test_wrong_entries(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOrderError, match=text):
        entry(1, **changes)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"gateway": []}, ConfigurationError),
        ({"ledger": 3}, InvalidOrderError),
        ({"ledger": "abc"}, InvalidOrderError),
        ({"ledger": entry(1)}, InvalidOrderError),
        ({"states": ["3000"]}, ConfigurationError),
        ({"states": {"3000": 1}}, ConfigurationError),
        ({"states": {3000: "paid"}}, ConfigurationError),
        ({"refund_statuses": {"1": "yes"}}, ConfigurationError),
        ({"refund_statuses": ["1"]}, ConfigurationError),
        ({"window": True}, ConfigurationError),
        ({"policy": 8}, ConfigurationError),
    ],
)
def test_wrong_settings(settings: dict[str, Any], error: type[Exception]) -> None:
    usual = {"gateway": client_over(MemoryTransport(Books())), "ledger": []}
    with pytest.raises(error, match=f"^{next(iter(settings))}: "):
        reconcile(**{**usual, **settings})


async def test_a_sequence_is_checked_whole() -> None:
    books = Books()
    ledger: list[Any] = [*entries(3), {"amount": 1}, entry(4), None]
    with pytest.raises(InvalidOrderError, match=r"2 of 6 .*\n.*ledger\[3\]: .*got dict") as caught:
        await _begin(ledger, books)
    assert list(caught.value.problems) == [3, 5]
    assert books.requests == 0


def _bad(error: Exception | None) -> Iterator[Any]:
    yield from entries(7)
    if error is not None:
        raise error
    yield {"amount": 1}
    pytest.fail("taken too far")


@WAYS
@pytest.mark.parametrize("error", [None, LookupError("the database is gone"), TimeoutError("it")])
async def test_a_stream_that_breaks_raises_once_the_rest_is_compared(
    error: Exception | None, later: bool
) -> None:
    def begin() -> Reconciliation:
        ledger = _later(_bad(error)) if later else _bad(error)
        return _begin(ledger, Books({"T000006": None}), window=5)

    expected = (InvalidOrderError, r"ledger\[7\]") if error is None else (type(error), str(error))
    awaited, streamed, seen = begin(), begin(), list[Difference]()
    with pytest.raises(expected[0], match=expected[1]):
        await awaited
    with pytest.raises(expected[0], match=expected[1]):
        await _stream(streamed, seen)
    assert found(awaited.result) == found(seen) == [(6, "absent_at_gateway")]
    for summary in (awaited.summary, streamed.summary):
        assert (summary.entries, summary.matched, summary.exhausted) == (7, 6, False)
        assert "not taken to its end" in str(summary)


# How it runs


class _Crowd:
    """Answers look-ups, and knows how many were in flight at most."""

    def __init__(self) -> None:
        self.most = self._flying = 0

    async def __call__(self, asked: Asked) -> dict[str, Any]:
        self._flying += 1
        self.most = max(self.most, self._flying)
        for _ in range(5):
            await asyncio.sleep(0)
        self._flying -= 1
        return EVERY_TENTH(asked)


@pytest.mark.parametrize(("concurrency", "of_call"), [(1, True), (2, False), (5, True)])
async def test_no_more_requests_are_in_flight_than_concurrency_says(
    concurrency: int, *, of_call: bool
) -> None:
    crowd, policy = _Crowd(), BatchPolicy(concurrency=concurrency, chunk_size=10)
    gateway = client_over(MemoryTransport(crowd), policy=None if of_call else policy)
    await reconcile(gateway, entries(300), window=100, policy=policy if of_call else None)
    assert crowd.most == concurrency


@WAYS
async def test_a_slow_consumer_holds_the_ledger_back(later: bool) -> None:
    ledger = _Counted(1000)
    most_ahead = 0
    async with _begin(_later(ledger) if later else ledger, window=20) as reconciliation:
        async for difference in reconciliation:
            for _ in range(100):
                await asyncio.sleep(0)
            most_ahead = max(most_ahead, ledger.taken - difference.index)
            assert reconciliation.progress.entries <= ledger.taken
    _check(reconciliation.summary, 1000)
    assert most_ahead <= 3 * 20  # being read, found, being looked up


@WAYS
async def test_left_early(later: bool) -> None:
    ledger = _Counted(1000)
    async with _begin(_later(ledger) if later else ledger, window=50) as reconciliation:
        first = await anext(reconciliation)
    summary = reconciliation.summary
    _check(summary, ledger.taken)
    assert (ledger.closed, summary.exhausted, summary.ok) == (True, False, False)
    assert summary.entries < 1000
    told = found([first, *reconciliation.result])
    assert told[:5] == [(index, "absent_at_gateway") for index in (0, 10, 20, 30, 40)]
    assert len(told) == sum(summary.differences.values())


@pytest.mark.parametrize("answered", [0, 7, 8])
@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelled_while_look_ups_are_out(streamed: bool, answered: int) -> None:
    ledger, holds, seen = _Counted(1000), asyncio.Event(), list[Difference]()
    left = iter(range(answered))

    async def answer(asked: Asked) -> dict[str, Any]:
        if next(left, None) is None:
            holds.set()
            await asyncio.Event().wait()
        return EVERY_TENTH(asked)

    policy = BatchPolicy(chunk_size=10, concurrency=4)
    reconciliation = _begin(ledger, answer, window=40, policy=policy)
    running = _stream(reconciliation, seen) if streamed else reconciliation
    task: asyncio.Task[Any] = asyncio.create_task(running)
    await holds.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert streamed or caught.value.outcome is reconciliation.result  # type: ignore[attr-defined]
    summary = reconciliation.summary
    _check(summary, ledger.taken)
    assert (summary.unanswered, ledger.closed) == (40, True)
    assert summary.matched + summary.differing == (answered // 8) * 40
    told = [*found(seen), *found(reconciliation.result)]
    assert len(told) == len(set(told)) == sum(summary.differences.values())
    rest = [one for one in reconciliation.result if one.kind == "unanswered"]
    assert all("no answer was waited for" in str(one.error) for one in rest)


async def test_a_client_that_is_closed() -> None:
    gateway = client_over(MemoryTransport(EVERY_TENTH))
    await gateway.aclose()
    reconciliation = reconcile(gateway, entries(5))
    with pytest.raises(ConfigurationError, match="closed"):
        await reconciliation
    _check(reconciliation.summary, 5)


async def test_after_the_deadline_nothing_more_is_asked() -> None:
    books, policy = Books(), BatchPolicy(deadline_seconds=1e-9)
    result = await _begin(entries(50), books, policy=policy, window=20)
    assert books.requests == 0
    _check(result.summary, 50)
    assert (result.summary.unanswered, result.summary.exhausted) == (50, True)
    assert "deadline" in str(result[0])


async def test_a_ledger_is_not_waited_for_beyond_the_deadline() -> None:
    taken = _Counted(3)

    async def ledger() -> AsyncIterator[LedgerEntry]:
        for one in taken:
            yield one
        await asyncio.Event().wait()

    result = await _begin(ledger(), policy=BatchPolicy(deadline_seconds=0.05))
    _check(result.summary, taken.taken)
    assert (result.summary.unanswered, result.summary.exhausted) == (taken.taken, False)


@pytest.mark.parametrize("operation", ["query", "search_refunds"])
async def test_a_look_up_without_an_answer(operation: str) -> None:
    def answer(asked: Any) -> Any:
        is_lost = asked.operation.name == operation and "T000002" in asked.transactions
        return LOST if is_lost else Books({"T000002": {"amount": "1.00"}})(asked)

    result = await _begin([*entries(5)], answer, policy=BatchPolicy(chunk_size=1))
    assert found(result) == [(2, "unanswered")]
    assert "302" in str(result[0])
    totals = result.summary.currencies["EUR"]
    assert (totals.ledger_count, totals.gateway_count) == (5, 4)


@pytest.mark.parametrize(("lost", "unanswered", "asked"), [({0, 1, 2}, 30, 6), ({0, 2, 4}, 15, 12)])
async def test_a_gateway_that_is_gone_is_not_asked_for_ever(
    lost: set[int], unanswered: int, asked: int
) -> None:
    """After three requests of one kind in a row nothing more is asked, and not before."""
    requests: list[Asked] = []

    def answer(request: Asked) -> Any:
        window = len(requests) // 2
        requests.append(request)
        return LOST if window in lost else Books()(request)

    result = await _begin(entries(30), answer, window=5)
    _check(result.summary, 30)
    assert (len(requests), result.summary.unanswered) == (asked, unanswered)
    assert result.summary.exhausted
    assert ("3 requests in a row had no answer" in str(result[-1])) == (unanswered == 30)


async def test_a_reference_that_cannot_be_asked_for_is_no_missing_answer() -> None:
    odd = entry(1, transaction_id="a,b")
    result = await _begin([odd, odd, odd, entry(2)], Books(), window=1)
    assert found(result) == [(index, "unanswered") for index in range(3)]
    assert isinstance(result[0].error, InvalidOrderError)


# What it takes

_MOST_GROWTH = 150
"""Bytes an entry at most, since rubbish piles up for a while; one that is kept takes hundreds."""


async def _peak(count: int) -> int:
    transport = MemoryTransport(Books({f"T{number:06d}": None for number in range(0, count, 500)}))
    differences = 0
    tracemalloc.start()
    try:
        async with reconcile(client_over(transport), entries(count), window=100) as reconciliation:
            async for _ in reconciliation:
                transport.asked.clear()
                differences += 1
        assert (differences, reconciliation.summary.entries) == (count // 500, count)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


async def test_memory_does_not_grow_with_the_ledger() -> None:
    await _peak(500)
    few, more = await _peak(500), await _peak(2500)
    assert more - few < _MOST_GROWTH * 2000


@pytest.mark.slow
def test_the_example_finds_both_differences() -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "docs" / "examples" / "reconcile.py")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)  # noqa: S603  # our own file
    assert done.stderr == ""
    assert done.stdout.splitlines()[:3] == [
        "S00000041 amount 25.00",
        "S00000071 refund_absent_at_gateway 0",
        "1,000 entries: 998 matched, 2 differing, 0 unanswered",
    ]

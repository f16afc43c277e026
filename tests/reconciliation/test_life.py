"""A reconciliation is used as a batch is, and every entry that it took in is counted once."""

import asyncio
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway_async import BatchPolicy, ConfigurationError, InvalidOrderError
from gateway_async.reconciliation import Difference, LedgerEntry, Reconciliation, Summary
from gateway_async.transport import HttpResponse
from tests.reconciliation.books import Books, begin, entries, entry, found
from tests.support.clock import BEYOND, Clock
from tests.support.memory import Asked

EVERY_TENTH = Books({f"T{number:06d}": None for number in range(0, 1000, 10)})
LOST = HttpResponse(302, {}, b"")


class _Taken:
    """Entries that are made when they are taken, and know how many were."""

    def __init__(self, count: int) -> None:
        self.count, self.closed = 0, False
        self.alive = weakref.WeakSet[LedgerEntry]()
        self.ledger = self._take(count)

    async def _take(self, count: int) -> AsyncIterator[LedgerEntry]:
        try:
            for one in entries(count):
                await asyncio.sleep(0)
                self.count += 1
                self.alive.add(one)
                yield one
        finally:
            self.closed = True


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


async def test_a_sequence_is_checked_whole() -> None:
    with pytest.raises(InvalidOrderError, match="both missing"):
        entry(1, transaction_id=None, order_no=None)
    with pytest.raises(InvalidOrderError, match="of LedgerEntry, got str"):
        begin("text", Books())
    with pytest.raises(ConfigurationError, match=r"^states: "):
        begin([], Books(), states={"3000": ["paid", 1]})
    books = Books()
    ledger: list[Any] = [*entries(3), {"amount": 1}, entry(4), None]
    with pytest.raises(InvalidOrderError, match=r"2 of 6 .*\n.*ledger\[3\]: .*got dict") as caught:
        await begin(ledger, books)
    assert list(caught.value.problems) == [3, 5]
    assert books.requests == 0


def _bad(error: Exception | None) -> Iterator[Any]:
    yield from entries(7)
    if error is not None:
        raise error
    yield {"amount": 1}
    pytest.fail("taken too far")


@pytest.mark.parametrize("error", [None, TimeoutError("the database is gone")])
async def test_a_broken_stream_raises_behind_the_rest(error: Exception | None) -> None:
    expected = (InvalidOrderError, r"ledger\[7\]") if error is None else (type(error), str(error))
    seen: list[Difference] = []
    reconciliation = begin(_bad(error), Books({"T000006": None}), window=5)
    with pytest.raises(expected[0], match=expected[1]):
        await _stream(reconciliation, seen)
    assert found([*seen, *reconciliation.result]) == [(6, "absent_at_gateway")]
    summary = reconciliation.summary
    assert (summary.entries, summary.matched, summary.exhausted) == (7, 6, False)
    assert "not taken to its end" in str(summary)


# How it runs


async def test_a_stream_takes_in_and_keeps_one_window_and_may_be_left_early() -> None:
    taken = _Taken(1000)
    async with begin(taken.ledger, EVERY_TENTH, window=50) as reconciliation:
        async for difference in reconciliation:
            assert taken.count == reconciliation.progress.entries
            assert taken.count - difference.index <= 50
            assert len(taken.alive) <= 50
    _check(reconciliation.summary, 1000)
    taken = _Taken(1000)
    async with begin(taken.ledger, EVERY_TENTH, window=50) as reconciliation:
        first = await anext(reconciliation)
    summary = reconciliation.summary
    _check(summary, 50)
    assert (taken.closed, summary.exhausted, summary.ok) == (True, False, False)
    told = found([first, *reconciliation.result])
    assert told == [(index, "absent_at_gateway") for index in (0, 10, 20, 30, 40)]


@pytest.mark.parametrize("answered", [0, 8])
@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelled_while_look_ups_are_out(streamed: bool, answered: int) -> None:
    taken, holds, seen = _Taken(1000), asyncio.Event(), list[Difference]()
    left = iter(range(answered))

    async def answer(asked: Asked) -> dict[str, Any]:
        if next(left, None) is None:
            holds.set()
            await asyncio.Event().wait()
        return EVERY_TENTH(asked)

    policy = BatchPolicy(chunk_size=10, concurrency=4)
    reconciliation = begin(taken.ledger, answer, window=40, policy=policy)
    running = _stream(reconciliation, seen) if streamed else reconciliation
    task: asyncio.Task[Any] = asyncio.create_task(running)
    await holds.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert streamed or caught.value.outcome is reconciliation.result  # type: ignore[attr-defined]
    summary = reconciliation.summary
    _check(summary, taken.count)
    assert (summary.unanswered, taken.closed) == (40, True)
    assert summary.matched + summary.differing == (answered // 8) * 40
    told = [*found(seen), *found(reconciliation.result)]
    assert len(told) == len(set(told)) == sum(summary.differences.values())
    rest = [one for one in reconciliation.result if one.kind == "unanswered"]
    assert all("no answer was waited for" in str(one.error) for one in rest)


async def test_it_is_used_once_and_says_so() -> None:
    reconciliation = begin(entries(1), EVERY_TENTH)
    with pytest.raises(RuntimeError, match="no result yet"):
        _ = reconciliation.result
    assert found(await reconciliation) == [(0, "absent_at_gateway")]
    for again in (reconciliation, _stream(reconciliation, [])):
        with pytest.raises(RuntimeError, match="used once"):
            await again


async def test_after_the_deadline_nothing_more_is_asked_and_no_ledger_waited_for(
    clock: Clock,
) -> None:
    async def ledger() -> AsyncIterator[LedgerEntry]:
        for one in entries(3):
            yield one
        clock.advance()
        await asyncio.Event().wait()

    for given, seconds, exhausted in ((entries(50), 1e-9, 50), (ledger(), BEYOND, 0)):
        books, policy = Books(), BatchPolicy(deadline_seconds=seconds)
        result = await begin(given, books, policy=policy, window=20)
        assert books.requests == 0
        assert "deadline" in str(result.differences[0])
        _check(result.summary, exhausted or 3)
        assert result.summary.unanswered == result.summary.entries
        assert result.summary.exhausted is bool(exhausted)


@pytest.mark.parametrize(("lost", "unanswered", "asked"), [({0, 1, 2}, 30, 6), ({0, 2, 4}, 15, 12)])
async def test_a_lost_gateway_is_not_asked_on(lost: set[int], unanswered: int, asked: int) -> None:
    """After three requests of one kind in a row nothing more is asked, and not before."""
    requests: list[Asked] = []

    def answer(request: Asked) -> Any:
        window = len(requests) // 2
        requests.append(request)
        return LOST if window in lost else Books()(request)

    result = await begin(entries(30), answer, window=5)
    _check(result.summary, 30)
    assert (len(requests), result.summary.unanswered) == (asked, unanswered)
    gave_up = "3 requests in a row had no answer" in str(result.differences[-1])
    assert gave_up == (unanswered == 30)

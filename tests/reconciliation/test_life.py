"""A reconciliation is used as a batch is: once, awaited or streamed, left early, cancelled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gateway_async import BatchPolicy, ConfigurationError
from gateway_async.reconciliation import LedgerEntry, Reconciliation, Summary, reconcile
from tests.memory import Asked, MemoryTransport, client_over
from tests.reconciliation.books import Books, entries, entry
from tests.reconciliation.planting import found

EVERY_TENTH = Books({f"T{number:06d}": None for number in range(0, 1000, 10)})


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

    async def later(self) -> AsyncIterator[LedgerEntry]:
        try:
            for one in entries(self._count):
                await asyncio.sleep(0)
                self.taken += 1
                yield one
        finally:
            self.closed = True


class _Held:
    """Answers a number of look-ups, then lets the others wait; tells when one does."""

    def __init__(self, answered: int) -> None:
        self.holds = asyncio.Event()
        self._left = answered

    async def __call__(self, asked: Asked) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            self.holds.set()
            await asyncio.Event().wait()
        return EVERY_TENTH(asked)


def _begin(ledger: Any, answers: Any = EVERY_TENTH, **options: Any) -> Reconciliation:
    return reconcile(client_over(MemoryTransport(answers)), ledger, **options)


def _check(summary: Summary, taken: int) -> None:
    """Check that every entry taken in is counted, once."""
    assert summary.entries == taken
    assert summary.entries == summary.matched + summary.differing + summary.unanswered
    assert summary.unanswered == summary.differences["unanswered"]
    assert sum(totals.ledger_count for totals in summary.currencies.values()) == taken


def _no_task_left() -> None:
    assert asyncio.all_tasks() == {asyncio.current_task()}


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


@pytest.mark.parametrize("whose", ["the call's", "the client's"])
@pytest.mark.parametrize("concurrency", [1, 2, 5])
async def test_no_more_requests_are_in_flight_than_concurrency_says(
    concurrency: int, whose: str
) -> None:
    crowd, policy = _Crowd(), BatchPolicy(concurrency=concurrency, chunk_size=10)
    of_call, of_client = (policy, None) if whose == "the call's" else (None, policy)
    gateway = client_over(MemoryTransport(crowd), policy=of_client)
    await reconcile(gateway, entries(300), window=100, policy=of_call)
    assert crowd.most == concurrency


@pytest.mark.parametrize("later", [False, True])
async def test_a_slow_consumer_holds_the_ledger_back(later: bool) -> None:
    ledger = _Counted(1000)
    source = ledger.later() if later else ledger
    most_ahead = 0
    async with _begin(source, window=20) as reconciliation:
        async for difference in reconciliation:
            for _ in range(100):
                await asyncio.sleep(0)
            most_ahead = max(most_ahead, ledger.taken - difference.index)
            assert reconciliation.progress.entries <= ledger.taken
    _check(reconciliation.summary, 1000)
    assert most_ahead <= 3 * 20  # being read, found, being looked up
    _no_task_left()


@pytest.mark.parametrize("later", [False, True])
async def test_left_early(later: bool) -> None:
    ledger = _Counted(1000)
    source = ledger.later() if later else ledger
    async with _begin(source, window=50) as reconciliation:
        first = await anext(reconciliation)
    assert (first.index, first.kind) == (0, "absent_at_gateway")
    summary = reconciliation.summary
    _check(summary, ledger.taken)
    assert ledger.closed
    assert (summary.exhausted, summary.ok) == (False, False)
    assert summary.entries < 1000
    left = found(reconciliation.result)
    assert left[:4] == [(index, "absent_at_gateway") for index in (10, 20, 30, 40)]
    assert len(left) + 1 == sum(summary.differences.values())
    _no_task_left()


@pytest.mark.parametrize("answered", [0, 1, 7, 8, 20])
@pytest.mark.parametrize("streamed", [False, True])
async def test_cancelled_while_look_ups_are_out(streamed: bool, answered: int) -> None:
    ledger = _Counted(1000)
    handler = _Held(answered)
    policy = BatchPolicy(chunk_size=10, concurrency=4)
    reconciliation = _begin(ledger, handler, window=40, policy=policy)
    seen = []

    async def stream() -> None:
        async with reconciliation:
            async for difference in reconciliation:
                seen.append(difference)  # noqa: PERF401  # what was seen before the end

    task = asyncio.create_task(stream() if streamed else reconciliation)
    await handler.holds.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    if not streamed:
        assert caught.value.outcome is reconciliation.result  # type: ignore[attr-defined]
    summary = reconciliation.summary
    _check(summary, ledger.taken)
    assert summary.unanswered == 40
    assert summary.matched + summary.differing == (answered // 8) * 40
    told = [*found(seen), *found(reconciliation.result)]
    assert len(told) == len(set(told)) == sum(summary.differences.values())
    rest = [one for one in reconciliation.result if one.kind == "unanswered"]
    assert all("no answer was waited for" in str(one.error) for one in rest)
    assert ledger.closed
    _no_task_left()


async def test_a_client_that_is_closed() -> None:
    gateway = client_over(MemoryTransport(EVERY_TENTH))
    await gateway.aclose()
    reconciliation = reconcile(gateway, entries(5))
    with pytest.raises(ConfigurationError, match="closed"):
        await reconciliation
    _check(reconciliation.summary, 5)


async def test_after_the_deadline_nothing_more_is_asked() -> None:
    books = Books()
    policy = BatchPolicy(deadline_seconds=1e-9)
    result = await _begin((entry(n) for n in range(50)), books, policy=policy, window=20)
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

    policy = BatchPolicy(deadline_seconds=0.05)
    result = await _begin(ledger(), policy=policy)
    _check(result.summary, taken.taken)
    assert (result.summary.unanswered, result.summary.exhausted) == (taken.taken, False)
    _no_task_left()

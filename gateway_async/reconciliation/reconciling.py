"""`reconcile`, and the `Reconciliation` that it returns: to be awaited or streamed, once.

A window of entries is taken in, looked up and compared, then the next. An entry that was taken in
is settled exactly once, whatever happens.
"""

import asyncio
import copy
import functools
import math
from collections import Counter, deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterable, Mapping
from typing import Any, Self

import attrs

from gateway_async.batching.batch import Batch, UsedOnce, check_size
from gateway_async.batching.feed import GivenOrders, check_orders, refusal
from gateway_async.client import GatewayClient
from gateway_async.errors import GatewayError, InvalidOrderError, NotSentError, OutcomeUnknownError
from gateway_async.models.orders import OrderRef, OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.reconciliation.differences import Case, Difference, LedgerEntry
from gateway_async.reconciliation.summary import ReconciliationResult, Summary, count
from gateway_async.session import Gate
from gateway_async.settings import COUNT, FLAG, TEXT, BatchPolicy, converted, expect, to_set

DEFAULT_WINDOW = 1500
_ANSWERED = (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
_COMPARED_AT_ONCE = 200
_ASKED_AT_ONCE = 99
"""One less than a reply has records: a full reply may lack records of orders that it lists."""


@attrs.define(slots=False, eq=False, repr=False)
class Reconciliation(UsedOnce[ReconciliationResult], AsyncIterator[Difference]):
    """One comparison of a ledger with the gateway's records.

    ``await reconciliation`` gives the `ReconciliationResult`. ``async with reconciliation``
    streams instead: iterate to get each difference, in the order of the ledger and in bounded
    memory. Leaving early, or being cancelled, looks up nothing more, and waits for what is in
    flight as a batch does; the entries that were taken in by then and not compared are unanswered.
    """

    _gateway: GatewayClient
    _source: GivenOrders
    _make_case: Callable[..., Case]
    _policy: BatchPolicy
    _window: int
    _summary: Summary = attrs.field(factory=Summary, init=False)
    _ready: deque[Difference] = attrs.field(factory=deque, init=False)
    _failure: Exception | None = attrs.field(default=None, init=False)
    _unanswered: Counter[str] = attrs.field(factory=Counter, init=False)
    _result: ReconciliationResult | None = attrs.field(default=None, init=False)

    @property
    def result(self) -> ReconciliationResult:
        """All of it, once it is over.

        Raises:
            RuntimeError: Before that.
        """
        if self._result is None:
            raise RuntimeError(f"{self!r} has no result yet: await it, or leave its `async with`")
        return self._result

    @property
    def summary(self) -> Summary:
        """Counts and totals of every entry that was taken in, once it is over.

        Raises:
            RuntimeError: Before that.
        """
        return self.result.summary

    @property
    def progress(self) -> Summary:
        """How far it has come; all zeros before it was started."""
        return copy.deepcopy(self._summary)

    def __repr__(self) -> str:
        return f"<Reconciliation: {self._summary.entries} entries{' so far' * (not self._result)}>"

    async def _complete(self) -> ReconciliationResult:
        try:
            await asyncio.sleep(0)  # cancelled before its first step, it has taken nothing in
            self._start()
            while await self._advance():
                pass
        except asyncio.CancelledError as cancelled:
            cancelled.outcome = await self._end()  # type: ignore[attr-defined]  # as for a batch
            raise
        finally:
            await self._end()
        if self._failure is not None:
            raise self._failure
        return self.result

    # As a stream

    async def __aenter__(self) -> Self:
        self._claim()
        self._start()
        return self

    async def __anext__(self) -> Difference:
        while not self._ready:
            if self._result is not None or not await self._advance():
                await self._end()
                raise self._failure or StopAsyncIteration
        return self._ready.popleft()

    async def __aexit__(self, *failure: object) -> None:
        await self._end()

    # Window by window

    def _start(self) -> None:
        """Check a collection whole, and begin.

        Raises:
            InvalidOrderError: If any entry of a collection is wrong; nothing is looked up.
        """
        entries = self._source.collection or ()
        wrong = {
            n: _no_entry(n, e) for n, e in enumerate(entries) if not isinstance(e, LedgerEntry)
        }
        if wrong:
            text = f"of {len(entries)} ledger entries are wrong, so nothing was looked up"
            raise refusal(wrong, text)
        seconds = self._policy.deadline_seconds or math.inf
        self._gate = Gate(deadline=asyncio.get_running_loop().time() + seconds)

    async def _advance(self) -> bool:
        """Take a window in, look it up and compare it; return whether there may be another."""
        source, gate = self._source, self._gate
        if source.ended or self._failure or (source.waits and gate.is_too_late):
            return False
        window: list[LedgerEntry] = []
        cases = None
        error: GatewayError = NotSentError("nothing was asked: the reconciliation was left")
        try:
            await self._fill(window)
            if (reason := gate.stop_reason) is not None:
                error = NotSentError(f"nothing was asked: {reason}")
            else:
                error = OutcomeUnknownError("not compared: the call was cancelled")
                cases = await self._look_up(window)
        finally:
            if cases is None:
                numbered = enumerate(window, self._summary.entries)
                cases = [self._make_case(index=n, entry=one, error=error) for n, one in numbered]
            for case in cases:
                count(case, self._summary)
                self._ready += case.differences
        await asyncio.sleep(0)  # a long ledger must not keep others from running
        return True

    async def _fill(self, window: list[LedgerEntry]) -> None:
        """Take entries in until the window is full; a ledger is waited for until the deadline.

        What is no entry, and what the ledger raises, is kept until the entries before it are seen.
        """
        source = self._source
        try:
            async with asyncio.timeout_at(self._gate.deadline) as limit:
                while len(window) < self._window and not source.ended:
                    pulled: list[Any] = []
                    await source.pull(pulled, 1)
                    if pulled and not isinstance(pulled[0], LedgerEntry):
                        index = self._summary.entries + len(window)
                        raise _no_entry(index, pulled[0])  # noqa: TRY301  # caught as the ledger's
                    window += pulled
        except Exception as error:  # noqa: BLE001  # raised once what came before it is compared
            self._failure = None if limit.expired() else error

    async def _look_up(self, window: list[LedgerEntry]) -> list[Case]:
        """Look a window up, and compare each entry with what was found."""
        refs = dict.fromkeys(entry.ref for entry in window)
        payments = await self._ask(self._gateway.query, refs)
        refunds = await self._ask(self._gateway.search_refunds, refs)
        cases = []
        for index, entry in enumerate(window, self._summary.entries):
            found = _listed(payments[entry.ref], refunds[entry.ref])
            cases.append(self._make_case(index=index, entry=entry, **found))
            if index % _COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return cases

    async def _ask(
        self, look_up: Callable[..., Batch[OrderRef, Any]], refs: Iterable[OrderRef]
    ) -> Mapping[OrderRef, Outcome[OrderRef, Any]]:
        """Look every reference up.

        After `stop_after_unknown` requests in a row without an answer, no more of these are asked,
        and nothing more at all if none of them had one, nor those of the windows just before. A
        reference that cannot be asked for is no missing answer.
        """
        left = self._gate.deadline - asyncio.get_running_loop().time()
        deadline = None if math.isinf(left) else max(left, 1e-6)
        policy = attrs.evolve(
            self._policy,
            chunk_size=min(self._policy.chunk_size or _ASKED_AT_ONCE, _ASKED_AT_ONCE),
            deadline_seconds=deadline,
        )
        # An iterator, since one reference that cannot be asked for would refuse a whole list.
        batch = look_up(iter(refs), policy=policy)
        try:
            async with batch:
                answers = {outcome.order: outcome async for outcome in batch}
        finally:
            self._summary.requests += batch.progress.requests
            self._summary.retries += batch.progress.retries
        self._summary.unexpected += batch.result.unexpected.count
        asked = [o for o in answers.values() if not isinstance(o.error, InvalidOrderError)]
        name = look_up.__name__
        if not asked or any(outcome.status in _ANSWERED for outcome in asked):
            self._unanswered[name] = 0
        else:
            self._unanswered[name] += max(batch.progress.requests, 1)
        if (in_a_row := self._unanswered[name]) >= self._policy.stop_after_unknown:
            self._gate.stop(f"{in_a_row} requests in a row had no answer (stop_after_unknown)")
        return answers

    async def _end(self) -> ReconciliationResult:
        """Keep what was not yielded, and close the ledger, if it was not taken to its end."""
        if self._result is None:
            self._summary.exhausted = self._source.ended
            self._result = ReconciliationResult(
                differences=tuple(self._ready), summary=self._summary
            )
            self._ready.clear()
            if not self._source.ended:
                await self._source.aclose()
        return self._result


def reconcile(  # noqa: PLR0913  # one keyword a setting
    gateway: GatewayClient,
    ledger: Iterable[LedgerEntry] | AsyncIterable[LedgerEntry],
    *,
    states: Mapping[str, str | Collection[str]] | None = None,
    refund_statuses: Mapping[str, bool] | None = None,
    policy: BatchPolicy | None = None,
    window: int = DEFAULT_WINDOW,
) -> Reconciliation:
    """Compare a merchant's ledger with the gateway's records, transactions and refunds.

    Every entry is looked up twice, as a transaction and for its refunds, in requests of up to 99
    entries, and comes back as matched, differing or unanswered. Nothing is changed at the gateway.

    Args:
        gateway: The client to ask with.
        ledger: An iterable or asynchronous iterable. A collection is checked whole before
            anything is looked up; from a stream, what is no entry raises once the entries before
            it are compared.
        states: By `payment_status`, the ledger's word for it, or several; the interface shows no
            meaning, so without this no state is compared.
        refund_statuses: By `refund_status`, whether such a refund gave money back; ``{"1": True}``
            if nothing is said. A refund with another status is an "unreadable" difference.
        policy: How the look-ups are run, the client's own unless it is given: `concurrency` is for
            the look-ups of one kind, which are made before those of the other, `deadline_seconds`
            for the whole of it, and `stop_after_unknown` for each kind.
        window: Entries that are taken in, looked up and compared together. Entries of the same
            reference in one window share their look-ups.

    Returns:
        A `Reconciliation`, to be awaited or streamed.

    Raises:
        InvalidOrderError: If `ledger` is no iterable of entries.
        ConfigurationError: If a setting is wrong.
    """
    expect("gateway", gateway, GatewayClient)
    check_orders(ledger, LedgerEntry, "ledger")
    policy = gateway._batch_policy(policy)  # noqa: SLF001  # as its own look-ups go by
    check_size(OPERATIONS["query"], policy)
    # What the interface shows means "done", as in `Dialect.done_statuses`.
    said = {"1": True} if refund_statuses is None else refund_statuses
    states = {} if states is None else states
    for name, given in (("states", states), ("refund_statuses", said)):
        for status in expect(name, given, Mapping):
            expect(name, status, TEXT)
    statuses = {s: expect("refund_statuses", done, FLAG) for s, done in said.items()}
    words = {
        status: converted("states", word, _to_words, "a str, or several")
        for status, word in states.items()
    }
    make_case = functools.partial(Case, states=words, refund_statuses=statuses)
    size = expect("window", window, COUNT)
    return Reconciliation(gateway, GivenOrders(ledger), make_case, policy, size)


def _to_words(word: str | Collection[str]) -> frozenset[str]:
    return to_set([word] if isinstance(word, str) else word)


def _listed(*answers: Outcome[OrderRef, Any]) -> dict[str, Any]:
    """Return what two look-ups found, and why one had no answer, if one had none."""
    missing = (outcome for outcome in answers if outcome.status not in _ANSWERED)
    errors = (o.error or GatewayError(f"the look-up was {o.status}") for o in missing)
    # The record of an absent outcome says that there is no such order.
    found = [() if o.status is OutcomeStatus.ABSENT else o.record or () for o in answers]
    return {"transactions": found[0], "refunds": found[1], "error": next(errors, None)}


def _no_entry(index: int, entry: object) -> InvalidOrderError:
    return InvalidOrderError(f"ledger[{index}]: expected LedgerEntry, got {type(entry).__name__}")

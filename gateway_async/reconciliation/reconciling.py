"""`reconcile`, and the `Reconciliation` that it returns: to be awaited or streamed, once.

One worker takes entries in, looks them up and compares them. An entry that was taken in is settled
exactly once, whatever happens, and no more entries than one window are between the ledger and the
comparison. Look-ups move no money, so leaving waits for none.
"""

import asyncio
import contextlib
import functools
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.batch import Streamable, check_size
from gateway_async.batching.feed import check_orders, open_source, refusal
from gateway_async.batching.runner import Runner
from gateway_async.client import GatewayClient
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.reconciliation.differences import Case, Difference, LedgerEntry, compare
from gateway_async.reconciliation.summary import Books, ReconciliationResult, Summary
from gateway_async.settings import check_instance, checked_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Collection, Iterable

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.feed import Source
    from gateway_async.batching.results import Outcome
    from gateway_async.models.orders import OrderRef
    from gateway_async.settings import BatchPolicy

    Answers = Mapping[OrderRef, Outcome[OrderRef, Any]]

DEFAULT_WINDOW = 1000
_ANSWERED = (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
_COMPARED_AT_ONCE = 200


class Reconciliation(Streamable[Difference, ReconciliationResult]):
    """One comparison of a ledger with the gateway's records.

    ``await reconciliation`` gives the `ReconciliationResult`. ``async with reconciliation``
    streams instead: iterate to get each difference, in the order of the ledger and in bounded
    memory. Leaving early, or being cancelled, looks up nothing more and waits for nothing; the
    entries that were taken in by then and not compared are unanswered.
    """

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
        return self._run.progress if self._run is not None else Books().summary()


def reconcile(  # noqa: PLR0913  # one keyword a setting
    gateway: GatewayClient,
    ledger: "Iterable[LedgerEntry] | AsyncIterable[LedgerEntry]",
    *,
    states: "Mapping[str, str | Collection[str]] | None" = None,
    refund_statuses: "Mapping[str, bool] | None" = None,
    policy: "BatchPolicy | None" = None,
    window: int = DEFAULT_WINDOW,
) -> Reconciliation:
    """Compare a merchant's ledger with the gateway's records, transactions and refunds.

    Every entry is looked up twice, as a transaction and for its refunds, in requests of up to 100
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
            both kinds together, `deadline_seconds` for the whole of it, and `stop_after_unknown`
            for each kind.
        window: Entries that are taken in, looked up and compared together. Entries of the same
            reference in one window share their look-ups.

    Returns:
        A `Reconciliation`, to be awaited or streamed.

    Raises:
        InvalidOrderError: If `ledger` is no iterable of entries.
        ConfigurationError: If a setting is wrong.
    """
    check_instance("gateway", gateway, GatewayClient)
    check_orders(ledger, LedgerEntry, "ledger")
    policy = gateway._batch_policy(policy)  # noqa: SLF001  # as its own look-ups go by
    check_size(OPERATIONS["query"], policy)
    make_case = functools.partial(
        Case, states=_words(states), refund_statuses=_meanings(refund_statuses)
    )
    size = checked_count("window", window)

    async def open_run() -> _Run:
        return _Run(gateway, open_source(ledger), make_case, policy, size)

    return Reconciliation("of a ledger", open_run)


def _words(states: Any) -> dict[str, frozenset[str]] | None:  # noqa: ANN401  # anything may be given
    if states is None:
        return None
    with contextlib.suppress(AttributeError, TypeError):  # no mapping, or not of words
        sets = {s: [words] if isinstance(words, str) else words for s, words in states.items()}
        found = {status: frozenset(words) for status, words in sets.items()}
        if all(isinstance(one, str) for status in found for one in (status, *found[status])):
            return found
    raise ConfigurationError(
        "states: expected a mapping from payment_status to a ledger's word or words, such as "
        f"{{'3000': 'paid'}}, got {states!r}"
    )


def _meanings(statuses: Any) -> dict[str, bool]:  # noqa: ANN401  # the same
    if statuses is None:
        return {"1": True}  # what the interface shows means "done", as in `Dialect.done_statuses`
    if isinstance(statuses, Mapping) and all(
        isinstance(status, str) and isinstance(done, bool) for status, done in statuses.items()
    ):
        return dict(statuses)
    raise ConfigurationError(
        "refund_statuses: expected a mapping from refund_status to whether money went back, such "
        f"as {{'1': True, '9': False}}, got {statuses!r}"
    )


class _Run(Runner):
    """A reconciliation under way."""

    def __init__(
        self,
        gateway: GatewayClient,
        source: "Source",
        make_case: "Callable[..., Case]",
        policy: "BatchPolicy",
        size: int,
    ) -> None:
        super().__init__(LedgerEntry, policy)
        self.results = self._books = Books()  # type: ignore[assignment]  # differences, not outcomes
        self._gateway = gateway
        self._source = source
        self._make_case = make_case
        self._size = size
        self._window: list[tuple[int, LedgerEntry]] = []
        self._is_asked = False
        self._unanswered: Counter[str] = Counter()

    @property
    def progress(self) -> Summary:  # type: ignore[override]  # entries, not orders
        """How far it has come."""
        return self._books.summary()

    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start the worker.

        Raises:
            InvalidOrderError: If any entry of a collection is wrong; nothing is looked up.
        """
        self.streamed = streamed
        entries = self._source.collection or ()
        wrong = {
            n: _no_entry(n, e) for n, e in enumerate(entries) if not isinstance(e, LedgerEntry)
        }
        if wrong:
            text = f"of {len(entries)} ledger entries are wrong, so nothing was looked up"
            raise refusal(wrong, text)
        self._start_worker(self._work(), "reconciliation", self._workers)

    def add_unsent(self) -> None:
        """Record, once the worker has ended, what was taken in and not looked up."""
        self._refuse(self.gate.stop_reason or "the reconciliation ended before")

    @property
    def _is_exhausted(self) -> bool:
        return self._source.ended

    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""
        if not self._source.ended:
            await self._source.aclose()

    def _end_unsent(self) -> None:
        self.abandon()

    # What the worker does

    async def _work(self) -> None:
        while not (self._source.ended or self._is_leaving):
            if self._source.waits and self.gate.is_too_late:
                return
            if self.streamed and self._books.finished:
                await self.change()
                continue
            try:
                await self._fill()
            finally:  # what came before a bad entry is compared all the same
                await self._settle()

    async def _fill(self) -> None:
        """Take entries in until the window is full; a ledger is waited for until the deadline.

        Raises:
            InvalidOrderError: At something that is no entry.
            BaseException: What the ledger raises.
        """
        deadline = self.gate.deadline if self._source.waits else math.inf
        try:
            async with asyncio.timeout_at(None if math.isinf(deadline) else deadline) as limit:
                while len(self._window) < self._size and not self._source.ended:
                    for index, entry in zip(*await self._source.pull(1), strict=True):
                        if not isinstance(entry, LedgerEntry):
                            raise _no_entry(index, entry)
                        self._window.append((index, entry))
                    self._source.raise_again()
        except TimeoutError:
            if not limit.expired():
                raise

    async def _settle(self) -> None:
        """Look the window up, compare it, and keep what was found."""
        reason = self.gate.stop_reason
        if reason is None and self._window:
            self._is_asked = True
            answers = await self._look_up()
            compared = []
            for number, (index, entry) in enumerate(self._window):
                listed = _listed(*(one[entry.ref] for one in answers))
                case = self._make_case(index=index, entry=entry, **listed)
                compared.append((case, compare(case)))
                if number % _COMPARED_AT_ONCE == 0:
                    await asyncio.sleep(0)
            self._window, self._is_asked = [], False
            self._books.settle(compared)
        else:
            self._refuse(reason or "")
            await asyncio.sleep(0)  # a long ledger must not keep others from running
        self.changed.set()

    def _refuse(self, reason: str) -> None:
        error: GatewayError = NotSentError(f"nothing was asked: {reason}")
        if self._is_asked:
            error = OutcomeUnknownError(f"no answer was waited for: {reason}")
        window, self._window = self._window, []
        cases = [self._make_case(index=index, entry=one, error=error) for index, one in window]
        self._books.settle([(case, compare(case)) for case in cases])

    async def _look_up(self) -> "tuple[Answers, Answers]":
        """Look up the transactions and the refunds of the window, together if policy allows."""
        query, search = self._gateway.query, self._gateway.search_refunds
        half = self._policy.concurrency // 2
        if half == 0:
            return await self._ask(query, 1), await self._ask(search, 1)
        try:
            async with asyncio.TaskGroup() as group:
                transactions = group.create_task(self._ask(query, self._policy.concurrency - half))
                refunds = group.create_task(self._ask(search, half))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return transactions.result(), refunds.result()

    async def _ask(
        self, look_up: "Callable[..., Batch[OrderRef, Any]]", concurrency: int
    ) -> "Answers":
        """Look every reference of the window up.

        After `stop_after_unknown` requests of one kind in a row without an answer, nothing more is
        asked. A reference that cannot be asked for is no missing answer.
        """
        left = self.gate.deadline - asyncio.get_running_loop().time()
        policy = attrs.evolve(
            self._policy,
            concurrency=concurrency,
            deadline_seconds=None if math.isinf(left) else max(left, 1e-6),
            drain_seconds=0,
            duplicates="allow",
        )
        # An iterator, since one reference that cannot be asked for would refuse a whole list.
        refs = iter({entry.ref: None for _, entry in self._window})
        batch = look_up(refs, policy=policy)
        try:
            async with batch:
                answers = {outcome.order: outcome async for outcome in batch}
        finally:
            self._books.requests += batch.progress.requests
        self._books.unexpected += batch.result.unexpected.count
        asked = [o for o in answers.values() if not isinstance(o.error, InvalidOrderError)]
        name = look_up.__name__
        if not asked or any(outcome.status in _ANSWERED for outcome in asked):
            self._unanswered[name] = 0
            return answers
        self._unanswered[name] += max(batch.progress.requests, 1)
        if self._unanswered[name] >= self._policy.stop_after_unknown:
            self.gate.stop(
                f"{self._unanswered[name]} requests in a row had no answer (stop_after_unknown)"
            )
        return answers


def _listed(*answers: "Outcome[OrderRef, Any]") -> dict[str, Any]:
    """Return what two look-ups found, and why one had no answer, if one had none."""
    missing = (outcome for outcome in answers if outcome.status not in _ANSWERED)
    errors = (o.error or GatewayError(f"the look-up was {o.status}") for o in missing)
    # The record of an absent outcome says that there is no such order.
    found = [() if o.status is OutcomeStatus.ABSENT else o.record or () for o in answers]
    return {"transactions": found[0], "refunds": found[1], "error": next(errors, None)}


def _no_entry(index: int, entry: object) -> InvalidOrderError:
    return InvalidOrderError(f"ledger[{index}]: expected LedgerEntry, got {type(entry).__name__}")

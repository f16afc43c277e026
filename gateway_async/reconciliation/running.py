"""A reconciliation under way: one worker that takes entries in, looks them up and compares them.

Law: an entry that was taken in is settled exactly once, whatever happens, and no more entries than
one window are between the ledger and the comparison. Look-ups move no money, so leaving waits for
none.
"""

import asyncio
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.feed import open_source
from gateway_async.batching.runner import Runner
from gateway_async.errors import (
    GatewayError,
    InvalidOrderError,
    NotSentError,
    OutcomeUnknownError,
)
from gateway_async.models.orders import OutcomeStatus
from gateway_async.reconciliation.comparing import Case, Rules, compare
from gateway_async.reconciliation.entries import LedgerEntry, check_entries, entry_problem
from gateway_async.reconciliation.summary import Books, Summary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway_async.batching.batch import Batch
    from gateway_async.batching.results import Outcome
    from gateway_async.client import GatewayClient
    from gateway_async.models.orders import OrderRef
    from gateway_async.settings import BatchPolicy

    Answers = Mapping[OrderRef, Outcome[OrderRef, Any]]

_ANSWERED = (OutcomeStatus.SUCCEEDED, OutcomeStatus.ABSENT)
_COMPARED_AT_ONCE = 200


class Run(Runner):
    """A reconciliation under way."""

    def __init__(
        self,
        gateway: "GatewayClient",
        ledger: object,
        *,
        rules: Rules,
        policy: "BatchPolicy",
        window: int,
    ) -> None:
        super().__init__(LedgerEntry, policy)
        self.results = self._books = Books()  # type: ignore[assignment]  # differences, not outcomes
        self._gateway = gateway
        self._source = open_source(ledger)
        self._rules = rules
        self._size = window
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
        check_entries(self._source.collection or ())
        self._begin(self._work(), "reconciliation")

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
        while self._may_take:
            if self.streamed and self._books.finished:
                await self.change()
                continue
            try:
                await self._fill()
            finally:  # what came before a bad entry is compared all the same
                await self._settle()

    @property
    def _may_take(self) -> bool:
        """Whether to take more entries in; after a stop, only to say that they are unanswered."""
        is_too_late = self._source.waits and self.gate.is_too_late
        return not (self._source.ended or self._is_leaving or is_too_late)

    async def _fill(self) -> None:
        """Take entries in until the window is full; a ledger is not waited for too long.

        Raises:
            InvalidOrderError: At something that is no entry.
            BaseException: What the ledger raises.
        """
        deadline = self.gate.deadline if self._source.waits else math.inf
        try:
            async with asyncio.timeout_at(None if math.isinf(deadline) else deadline) as limit:
                await self._pull()
        except TimeoutError:
            if not limit.expired():
                raise

    async def _pull(self) -> None:
        while len(self._window) < self._size:
            indices: list[int] = []
            entries: list[Any] = []
            await self._source.pull(1, indices, entries)
            if self._source.ended and not entries:
                return
            for index, entry in zip(indices, entries, strict=True):
                problem = entry_problem(index, entry)
                if problem is not None:
                    raise problem
                self._window.append((index, entry))

    async def _settle(self) -> None:
        """Look the window up, compare it, and keep what was found."""
        reason = self.gate.stop_reason
        if reason is None and self._window:
            self._is_asked = True
            transactions, refunds = await self._look_up()
            await self._compare(transactions, refunds)
        else:
            self._refuse(reason or "")
            await asyncio.sleep(0)  # a long ledger must not keep everybody else from running
        self._changed.set()

    def _refuse(self, reason: str) -> None:
        error: GatewayError = NotSentError(f"nothing was asked: {reason}")
        if self._is_asked:
            error = OutcomeUnknownError(f"no answer was waited for: {reason}")
        cases = [
            Case(index=index, entry=entry, rules=self._rules, error=error)
            for index, entry in self._window
        ]
        self._window = []
        self._books.settle([(case, compare(case)) for case in cases])

    async def _compare(self, transactions: "Answers", refunds: "Answers") -> None:
        compared = []
        for number, (index, entry) in enumerate(self._window):
            case = _case(index, entry, self._rules, transactions, refunds)
            compared.append((case, compare(case)))
            if number % _COMPARED_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._window, self._is_asked = [], False
        self._books.settle(compared)

    # Look-ups

    async def _look_up(self) -> "tuple[Answers, Answers]":
        """Look up the transactions and the refunds of the window, together if policy allows."""
        refs = list(dict.fromkeys(entry.ref for _, entry in self._window))
        half = self._policy.concurrency // 2
        if half == 0:
            return (
                await self._ask(self._gateway.query, refs, 1),
                await self._ask(self._gateway.search_refunds, refs, 1),
            )
        try:
            async with asyncio.TaskGroup() as group:
                transactions = group.create_task(
                    self._ask(self._gateway.query, refs, self._policy.concurrency - half)
                )
                refunds = group.create_task(self._ask(self._gateway.search_refunds, refs, half))
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return transactions.result(), refunds.result()

    async def _ask(
        self,
        look_up: "Callable[..., Batch[OrderRef, Any]]",
        refs: "Sequence[OrderRef]",
        concurrency: int,
    ) -> "Answers":
        # A generator, since one reference that cannot be asked for would refuse a whole list.
        batch = look_up((ref for ref in refs), policy=self._look_up_policy(concurrency))
        try:
            async with batch:
                answers = {outcome.order: outcome async for outcome in batch}
        finally:
            self._books.note_look_up(requests=batch.progress.requests)
        self._books.note_look_up(unexpected=batch.result.unexpected.count)
        self._note_answers(look_up.__name__, answers, batch.progress.requests)
        return answers

    def _note_answers(self, look_up: str, answers: "Answers", requests: int) -> None:
        """Stop after so many requests of one kind in a row without any answer."""
        if _is_answered(answers):
            self._unanswered.pop(look_up, None)
            return
        self._unanswered[look_up] += max(requests, 1)
        if self._unanswered[look_up] >= self._policy.stop_after_unknown:
            self.gate.stop(
                f"{self._unanswered[look_up]} requests in a row had no answer (stop_after_unknown)"
            )

    def _look_up_policy(self, concurrency: int) -> "BatchPolicy":
        left = self.gate.deadline - asyncio.get_running_loop().time()
        return attrs.evolve(
            self._policy,
            concurrency=concurrency,
            deadline_seconds=None if math.isinf(left) else max(left, 1e-6),
            drain_seconds=0,
            duplicates="allow",
        )


def _is_answered(answers: "Answers") -> bool:
    """Say whether any look-up had an answer, of those that could be asked at all."""
    asked = [o for o in answers.values() if not isinstance(o.error, InvalidOrderError)]
    return not asked or any(outcome.status in _ANSWERED for outcome in asked)


def _case(
    index: int, entry: LedgerEntry, rules: Rules, transactions: "Answers", refunds: "Answers"
) -> Case:
    ref = entry.ref
    answers = transactions[ref], refunds[ref]
    return Case(
        index=index,
        entry=entry,
        rules=rules,
        transactions=_listed(answers[0]),
        refunds=_listed(answers[1]),
        error=next(filter(None, map(_failure, answers)), None),
    )


def _listed(outcome: "Outcome[OrderRef, Any]") -> tuple[Any, ...]:
    """Return the records; one that says "no such order" is none."""
    return () if outcome.status is OutcomeStatus.ABSENT else outcome.record or ()


def _failure(outcome: "Outcome[OrderRef, Any]") -> GatewayError | None:
    """Return why a look-up had no answer; None where it had one."""
    if outcome.status in _ANSWERED:
        return None
    return outcome.error or GatewayError(f"the look-up was {outcome.status}")

"""The gateway's books beside what a client says: nothing twice, lost, or wrongly reported."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from gateway_async import (
    Batch,
    BatchResult,
    ConfigurationError,
    DirectPayment,
    DuplicateOrderError,
    NotSentError,
    Outcome,
    OutcomeStatus,
    OutcomeUnknownError,
    PayoutRequest,
    PayoutResult,
    RejectedError,
)
from gateway_async.sandbox import Sandbox

SUCCEEDED = OutcomeStatus.SUCCEEDED
DECLINED = OutcomeStatus.DECLINED
ABSENT = OutcomeStatus.ABSENT
UNKNOWN = OutcomeStatus.UNKNOWN
NOT_SENT = OutcomeStatus.NOT_SENT
ERRORS: dict[OutcomeStatus, tuple[type[Any], ...]] = {
    SUCCEEDED: (type(None),),
    ABSENT: (type(None),),
    DECLINED: (RejectedError,),
    UNKNOWN: (OutcomeUnknownError,),
    NOT_SENT: (NotSentError, DuplicateOrderError, ConfigurationError),
}
"""What the error of an outcome may be."""
TIMES = {SUCCEEDED: {1}, DECLINED: {0}, NOT_SENT: {0}, UNKNOWN: {0, 1}}
"""How often an order may have been done, by what is said of it."""


def statuses(outcomes: Iterable[Outcome[Any, Any]]) -> list[OutcomeStatus]:
    return [outcome.status for outcome in outcomes]


async def streamed(batch: Batch[Any, Any]) -> list[Outcome[Any, Any]]:
    async with batch:
        return [outcome async for outcome in batch]


def effects(sandbox: Sandbox, orders: Iterable[Any], operation: str = "refund") -> list[int]:
    """Return how often the gateway carried out each of some orders, payments or payouts."""
    return [_times_done(sandbox, order, operation) for order in orders]


def _times_done(sandbox: Sandbox, order: Any, operation: str) -> int:
    if isinstance(order, PayoutRequest):
        return len(sandbox.ledger.payouts_of(order.request_id))
    if isinstance(order, DirectPayment):
        return len(sandbox.ledger.payments_of(order.order_no))
    return sandbox.ledger.effects(operation, order.transaction_id)


def check_books(
    sandbox: Sandbox, outcomes: Iterable[Outcome[Any, Any]], operation: str = "refund"
) -> None:
    """Check that nothing was done twice, and that the outcomes say what was done."""
    for outcome in outcomes:
        assert _times_done(sandbox, outcome.order, operation) in TIMES[outcome.status]


def check_conserved(result: BatchResult[Any, Any], orders: Iterable[Any]) -> None:
    """Check that each order came back once, in the order of the input."""
    wanted = list(orders)
    assert [outcome.order for outcome in result] == wanted
    assert [outcome.index for outcome in result] == list(range(len(wanted)))
    counted = Counter(statuses(result))
    assert counted == Counter({s: n for s, n in result.counts.items() if n})


class Wrong(StrEnum):
    DOUBLED = "doubled"
    LOST = "lost"
    REPORTED = "wrongly reported"


@attrs.frozen
class Told:
    """What was said of one order, by the journal or by a process."""

    index: int
    status: OutcomeStatus
    reference: str = ""


@attrs.frozen(kw_only=True)
class Books:
    done: Sequence[int]  # how often each order was done, by position
    again: frozenset[int] = frozenset()  # orders that were asked for again once they had been done
    # the references of the refunds of each, by position
    references: Mapping[int, Sequence[str]] = attrs.field(factory=dict)


Problem = tuple[Wrong, str]
"""One thing that is wrong: its kind; which order, and how."""


def told_of(outcome: Outcome[Any, Any]) -> Told:
    """Return what an outcome says, with the gateway's own name of a refund or payout."""
    field = "transaction_id" if isinstance(outcome.record, PayoutResult) else "refund_reference_id"
    return Told(outcome.index, outcome.status, getattr(outcome.record, field, None) or "")


def judge(
    books: Books,
    kept: Sequence[Told],
    told: Sequence[Told],
    earlier: Iterable[Told] = (),
    *,
    in_flight: int = 0,
) -> list[Problem]:
    """Compare what the gateway did, what the journal keeps, and what each process told.

    The journal may still call some orders in flight.
    """
    problems = [
        (Wrong.DOUBLED, f"order {index} was done {times} times")
        for index, times in enumerate(books.done)
        if times > 1
    ]
    problems += [
        (Wrong.DOUBLED, f"order {index} was sent again after it was done") for index in books.again
    ]
    for where, all_told in (("journal", kept), ("report", told)):
        counts = Counter(one.index for one in all_told)
        problems += [
            (Wrong.LOST, f"order {index} has {counts[index]} outcomes in the {where}")
            for index in sorted({*range(len(books.done)), *counts})
            if index >= len(books.done) or counts[index] != 1
        ]
        for one in all_told:
            times = books.done[one.index] if one.index < len(books.done) else 0
            said = f"the {where} says {one}"
            if one.status is not UNKNOWN and times not in TIMES[one.status]:
                problems.append((Wrong.REPORTED, f"{said}, and it was done {times} times"))
            if one.reference and one.reference not in books.references.get(one.index, ()):
                problems.append((Wrong.REPORTED, f"{said}, and the reference is not its own"))
    final = [one for one in earlier if one.status in {SUCCEEDED, DECLINED}]
    by_index = {one.index: one for one in kept}
    for one in (*told, *final):
        now = by_index.get(one.index, one)
        if now != one:
            problems.append((Wrong.REPORTED, f"a report says {one}, and the journal {now}"))
    if in_flight:
        problems.append((Wrong.LOST, f"{in_flight} orders are still in flight"))
    return problems

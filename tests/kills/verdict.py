"""The verdict over one run: the gateway's books against the journal, and against what was told."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs

from gateway_async import Outcome, OutcomeStatus, PayoutResult

_FINAL = (OutcomeStatus.SUCCEEDED, OutcomeStatus.DECLINED)


class Wrong(StrEnum):
    """What may be wrong with a run."""

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
    """What the gateway did.

    Attributes:
        done: How often each order was done, by position.
        again: Orders that were asked for again once they had been done.
        references: The references of the refunds of each, by position.
    """

    done: tuple[int, ...]
    again: frozenset[int] = frozenset()
    references: Mapping[int, Sequence[str]] = attrs.field(factory=dict)


Problem = tuple[Wrong, str]
"""One thing that is wrong: its kind; which order, and how."""


def reference_of(outcome: Outcome[Any, Any]) -> str:
    """Return the gateway's own name of a refund or payout; empty text where none is told."""
    field = "transaction_id" if isinstance(outcome.record, PayoutResult) else "refund_reference_id"
    return getattr(outcome.record, field, None) or ""


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
    problems = [*_doubled(books), *_lost("journal", books, kept), *_lost("report", books, told)]
    problems += [*_untrue("journal", books, kept), *_untrue("report", books, told)]
    by_index = {one.index: one for one in kept}
    problems += _changed("the last report", told, by_index)
    problems += _changed("an earlier report", _final(earlier), by_index)
    if in_flight:
        problems.append((Wrong.LOST, f"{in_flight} orders are still in flight"))
    return problems


def _doubled(books: Books) -> Iterator[Problem]:
    for index, times in enumerate(books.done):
        if times > 1:
            yield Wrong.DOUBLED, f"order {index} was done {times} times"
        if index in books.again:
            yield (Wrong.DOUBLED, f"order {index} was sent again after it was done")


def _lost(where: str, books: Books, told: Sequence[Told]) -> Iterator[Problem]:
    counts = Counter(one.index for one in told)
    for index in sorted({*range(len(books.done)), *counts}):
        if index >= len(books.done) or counts[index] != 1:
            text = f"order {index} has {counts[index]} outcomes in the {where}"
            yield (Wrong.LOST, text)


def _untrue(where: str, books: Books, told: Sequence[Told]) -> Iterator[Problem]:
    for one in told:
        times = books.done[one.index] if one.index < len(books.done) else 0
        if one.status is not OutcomeStatus.UNKNOWN and times != (
            one.status is OutcomeStatus.SUCCEEDED
        ):
            text = (
                f"the {where} calls order {one.index} {one.status}, and it was done {times} times"
            )
            yield (Wrong.REPORTED, text)
        if one.reference and one.reference not in books.references.get(one.index, ()):
            text = f"the {where} gives order {one.index} the reference {one.reference}"
            yield (Wrong.REPORTED, f"{text}, which is not its own")


def _final(told: Iterable[Told]) -> Iterator[Told]:
    return (one for one in told if one.status in _FINAL)


def _changed(who: str, told: Iterable[Told], kept: Mapping[int, Told]) -> Iterator[Problem]:
    for one in told:
        now = kept.get(one.index)
        if now is not None and now != one:
            yield (Wrong.REPORTED, f"{who} says {one}, and the journal {now}")

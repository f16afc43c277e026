"""What is known of the orders of a job, and how that is written anew. Pure.

Law: the stretches of a job cover it without a gap and without an overlap, whatever is moved; an
order moves only from a state that the table of transitions names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import orjson

if TYPE_CHECKING:
    from gateway_async.journal.states import JobState


_LISTED = "reference_list"


class Stretch(NamedTuple):
    """Orders that are alike, from one position to another: a row, as the database gives it.

    Attributes:
        first: The first position.
        last: The last one.
        slice: Which slice of the job they belong to.
        state: What is known of them.
        request_id: The request they went out with last; None if they never did.
        ended_at: When that request ended, in seconds since the epoch; None if that is not known.
        code: The gateway's code, where it declined.
        text: Why they are in this state.
        reference_list: The references that the gateway gave them, as JSON; "" for none.
        proof: What proves the state, where recovery found out.
        note: Why an operator decided, if one did.
    """

    first: int
    last: int
    slice: int
    state: str
    request_id: int | None = None
    ended_at: float | None = None
    code: str = ""
    text: str = ""
    reference_list: str = ""
    proof: str = ""
    note: str = ""

    def clipped(self, first: int, last: int) -> "Stretch":
        """Return the part of it that lies between two positions."""
        first, last = max(first, self.first), min(last, self.last)
        if (first, last) == (self.first, self.last):
            return self
        listed = _part(self.reference_list, first - self.first, last - self.first + 1)
        return self._replace(first=first, last=last, reference_list=listed)

    def references(self) -> Sequence[str]:
        """Return the gateway's reference of each; "" where it gave none."""
        return read_references(self.reference_list) or [""] * (self.last - self.first + 1)


@attrs.frozen
class Change:
    """Orders that are moved, and what is known of them then.

    Attributes:
        first: The first position.
        last: The last one.
        told: What changes, by the name of the column.
    """

    first: int
    last: int
    told: Mapping[str, Any]

    def applied(self, part: Stretch) -> Stretch:
        """Return some of its orders as they are then."""
        told = dict(self.told)
        if told.get(_LISTED):
            start = part.first - self.first
            told[_LISTED] = _part(told[_LISTED], start, start + part.last - part.first + 1)
        return part._replace(**told)


def write_references(references: Sequence[str]) -> str:
    """Return references as they are kept."""
    return orjson.dumps(references).decode() if any(references) else ""


def read_references(listed: str) -> list[str]:
    """Return references that were kept; none where none of them was given."""
    return list(orjson.loads(listed)) if listed else []


def _part(listed: str, start: int, stop: int) -> str:
    return write_references(read_references(listed)[start:stop])


def changes_of(indices: Sequence[int], told: Mapping[str, Any]) -> list[Change]:
    """Return one change for each run of positions without a gap.

    Args:
        indices: The positions, ascending.
        told: What changes of all of them.
    """
    return [Change(first, last, told) for first, last in runs_of(indices)]


def runs_of(indices: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last of each run of positions without a gap."""
    if not indices:
        return
    first = last = indices[0]
    if list(indices) == list(range(first, first + len(indices))):  # nearly always, and quick
        yield first, indices[-1]
        return
    for index in indices[1:]:
        if index != last + 1:
            yield first, last
            first = index
        last = index
    yield first, last


def redraw(
    known: "Iterable[Stretch]", changes: "Sequence[Change]"
) -> "Iterator[tuple[Stretch, list[Stretch]]]":
    """Yield each stretch that changes, with those that it becomes.

    Args:
        known: The stretches that hold the positions that change, ascending.
        changes: What changes, ascending, without an overlap.
    """
    waiting = list(reversed(changes))
    for stretch in known:
        parts: list[Stretch] = []
        at = stretch.first
        while waiting and waiting[-1].first <= stretch.last:
            change = waiting[-1]
            if change.first > at:
                parts.append(stretch.clipped(at, change.first - 1))
                at = change.first
            last = min(change.last, stretch.last)
            parts.append(change.applied(stretch.clipped(at, last)))
            at = last + 1
            if change.last > stretch.last:
                break
            waiting.pop()
        if parts:
            if at <= stretch.last:
                parts.append(stretch.clipped(at, stretch.last))
            yield stretch, parts


def obstacle(
    known: "Sequence[Stretch]",
    changes: "Sequence[Change]",
    expected: "Mapping[str, Sequence[JobState]]",
    *,
    slice_number: int,
    request: int | None,
) -> str | None:
    """Return why orders cannot be moved; None if they can.

    Args:
        known: The stretches that hold their positions, ascending.
        changes: What is to change, ascending.
        expected: By what they become, the states that they may be in.
        slice_number: The slice that they must belong to.
        request: The request that they must have gone out with; None for any.
    """
    end = -1
    for change in changes:
        if change.first <= end:
            return f"order {change.first} is named twice"
        at, end = change.first, change.last
        for stretch in known:
            if stretch.last < at or stretch.first > change.last:
                continue
            if stretch.first > at or stretch.slice != slice_number:
                break
            if stretch.state not in expected[change.told["state"]]:
                return f"order {at} is {stretch.state!r}"
            if request is not None and stretch.request_id != request:
                return f"order {at} is {stretch.state!r}, of another request"
            at = stretch.last + 1
        if at <= change.last:
            return f"there is no order {at}"
    return None

"""What a job's run reads from its journal, and writes to it.

Law: what is kept is what the gateway said, order by order; of a card or a signature, nothing.
"""

import asyncio
import re
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar

from gateway_async.batching.feed import Source
from gateway_async.batching.sender import Recorder
from gateway_async.errors import JournalError, LeaseLostError, RejectedError
from gateway_async.journal.rows import Settlement
from gateway_async.journal.states import JobState
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import mask_card
from gateway_async.wire.decode import identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from gateway_async.batching.feed import Chunk
    from gateway_async.batching.sender import Items, Verdicts
    from gateway_async.errors import GatewayError
    from gateway_async.journal.lease import Lease

    Group = tuple[Sequence[int], Sequence[Any]]
    """The orders of one chunk that are new, with their positions."""

T = TypeVar("T")

ROWS_AT_ONCE = 1000
_READ_AHEAD = 500
_PATIENCE_SECONDS = 0.01
"""So long is the next page left, for what was taken to be kept and sent before it is read."""
_CARD = re.compile(r"(?<![0-9])[0-9](?:[ -]?[0-9]){12,18}(?![0-9])")

_STATES = {
    OutcomeStatus.SUCCEEDED: JobState.SUCCEEDED,
    OutcomeStatus.DECLINED: JobState.DECLINED,
    OutcomeStatus.UNKNOWN: JobState.UNKNOWN,
}


class IntentRecorder(Recorder):
    """The journal of a job, written under a lease."""

    def __init__(self, lease: "Lease", lose: "Callable[[LeaseLostError], None]") -> None:
        self.failure: JournalError | None = None
        self._lease = lease
        self._lose = lose

    def intend(
        self,
        chunk: "Chunk",
        references: "Mapping[str, frozenset[str]]",
        *,
        marker: str | None,
        alone: bool,
    ) -> "asyncio.Future[int]":
        """Keep that a chunk is about to be sent."""
        return self._noticing_loss(
            self._lease.intend(chunk.indices, references=references, marker=marker, alone=alone)
        )

    async def withdraw(self, request: int, chunk: "Chunk") -> None:
        """Keep that nothing of it was sent."""
        await self._noticing_loss(self._lease.withdraw(request, chunk.indices))

    async def settle(
        self,
        request: int,
        chunk: "Chunk",
        verdicts: "Verdicts",
        items: "Items",
        *,
        ended_at: float,
    ) -> None:
        """Keep what became of it."""
        if {status for status, _ in verdicts} == {OutcomeStatus.SUCCEEDED}:
            references = _references(items)
            await self._noticing_loss(
                self._lease.succeed(request, chunk.indices, references, ended_at=ended_at)
            )
            return
        settlements = [
            _settlement(index, status, error, found)
            for index, (status, error), found in zip(chunk.indices, verdicts, items, strict=True)
        ]
        await self._noticing_loss(self._lease.settle(request, settlements, ended_at=ended_at))

    def check(self) -> None:
        """Raise unless some of the lease is left."""
        try:
            self._lease.check()
        except JournalError as error:
            self._note(error)
            raise

    def _noticing_loss(self, work: "asyncio.Future[T]") -> "asyncio.Future[T]":
        work.add_done_callback(self._note_end)
        return work

    def _note_end(self, work: "asyncio.Future[Any]") -> None:
        error = None if work.cancelled() else work.exception()
        if isinstance(error, JournalError):
            self._note(error)

    def _note(self, error: JournalError) -> None:
        self.failure = self.failure or error  # a worker's cancellation must not hide it
        if isinstance(error, LeaseLostError):
            self._lose(error)


def _settlement(
    index: int,
    status: OutcomeStatus,
    error: "GatewayError | None",
    items: "Sequence[Mapping[str, Any]]",
) -> Settlement:
    if status is OutcomeStatus.SUCCEEDED:
        return Settlement(index=index, state=JobState.SUCCEEDED, reference=_reference(items))
    if isinstance(error, RejectedError):
        return Settlement(
            index=index,
            state=_STATES[status],
            code=_without_cards(error.code),
            text=_without_cards(error.text),
        )
    return Settlement(
        index=index,
        state=_STATES[status],
        code=_without_cards(getattr(error, "code", "")),
        text=_without_cards(str(error or "")),
        said=_without_cards(getattr(error, "text", "")),
    )


def _references(found: "Sequence[Sequence[Mapping[str, Any]]]") -> list[str]:
    """Return the reference of each order, found at once where each has one that is text."""
    try:
        return [items[0]["refund_reference_id"].strip() for items in found]
    except (LookupError, AttributeError):  # has none, or one that is no text
        return list(map(_reference, found))


def _reference(items: "Sequence[Mapping[str, Any]]") -> str:
    given = items[0].get("refund_reference_id") if items else None
    return given.strip() if type(given) is str else identifier(given) or ""


def _without_cards(text: str) -> str:
    """Mask what may be a card number in a text of the gateway's."""
    return _CARD.sub(lambda found: mask_card(found[0]) if _is_card(found[0]) else found[0], text)


def _is_card(text: str) -> bool:
    """Say whether the check digit is right, as it is of every card."""
    digits = [int(digit) for digit in reversed(text) if digit.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


class NewOrders(Source):
    """The orders of a job that are new and were not yielded yet, read a page ahead.

    Whole chunks are handed over together, as far as they fit: what is written of a chunk as a whole
    is one row.

    Args:
        read: Returns the next page of new orders, chunk by chunk, from behind a position.
        is_told: Says which orders were yielded.
    """

    packs = True

    def __init__(
        self,
        read: "Callable[[int], Coroutine[Any, Any, list[Group]]]",
        is_told: "Callable[[int], bool]",
    ) -> None:
        self.failure: JournalError | None = None
        self._read = read
        self._is_told = is_told
        self._last = -1
        self._page: deque[Group] = deque()
        self._ahead: asyncio.Task[list[Group]] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def pull(self, most: int, indices: list[int], orders: list[Any]) -> None:
        """Append the next orders, as many chunks as are at hand and fit."""
        while not self._page:
            if not await self._turn():
                return
        room = most
        while self._page and room:
            positions, found = self._page.popleft()
            if len(positions) > room:
                if room == most:  # a smaller `chunk_size` than the job was submitted with
                    indices += positions[:room]
                    orders += found[:room]
                    positions, found = positions[room:], found[room:]
                self._page.appendleft((positions, found))
                return
            indices += positions
            orders += found
            room -= len(positions)

    async def _turn(self) -> bool:
        """Read the next page, and return whether there was one."""
        try:
            page = await self._reading()
        except JournalError as error:
            self.failure = error
            raise
        self._ahead = None
        if not page:
            self.ended = True
            return False
        self._last = page[-1][0][-1]
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_PATIENCE_SECONDS, self._reading)
        self._page.extend(filter(None, map(self._left, page)))
        return True

    def _left(self, group: "Group") -> "Group | None":
        """Return what of a chunk was not yielded yet."""
        positions, orders = group
        if not any(map(self._is_told, positions)):
            return group
        left = [(p, o) for p, o in zip(positions, orders, strict=True) if not self._is_told(p)]
        return ([p for p, _ in left], [o for _, o in left]) if left else None

    def _reading(self) -> "asyncio.Task[list[Group]]":
        """Begin to read the next page, if that was not begun."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._read(self._last))
        return self._ahead

    async def aclose(self) -> None:
        """End what is being read; the lease is ended elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ahead is not None:
            self._ahead.cancel()
            (page,) = await asyncio.gather(self._ahead, return_exceptions=True)
            if isinstance(page, JournalError):
                self.failure = page


def new_orders(
    lease: "Lease",
    collection: "Sequence[object] | None",
    is_told: "Callable[[int], bool]",
) -> NewOrders:
    """Return the new orders of a job, as they were handed in where those are at hand.

    Args:
        lease: Under which they are read.
        collection: All of its orders, found to be equal to those that the journal has; or None.
        is_told: Says which orders were yielded.
    """

    async def read(after: int) -> "list[Group]":
        return await lease.new_orders(after=after, limit=_READ_AHEAD)

    if collection is None:
        return NewOrders(read, is_told)

    async def pick(after: int) -> "list[Group]":
        found = await lease.new(after=after, limit=_READ_AHEAD)
        return [(positions, [collection[at] for at in positions]) for positions in found]

    return NewOrders(pick, is_told)

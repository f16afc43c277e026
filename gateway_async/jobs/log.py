"""What a job's run reads from its journal, and writes to it.

Law: what is kept is what the gateway said, order by order; of a card or a signature, nothing.
"""

import contextlib
import re
from typing import TYPE_CHECKING

from gateway_async.batching.log import JobLog
from gateway_async.batching.matching import identifier
from gateway_async.batching.sources import Source
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import LeaseLostError, RejectedError
from gateway_async.journal.rows import Settlement
from gateway_async.journal.states import JobState
from gateway_async.models.values import mask_card

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.log import Fate
    from gateway_async.journal.lease import Lease
    from gateway_async.journal.rows import Row

ROWS_AT_ONCE = 1000
_CARD = re.compile(r"(?<![0-9])[0-9](?:[ -]?[0-9]){12,18}(?![0-9])")

_STATES = {
    OutcomeStatus.SUCCEEDED: JobState.SUCCEEDED,
    OutcomeStatus.DECLINED: JobState.DECLINED,
    OutcomeStatus.UNKNOWN: JobState.UNKNOWN,
}


class LeasedLog(JobLog):
    """The journal of a job, written under a lease."""

    def __init__(self, lease: "Lease", lose: "Callable[[LeaseLostError], None]") -> None:
        self._lease = lease
        self._lose = lose

    async def intend(
        self,
        chunk: "Chunk",
        references: "Mapping[str, frozenset[str]]",
        *,
        marker: str | None,
        alone: bool,
    ) -> int:
        """Keep that a chunk is about to be sent."""
        with self._noticing_loss():
            return await self._lease.intend(
                chunk.indices, references=references, marker=marker, alone=alone
            )

    async def withdraw(self, request: int, chunk: "Chunk") -> None:
        """Keep that nothing of it was sent."""
        with self._noticing_loss():
            await self._lease.withdraw(request, chunk.indices)

    async def settle(
        self, request: int, chunk: "Chunk", fates: "Sequence[Fate]", *, ended_at: float
    ) -> None:
        """Keep what became of it."""
        settlements = [
            _settlement(index, fate) for index, fate in zip(chunk.indices, fates, strict=True)
        ]
        with self._noticing_loss():
            await self._lease.settle(request, settlements, ended_at=ended_at)

    def check(self) -> None:
        """Raise unless some of the lease is left."""
        with self._noticing_loss():
            self._lease.check()

    @contextlib.contextmanager
    def _noticing_loss(self) -> "Iterator[None]":
        try:
            yield
        except LeaseLostError as error:
            self._lose(error)
            raise


def _settlement(index: int, fate: "Fate") -> Settlement:
    status, error, items = fate
    if status is OutcomeStatus.SUCCEEDED:
        reference = identifier(items[0].get("refund_reference_id")) if items else None
        return Settlement(index=index, state=JobState.SUCCEEDED, reference=reference or "")
    if isinstance(error, RejectedError):
        return Settlement(
            index=index,
            state=_STATES[status],
            code=_without_cards(error.code),
            text=_without_cards(error.text),
        )
    return Settlement(index=index, state=_STATES[status], text=_without_cards(str(error)))


def _without_cards(text: str) -> str:
    """Mask what may be a card number in a text of the gateway's."""
    return _CARD.sub(lambda found: mask_card(found[0]) if _is_card(found[0]) else found[0], text)


def _is_card(text: str) -> bool:
    """Say whether the check digit is right, as it is of every card."""
    digits = [int(digit) for digit in reversed(text) if digit.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


class NewOrders(Source):
    """The orders of a job that are new and were not told yet."""

    def __init__(self, lease: "Lease", told: bytearray) -> None:
        self._lease = lease
        self._told = told
        self._last = -1
        self._page: list[Row] = []

    async def pull(self) -> tuple[int, object]:
        """Take the next order, with its index."""
        while not self._page:
            rows = await self._lease.rows({JobState.NEW}, after=self._last, limit=ROWS_AT_ONCE)
            if not rows:
                self.ended = True
                raise StopAsyncIteration
            self._last = rows[-1].index
            self._page = [row for row in reversed(rows) if not self._told[row.index]]
        row = self._page.pop()
        return row.index, row.order

    async def aclose(self) -> None:
        """Do nothing: the lease is closed by whoever took it."""

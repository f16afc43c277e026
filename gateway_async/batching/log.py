"""What a run tells the journal of its job, and shares with the run it is a part of.

Law: the journal is told before the first byte of a chunk is sent, and again before anybody else
is told what became of it. How it keeps that is not known here. This module is pure.
"""

from typing import TYPE_CHECKING, Any, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from gateway_async.batching.chunks import Chunk
    from gateway_async.batching.statuses import OutcomeStatus
    from gateway_async.errors import GatewayError
    from gateway_async.gate import Gate

    Fates = tuple[
        Sequence[tuple[OutcomeStatus, GatewayError | None]],
        Sequence[tuple[Mapping[str, Any], ...]],
    ]


class JobLog(Protocol):
    """The journal, as far as one that sends chunks needs it.

    Where it cannot keep what it is told, awaiting what a method returns raises `JournalError`; the
    method itself raises nothing, but for `check`.
    """

    def intend(
        self,
        chunk: "Chunk",
        references: "Mapping[str, frozenset[str]]",
        *,
        marker: str | None,
        alone: bool,
    ) -> "Awaitable[int]":
        """Keep that a chunk is about to be sent, and give the number of this request.

        Args:
            chunk: The orders.
            references: Which refund references their transactions have already.
            marker: What the marker of each refund begins with, if any is sent.
            alone: Whether no other order of a transaction of theirs can be in flight beside it.
        """
        ...

    def withdraw(self, request: int, chunk: "Chunk") -> "Awaitable[None]":
        """Keep that nothing of it was sent, which is proved."""
        ...

    def settle(
        self, request: int, chunk: "Chunk", fates: "Fates", *, ended_at: float
    ) -> "Awaitable[None]":
        """Keep what became of it.

        Args:
            request: Its number.
            chunk: The orders.
            fates: What became of each: the status of each with its error or None; and the items
                of the reply about each.
            ended_at: When the request ended, in seconds since the epoch.
        """
        ...

    def check(self) -> None:
        """Raise unless the job is still ours; asked when the first byte is about to be written."""
        ...


@attrs.frozen
class Within:
    """What a run shares with the one it is a part of.

    Attributes:
        gate: Where requests leave; None for a gate of its own.
        log: Told before and after each request, if the orders are a job's; they were checked then.
        marker: What the marker of each refund begins with, where markers are sent; None for a new
            one.
    """

    gate: "Gate | None" = None
    log: JobLog | None = None
    marker: str | None = None


ALONE = Within()
"""A run that is a part of no other."""

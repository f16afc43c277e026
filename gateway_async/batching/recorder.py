"""Records each chunk before its first byte is written, and its outcomes before they are seen.

A `Recorder` here records nothing, since only this process remembers a plain batch. A job has one
that writes to its journal.
"""

from typing import TYPE_CHECKING, Protocol

from gateway_async.session import Intent

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from gateway_async.batching.chunks import AnsweredChunk, Chunk, FailedChunk
    from gateway_async.batching.judge import Judgement
    from gateway_async.errors import AlikeRefundError


class ChunkIntent(Intent, Protocol):
    """The intent to send a chunk, whose outcomes are recorded too."""

    def conclude(
        self,
        result: "AnsweredChunk | FailedChunk",
        judgement: "Judgement | None",
        add: "Callable[[AnsweredChunk | FailedChunk], None]",
    ) -> None:
        """Record the outcomes of the chunk in the background, then add them to the results."""


class Recorder:
    """Records the chunks of one batch.

    Attributes:
        alike_advice: What the error of an order adds that is like an earlier refund.
    """

    alike_advice: str = (
        "; if another one is meant, send it by a client with RecoveryPolicy(hold_alike_hours=None)"
    )

    def begin(
        self, chunk: "Chunk", references: "Mapping[str, frozenset[str]]", marker_prefix: str | None
    ) -> ChunkIntent | None:
        """Return the intent to send a chunk, not recorded yet; None if none is recorded.

        Args:
            chunk: The orders.
            references: By transaction, the refund references it has already.
            marker_prefix: What the marker of each refund begins with, if any is sent.
        """
        return None

    async def made_beside(
        self, chunk: "Chunk"
    ) -> "Mapping[int, tuple[Collection[str], int]] | None":
        """Return which refunds like each order of a chunk were made by other runs of the job.

        Returns:
            By position, their references, and how many more there may be. An order is left out if a
            person has decided that it is to be sent. None where nothing else is known.
        """
        return None

    async def hold(self, chunk: "Chunk", errors: "Sequence[AlikeRefundError]") -> None:
        """Record that the orders of a chunk are not sent before a person decides."""

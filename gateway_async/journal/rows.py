"""One order of a job, as the journal knows it, and the outcome that it stands for. Pure."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.batching.results import Outcome, Sending
from gateway_async.errors import (
    GatewayError,
    NotDoneError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal.codec import codec_of
from gateway_async.journal.states import JobState
from gateway_async.models.orders import OutcomeStatus, RefundOrder, status_codes
from gateway_async.models.records import RefundRecord

if TYPE_CHECKING:
    from collections.abc import Callable

_SAID = "\x1e"
"""In the text that a journal keeps: between the reason and the gateway's own words."""

NOT_DONE = "not done"
"""The proof of a held order that was not done: it may be sent again, and nobody has said so yet."""


@attrs.frozen(kw_only=True)
class Settlement:
    """What became of one order; of each text, the first 1,000 characters are kept.

    Attributes:
        index: Its position in the job, from 0.
        state: What it becomes.
        code: The gateway's code, where it declined or gave a status without a meaning.
        text: Why it is so.
        reference: The gateway's reference of a refund that was made.
        proof: What proves it, where recovery found out.
    """

    index: int
    state: JobState
    code: str = ""
    text: str = ""
    reference: str = ""
    proof: str = ""


@attrs.frozen(kw_only=True)
class RequestNote:
    """What was noted of the request that an order went out with.

    Attributes:
        id: Its number in the journal.
        ended_at: When it ended, in seconds since the epoch; None where the process ended before.
        references: By transaction, the refund references it had before.
        marker: What every marker of the request begins with, where markers were sent.
        alone: Whether no other order of its transaction could be in flight beside it.
    """

    id: int
    ended_at: float | None
    references: Mapping[str, frozenset[str]] = attrs.field(repr=False)
    marker: str | None
    alone: bool


@attrs.frozen(kw_only=True)
class Row:
    """One order of a job.

    Attributes:
        index: Its position in the job, from 0.
        state: What is known of it.
        body: The text that its order is kept as.
        operation: The name of the job's operation.
        code: The gateway's code, where it declined or gave a status without a meaning.
        text: Why it is in this state.
        said: The gateway's own text, where it gave a status without a meaning.
        reference: The gateway's reference of a refund that was made.
        proof: What proves the state, where recovery found out.
        sending: The request it went out with last; None if it never did.
    """

    index: int
    state: JobState
    body: str = attrs.field(repr=False)
    operation: str
    code: str = ""
    text: str = ""
    said: str = ""
    reference: str = ""
    proof: str = ""
    sending: RequestNote | None = None

    @property
    def order(self) -> Any:  # noqa: ANN401  # of the operation's class
        """The order, read anew at every access."""
        return codec_of(self.operation).decode(self.body)

    @property
    def status(self) -> OutcomeStatus:
        """The status of its outcome."""
        if self.state is JobState.HELD and self.proof == NOT_DONE:
            return OutcomeStatus.NOT_SENT
        return _STATUSES[self.state]

    def outcome(self, *, ended_at: float = math.inf) -> Outcome[Any, Any]:
        """Make its outcome.

        Args:
            ended_at: Stands in where the end of its request was not recorded, in seconds since
                the epoch: by default it may not have ended yet.
        """
        order = self.order
        return Outcome(
            order=order,
            index=self.index,
            status=self.status,
            error=_ERRORS[self.status](self),
            items=self._items(order),
            record_class=RefundRecord if self.reference else object,
            sending=self._sending(ended_at),
        )

    def _items(self, order: Any) -> tuple[Mapping[str, Any], ...]:  # noqa: ANN401  # any order
        if not self.reference or not isinstance(order, RefundOrder):
            return ()
        item = {
            "transaction_id": order.transaction_id,
            "order_no": order.order_no,
            "currency": order.currency,
            "refund_amount": format(order.refund_amount, "f"),
            "refund_reference_id": self.reference,
        }
        return (item,)

    def _sending(self, ended_at: float) -> Sending | None:
        note = self.sending
        if note is None:
            return None
        return Sending(
            ended_at=ended_at if note.ended_at is None else note.ended_at,
            references=note.references,
            marker=note.marker,
            alone=note.alone,
        )


def kept_text(error: GatewayError | None) -> str:
    """Return what is kept of an error: its message, and behind it the gateway's own text."""
    message, said = str(error or ""), getattr(error, "text", "")
    return f"{message}{_SAID}{said}" if said else message


def read_text(kept: str) -> tuple[str, str]:
    """Return message and the gateway's own text of what was kept."""
    message, _, said = kept.partition(_SAID)
    return message, said


@attrs.frozen
class StoredBlock:
    """Outcomes that are made of rows when they are read.

    Attributes:
        rows: The rows, by ascending index.
    """

    rows: tuple[Row, ...]

    @property
    def indices(self) -> Sequence[int]:
        """The positions of its orders in the job."""
        return [row.index for row in self.rows]

    @property
    def orders(self) -> Sequence[Any]:
        """The orders, read anew."""
        return [row.order for row in self.rows]

    @property
    def statuses(self) -> bytes:
        """The status of each, as a code."""
        return status_codes([row.status for row in self.rows])

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        return [row.outcome() for row in self.rows]


def _not_sent(row: Row) -> GatewayError:
    if row.state is JobState.HELD:
        return NotDoneError(row.text or "it was looked up, and was not done", **_said(row))
    return NotSentError(f"not sent yet: {row.text or 'the job has not come to it'}")


def _unknown(row: Row) -> GatewayError:
    if row.state is JobState.INTENT:
        return OutcomeUnknownError("it was in flight when its process ended, or still is")
    return OutcomeUnknownError(row.text or "what became of it is not known", **_said(row))


def _said(row: Row) -> dict[str, str]:
    """Return what the gateway said of an order that it neither did nor declined."""
    return {"code": row.code, "text": row.said}


def _declined(row: Row) -> GatewayError:
    return RejectedError(row.text or "the gateway declined it", code=row.code, text=row.text)


_STATUSES: Mapping[JobState, OutcomeStatus] = MappingProxyType(
    {
        JobState.NEW: OutcomeStatus.NOT_SENT,
        JobState.INTENT: OutcomeStatus.UNKNOWN,
        JobState.SUCCEEDED: OutcomeStatus.SUCCEEDED,
        JobState.DECLINED: OutcomeStatus.DECLINED,
        JobState.UNKNOWN: OutcomeStatus.UNKNOWN,
        JobState.HELD: OutcomeStatus.UNKNOWN,
    }
)

_ERRORS: "Mapping[OutcomeStatus, Callable[[Row], GatewayError | None]]" = MappingProxyType(
    {
        OutcomeStatus.NOT_SENT: _not_sent,
        OutcomeStatus.UNKNOWN: _unknown,
        OutcomeStatus.SUCCEEDED: lambda _: None,
        OutcomeStatus.DECLINED: _declined,
    }
)

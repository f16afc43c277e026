"""What the journal knows of orders, in rows and as outcomes; and how far jobs have come. Pure."""

import functools
import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import orjson

from gateway_async.errors import (
    AlikeRefundError,
    GatewayError,
    NotDoneError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal.states import UNFINISHED, OrderState, Proof, status_of
from gateway_async.models.orders import OutcomeStatus, marker_prefix_of
from gateway_async.outcomes import Exchange, ListedOutcomes, Outcome, Sending

if TYPE_CHECKING:
    from gateway_async.operations import Operation
    from gateway_async.signing import Credentials

HELD_UNTIL = "it is held until you decide whether it is to be sent (`resolve`)"
_IN_FLIGHT = "it was in flight when its process ended, or still is"
_NO_TEXT = str.maketrans(dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd"))


def storable(value: Any) -> Any:  # noqa: ANN401  # what a column or JSON holds
    """Return a text as every database can hold it: half surrogate pairs and NUL as U+FFFD."""
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return value.translate(_NO_TEXT)


# What is known of an order


class Known(NamedTuple):
    """What the journal knows of an order.

    Attributes:
        state: Its state.
        code: The gateway's code, where it declined or gave a status without a meaning.
        text: Why it is in this state.
        said: The gateway's own text, where it gave a status without a meaning.
        reference: The gateway's own name of what was done; see `Operation.reference_field`.
        proof: What is proved or decided, as `Proof` has it; or empty.
        note: Why a person decided, if one did.
        item: What the reply says of a payout, as JSON, without secrets.
        ended_at: When its last request ended, in seconds since the epoch; None if not known.
        sent: What was noted of that request, as `noted` writes it; empty if it never went out.
        listed_reference: Of a refund that is held as alike, the reference of the one that the
            gateway lists.
        listed_date: Likewise, its date in ISO format; empty if that cannot be read.
        is_pending: Whether the gateway said that it may still do it.
    """

    state: str
    code: str = ""
    text: str = ""
    said: str = ""
    reference: str = ""
    proof: str = ""
    note: str = ""
    item: str = ""
    ended_at: float | None = None
    sent: str = ""
    listed_reference: str = ""
    listed_date: str = ""
    is_pending: bool = False


def known_of(state: OrderState, error: GatewayError | None) -> Known:
    """Return what the journal keeps of an order whose request ended, or that was looked up."""
    if state is OrderState.SUCCEEDED:
        return DONE
    said, is_rejected = getattr(error, "text", ""), isinstance(error, RejectedError)
    return Known(
        state,
        code=getattr(error, "code", ""),
        text=said if is_rejected else str(error or ""),
        said="" if is_rejected else said,
        is_pending=getattr(error, "is_pending", False),
    )


def noted(
    references: Mapping[str, frozenset[str]], marker_prefix: str | None, began_at: float
) -> str:
    """Write what is noted of a request before it is sent; see `Sending`."""
    before = {name: sorted(known) for name, known in references.items()}
    note = {"references": before, "marker": marker_prefix, "began_at": began_at}
    return orjson.dumps(note).decode()


DONE = Known(OrderState.SUCCEEDED)


CHUNK_COLUMNS = (
    *("job_id", "first", "last", "slice", "state", "ended_at", "sent"),
    *("reference_list", "exceptions"),
)


@attrs.frozen
class ChunkState:
    """What is known of the orders of a chunk, and how a row of the database has it.

    Most orders of a chunk are alike: `state`, `ended_at` and `sent` are what they have in common.
    `reference_list` is a JSON list of the gateway's reference of each order. `exceptions` is a JSON
    list of the orders of which something else is known, in groups of those that are alike. Both may
    be empty.

    Attributes:
        job_id: The job's number in the database.
        slice: Which slice of the job the orders belong to.
        known: What is known of each order, by its position.
    """

    job_id: int
    slice: int
    known: Mapping[int, Known]

    @classmethod
    def read(cls, row: Sequence[Any]) -> "ChunkState":
        """Read a row with `CHUNK_COLUMNS`."""
        job_id, first, last, slice_number, state, ended_at, sent, references, exceptions = row
        known = [Known(state, ended_at=ended_at, sent=sent)] * (last - first + 1)
        groups = orjson.loads(exceptions) if exceptions else ()
        for group in groups:
            said = group["known"]
            differing = Known(**{name: said[name] for name in Known._fields if name in said})
            for at in group["at"]:
                known[at] = differing
        if references:
            listed = zip(known, orjson.loads(references), strict=True)
            known = [each._replace(reference=reference) for each, reference in listed]
        for group in groups:  # in earlier journals, each group has its own references
            for at, reference in zip(group["at"], group.get("references", ()), strict=False):
                known[at] = known[at]._replace(reference=reference)
        return cls(job_id, slice_number, dict(enumerate(known, first)))

    def row(self) -> dict[str, object]:
        """Write it as a row: what most of its orders have in common, and the exceptions."""
        groups: dict[Known, list[int]] = defaultdict(list)
        for at, known in enumerate(self.known.values()):
            groups[known._replace(reference="")].append(at)
        most = max(groups, key=lambda known: len(groups[known]))
        alike = Known(str(most.state), ended_at=most.ended_at, sent=most.sent)
        groups.pop(alike, None)
        exceptions: list[dict[str, object]] = []
        for known, positions in groups.items():
            said = {name: storable(one) for name, one in known._asdict().items() if one}
            exceptions.append({"at": positions, "known": said})
        references = [storable(known.reference) for known in self.known.values()]
        values = (
            *(self.job_id, min(self.known), max(self.known), self.slice),
            *(alike.state, alike.ended_at, alike.sent),
            *(written(references), written(exceptions)),
        )
        return dict(zip(CHUNK_COLUMNS, values, strict=True))


def written(found: Collection[object]) -> str:
    """Write references or exceptions of a chunk as JSON; empty if there are none."""
    return orjson.dumps(found).decode() if any(found) else ""


@attrs.frozen(kw_only=True)
class JobOrder:
    """One order of a job, and what is known of it.

    Attributes:
        index: Its position in the job, from 0.
        order: The order.
        known: What is known of it.
        operation: The operation of its job.
    """

    index: int
    order: Any = attrs.field(repr=False)
    known: Known
    operation: "Operation"

    @property
    def state(self) -> OrderState:
        """The state of the order."""
        return OrderState(self.known.state)

    @property
    def status(self) -> OutcomeStatus:
        """The status of its outcome."""
        return status_of(self.state, self.known.proof)

    def outcome(self, *, taken_at: float | None = None) -> Outcome[Any, Any]:
        """Make its outcome.

        Args:
            taken_at: When this process took the job over, in seconds since the epoch: the request
                ended no earlier than that, since an earlier process may have had a clock that was
                behind. Without it, a request whose end was not recorded may go on still.
        """
        operation, known, error = self.operation, self.known, _error_of(self)
        if isinstance(error, NotSentError | OutcomeUnknownError):
            error.request_id = getattr(self.order, "request_id", None)
        items: tuple[Mapping[str, Any], ...] = ()
        if known.item:
            items = (json.loads(known.item),)
        elif known.reference and operation.reference_field:
            names = (operation.identity_field, *operation.echo_fields)
            item = {
                name: format(value, "f") if isinstance(value, Decimal) else value
                for name in names
                if (value := getattr(self.order, name)) is not None
            }
            items = ({**item, operation.reference_field: known.reference},)
        ended_at = known.ended_at
        if taken_at is not None:
            ended_at = max(ended_at or taken_at, taken_at)
        exchange = Exchange(
            record_class=operation.record_class if items else object,
            sending=_sending(known.sent, ended_at) if known.sent else None,
        )
        return Outcome(
            order=self.order,
            index=self.index,
            status=self.status,
            error=error,
            items=items,
            exchange=exchange,
        )


@functools.lru_cache(maxsize=8)
def _sending(sent: str, ended_at: float | None) -> Sending:
    """Read what `noted` wrote: one object for the orders of a chunk."""
    note = orjson.loads(sent)
    return Sending(
        ended_at=math.inf if ended_at is None else ended_at,
        began_at=note.get("began_at", -math.inf),  # earlier versions did not note it
        references={name: frozenset(known) for name, known in note["references"].items()},
        marker_prefix=note["marker"],
        alone=note.get("alone", False),  # earlier versions noted it
    )


def _error_of(job_order: JobOrder) -> GatewayError | None:
    known, text = job_order.known, job_order.known.text
    if job_order.status is OutcomeStatus.SUCCEEDED:
        return None
    if job_order.status is OutcomeStatus.DECLINED:
        said = "" if known.proof == Proof.BY_PERSON else text
        return RejectedError(text or "the gateway declined it", code=known.code, text=said)
    if job_order.status is OutcomeStatus.UNKNOWN:
        default = _IN_FLIGHT if job_order.state is OrderState.INTENT else "its outcome is not known"
        error = OutcomeUnknownError(text or default, code=known.code, text=known.said)
        error.is_pending = known.is_pending
        return error
    if job_order.state is OrderState.NEW:
        return NotSentError(text or "the job has not come to it yet")
    if known.proof == Proof.NOT_DONE:
        reason = text or "it was looked up, and was not done"
        return NotDoneError(f"{reason}; {HELD_UNTIL}", code=known.code, text=known.said)
    date = datetime.fromisoformat(known.listed_date) if known.listed_date else None
    return AlikeRefundError(text, reference=known.listed_reference, refund_date=date)


@attrs.frozen
class StoredChunk(ListedOutcomes):
    """Outcomes that are made of a job's orders when they are read.

    Attributes:
        listed: The orders, by ascending index.
    """

    listed: Sequence[JobOrder]  # type: ignore[assignment]  # as outcomes, these have index, order, status

    def outcomes(self) -> list[Outcome[Any, Any]]:
        """Make the outcomes."""
        return [each.outcome() for each in self.listed]


# Jobs


class Merchant(NamedTuple):
    """Whose a job is: the clients of this merchant and account at this gateway run it.

    Attributes:
        merchant_id: The merchant.
        account_id: The account.
        gateway: The gateway, as `GatewayClient.gateway` has it.
    """

    merchant_id: str
    account_id: str
    gateway: str

    @classmethod
    def of(cls, credentials: "Credentials", gateway: str) -> "Merchant":
        """Return whose jobs a client runs."""
        return cls(credentials.merchant_id, credentials.account_id, gateway)


def _in_utc(moment: float | datetime) -> datetime:
    return moment if isinstance(moment, datetime) else datetime.fromtimestamp(moment, UTC)


@attrs.frozen
class JobRow:
    """What a job is: a row of `gateway_jobs`.

    Attributes:
        id: Its number in the database.
        name: Its name.
        operation: The name of its operation.
        merchant_id: The merchant that it was submitted for.
        account_id: The account that it was submitted for.
        gateway: The gateway it was submitted for: its base URL, normalised; empty in a job of an
            earlier version that was not resumed since.
        created_at: When it was first submitted, in UTC.
        slice_size: How many orders a slice has; 0 where the job is in one piece.
        total: How many orders it has.
    """

    id: int
    name: str
    operation: str
    merchant_id: str
    account_id: str
    gateway: str
    created_at: datetime = attrs.field(converter=_in_utc)
    slice_size: int
    total: int

    @property
    def is_sliced(self) -> bool:
        """Whether it was cut into slices."""
        return self.slice_size > 0

    @property
    def marker_prefix(self) -> str:
        """What its refunds' markers begin with: the same in every process that runs it."""
        named = f"{self.name} {self.created_at.isoformat()}"
        return marker_prefix_of(hashlib.sha256(named.encode()).hexdigest()[:12])

    def difference(self, subject: Mapping[str, str]) -> str:
        """Return in what the job is for something else than this; empty where in nothing."""
        for name, given in subject.items():
            known = getattr(self, name)
            # A job of an earlier version does not know its gateway.
            is_open = name == "gateway" and not (known and given)
            if known != given and not is_open:
                return f"its {name} is {known!r}, not {given!r}"
        return ""


JOB_COLUMNS = tuple(attrs.fields_dict(JobRow))


@attrs.frozen
class JobStatus(JobRow):
    """How far a job has come.

    Attributes:
        is_running: Whether a process has it.
        counts: How many of its orders are in each state.
    """

    is_running: bool = attrs.field(converter=bool)
    counts: dict[OrderState, int] = attrs.field(factory=lambda: dict.fromkeys(OrderState, 0))

    @property
    def settled(self) -> int:
        """How many orders no run has anything more to do with; some may be held."""
        return self.total - sum(self.counts[state] for state in UNFINISHED)

    @property
    def done(self) -> bool:
        """Whether a run has nothing more to do; orders may still be held for a person."""
        return self.settled == self.total


@attrs.frozen
class SliceStatus:
    """How far one slice of a job has come.

    Attributes:
        number: Its number, from 1.
        first: The position of its first order in the job, from 0.
        last: The position of its last; not all between them need be its own.
        total: How many orders it has.
        finished: Whether a run has nothing more to do in it; orders may still be held.
        is_running: Whether a process has it.
    """

    number: int
    first: int
    last: int
    total: int
    finished: bool = attrs.field(converter=bool)
    is_running: bool = attrs.field(converter=bool)

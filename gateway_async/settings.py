"""Settings: plain frozen data, checked when made.

Durations are in seconds. Nothing here acts; the session, the batches and recovery read it.
"""

import sys
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.validating import check, is_flag

if TYPE_CHECKING:
    from collections.abc import Callable

DUPLICATE_RULES = ("reject", "serialize", "allow")
REFUND_EVIDENCE = ("references", "marker")
DEFAULT_LINGER_SECONDS = 0.005
"""How long a single order waits at most for others to leave with it, unless told otherwise."""

DEFAULT_SLICE_SIZE = 1000
"""How many orders a slice of a job has, unless told otherwise."""


def is_duration(value: object) -> bool:
    """Say whether a value is a finite number of 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max  # type: ignore[operator]  # a number


def _is_positive(value: object) -> bool:
    return is_duration(value) and value != 0


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


_positive = check(_is_positive, "a number of seconds above 0")
_not_negative = check(is_duration, "a number of seconds, 0 or more")
_count = check(_is_count, "an int of 1 or more")


def _one_of(*values: str) -> "Callable[[object, attrs.Attribute[Any], Any], None]":
    return check(lambda value: value in values, "one of " + ", ".join(map(repr, values)))


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long one call may take.

    Attributes:
        connect_seconds: For a connection: waiting for a place in the pool, look-up of the
            address, TCP and TLS.
        reply_seconds: The longest silence while waiting for the reply or between two parts of it.
        total_seconds: For everything: all attempts of one call, or of one chunk, and the pauses
            between them.
    """

    connect_seconds: float = attrs.field(default=10.0, validator=_positive)
    reply_seconds: float = attrs.field(default=60.0, validator=_positive)
    total_seconds: float = attrs.field(default=120.0, validator=_positive)


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often, and after which pause, what may be repeated is repeated.

    Reads may always be repeated; what moves money only on proof that nothing was sent. The pause
    before attempt n+1 is drawn evenly between 0 and `first_pause_seconds` times 2 to the power of
    n-1, capped by `max_pause_seconds`; a Retry-After of the gateway is honoured up to that cap.

    Attributes:
        attempts: Attempts in all, the first included.
        first_pause_seconds: The upper bound of the first pause.
        max_pause_seconds: The upper bound of every pause.
    """

    attempts: int = attrs.field(default=4, validator=_count)
    first_pause_seconds: float = attrs.field(default=0.5, validator=_not_negative)
    max_pause_seconds: float = attrs.field(default=30.0, validator=_not_negative)


@attrs.frozen(kw_only=True)
class BatchPolicy:
    """How a batch is run.

    Attributes:
        concurrency: Requests in flight at most.
        chunk_size: Orders in one request; None for the interface's limit (section 8).
        deadline_seconds: From the start of the batch; then nothing more is sent. None for no
            deadline.
        drain_seconds: How long what is in flight may still take once the batch is stopped, be it
            by the deadline, by a cancellation, or by leaving its `async with`.
        stop_after_unknown: After so many chunks in a row (in order of completion) without a
            readable reply, nothing more is sent.
        duplicates: `"reject"`: the same identity twice is an error. `"serialize"`: the same
            identity is never in flight together, and after an unknown outcome the later ones are
            not sent. `"allow"`: you vouch for them; equal identities never share a request.
    """

    concurrency: int = attrs.field(default=8, validator=_count)
    chunk_size: int | None = attrs.field(default=None, validator=attrs.validators.optional(_count))
    deadline_seconds: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_positive)
    )
    drain_seconds: float = attrs.field(default=30.0, validator=_not_negative)
    stop_after_unknown: int = attrs.field(default=3, validator=_count)
    duplicates: str = attrs.field(default="reject", validator=_one_of(*DUPLICATE_RULES))


@attrs.frozen(kw_only=True)
class RecoveryPolicy:
    """How unknown outcomes are settled from the gateway's own records.

    Attributes:
        settle_seconds: How long after the end of a lost request an absence may count: a refund
            may land late.
        resend_absent: Send again what was proved not to be done. The one exception to "never
            twice", and yours to choose.
        refund_evidence: What proves a refund. `"references"`: a refund reference that was not
            there before and belongs to no other outcome; needs `record_baseline`, and a gateway
            that gives each refund a reference of its own: a reply in which all done refunds
            have references that were there before is unreadable, since it may be the reply to an
            earlier request, come twice. `"marker"`: a marker of ours, put before `refund_reason`,
            where it stays visible.
        record_baseline: Look up, before each chunk of refunds is sent, which refund references
            its transactions have already. One more request a chunk.
    """

    settle_seconds: float = attrs.field(default=60.0, validator=_not_negative)
    resend_absent: bool = attrs.field(default=False, validator=is_flag)
    refund_evidence: str = attrs.field(default="references", validator=_one_of(*REFUND_EVIDENCE))
    record_baseline: bool = attrs.field(default=False, validator=is_flag)


@attrs.frozen(kw_only=True)
class WorkerPolicy:
    """How the slices of jobs are shared out to workers.

    Attributes:
        slice_size: How many orders a slice has, but for those of one transaction, which are always
            in one slice.
        lease_seconds: How long a slice stays with a worker that says nothing more; a day at most.
        sweep_seconds: How often a worker looks for slices that nobody has.
        wake_seconds: How long a slice that was handed to the queue is left to it, before it is
            handed over once more.
        watch_seconds: How often `watch` looks, unless looking takes long.
    """

    slice_size: int = attrs.field(default=DEFAULT_SLICE_SIZE, validator=_count)
    lease_seconds: float = attrs.field(default=15.0, validator=_positive)
    sweep_seconds: float = attrs.field(default=2.0, validator=_positive)
    wake_seconds: float = attrs.field(default=60.0, validator=_positive)
    watch_seconds: float = attrs.field(default=1.0, validator=_positive)

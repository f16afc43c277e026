"""What a client tells of its work: batches and requests, as they begin and end.

Law: nothing here can name a card or a signature, and nothing but the text of an `error` an order or
an amount. Whom it is told, and what becomes of a listener that raises, is known to `watching`.
"""

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.batching.statuses import OutcomeStatus


@attrs.frozen(kw_only=True)
class BatchStart:
    """A batch that begins.

    Attributes:
        operation: The client's method: ``"refund"``, ``"query"`` and so on, or ``"recover"``.
        job: The name of the job, where the orders are kept in a journal.
        orders: How many they are; None where the input does not tell.
        concurrency: Requests in flight at most.
        server_address: The gateway's host.
        server_port: Its port.
    """

    operation: str
    job: str | None = None
    orders: int | None = None
    concurrency: int
    server_address: str
    server_port: int


@attrs.frozen(kw_only=True)
class BatchEnd:
    """What a batch came to.

    Attributes:
        counts: Orders by status, each status present.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        stopped: Why nothing more was sent, if there was a reason.
        error: What it raised; a cancellation, too. Its text may name orders and amounts.
        seconds: How long it took.
    """

    counts: "Mapping[OutcomeStatus, int]"
    requests: int
    retries: int
    stopped: str | None
    error: BaseException | None
    seconds: float


@attrs.frozen(kw_only=True)
class RequestStart:
    """A request that begins: a chunk of a batch, a single payment or payout, a page.

    Attributes:
        operation: The client's method that asks; ``"search_refunds"`` and ``"query"`` are also
            what baselines and recovery ask.
        orders: Orders in the request; None where it takes no list.
        server_address: The gateway's host.
        server_port: Its port.
    """

    operation: str
    orders: int | None
    server_address: str
    server_port: int


@attrs.frozen(kw_only=True)
class Attempt:
    """One exchange with the gateway; a request that is repeated has several.

    Attributes:
        seconds: From its turn, after all pauses and the limiter, until the reply was read or given
            up; opening a connection is included.
        http_status: The HTTP status; None where no reply came.
        error: The class of what went wrong, such as ``"OutcomeUnknownError"``; None otherwise.
    """

    seconds: float
    http_status: int | None
    error: str | None


@attrs.frozen(kw_only=True)
class RequestEnd:
    """What a request came to.

    Attributes:
        counts: Its orders by what the reply says of each, without zeros; empty for a request
            without a list, and where a full reply is asked for again in halves.
        attempts: The exchanges with the gateway; empty where it was never its turn.
        tries: Attempts made, including those whose turn never came.
        sent: How many of them may have sent something.
        error: Why there is no readable reply; None where there is one. Its text may name the order
            and amounts of a single payment.
        seconds: How long it took, all attempts and pauses included.
    """

    counts: "Mapping[OutcomeStatus, int]"
    attempts: tuple[Attempt, ...]
    tries: int
    sent: int
    error: BaseException | None
    seconds: float


class Telemetry:
    """Base class of what listens to a client; override what you need.

    Methods are called on the event loop, and must be quick and plain functions. What one raises is
    logged once and otherwise ignored: it decides about no order. What a `began` returns comes
    back, at the end, as `token`; where it raised, the end is not told.

    `batch_began` runs in a copy of the caller's context (`contextvars`): what it sets there is
    seen by the requests of the batch and by its input, and not by the caller. `batch_ended`
    runs in that same context. What `request_began` sets is seen by everything below the request.
    """

    def batch_began(self, batch: BatchStart) -> object:
        """Hear that a batch begins; nothing was sent yet."""

    def batch_ended(self, batch: BatchStart, end: BatchEnd, token: object) -> None:
        """Hear that a batch has ended, however it did."""

    def request_began(self, request: RequestStart) -> object:
        """Hear that a request begins; nothing was sent yet."""

    def request_ended(self, request: RequestStart, end: RequestEnd, token: object) -> None:
        """Hear that a request has ended, however it did."""

    def orders_settled(self, batch: BatchStart, counts: "Mapping[OutcomeStatus, int]") -> None:
        """Hear what became of some orders of a batch; each order of its input is told once.

        Args:
            batch: The batch.
            counts: Orders by status, some of them 0.
        """

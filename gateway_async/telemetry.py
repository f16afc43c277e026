"""Logging, and the events that a listener of the program's own gets: batches, requests, outcomes.

A listener decides about no order: what it raises ends in this module. No event names a card or a
signature, and only the text of an `error` may name an order or an amount.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

import attrs

from gateway_async.errors import OutcomeUnknownError
from gateway_async.models.orders import OutcomeStatus, count_status, present_statuses
from gateway_async.operations import OPERATIONS
from gateway_async.settings import DEFAULT_PORTS, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.operations import Operation
    from gateway_async.settings import BatchPolicy

__all__ = ["Attempt", "BatchEnd", "BatchStart", "RequestEnd", "RequestStart", "Telemetry"]

T = TypeVar("T")

logging.getLogger("gateway_async").addHandler(logging.NullHandler())  # quiet unless asked


class Log(logging.LoggerAdapter[logging.Logger]):
    """A log of the library: what the program's handlers and filters raise ends here.

    Args:
        name: Its name below `gateway_async`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(logging.getLogger(f"gateway_async.{name}"))

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:  # noqa: ANN401  # of the logger
        """Log something, as said where that is called."""
        with contextlib.suppress(Exception):
            super().log(level, msg, *args, **{"stacklevel": 2, **options})


_batches = Log("batches")
_requests = Log("requests")
_listeners = Log("telemetry")

_FAILED = object()


@attrs.frozen(kw_only=True)
class BatchStart:
    """A batch that begins.

    Attributes:
        operation: The operation: ``"refund"``, ``"payout"`` and so on, or ``"recover"``.
        job: The name of the job, where the orders are kept in a journal.
        orders: How many they are; None for an input without a length.
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
    """A batch that has ended.

    Attributes:
        counts: Orders by status, each status present.
        requests: Requests of which something was sent.
        retries: Attempts beyond the first.
        error: What it raised; a cancellation, too. Its text may name orders and amounts.
        seconds: How long it took.
    """

    counts: "Mapping[OutcomeStatus, int]"
    requests: int
    retries: int
    error: BaseException | None
    seconds: float


@attrs.frozen(kw_only=True)
class RequestStart:
    """A request that begins: a chunk of a batch, a single payment or payout, a page.

    Attributes:
        operation: The client's method that asks; ``"search_refunds"`` and ``"query"`` are also
            what baselines and recovery ask.
        orders: Orders in the request; None for a single payment or payout, and for a page.
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
    """A request that has ended.

    Attributes:
        counts: Its orders by status, without zeros; empty where `orders` is None, and where a
            full reply is asked for again in halves.
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
    """Base class of a listener; override what you need.

    Methods are called on the event loop, and must be quick and plain functions. What one raises is
    logged once and otherwise ignored: it decides about no order. What a `began` returns comes
    back, at the end, as `token`; where it raised, the end is not called.

    `batch_began` runs in a copy of the caller's context (`contextvars`): what it sets there is
    seen by the requests of the batch and by its input, and not by the caller. `batch_ended`
    runs in that same context. What `request_began` sets is seen by everything below the request.
    """

    def batch_began(self, batch: BatchStart) -> object:
        """A batch begins; nothing was sent yet."""

    def batch_ended(self, batch: BatchStart, end: BatchEnd, token: object) -> None:
        """A batch has ended, however it did."""

    def request_began(self, request: RequestStart) -> object:
        """A request begins; nothing was sent yet."""

    def request_ended(self, request: RequestStart, end: RequestEnd, token: object) -> None:
        """A request has ended, however it did."""

    def orders_settled(self, batch: BatchStart, counts: "Mapping[OutcomeStatus, int]") -> None:
        """Some orders of a batch have an outcome; each order of its input is counted once.

        Args:
            batch: The batch.
            counts: Orders by status, without zeros.
        """


class Instrumentation:
    """Logs what a client does, and calls its listener.

    Args:
        listener: The listener, if there is one.
        base_url: Where the gateway is.

    Raises:
        ConfigurationError: If the listener is no `Telemetry`.
    """

    def __init__(self, listener: Telemetry | None, base_url: str) -> None:
        if listener is not None:
            expect("telemetry", listener, Telemetry)
        parts = urlsplit(base_url)
        self.listener = listener
        self.server: dict[str, Any] = {
            "server_address": parts.hostname,
            "server_port": parts.port or DEFAULT_PORTS[parts.scheme],
        }
        self._has_complained = False

    def batch(
        self,
        operation: str,
        orders: object,
        policy: "BatchPolicy",
        *,
        job: str | None = None,
        in_copy: bool = True,
    ) -> "BatchSpan":
        """Report that a batch or recovery begins.

        Args:
            operation: The name of the operation, or ``"recover"``.
            orders: Its orders.
            policy: How it is run.
            job: The name of the job, if it is one.
            in_copy: Whether it runs in a copy of the caller's context, and not in that itself.
        """
        start = BatchStart(
            operation=operation,
            job=job,
            orders=len(orders) if isinstance(orders, Collection) else None,
            concurrency=policy.concurrency,
            **self.server,
        )
        has_own = in_copy and self.listener is not None
        return BatchSpan(self, start, copy_context() if has_own else None)

    def call(self, method: "Callable[..., T]", *facts: object) -> T | None:
        """Call a method of the listener; return its value, or `_FAILED` where it raised."""
        try:
            return method(*facts)
        # It awaits nothing: a CancelledError is raised by itself, too.
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  # its defect decides no order
            if not self._has_complained:
                self._has_complained = True
                _listeners.exception(
                    "the telemetry raised; no order is affected, and further errors are not logged"
                )
            return _FAILED  # type: ignore[return-value]  # compared by identity


class BatchSpan:
    """One batch or recovery, from its beginning to its end.

    Attributes:
        error: What came out of the block that streams it, if something did.
    """

    def __init__(self, owner: Instrumentation, start: BatchStart, context: Context | None) -> None:
        self.error: BaseException | None = None
        self._owner = owner
        self._start = start
        self._context = context
        self._began_at = time.perf_counter()
        self._name = start.operation + (f" job {start.job!r}" if start.job is not None else "")
        orders = "orders as they come" if start.orders is None else _count(start.orders, "order")
        _batches.info("%s began: %s", self._name, orders)
        listener = owner.listener
        self._token = (
            None if listener is None else self.run(owner.call, listener.batch_began, start)
        )

    def run(self, function: "Callable[..., T]", *args: Any, **options: Any) -> T:  # noqa: ANN401  # whatever it takes
        """Call a function in the context of the batch."""
        if self._context is None:
            return function(*args, **options)
        return self._context.run(function, *args, **options)

    def settled(self, counts: "Mapping[OutcomeStatus, int]") -> None:
        """Report the outcomes of some of its orders."""
        if self._owner.listener is not None:
            self._owner.call(self._owner.listener.orders_settled, self._start, counts)

    def end(
        self,
        counts: "Mapping[OutcomeStatus, int]",
        requests: int,
        *,
        retries: int = 0,
        error: BaseException | None = None,
    ) -> None:
        """Report that it is over."""
        end = BatchEnd(
            counts=counts,
            requests=requests,
            retries=retries,
            error=error if error is not None else self.error,
            seconds=time.perf_counter() - self._began_at,
        )
        self.error = None  # its frames would keep their locals alive
        _batches.info(
            "%s ended after %.1f s: %s; %s, %d retries%s",
            self._name,
            end.seconds,
            ", ".join(f"{count} {status}" for status, count in counts.items() if count)
            or "no orders",
            _count(requests, "request"),
            retries,
            f"; raised {type(end.error).__name__}" if end.error is not None else "",
        )
        listener = self._owner.listener
        if listener is not None and self._token is not _FAILED:
            self.run(self._owner.call, listener.batch_ended, self._start, end, self._token)


@attrs.define(eq=False)
class RequestSpan:
    """One request, from its beginning to the end of the `with` block around it.

    Attributes:
        owner: What reports.
        operation: The operation.
        attempts: Those of the request.
        orders: How many orders it has; None for a single payment or payout, and for a page.
        statuses: The statuses of its orders, as codes.
    """

    _owner: Instrumentation
    _operation: "Operation"
    _attempts: Any
    _orders: int | None
    statuses: bytes = b""
    _began: tuple[RequestStart, float, object] | None = attrs.field(default=None, init=False)

    def begin(self) -> None:
        """Report that it begins, inside of the `with` block: a listener may end the process."""
        if (listener := self._owner.listener) is not None:
            start = RequestStart(
                operation=self._operation.name, orders=self._orders, **self._owner.server
            )
            began_at = time.perf_counter()
            token = self._owner.call(listener.request_began, start)
            if token is not _FAILED:
                self._began = start, began_at, token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        made = self._attempts
        unknown = count_status(self.statuses, OutcomeStatus.UNKNOWN)
        if unknown or made.error or _requests.isEnabledFor(logging.DEBUG):
            self._log(unknown)
        listener = self._owner.listener
        if listener is None or self._began is None:
            return
        start, began_at, token = self._began
        end = RequestEnd(
            counts=present_statuses(self.statuses),
            attempts=made.history,
            tries=made.tries,
            sent=made.sent,
            error=made.error,
            seconds=time.perf_counter() - began_at,
        )
        self._owner.call(listener.request_ended, start, end, token)

    def _log(self, unknown: int) -> None:
        made, operation = self._attempts, self._operation
        problem = made.error
        orders = "" if self._orders is None else f" of {_count(self._orders, 'order')}"
        only_reads = operation.is_look_up and operation.name in OPERATIONS
        what = "failed" if only_reads else "outcome unknown"
        if isinstance(problem, OutcomeUnknownError):
            _requests.warning("%s%s: %s: %s", operation, orders, what, problem)
        elif unknown:
            _requests.warning("%s%s: %s for %d", operation, orders, what, unknown)
        else:
            seconds = ", ".join(f"{attempt.seconds:.3f} s" for attempt in made.history)
            answer = "answered" if problem is None else problem
            _requests.debug("%s%s: %s (%s)", operation, orders, answer, seconds or "not sent")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

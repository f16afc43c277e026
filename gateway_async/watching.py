"""What begins and ends is logged, and told to the telemetry that a client was given.

Law: a listener decides about no order. What it raises ends in this module; what it is told of the
gateway is a host, a status and the class of an error.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import Collection
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from gateway_async.batching.outcomes import count_statuses, status_code
from gateway_async.batching.results import Progress
from gateway_async.batching.statuses import OutcomeStatus
from gateway_async.errors import ConfigurationError, OutcomeUnknownError
from gateway_async.operations import OPERATIONS, OperationClass
from gateway_async.telemetry import (
    BatchEnd,
    BatchStart,
    RequestEnd,
    RequestStart,
    Telemetry,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.attempts import Exchange
    from gateway_async.settings import BatchPolicy

T = TypeVar("T")

logging.getLogger("gateway_async").addHandler(logging.NullHandler())  # quiet unless asked

_batches = logging.getLogger("gateway_async.batches")
_requests = logging.getLogger("gateway_async.requests")
_listeners = logging.getLogger("gateway_async.telemetry")

_PORTS = {"http": 80, "https": 443}
_FAILED = object()
_IN_DOUBT = "what became of %d is unknown"


class Observer:
    """Whom a client tells what it does.

    Attributes:
        telemetry: The listener, if there is one.
        server_address: The gateway's host.
        server_port: Its port.
    """

    def __init__(self, telemetry: Telemetry | None, base_url: str) -> None:
        _check(telemetry)
        parts = urlsplit(base_url)
        self.telemetry = telemetry
        self.server_address = parts.hostname or ""
        self.server_port = parts.port or _PORTS[parts.scheme]
        self._has_complained = False

    def batch(
        self, operation: str, orders: object, policy: "BatchPolicy", *, job: str | None = None
    ) -> "BatchWatch":
        """Tell that a batch begins."""
        count = len(orders) if isinstance(orders, Collection) else None
        start = self._batch_start(operation, policy.concurrency, count, job)
        return BatchWatch(self, start, copy_context() if self.telemetry is not None else None)

    def recovery(self, policy: "BatchPolicy") -> "RecoveryWatch":
        """Tell that a recovery begins; it runs in the context of its caller."""
        start = self._batch_start("recover", policy.concurrency, None, None)
        return RecoveryWatch(self, start, None)

    def request(self, operation: str, orders: int | None) -> "RequestWatch":
        """Prepare to watch one request; nothing is told before it begins."""
        return RequestWatch(self, operation, orders)

    def tell(self, hear: "Callable[..., T]", *facts: object) -> T | None:
        """Tell a listener something; return what it returns, or `_FAILED` where it raised."""
        try:
            return hear(*facts)
        # It awaits nothing, so that a CancelledError is its own invention as well.
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  # its defect decides no order
            if not self._has_complained:
                self._has_complained = True
                _listeners.exception(
                    "the telemetry raised; no order is affected, and this is said only once"
                )
            return _FAILED  # type: ignore[return-value]  # told from any token by its identity

    def _batch_start(
        self, operation: str, concurrency: int, orders: int | None, job: str | None
    ) -> BatchStart:
        return BatchStart(
            operation=operation,
            job=job,
            orders=orders,
            concurrency=concurrency,
            server_address=self.server_address,
            server_port=self.server_port,
        )


class BatchWatch:
    """One batch, watched from its beginning to its end.

    Attributes:
        error: What came out of the block that streams it, if something did.
    """

    def __init__(self, observer: Observer, start: BatchStart, context: Context | None) -> None:
        self.error: BaseException | None = None
        self._observer = observer
        self._start = start
        self._context = context
        self._began_at = time.perf_counter()
        self._is_over = False
        named = f" job {start.job!r}" if start.job is not None else ""
        self._name = f"{start.operation}{named}"
        orders = "orders as they come" if start.orders is None else _count(start.orders, "order")
        _batches.info("%s began: %s", self._name, orders)
        told = observer.telemetry
        self._token = None if told is None else self.run(observer.tell, told.batch_began, start)

    def run(self, function: "Callable[..., T]", *args: Any, **options: Any) -> T:  # noqa: ANN401  # whatever it takes
        """Call a function in the context of the batch."""
        if self._context is None:
            return function(*args, **options)
        return self._context.run(function, *args, **options)

    def settled(self, counts: "Mapping[OutcomeStatus, int]") -> None:
        """Tell what became of some of its orders."""
        told = self._observer.telemetry
        if told is not None:
            self._observer.tell(told.orders_settled, self._start, counts)

    def end(self, progress: Progress, stopped: str | None, error: BaseException | None) -> None:
        """Tell that it is over; once."""
        if self._is_over:
            return
        self._is_over = True
        end = BatchEnd(
            counts=progress.counts,
            requests=progress.requests,
            retries=progress.retries,
            stopped=stopped,
            error=error if error is not None else self.error,
            seconds=time.perf_counter() - self._began_at,
        )
        self.error = None  # its frames would keep alive whatever they know
        self._log(end)
        told = self._observer.telemetry
        if told is not None and self._token is not _FAILED:
            self.run(self._observer.tell, told.batch_ended, self._start, end, self._token)

    def _log(self, end: BatchEnd) -> None:
        if _batches.isEnabledFor(logging.INFO):
            counts = ", ".join(f"{count} {status}" for status, count in end.counts.items() if count)
            raised = f"; raised {type(end.error).__name__}" if end.error is not None else ""
            _batches.info(
                "%s ended after %.1f s: %s; %s, %d retries%s",
                self._name,
                end.seconds,
                counts or "no orders",
                _count(end.requests, "request"),
                end.retries,
                raised,
            )


class RecoveryWatch(BatchWatch):
    """One recovery, watched from its beginning to the end of the `with` block around it."""

    _came_to = Progress(counts=dict.fromkeys(OutcomeStatus, 0), requests=0, retries=0, total=None)

    def over(self, counts: "Mapping[OutcomeStatus, int]", requests: int) -> None:
        """Note what it came to."""
        self._came_to = Progress(counts=counts, requests=requests, retries=0, total=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.end(self._came_to, None, error)


class RequestWatch:
    """One request, watched from its beginning to the end of the `with` block around it.

    Attributes:
        exchange: What became of it, once that is known.
        statuses: What became of each of its orders, as codes.
    """

    __slots__ = (
        *("_began_at", "_observer", "_operation", "_orders", "_start", "_token"),
        *("exchange", "statuses"),
    )

    def __init__(self, observer: Observer, operation: str, orders: int | None) -> None:
        self.exchange: Exchange[Any] | None = None
        self.statuses = b""
        self._observer = observer
        self._operation = operation
        self._orders = orders
        self._began_at = 0.0
        self._start: RequestStart | None = None
        self._token: object = None

    def begin(self) -> None:
        """Tell that it begins."""
        told = self._observer.telemetry
        if told is None:
            return
        self._began_at = time.perf_counter()
        self._start = RequestStart(
            operation=self._operation,
            orders=self._orders,
            server_address=self._observer.server_address,
            server_port=self._observer.server_port,
        )
        self._token = self._observer.tell(told.request_began, self._start)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._log()
        told = self._observer.telemetry
        if told is None or self._start is None or self._token is _FAILED:
            return
        made = self.exchange
        if made is not None and (made.error is not None or not isinstance(error, Exception)):
            error = made.error  # a cancellation that came during a request is not its failure
        end = RequestEnd(
            counts={
                status: count for status, count in count_statuses(self.statuses).items() if count
            },
            attempts=made.attempts if made is not None else (),
            tries=made.tries if made is not None else 0,
            sent=made.sent if made is not None else 0,
            error=error,
            seconds=time.perf_counter() - self._began_at,
        )
        self._observer.tell(told.request_ended, self._start, end, self._token)

    @property
    def _only_reads(self) -> bool:
        operation = OPERATIONS.get(self._operation)
        return operation is not None and operation.kind is OperationClass.READ

    def _log(self) -> None:
        made = self.exchange
        problem = made.error if made is not None else None
        unknown = self.statuses.count(status_code(OutcomeStatus.UNKNOWN))
        if problem is None and not unknown and not _requests.isEnabledFor(logging.DEBUG):
            return
        orders = "" if self._orders is None else f" of {_count(self._orders, 'order')}"
        if isinstance(problem, OutcomeUnknownError):
            came_to = "found nothing out" if self._only_reads else "may have happened"
            _requests.warning("%s%s %s: %s", self._operation, orders, came_to, problem)
        elif unknown:
            came_to = "found nothing out about %d" if self._only_reads else _IN_DOUBT
            _requests.warning(f"%s%s: {came_to}", self._operation, orders, unknown)
        elif made is not None and _requests.isEnabledFor(logging.DEBUG):
            seconds = ", ".join(f"{attempt.seconds:.3f} s" for attempt in made.attempts)
            said = "answered" if problem is None else problem
            _requests.debug("%s%s: %s (%s)", self._operation, orders, said, seconds or "not sent")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _check(telemetry: object) -> None:
    """Check a listener.

    Raises:
        ConfigurationError: If it is none, or would have to be awaited.
    """
    if telemetry is None:
        return
    if not isinstance(telemetry, Telemetry):
        raise ConfigurationError(
            "telemetry: expected an instance of a subclass of gateway_async.telemetry.Telemetry, "
            f"got {type(telemetry).__name__}"
        )
    for name in vars(Telemetry):
        if inspect.iscoroutinefunction(getattr(telemetry, name)):
            raise ConfigurationError(
                f"telemetry: {type(telemetry).__name__}.{name} must be a plain function, "
                "nobody awaits it"
            )

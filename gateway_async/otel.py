"""Telemetry by OpenTelemetry: needs the extra `gateway-async[otel]`.

Only the interface of OpenTelemetry is used; which spans and metrics are kept, and where they go,
is for the program to say.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import require_extra
from gateway_async.telemetry import Telemetry

with require_extra(__name__, "opentelemetry", install="'gateway-async[otel]'"):
    from opentelemetry import context, metrics, trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from gateway_async.models.orders import OutcomeStatus
    from gateway_async.telemetry import Attempt, BatchEnd, BatchStart, RequestEnd, RequestStart

__all__ = ["OpenTelemetry"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60)
_WITHOUT_ANSWER = ("unknown", "not_sent")


@attrs.frozen
class _Open:
    """A span that is not ended, and the context to go back to."""

    span: "Span"
    token: "Token[Context]"


class OpenTelemetry(Telemetry):
    """Makes a span of each batch and of each request, and keeps the metrics.

    Give it to `GatewayClient` as ``telemetry=OpenTelemetry()``. The parent of a request's span is
    its batch; that of a batch, the span around the call.

    Args:
        tracer_provider: Where spans go; None for the program's global one.
        meter_provider: Where metrics go; None for the program's global one.
    """

    def __init__(
        self,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
    ) -> None:
        name, release = "gateway_async", version("gateway-async")
        self._tracer = trace.get_tracer(name, release, tracer_provider)
        meter = metrics.get_meter(name, release, meter_provider)
        self._requests = meter.create_counter(
            "gateway_async.requests", "{request}", "Requests that ended."
        )
        self._retries = meter.create_counter(
            "gateway_async.retries", "{attempt}", "Attempts of a request beyond its first."
        )
        self._outcomes = meter.create_counter(
            "gateway_async.outcomes", "{order}", "Orders of batches that were settled."
        )
        self._active = meter.create_up_down_counter(
            "gateway_async.requests.active", "{request}", "Requests that have begun."
        )
        self._duration = meter.create_histogram(
            "gateway_async.request.duration",
            "s",
            "One exchange with the gateway; each attempt of a request is one.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )

    def batch_began(self, batch: "BatchStart") -> _Open:
        """Begin the span of a batch."""
        attributes = _known(
            {
                "gateway_async.operation": batch.operation,
                "gateway_async.job.name": batch.job,
                "gateway_async.batch.orders": batch.orders,
                "gateway_async.batch.concurrency": batch.concurrency,
                "server.address": batch.server_address,
                "server.port": batch.server_port,
            }
        )
        return self._begin(f"{batch.operation} batch", trace.SpanKind.INTERNAL, attributes)

    def batch_ended(self, batch: "BatchStart", end: "BatchEnd", token: object) -> None:
        """End the span of a batch."""
        del batch  # its span says the same
        attributes = _outcomes(end.counts) | {
            "gateway_async.batch.requests": end.requests,
            "gateway_async.batch.retries": end.retries,
        }
        _end(token, attributes, end.error, end.counts)

    def request_began(self, request: "RequestStart") -> _Open:
        """Begin the span of a request."""
        self._active.add(1, {"gateway_async.operation": request.operation})
        attributes = _known(
            {
                "gateway_async.operation": request.operation,
                "gateway_async.request.orders": request.orders,
                "server.address": request.server_address,
                "server.port": request.server_port,
            }
        )
        return self._begin(request.operation, trace.SpanKind.CLIENT, attributes)

    def request_ended(self, request: "RequestStart", end: "RequestEnd", token: object) -> None:
        """End the span of a request, and count it."""
        operation: dict[str, AttributeValue] = {"gateway_async.operation": request.operation}
        self._active.add(-1, operation)
        last = _known({"http.response.status_code": _last_status(end.attempts)})
        attributes = _outcomes(end.counts) | {
            **last,
            "gateway_async.request.attempts": end.tries,
            "gateway_async.request.sent": end.sent,
        }
        _end(token, attributes, end.error, end.counts)
        self._requests.add(1, {**operation, **last, **_error_type(end.error)})
        if end.tries > 1:
            self._retries.add(end.tries - 1, operation)
        for attempt in end.attempts:
            facts = _known(
                {"http.response.status_code": attempt.http_status, "error.type": attempt.error}
            )
            self._duration.record(attempt.seconds, {**operation, **facts})

    def orders_settled(self, batch: "BatchStart", counts: "Mapping[OutcomeStatus, int]") -> None:
        """Count outcomes of orders."""
        for status, count in counts.items():
            if count:
                facts = {
                    "gateway_async.operation": batch.operation,
                    "gateway_async.outcome.status": str(status),
                }
                self._outcomes.add(count, facts)

    def _begin(
        self, name: str, kind: trace.SpanKind, attributes: "Mapping[str, AttributeValue]"
    ) -> _Open:
        span = self._tracer.start_span(name, kind=kind, attributes=attributes)
        return _Open(span, context.attach(trace.set_span_in_context(span)))


def _end(
    token: object,
    attributes: "Mapping[str, AttributeValue]",
    error: BaseException | None,
    counts: "Mapping[OutcomeStatus, int]",
) -> None:
    """End a span; a failure is one that raised, or left orders without an answer."""
    if not isinstance(token, _Open):
        raise TypeError(f"expected what the beginning returned, got {type(token).__name__}")
    left = {status: counts.get(status, 0) for status in counts if status in _WITHOUT_ANSWER}
    token.span.set_attributes({**attributes, **_error_type(error)})
    if error is not None:
        token.span.set_status(trace.StatusCode.ERROR, type(error).__name__)
    elif any(left.values()):
        text = ", ".join(f"{count} {status}" for status, count in left.items() if count)
        token.span.set_status(trace.StatusCode.ERROR, text)
    token.span.end()
    context.detach(token.token)


def _known(facts: "Mapping[str, AttributeValue | None]") -> "dict[str, AttributeValue]":
    """Return the facts that are known."""
    return {name: value for name, value in facts.items() if value is not None}


def _outcomes(counts: "Mapping[OutcomeStatus, int]") -> "dict[str, AttributeValue]":
    return {f"gateway_async.outcomes.{status}": count for status, count in counts.items() if count}


def _error_type(error: BaseException | None) -> "dict[str, AttributeValue]":
    return {} if error is None else {"error.type": type(error).__name__}


def _last_status(attempts: "tuple[Attempt, ...]") -> int | None:
    return attempts[-1].http_status if attempts else None

"""Telemetry by OpenTelemetry: needs the extra `gateway-async[otel]`.

Only the interface of OpenTelemetry is used; the program decides which spans and metrics are kept,
and where they go.
"""

from importlib.metadata import version
from typing import TYPE_CHECKING, cast

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
    from gateway_async.telemetry import BatchEnd, BatchStart, RequestEnd, RequestStart

    Attributes = dict[str, AttributeValue]
    Facts = Mapping[str, AttributeValue | None]
    Begun = tuple[Span, Token[Context]]  # a span, and the context to go back to

__all__ = ["OpenTelemetry"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60)
_WITHOUT_ANSWER = ("unknown", "not_sent")


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

    def batch_began(self, batch: "BatchStart") -> "Begun":
        """Begin the span of a batch."""
        facts = {
            "gateway_async.job.name": batch.job,
            "gateway_async.batch.orders": batch.orders,
            "gateway_async.batch.concurrency": batch.concurrency,
        }
        return self._begin(f"{batch.operation} batch", trace.SpanKind.INTERNAL, batch, facts)

    def batch_ended(self, batch: "BatchStart", end: "BatchEnd", token: object) -> None:
        """End the span of a batch."""
        del batch  # its span says the same
        facts = {
            "gateway_async.batch.requests": end.requests,
            "gateway_async.batch.retries": end.retries,
        }
        _end(token, end, facts)

    def request_began(self, request: "RequestStart") -> "Begun":
        """Begin the span of a request."""
        self._active.add(1, {"gateway_async.operation": request.operation})
        facts = {"gateway_async.request.orders": request.orders}
        return self._begin(request.operation, trace.SpanKind.CLIENT, request, facts)

    def request_ended(self, request: "RequestStart", end: "RequestEnd", token: object) -> None:
        """End the span of a request, and count it."""
        operation: Attributes = {"gateway_async.operation": request.operation}
        self._active.add(-1, operation)
        status = end.attempts[-1].http_status if end.attempts else None
        last = _known({"http.response.status_code": status})
        facts = {
            **last,
            "gateway_async.request.attempts": end.tries,
            "gateway_async.request.sent": end.sent,
        }
        _end(token, end, facts)
        self._requests.add(1, {**operation, **last, **_error_type(end.error)})
        if end.tries > 1:
            self._retries.add(end.tries - 1, operation)
        for attempt in end.attempts:
            facts = {"http.response.status_code": attempt.http_status, "error.type": attempt.error}
            self._duration.record(attempt.seconds, {**operation, **_known(facts)})

    def orders_settled(self, batch: "BatchStart", counts: "Mapping[OutcomeStatus, int]") -> None:
        """Count outcomes of orders."""
        for status, count in counts.items():
            facts = {
                "gateway_async.operation": batch.operation,
                "gateway_async.outcome.status": str(status),
            }
            self._outcomes.add(count, facts)

    def _begin(
        self, name: str, kind: trace.SpanKind, start: "BatchStart | RequestStart", facts: "Facts"
    ) -> "Begun":
        attributes = _known(
            {
                "gateway_async.operation": start.operation,
                "server.address": start.server_address,
                "server.port": start.server_port,
                **facts,
            }
        )
        span = self._tracer.start_span(name, kind=kind, attributes=attributes)
        return span, context.attach(trace.set_span_in_context(span))


def _end(
    token: object, end: "BatchEnd | RequestEnd", facts: "Mapping[str, AttributeValue]"
) -> None:
    """End a span; a failure is one that raised, or left orders without an answer."""
    span, before = cast("Begun", token)
    found = {status: count for status, count in end.counts.items() if count}
    outcomes = {f"gateway_async.outcomes.{status}": count for status, count in found.items()}
    span.set_attributes({**outcomes, **facts, **_error_type(end.error)})
    left = [f"{count} {status}" for status, count in found.items() if status in _WITHOUT_ANSWER]
    if end.error is not None:
        span.set_status(trace.StatusCode.ERROR, type(end.error).__name__)
    elif left:
        span.set_status(trace.StatusCode.ERROR, ", ".join(left))
    span.end()
    context.detach(before)


def _known(facts: "Facts") -> "Attributes":
    """Return the facts that are known."""
    return {name: value for name, value in facts.items() if value is not None}


def _error_type(error: BaseException | None) -> "Attributes":
    return {} if error is None else {"error.type": type(error).__name__}

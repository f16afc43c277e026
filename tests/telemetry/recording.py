"""What the SDK of OpenTelemetry was told, and a listener that writes everything down."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway_async.otel import OpenTelemetry
from gateway_async.telemetry import BatchEnd, BatchStart, RequestEnd, RequestStart, Telemetry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class Recorder:
    """Spans and metrics, kept in memory.

    Attributes:
        telemetry: What to give to a client.
        tracer: The program's own.
    """

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider(metric_readers=[self._reader])
        self.tracer: Tracer = traces.get_tracer("program")
        self.telemetry = OpenTelemetry(tracer_provider=traces, meter_provider=meters)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order of their end."""
        return self._spans.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of this name."""
        return [span for span in self.spans if span.name == name]

    def the(self, name: str) -> ReadableSpan:
        """Return the one span of this name."""
        (span,) = self.named(name)
        return span

    def children(self, parent: ReadableSpan) -> list[ReadableSpan]:
        """Return the spans right below another."""
        assert parent.context is not None
        above = parent.context.span_id
        return [span for span in self.spans if span.parent and span.parent.span_id == above]

    def points(self, name: str, *by: str) -> list[tuple[tuple[Any, ...], Any]]:
        """Return the data points of a metric, each with its values of these attributes."""
        data = self._reader.get_metrics_data()
        return [
            (tuple((point.attributes or {}).get(attribute) for attribute in by), point)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == f"gateway_async.{name}"
            for point in metric.data.data_points
        ]

    def sums(self, name: str, *by: str) -> dict[tuple[Any, ...], float]:
        """Return the sums of a counter by an attribute or several."""
        sums: dict[tuple[Any, ...], float] = {}
        for key, point in self.points(name, *by):
            sums[key] = sums.get(key, 0) + point.value
        return sums

    def shown(self) -> str:
        """Return all of it as text, as an exporter would send it away."""
        data = self._reader.get_metrics_data()
        metrics = "" if data is None else data.to_json()
        return "\n".join([*(span.to_json() for span in self.spans), metrics])


@attrs.define
class Diary(Telemetry):
    """Writes everything down.

    Attributes:
        batches: Each batch, with its end once it has ended.
        requests: Each request, with its end once it has ended.
        settled: What became of orders, as it was told.
    """

    batches: list[tuple[BatchStart, BatchEnd | None]] = attrs.field(factory=list)
    requests: list[tuple[RequestStart, RequestEnd | None]] = attrs.field(factory=list)
    settled: list[tuple[BatchStart, Mapping[Any, int]]] = attrs.field(factory=list)

    def batch_began(self, batch: BatchStart) -> int:
        self.batches.append((batch, None))
        return len(self.batches) - 1

    def batch_ended(self, batch: BatchStart, end: BatchEnd, token: Any) -> None:
        assert self.batches[token] == (batch, None)
        self.batches[token] = batch, end

    def request_began(self, request: RequestStart) -> int:
        self.requests.append((request, None))
        return len(self.requests) - 1

    def request_ended(self, request: RequestStart, end: RequestEnd, token: Any) -> None:
        assert self.requests[token] == (request, None)
        self.requests[token] = request, end

    def orders_settled(self, batch: BatchStart, counts: Mapping[Any, int]) -> None:
        self.settled.append((batch, dict(counts)))

    @property
    def is_closed(self) -> bool:
        """Whether all that began has ended."""
        return all(end is not None for _, end in (*self.batches, *self.requests))

    def totals(self) -> Counter[Any]:
        """Return what became of all orders."""
        totals: Counter[Any] = Counter()
        for _, counts in self.settled:
            totals.update(counts)
        return totals

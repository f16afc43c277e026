"""Spans and metrics of OpenTelemetry, kept in memory."""

from typing import TYPE_CHECKING, Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gateway_async.otel import OpenTelemetry

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

_SHARED = ("operation", "address", "port", "concurrency")


class Recorder:
    """Spans and metrics, kept in memory; `tracer` is the program's own."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider(metric_readers=[self._reader])
        self.tracer: Tracer = traces.get_tracer("program")
        self.telemetry = OpenTelemetry(tracer_provider=traces, meter_provider=meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self._spans.get_finished_spans(), key=lambda span: span.start_time or 0)

    def tree(self, above: int | None = None, indent: str = "") -> list[str]:
        """Return each span as a line: its name, what is known of it, and why it failed."""
        lines = []
        for span in self.spans:
            if span.context is None or (span.parent and span.parent.span_id) != above:
                continue
            known = {name.rpartition(".")[2]: v for name, v in (span.attributes or {}).items()}
            facts = [f"{name}={value}" for name, value in known.items() if name not in _SHARED]
            why = "" if span.status.is_ok else f"! {span.status.description}"
            lines.append(" ".join(filter(None, [indent + span.name, *sorted(facts), why])))
            lines += self.tree(span.context.span_id, f"{indent}  ")
        return lines

    def points(self, name: str, *by: str) -> dict[tuple[Any, ...], Any]:
        """Return the data points of a metric by the values of attributes."""
        data = self._reader.get_metrics_data()
        return {
            tuple((point.attributes or {}).get(attribute) for attribute in by): point
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == f"gateway_async.{name}"
            for point in metric.data.data_points
        }

    def counts(self, name: str, *by: str) -> dict[tuple[Any, ...], float]:
        return {key: point.value for key, point in self.points(name, *by).items()}

    def shown(self) -> str:
        """Return all of it as text, as an exporter would send it away."""
        data = self._reader.get_metrics_data()
        metrics = "" if data is None else data.to_json()
        return "\n".join([*(span.to_json() for span in self.spans), metrics])

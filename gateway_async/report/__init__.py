"""A run as one page of HTML."""

from gateway_async.report.report import Head, Latencies, Report, render

__all__ = ["Head", "Latencies", "Report", "render"]

"""A run as one page of HTML."""

from gateway_async.report.report import Head, Report, render

__all__ = ["Head", "Report", "render"]

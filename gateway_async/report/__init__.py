"""A run as one page of HTML: what became of every order, what differs, and what to do next.

Data in, text out: nothing here opens a file, asks for the time or knows a gateway.
"""

from gateway_async.report.collecting import Report
from gateway_async.report.heads import Head
from gateway_async.report.latencies import Latencies
from gateway_async.report.page import page as render

__all__ = ["Head", "Latencies", "Report", "render"]

"""One HTTP exchange by aiohttp, and the proof of whether anything was sent.

- `http`: `AiohttpTransport`: connections, and what each exception of aiohttp means.
- `deadlines`: the time limits of a request.
- `tracked`: the request, whose body notes that it is written, and the response.
"""

from gateway_async.transport.http import AiohttpTransport, ConnectionOptions
from gateway_async.transport.tracked import (
    HttpRequest,
    HttpResponse,
    SendTracker,
    StaleConnectionError,
)

__all__ = [
    "AiohttpTransport",
    "ConnectionOptions",
    "HttpRequest",
    "HttpResponse",
    "SendTracker",
    "StaleConnectionError",
]

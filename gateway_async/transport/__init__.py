"""One HTTP exchange by aiohttp, and the proof of whether anything was sent.

- `http`: `AiohttpTransport`: connections, time limits, and what each exception of aiohttp means.
- `tracked`: the request, whose body notes that it is written, and the response.
"""

from gateway_async.transport.http import AiohttpTransport
from gateway_async.transport.tracked import HttpRequest, HttpResponse, SendTracker

__all__ = ["AiohttpTransport", "HttpRequest", "HttpResponse", "SendTracker"]

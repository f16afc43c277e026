"""One HTTP exchange by aiohttp, and the evidence of whether anything was sent.

Law: the body is handed to aiohttp in a payload of our own. Only if that payload was never asked to
write, or refused to, is it proved that nothing was sent; what kind of exception came proves
nothing. Nothing here knows an operation, a signature or a retry.

- `messages`: what goes out and comes back, the `Evidence`, what a session of ours is made with, and
  what the session layer needs: `Transport`.
- `http`: `AiohttpTransport`, and what each exception of aiohttp means.
- `witness`: the body, which notes that it is written.
- `pool`: which connections are used again; `listening`: what has arrived on one.
"""

from gateway_async.transport.http import AiohttpTransport
from gateway_async.transport.messages import (
    ConnectionOptions,
    Evidence,
    Message,
    RawReply,
    Transport,
)

__all__ = ["AiohttpTransport", "ConnectionOptions", "Evidence", "Message", "RawReply", "Transport"]

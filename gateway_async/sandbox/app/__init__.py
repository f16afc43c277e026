"""The HTTP side of the sandbox: the one part of it that knows aiohttp."""

from gateway_async.sandbox.app.courier import Courier
from gateway_async.sandbox.app.server import Server

__all__ = ["Courier", "Server"]

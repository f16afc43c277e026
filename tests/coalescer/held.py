"""A gateway whose replies are held until a test lets them go."""

import asyncio
from typing import Any

from gateway_async import GatewayClient
from tests.memory import Asked, MemoryTransport, client_over

LONG = 3600.0
"""A linger time that no test waits for."""


class HeldReplies:
    """Says that everything was done, once `goes_on` is set.

    Attributes:
        asked: Set when a request has come.
        goes_on: Lets the replies go.
        most: The most requests that were held together.
    """

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.most = 0
        self.transport = MemoryTransport(self._answer)
        self._held = 0

    async def _answer(self, asked: Asked) -> dict[str, Any]:
        self._held += 1
        self.most = max(self.most, self._held)
        self.asked.set()
        await self.goes_on.wait()
        self._held -= 1
        return asked.done()

    def client(self, **settings: Any) -> GatewayClient:
        """Return a client of it."""
        return client_over(self.transport, **settings)


def sent(transport: MemoryTransport) -> list[list[str]]:
    """Return the transactions that each request named."""
    return [asked.transactions for asked in transport.asked]


async def settle_down() -> None:
    """Give everybody who can go on enough turns to do so."""
    for _ in range(100):
        await asyncio.sleep(0)

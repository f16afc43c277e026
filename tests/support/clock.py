"""A clock that a test puts ahead: no time limit is short, and none is waited for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from gateway_async import Timeouts

PATIENT = Timeouts(connect_seconds=60, reply_seconds=60, total_seconds=1000)
"""Limits that no machine is too slow for."""
BEYOND = 61.0
"""More than any of them but the total."""


class Clock:
    """The time of the running loop, and what the test adds.

    For aiohttp's idle connections, only what the test adds goes by.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        loop, self._passed = asyncio.get_running_loop(), 0.0
        real = loop.time
        patch.setattr(loop, "time", lambda: real() + self._passed)
        patch.setattr("aiohttp.connector.monotonic", lambda: 1000 + self._passed)

    def advance(self, seconds: float = BEYOND) -> None:
        """Let so many seconds go by at once; all timers until then are due."""
        self._passed += seconds

    @contextlib.asynccontextmanager
    async def racing(self) -> AsyncIterator[None]:
        """Let a second go by in each turn of the loop."""

        async def race() -> None:
            while True:
                self.advance(1)
                await asyncio.sleep(0)

        task = asyncio.create_task(race())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

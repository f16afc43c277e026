"""Clocks that a test puts ahead, or that jump: no time limit is short, and none is waited for."""

import asyncio
import contextlib
import selectors
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from gateway_async import Timeouts

PATIENT = Timeouts(connect_seconds=60, reply_seconds=60, total_seconds=1000)
"""Limits that no machine is too slow for."""
BEYOND = 61.0
"""More than any of them but the total."""
_MOST_STEPS = 300_000
_STEPS_AT_ONE_TIME = 1000
_TICK_SECONDS = 1e-9


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


class StuckError(Exception):
    """Nothing will ever happen again, or the same things happen for ever."""


class _JumpingSelector(selectors.SelectSelector):
    """Jumps to the next timer instead of waiting for it; no file is ever ready.

    What takes very many steps takes a little time, as it would by any clock: a timer is let off
    up to a nanosecond early, and who then waits for the rest of it must see time go on.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.steps = 0
        self._steps_at_this_time = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise StuckError(f"everything waits for ever at {self.now:.3f}")
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise StuckError(f"no end after {self.steps} steps, at {self.now:.3f}")
        self._steps_at_this_time = 0 if timeout > 0 else self._steps_at_this_time + 1
        self.now += timeout if self._steps_at_this_time < _STEPS_AT_ONE_TIME else _TICK_SECONDS
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which begins at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def on_virtual_time(work: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    """Return what it gives, and the time that passed."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work), runner.get_loop().time()

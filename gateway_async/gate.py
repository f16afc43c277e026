"""Whether requests may leave now.

Law: what closed once never opens again. It sends nothing itself, and knows no request.
"""

import asyncio
import contextlib
import math

from gateway_async.errors import NotSentError

CALL_CANCELLED = "the call was cancelled"
DEADLINE_PASSED = "the deadline had passed"


class Gate:
    """Whether requests may leave now: pauses the gateway asked for, a deadline, a stop.

    Attributes:
        deadline: Loop time after which nothing leaves.
        drain_seconds: How long what has left may take beyond the deadline.
        paused_until: Loop time before which nothing leaves.
    """

    def __init__(self, *, deadline: float = math.inf, drain_seconds: float = math.inf) -> None:
        self.deadline = deadline
        self.drain_seconds = drain_seconds
        self.paused_until = -math.inf
        self._stopped = asyncio.Event()
        self._reason: str | None = None

    @property
    def closed_because(self) -> str | None:
        """Why nothing may leave any more; None while it may."""
        if self._reason is not None:
            return self._reason
        return DEADLINE_PASSED if self.is_too_late else None

    @property
    def _pause_left(self) -> float:
        """How long nothing may leave yet, in seconds."""
        if self.paused_until == -math.inf:  # as nearly always: nobody need look at the clock
            return 0.0
        return self.paused_until - asyncio.get_running_loop().time()

    @property
    def stopped_because(self) -> str | None:
        """Why it was stopped; None where it was not, whatever the time."""
        return self._reason

    @property
    def is_too_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline < math.inf and asyncio.get_running_loop().time() >= self.deadline

    def stop(self, reason: str) -> None:
        """Let nothing leave any more; the first reason stays."""
        if self._reason is None:
            self._reason = reason
        self._stopped.set()

    def pause(self, seconds: float) -> None:
        """Let nothing leave for so long."""
        until = asyncio.get_running_loop().time() + seconds
        self.paused_until = max(self.paused_until, until)

    async def sleep(self, seconds: float) -> None:
        """Sleep for so long, and no longer than requests may leave."""
        loop = asyncio.get_running_loop()
        seconds = min(seconds, self.deadline - loop.time())
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)

    async def passable(self) -> None:
        """Wait while the gate is paused.

        Raises:
            NotSentError: If nothing may leave any more.
        """
        while self._pause_left > 0 and self.closed_because is None:
            await self.sleep(self._pause_left)
        self.check()

    def check(self) -> None:
        """Do nothing if something may leave, be it after a pause.

        Raises:
            NotSentError: If nothing may leave any more.
        """
        if (reason := self.closed_because) is not None:
            raise NotSentError(f"nothing was sent: {reason}")


def is_cancelled() -> bool:
    """Say whether the running task was cancelled, though it was let end what it was at."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

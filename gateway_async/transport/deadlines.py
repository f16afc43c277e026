"""How long a request may take: one timer a client and event loop, in place of several a request.

A request past its limit is ended as `asyncio.timeout` ends it: its task is cancelled, and the
cancellation is taken back, so that one from outside is never swallowed.
"""

import asyncio
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.settings import Timeouts
    from gateway_async.transport.tracked import SendTracker


class Alarm:
    """Ends the requests of one event loop whose time is over, by one timer for all of them.

    Attributes:
        now: The clock of the loop.
        timeouts: How long connecting and a silence may take.
        deadlines: Those of the requests under way.
        looks_at: The loop time of its next look at them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeouts: "Timeouts") -> None:
        self.now: Callable[[], float] = loop.time
        self.timeouts = timeouts
        self.deadlines: set[Deadline] = set()
        self.looks_at: float = math.inf
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def look_at(self, moment: float) -> None:
        """Look at the deadlines at this loop time, and no more at the one planned before."""
        if self._timer is not None:
            self._timer.cancel()
        self.looks_at = moment
        self._timer = self._loop.call_at(moment, self._look)

    def _look(self) -> None:
        now = self.now()
        for deadline in self.deadlines:
            if deadline.due <= now:
                deadline.expire()
        self._timer, self.looks_at = None, math.inf
        if (next_due := min((one.due for one in self.deadlines), default=math.inf)) < math.inf:
            self.look_at(next_due)


class Deadline:
    """How long one request may take; then its task is cancelled, as `asyncio.timeout` does it.

    Args:
        alarm: Looks at it.
        tracker: Whether the request got a connection.
        seconds: How long all of it may take.

    Attributes:
        due: The loop time at which it is looked at next.
        missed: What took too long; empty while nothing did.
    """

    __slots__ = (
        *("_alarm", "_cancelling", "_end", "_is_written", "_task", "_tracker"),
        *("due", "missed"),
    )

    def __init__(self, alarm: Alarm, tracker: "SendTracker", seconds: float) -> None:
        now = alarm.now()
        self.missed: str = ""
        self._end = now + seconds
        self.due: float = min(now + alarm.timeouts.connect_seconds, self._end)
        self._alarm = alarm
        self._is_written = False
        self._task: asyncio.Task[Any] = asyncio.current_task()  # type: ignore[assignment]  # in one
        self._cancelling = self._task.cancelling()
        self._tracker = tracker
        alarm.deadlines.add(self)
        if self.due < alarm.looks_at:
            alarm.look_at(self.due)

    def restart(self) -> None:
        """Wait anew for the next part of the reply."""
        alarm = self._alarm
        self._is_written = True
        self.due = min(alarm.now() + alarm.timeouts.reply_seconds, self._end)
        if self.due < alarm.looks_at:
            alarm.look_at(self.due)

    def expire(self) -> None:
        """End the request; but one whose body is being written has all of the time."""
        timeouts = self._alarm.timeouts
        if self.due == self._end:
            self.missed = "the time for this call was over"
        elif self._is_written:
            self.missed = f"a silence of reply_seconds={timeouts.reply_seconds}"
        elif self._tracker.started:
            self.due = self._end
            return
        else:
            self.missed = f"no connection within connect_seconds={timeouts.connect_seconds}"
        self.due = math.inf
        self._task.cancel()

    @property
    def was_only_cause(self) -> bool:
        """Whether the task was cancelled by this deadline, and by nothing else."""
        return bool(self.missed) and self._task.cancelling() <= self._cancelling + 1

    def end(self) -> None:
        """Stop the time, and take back the cancellation of the task."""
        self._alarm.deadlines.discard(self)
        if self.missed:
            self._task.uncancel()

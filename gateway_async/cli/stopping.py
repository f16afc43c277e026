"""Ctrl-C, SIGTERM and SIGHUP: the first drains, the second does not wait, none loses an outcome."""

import asyncio
import contextlib
import itertools
import signal
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from gateway_async.cli.talk import Talk

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_HANG_UP = getattr(signal, "SIGHUP", None)
"""Comes when a terminal is closed; not where there are none."""

_SAID = (
    "stopping: waiting for what is in flight; press Ctrl-C again not to wait",
    "stopping at once: what is in flight is not waited for, and ends as unknown",
)

_TURNS_APART = 20
"""Turns of the loop in which a task learns that it is cancelled; sooner, two would count as one."""


class Stop:
    """Takes the signals while it is entered.

    Inside `cancelling`, each cancels the task that is there; outside, it is only counted, so that
    what is known is written whatever happens.

    Attributes:
        count: How many came.
    """

    def __init__(self, talk: "Talk") -> None:
        self.count = 0
        self._talk = talk
        self._before: dict[signal.Signals, object] = {}
        self._target: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    def __enter__(self) -> Self:
        heeded = list(_SIGNALS)
        if _HANG_UP is not None and signal.getsignal(_HANG_UP) is not signal.SIG_IGN:  # of nohup
            heeded.append(_HANG_UP)
        self._before = {number: signal.signal(number, self._come) for number in heeded}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what `signal` gave

    @contextlib.contextmanager
    def cancelling(self) -> "Iterator[None]":
        """Let each signal cancel the running task; those that came before do so at once."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("what is cancelled must be a task")
        came = asyncio.Semaphore(self.count)
        self._target = asyncio.get_running_loop(), came
        canceller = asyncio.create_task(self._cancel_each_time(task, came))
        try:
            yield
        finally:
            self._target = None
            canceller.cancel()
            while task.cancelling():
                task.uncancel()  # it goes on: what is known is still to be written

    def _come(self, number: int, frame: "FrameType | None") -> None:
        del frame
        if number == _HANG_UP and self.count:  # a shell passes on what the terminal has said
            return
        self.count += 1
        if self._target is not None:  # nothing is said here: a line may be half written
            loop, came = self._target
            loop.call_soon_threadsafe(came.release)

    async def _cancel_each_time(self, task: "asyncio.Task[Any]", came: asyncio.Semaphore) -> None:
        for number in itertools.count(1):
            await came.acquire()
            task.cancel()
            said = _SAID[min(number, len(_SAID)) - 1]
            self._talk.tell("stopping", said, signals=self.count)
            for _ in range(_TURNS_APART):
                await asyncio.sleep(0)

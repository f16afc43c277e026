"""An event loop that cancels a task in a given turn, and what is then checked."""

import asyncio
import gc
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

MOST_TURNS = 2000
_OF_THE_SANDBOX = ("RequestHandler.", "Server.")


class SteppingLoop(asyncio.SelectorEventLoop):
    """Cancels a task in given turns, counted from when it was told to; remembers complaints.

    Of what is ready to run, one callback is run a turn, so that no state between two is missed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[dict[str, Any]] = []
        self.given = 0
        self._turn = 0
        self._turns: tuple[int, ...] = ()
        self._victim: asyncio.Task[Any] | None = None
        self.set_exception_handler(lambda _, context: self.complaints.append(context))

    def cancel_in(self, turns: tuple[int, ...], victim: "asyncio.Task[Any]") -> None:
        """Cancel the victim in these turns from now on; `given` counts how often it took."""
        self._turn, self._turns, self._victim, self.given = 0, turns, victim, 0

    def _run_once(self) -> None:
        if self._victim is not None:
            if self._turn in self._turns:
                self.given += self._victim.cancel("by the test")
            self._turn += 1
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # what is to be run
        later = list(ready)[1:]
        for _ in later:
            ready.pop()
        super()._run_once()  # type: ignore[misc]  # what every turn of the loop is
        ready.extendleft(reversed(later))


@attrs.frozen(kw_only=True)
class Ending:
    """How a call ended.

    Attributes:
        given: How many of the cancellations found it still running.
        value: What it returned.
        error: What it raised.
    """

    given: int
    value: Any = None
    error: BaseException | None = None


async def interrupted(call: "Coroutine[Any, Any, Any]", turns: tuple[int, ...]) -> Ending:
    """Run a call in a task of its own, which is cancelled in these turns of the loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteppingLoop)
    before = asyncio.all_tasks()
    task = loop.create_task(call)
    loop.cancel_in(turns, task)
    await asyncio.wait({task})
    value, error = None, None
    try:
        value = task.result()
    except (asyncio.CancelledError, Exception) as problem:  # noqa: BLE001  # it is what is asked for
        error = problem
    left = [one for one in asyncio.all_tasks() - before if not _is_of_sandbox(one)]
    assert left == []
    return Ending(given=loop.given, value=value, error=error)


def _is_of_sandbox(task: "asyncio.Task[Any]") -> bool:
    name = getattr(task.get_coro(), "__qualname__", "")
    return name.startswith(_OF_THE_SANDBOX)


def sweep(trial: "Callable[[int], Awaitable[Ending]]") -> "Callable[[], Awaitable[int]]":
    """Make a coroutine function that repeats a trial, cancelled ever later, until it is not."""

    async def swept() -> int:
        for turn in range(MOST_TURNS):
            if not (await trial(turn)).given:
                return turn
        raise AssertionError(f"still running after {MOST_TURNS} turns of the loop")

    return swept


def run(main: "Callable[[], Awaitable[int]]") -> int:
    """Run a sweep on a stepping loop, and check that the loop had nothing to complain about."""
    loop = SteppingLoop()

    async def complete() -> int:
        return await main()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        turns = runner.run(complete())
        gc.collect()
    assert loop.complaints == []
    return turns


def pairs() -> "Iterator[tuple[int, int]]":
    """Yield how many turns lie before a first cancellation, and between it and a second."""
    yield from ((first, gap) for gap in (1, 2, 3, 5) for first in range(0, 40, 2))

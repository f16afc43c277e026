"""The database of a journal: the one thread on which every statement runs.

A caller gets the result of its action only after the commit. Actions that wait together share a
transaction. If one of them fails, or the connection was lost, each runs alone, so that none gets
another's error. A write whose commit failed is not repeated. If no transaction could begin, or a
lock was waited for in vain, all that was asked for before fails: else each would wait as long.

Most of what a commit costs is that two threads wake each other: so actions are handed over
together, once the event loop brings no more of them.
"""

import asyncio
import contextlib
import threading
import time
from itertools import chain
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from gateway_async.errors import GatewayError, JournalError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from gateway_async.journal.engines import Engine

T = TypeVar("T")

_MOST_TOGETHER = 32
# After so many turns of the event loop without another action, those that came go together.
_QUIET_TURNS = 4
_LONGEST_TEXT = 300
_ELSEWHERE = "the journal was entered in another event loop, and can be used only there"


@attrs.frozen
class Transaction:
    """What an action runs in.

    Attributes:
        driver: The driver's connection.
        engine: What made it.
        locked: What was read of rows that it has locked, by what they are: asked for once.
    """

    driver: Any
    engine: "Engine"
    locked: dict[object, Any] = attrs.field(factory=dict)

    def run(self, statement: str, **parameters: object) -> Any:  # noqa: ANN401  # the driver's cursor
        """Carry out a statement."""
        return self.driver.execute(self.engine.adapt(statement), parameters)

    def run_many(self, statement: str, parameters: "Iterable[dict[str, Any]]") -> None:
        """Carry out a statement several times."""
        self.driver.cursor().executemany(self.engine.adapt(statement), parameters)

    def lock(self, number: int) -> None:
        """Wait for transactions that asked for this number, and let later ones wait.

        SQLite has one writer anyway.
        """
        if not self.engine.is_sqlite:
            self.run("SELECT pg_advisory_xact_lock(:number)", number=number)


@attrs.frozen(eq=False)
class _Pending(Generic[T]):
    """One action that waits.

    Attributes:
        what: What it does, for an error: "cannot ...".
        action: The action; it may run twice, and is then rolled back in between.
        future: Where its caller waits.
        asked_at: When it was asked for.
    """

    what: str
    action: "Callable[[Transaction], T]"
    future: "asyncio.Future[T]"
    asked_at: float = attrs.field(factory=time.monotonic)


class Database:
    """A thread with one connection, for the actions of one event loop.

    Args:
        engine: How to connect.
    """

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._driver: Any = None
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._gathered: list[_Pending[Any]] = []  # in the present turns of the loop
        self._queue: SimpleQueue[list[_Pending[Any]] | None] = SimpleQueue()
        # No executor: Python ends all of them when its main thread does, before other threads.
        self._thread = threading.Thread(target=self._work, name="gateway journal", daemon=True)
        self._is_closed = False
        # An error, and until when what was asked for before fails with it.
        self._in_vain: tuple[Exception, float] | None = None
        self._thread.start()

    @property
    def _is_at_home(self) -> bool:
        return asyncio.get_running_loop() is self._loop

    def run(self, what: str, action: "Callable[[Transaction], T]") -> "asyncio.Future[T]":
        """Carry out an action.

        Args:
            what: What it does, for an error: "cannot ...".
            action: The action. It may run more than once, and only the last counts.

        Returns:
            Its value, once it is committed; or `JournalError` if the database failed, the journal
            was closed, or it is used in another event loop than its own; or what it raised.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._is_closed or not self._is_at_home:
            reason = "the journal was closed" if self._is_closed else _ELSEWHERE
            future.set_exception(JournalError(f"{what}: {reason}"))
        else:
            self._gathered.append(_Pending(what, action, future))
            if len(self._gathered) == 1:
                self._loop.call_soon(self._gather, 1, 0)
        return future

    def post(self, what: str, action: "Callable[[Transaction], object]") -> None:
        """Have an action carried out without waiting for it, and without an error; see `run`."""
        self.run(what, action).add_done_callback(lambda done: done.exception())
        self._hand_over()  # the loop may end before its next turn

    async def aclose(self) -> None:
        """Carry out what waits, disconnect, and end the thread, also where the caller is cancelled.

        Raises:
            JournalError: In another event loop than its own.
        """
        if not self._is_at_home:
            raise JournalError(f"cannot close the journal: {_ELSEWHERE}")
        self._is_closed = True
        self._hand_over()
        self._queue.put(None)
        try:
            await uninterrupted(self._ended)
        finally:
            self._thread.join()

    def _gather(self, before: int, quiet_turns: int) -> None:
        """Hand over what came, once nothing more comes for a few turns of the loop."""
        count = len(self._gathered)
        quiet_turns = quiet_turns + 1 if count == before else 0
        if count >= _MOST_TOGETHER or quiet_turns == _QUIET_TURNS:
            self._hand_over()
        elif count:
            self._loop.call_soon(self._gather, count, quiet_turns)

    def _hand_over(self) -> None:
        gathered, self._gathered = self._gathered, []
        self._queue.put(gathered)

    # On the thread

    def _work(self) -> None:
        """Take what waits, again and again, until the end is in the queue."""
        is_over = False
        while not is_over:
            found = self._queue.get()
            taken = found or []
            while found is not None and len(taken) < _MOST_TOGETHER and self._queue.qsize():
                found = self._queue.get()
                taken = taken + (found or [])
            is_over = found is None
            if group := [task for task in taken if not task.future.cancelled()]:
                ended = self._carry_out(group)
                self._call_in_loop(_deliver, group, ended)
        self._disconnect()
        self._call_in_loop(self._ended.set_result, None)

    def _call_in_loop(self, callback: "Callable[..., object]", *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and no caller waits
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _carry_out(self, group: "Sequence[_Pending[Any]]") -> "list[Any]":
        """Carry out actions; return the value of each, or its exception."""
        ended, is_alone_better = self._transact(group)
        if is_alone_better:
            ended = list(chain.from_iterable(self._transact([task])[0] for task in group))
        return ended

    def _transact(self, group: "Sequence[_Pending[Any]]") -> "tuple[list[Any], bool]":
        """Carry out actions in one transaction.

        Returns:
            The value of each, or its exception; and whether each may do better alone.
        """
        if self._in_vain is not None and group[-1].asked_at <= self._in_vain[1]:
            return [self._failure(task.what, self._in_vain[0]) for task in group], False
        has_begun = is_in_doubt = False
        try:
            self._driver = self._driver or self._engine.connect()
            self._engine.begin(self._driver)
            has_begun = True
            made = Transaction(self._driver, self._engine)
            values = [task.action(made) for task in group]
            is_in_doubt = True
            self._commit()
        except Exception as error:  # noqa: BLE001  # each is handed to its caller
            error.with_traceback(None)  # frames hold orders
            if not has_begun or isinstance(error, self._engine.lock_error):
                self._in_vain = error, time.monotonic()
            # Such as one whose server ended it while it idled.
            is_lost = getattr(self._driver, "broken", False)
            self._roll_back(error)
            failures = [self._failure(task.what, error, is_in_doubt=is_in_doubt) for task in group]
            return failures, not is_in_doubt and (is_lost or len(group) > 1)
        return values, False

    def _roll_back(self, error: Exception) -> None:
        """Undo what an action did; a connection is used again only after an error of ours."""
        if self._driver is not None and isinstance(error, GatewayError):
            with contextlib.suppress(self._engine.error):
                self._driver.rollback()
                return
        self._disconnect()

    def _commit(self) -> None:
        self._driver.commit()

    def _disconnect(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            with contextlib.suppress(self._engine.error):
                driver.close()

    def _failure(self, what: str, error: Exception, *, is_in_doubt: bool = False) -> Exception:
        """Return what the caller gets; nothing of it holds a statement or its parameters."""
        if isinstance(error, self._engine.error):
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return JournalError(f"{what}: {lines[0][:_LONGEST_TEXT]}", is_in_doubt=is_in_doubt)
        return error


def _deliver(group: "Sequence[_Pending[Any]]", ended: "Sequence[Any]") -> None:
    for task, each in zip(group, ended, strict=True):
        if task.future.done():
            continue
        if isinstance(each, Exception):
            task.future.set_exception(each)
        else:
            task.future.set_result(each)


async def uninterrupted(work: "Awaitable[T]") -> T:
    """Wait for work to its end; a cancellation of the waiting task is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = None
    while not task.done():
        try:
            await asyncio.wait({task})  # not `asyncio.shield`, which may report the error by itself
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None or task.cancelled() or task.exception() is not None:
        return task.result()  # or its error, which a cancellation must not hide
    raise cancelled

"""`Batch`: one call with any number of orders, awaited or streamed, once."""

import abc
import asyncio
import contextlib
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from gateway_async.batching.feed import GivenOrders, check_orders
from gateway_async.batching.results import BatchResult, Progress, Results
from gateway_async.batching.runner import BatchRunner, WorkerPool
from gateway_async.batching.sender import Recorder
from gateway_async.errors import ConfigurationError
from gateway_async.models.orders import marker_prefix_of
from gateway_async.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from gateway_async.operations import Operation
    from gateway_async.session import Session
    from gateway_async.settings import BatchPolicy

O = TypeVar("O")  # noqa: E741  # an order
R = TypeVar("R")
T = TypeVar("T")


class UsedOnce(Coroutine[Any, Any, T]):
    """A call that is awaited or streamed, once; it warns where it never was.

    It is a `Coroutine`, and no mere awaitable, so that `asyncio.create_task` takes it.

    The coroutine is made when it is awaited: made before, it and its call would keep each other.
    """

    _coroutine: Coroutine[Any, Any, T] | None = None
    _used = False

    @abc.abstractmethod
    async def _complete(self) -> T:
        """Do all of it."""

    def __await__(self) -> Generator[Any, Any, T]:
        return self._begin().__await__()

    def send(self, value: Any) -> Any:  # noqa: ANN401  # as Coroutine.send
        """Resume it, as for any coroutine."""
        return (self._coroutine or self._begin()).send(value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401  # as Coroutine.throw
        """Raise an error inside it, as for any coroutine.

        What was not begun is taken to its first pause, where nothing is sent yet: so a task that is
        cancelled before its first step leaves a result, too.
        """
        coroutine = self._coroutine
        if coroutine is None:
            coroutine = self._begin()
            coroutine.send(None)
        return coroutine.throw(*error)

    def close(self) -> None:
        """Give it up, as for any coroutine."""
        self._used = True
        if self._coroutine is not None:
            self._coroutine.close()

    def __del__(self) -> None:
        if not self._used:
            warnings.warn(f"{self!r} was never awaited", RuntimeWarning, stacklevel=2)

    def _begin(self) -> Coroutine[Any, Any, T]:
        self._claim()
        self._coroutine = self._complete()
        return self._coroutine

    def _claim(self) -> None:
        if self._used:
            raise RuntimeError(
                f"{self!r} can be used once; see its `result`. Another call would send all of it "
                "again"
            )
        self._used = True


class Batch(UsedOnce[BatchResult[O, R]], AsyncIterator[Outcome[O, R]], Generic[O, R]):
    """One call with any number of orders.

    ``await batch`` gives the `BatchResult`. ``async with batch`` streams instead: iterate to get
    each outcome as its chunk finishes, in bounded memory. Leaving early, or being cancelled, sends
    no further chunk and waits for those in flight; then `result` has what was not yet yielded.
    """

    def __init__(self, name: str, open_run: "Callable[[], Awaitable[BatchRunner]]") -> None:
        self._name = name
        self._open_run = open_run
        self._run: BatchRunner | None = None
        self._unyielded: list[Outcome[O, R]] = []

    @property
    def result(self) -> BatchResult[O, R]:
        """All of it, once it is over.

        Raises:
            RuntimeError: Before that.
        """
        found = None if self._run is None else self._run.result
        if found is None:
            raise RuntimeError(f"{self!r} has no result yet: await it, or leave its `async with`")
        return found

    @property
    def progress(self) -> Progress:
        """How far it has come; all zeros before it was started."""
        return self._run.progress if self._run is not None else Results(object).progress(None)

    def __repr__(self) -> str:
        is_over = self._run is not None and self._run.result is not None
        state = "over" if is_over else "running" if self._used else "new"
        return f"<{type(self).__name__} {self._name} {state}>"

    # As a coroutine

    async def _complete(self) -> BatchResult[O, R]:
        self._run = await self._open_run()
        with self._run:
            return await self._run.complete()

    # As a stream

    async def __aenter__(self) -> Self:
        self._claim()
        run = self._run = await self._open_run()
        with contextlib.ExitStack() as stack:
            stack.enter_context(run)
            await run.start(streamed=True)
            stack.pop_all()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome[O, R]:
        if not self._unyielded:
            await self._fill_unyielded()
        return self._unyielded.pop()

    async def _fill_unyielded(self) -> None:
        """Make the outcomes of the next finished chunk, in reverse: they are popped off the end.

        Raises:
            StopAsyncIteration: At the end.
        """
        run = self._run
        if run is None or not run.streamed:
            raise RuntimeError(f"stream {self!r} inside `async with`")
        while not self._unyielded:
            if run.result is not None:  # what was not yielded is in it
                raise StopAsyncIteration
            if run.results.finished:  # taken once its outcomes are made
                self._unyielded = run.results.finished[0].outcomes()[::-1]
                run.results.finished.popleft()
                run.changed.set()
            elif run.task.done():
                if run.failure is None:
                    run.work.add_remaining()
                if not run.results.finished:
                    await run.finish()
            else:
                await run.change()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        run = self._run
        if run is None:
            return
        with run:
            run.span.error = error
            if run.result is None:
                run.results.put_back(self._unyielded[::-1])
                self._unyielded = []
                interruption = await run.drain("the batch was left early")
                if isinstance(error, asyncio.CancelledError):
                    interruption = None  # the first cancellation is already on its way
                await run.finish(interruption, quiet=error is not None)


def check_batch(operation: "Operation", orders: object, policy: "BatchPolicy") -> None:
    """Check what can be checked of a batch before it is started.

    Raises:
        InvalidOrderError: If `orders` is no iterable of orders.
        ConfigurationError: If the policy asks for larger requests than the interface allows.
    """
    check_orders(orders, operation.order_class)
    check_size(operation, policy)


def check_size(operation: "Operation", policy: "BatchPolicy") -> None:
    """Check the size of a batch's requests.

    Raises:
        ConfigurationError: If the policy asks for larger ones than the interface allows.
    """
    limit = operation.limit
    if limit is not None and policy.chunk_size is not None and policy.chunk_size > limit:
        raise ConfigurationError(
            f"BatchPolicy.chunk_size: {policy.chunk_size} is above the {limit} orders "
            f"that one {operation} request may have"
        )


def plain_batch(
    session: "Session", operation: "Operation", orders: object, policy: "BatchPolicy"
) -> Batch[Any, Any]:
    """Make a batch that nothing but this process remembers; see `check_batch`."""
    check_batch(operation, orders, policy)

    async def open_run() -> "BatchRunner":
        given = GivenOrders(orders)
        span = session.instrumentation.batch(operation.name, orders, policy)
        run = BatchRunner(session, operation, policy, span, given)
        recorder = Recorder(
            operation,
            session.recovery,
            policy.duplicates,
            marker_prefix=marker_prefix_of(uuid.uuid4().hex[:12]),
            began_at=time.time(),
        )
        run.work = WorkerPool(run, given, policy, recorder, run.add)
        return run

    return Batch(operation.name, open_run)

"""What awaiting and streaming need of a batch under way, whatever it is made of.

Law: what may have been sent is not given up before the drain time is over, and there is a result
however the batch ends. What the workers do is not known here.
"""

import abc
import asyncio
import math
from typing import TYPE_CHECKING, Any, Self

from gateway_async.batching.tally import Tally
from gateway_async.gate import CALL_CANCELLED, Gate

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gateway_async.batching.outcomes import Block
    from gateway_async.batching.results import BatchResult, Progress
    from gateway_async.settings import BatchPolicy
    from gateway_async.watching import BatchWatch

_CUT_SHORT = (
    "one of the batch's own tasks was cancelled from outside before all was done: does its input "
    "have a `yield` inside a time limit or a task group?"
)


class Lifecycle(abc.ABC):
    """A batch under way.

    It ends in two steps. `drain`, unless every worker has ended by itself: nothing more is taken in
    (`leave`), what has sent nothing is ended at once (`_let_go`), and what is still on its way
    after the drain time as well (`abandon`). `finish`: what never had its turn is recorded
    (`record_rest`), the result is made, and the input closed.

    Attributes:
        tally: What is settled.
        gate: Whether requests may leave.
        result: What became of every order, once it is over.
        streamed: Whether somebody takes what is settled, so that workers wait when it piles up.
        watch: Told how it goes; None where it is a part of another that is watched.
    """

    def __init__(
        self, record_class: type[Any], policy: "BatchPolicy", gate: Gate | None = None
    ) -> None:
        now = asyncio.get_running_loop().time()
        self.tally = Tally(record_class)
        self.gate = gate or Gate(
            deadline=now + (policy.deadline_seconds or math.inf),
            drain_seconds=policy.drain_seconds,
        )
        self.result: BatchResult[Any, Any] | None = None
        self.streamed = False
        self.watch: BatchWatch | None = None
        self._policy = policy
        self._changed = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._leaving = False

    def watched(self, watch: "BatchWatch") -> Self:
        """Tell a watch how it goes, until the `with` block around it is left."""
        self.watch = watch
        self.tally.told = watch.settled
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self.watch is not None:
            raised = self.failure if error is None else error
            self.watch.end(self.progress, self.gate.stopped_because, raised)

    @property
    @abc.abstractmethod
    def progress(self) -> "Progress":
        """How far it has come."""

    @abc.abstractmethod
    async def start(self, *, streamed: bool = False) -> None:
        """Check a collection whole, then start the workers."""

    @abc.abstractmethod
    def record_rest(self) -> None:
        """Record, once the workers have ended, what was never sent."""

    @property
    @abc.abstractmethod
    def _is_exhausted(self) -> bool:
        """Whether every order of the input was taken."""

    @abc.abstractmethod
    async def close_input(self) -> None:
        """Close the input, if it was not taken to its end."""

    @abc.abstractmethod
    def _let_go(self) -> None:
        """End whatever has sent nothing yet."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """End whatever is still on its way."""

    @property
    def is_over(self) -> bool:
        """Whether every worker has ended."""
        return all(worker.done() for worker in self._workers)

    @property
    def failure(self) -> BaseException | None:
        """What ended a worker: an exception of the input or a collaborator, or a cancellation."""
        ended = [worker for worker in self._workers if worker.done()]
        errors = [worker.exception() for worker in ended if not worker.cancelled()]
        error = next((error for error in errors if error is not None), None)
        is_cut = self._may_be_cut and any(worker.cancelled() for worker in ended)
        return RuntimeError(_CUT_SHORT) if is_cut and error is None else error

    @property
    def _may_be_cut(self) -> bool:
        """Whether a worker that ended cancelled was cancelled by somebody else, and misses."""
        if self.gate.stopped_because == CALL_CANCELLED:
            return self.is_over and not (self._leaving or self._is_exhausted)
        return self.gate.closed_because is None

    async def change(self) -> None:
        """Wait until something is settled or taken, or a worker ends."""
        self._changed.clear()
        await self._changed.wait()

    def take(self) -> "Block | None":
        """Take something that is settled."""
        if not self.tally.finished:
            return None
        self._changed.set()
        return self.tally.finished.popleft()

    def leave(self, reason: str) -> None:
        """Take nothing more in, and send nothing more; what may have been sent goes on."""
        self._leaving = True
        self.gate.stop(reason)
        self._changed.set()
        self._let_go()

    async def drain(self, reason: str) -> asyncio.CancelledError | None:
        """Send nothing more, and wait for what may have been sent, within the drain time.

        Returns:
            The cancellation that cut the waiting short, if one did.
        """
        self.leave(reason)
        interruption = await self._wait(self._policy.drain_seconds)
        while not self.is_over:
            self.abandon()
            interruption = await self._wait(None) or interruption
        return interruption

    async def complete(self) -> "BatchResult[Any, Any]":
        """Start, wait for the end, and return the result; a cancellation drains first.

        Raises:
            asyncio.CancelledError: The cancellation, once `result` is there.
            Exception: What the input or a collaborator raised, once `result` is there.
        """
        await self.start()
        interruption = await self._wait(None, asyncio.FIRST_EXCEPTION)
        if interruption is not None or not self.is_over:
            reason = (
                "the call was cancelled" if interruption else "the input or a collaborator failed"
            )
            cut_short = await self.drain(reason)
            interruption = interruption or cut_short
        return await self.finish(interruption)

    async def finish(
        self, interruption: BaseException | None = None, *, quiet: bool = False
    ) -> "BatchResult[Any, Any]":
        """Record what was never sent, make the result, and close the input.

        Args:
            interruption: A cancellation to raise at the end.
            quiet: Whether what ended a worker is not raised, since something else will be.

        Raises:
            BaseException: The interruption, or else what ended a worker, once `result` is there.
        """
        self.record_rest()
        self.result = self.tally.result(exhausted=self._is_exhausted)
        if isinstance(interruption, asyncio.CancelledError):
            interruption.outcome = self.result  # type: ignore[attr-defined]  # as for a single call
        failure = self.failure  # looked at in any case, else asyncio says that nobody did
        await self.close_input()
        if error := interruption or (None if quiet else failure):
            raise error
        return self.result

    async def _wait(
        self, seconds: float | None, until: str = asyncio.ALL_COMPLETED
    ) -> asyncio.CancelledError | None:
        try:
            if not self.is_over:
                await asyncio.wait(self._workers, timeout=seconds, return_when=until)
        except asyncio.CancelledError as cancelled:
            return cancelled
        return None

    def _begin(self, work: "Coroutine[Any, Any, None]", name: str) -> None:
        """Start a worker."""
        create = asyncio.get_running_loop().create_task
        watch = self.watch
        worker = watch.run(create, work, name=name) if watch else create(work, name=name)
        worker.add_done_callback(lambda _: self._changed.set())
        self._workers.append(worker)

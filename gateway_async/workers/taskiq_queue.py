"""A taskiq broker as the queue of slices.

Law: what travels is the name of a job and the number of a slice. A message is acknowledged once
its slice was run, which the worker is told on its command line; that it may come twice, or never,
is known to the journal's side.
"""

from typing import TYPE_CHECKING

from taskiq import TaskiqEvents, TaskiqState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from taskiq import AsyncBroker

TASK_NAME = "gateway_async.run_slice"


class TaskiqQueue:
    """Hands slices to a taskiq broker, and runs them where the broker is a worker's.

    Args:
        broker: The broker; it must not be started yet.
        run: Runs a slice.
        open_here: Called when the process starts; is told whether it is a worker's.
        close_here: Called when it ends.
    """

    def __init__(
        self,
        broker: "AsyncBroker",
        *,
        run: "Callable[[str, int], Awaitable[str]]",
        open_here: "Callable[[bool], Awaitable[None]]",
        close_here: "Callable[[], Awaitable[None]]",
    ) -> None:
        self._broker = broker

        async def run_slice(job: str, slice_number: int) -> str:
            return str(await run(job, slice_number))

        async def begin(_: TaskiqState) -> None:
            await open_here(broker.is_worker_process)

        async def end(_: TaskiqState) -> None:
            await close_here()

        self._task = broker.register_task(run_slice, task_name=TASK_NAME)
        broker.on_event(TaskiqEvents.CLIENT_STARTUP, TaskiqEvents.WORKER_STARTUP)(begin)
        broker.on_event(TaskiqEvents.CLIENT_SHUTDOWN, TaskiqEvents.WORKER_SHUTDOWN)(end)

    async def start(self) -> None:
        """Connect, as a process that hands slices over."""
        try:
            await self._broker.startup()
        except BaseException:
            await self._broker.shutdown()
            raise

    async def stop(self) -> None:
        """Disconnect."""
        await self._broker.shutdown()

    async def enqueue(self, job: str, slice_number: int) -> None:
        """Hand a slice over."""
        await self._task.kiq(job, slice_number)

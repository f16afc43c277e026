"""Workers whose queue is a list, over the sandbox."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async.sandbox import Sandbox
from gateway_async.workers import SliceEnd, WorkerPolicy, Workers
from tests.journal.conftest import postgres, tables
from tests.support.orders import make_client

__all__ = ["jobs", "postgres", "shop", "tables", "url"]

POLICY = WorkerPolicy(slice_size=4, sweep_seconds=0.01, watch_seconds=0.01, lease_seconds=60)


@attrs.define
class Shop:
    """One merchant's workers, and what waits in their queue."""

    sandbox: Sandbox  # the gateway
    url: str  # the journal
    # what was handed over, and nobody took yet
    queue: list[tuple[str, int]] = attrs.field(factory=list)

    async def enqueue(self, job: str, slice_number: int) -> None:
        self.queue.append((job, slice_number))

    def workers(self, enqueue: Callable[..., Any] | None = None) -> Workers:
        return Workers(
            enqueue or self.enqueue, lambda: make_client(self.sandbox), self.url, policy=POLICY
        )

    async def work(self, jobs: Workers) -> list[SliceEnd]:
        """Run what waits in the queue."""
        waiting, self.queue = self.queue, []
        return [await jobs.run_slice(*each) for each in waiting]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'journal.db'}"


@pytest.fixture
def shop(sandbox: Sandbox, url: str) -> Shop:
    return Shop(sandbox, url)


@pytest.fixture
async def jobs(shop: Shop) -> AsyncIterator[Workers]:
    async with shop.workers() as jobs:
        yield jobs

"""A client of the sandbox that is listened to."""

from collections.abc import AsyncIterator

import pytest

from gateway_async import BatchPolicy, GatewayClient, RetryPolicy
from gateway_async.sandbox import Sandbox
from tests.jobs.conftest import make
from tests.journal.conftest import journal, postgres, url
from tests.orders import client_of
from tests.telemetry.recording import Diary, Recorder

__all__ = ["journal", "make", "postgres", "url"]

QUICK = RetryPolicy(first_pause_seconds=0, max_pause_seconds=0)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
async def traced(sandbox: Sandbox, recorder: Recorder) -> AsyncIterator[GatewayClient]:
    """A client with OpenTelemetry, two orders a request."""
    policy = BatchPolicy(concurrency=3, chunk_size=2)
    settings = {"policy": policy, "retry": QUICK, "telemetry": recorder.telemetry}
    async with client_of(sandbox, **settings) as gateway:
        yield gateway

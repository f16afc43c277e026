"""Clients of the sandbox that send two orders a request."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway_async import BatchPolicy, GatewayClient, RecoveryPolicy
from gateway_async.sandbox import Sandbox
from tests.orders import client_of
from tests.recovery.books import REFERENCES, MakeClient


@pytest.fixture
async def client(sandbox: Sandbox) -> AsyncIterator[MakeClient]:
    made: list[GatewayClient] = []

    def make(recovery: RecoveryPolicy = REFERENCES, **settings: Any) -> GatewayClient:
        settings = {"policy": BatchPolicy(concurrency=2, chunk_size=2), **settings}
        made.append(client_of(sandbox, recovery=recovery, **settings))
        return made[-1]

    yield make
    for gateway in made:
        await gateway.aclose()


@pytest.fixture
def skip_sleeps(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """Let recovery wait for no time, but do something in its place; the pauses are noted."""
    sleep = asyncio.sleep

    def begin(meanwhile: Callable[[], object] = lambda: None) -> list[float]:
        slept: list[float] = []

        async def skip(seconds: float) -> None:
            slept.append(seconds)
            if seconds:
                meanwhile()
            await sleep(0)

        monkeypatch.setattr(asyncio, "sleep", skip)
        return slept

    return begin

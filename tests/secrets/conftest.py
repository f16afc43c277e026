"""A gateway that knows the secret, and clients of it that read little."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from gateway_async import BatchPolicy, GatewayClient, HmacSigner
from gateway_async.sandbox import Sandbox
from tests.memory import QUICK
from tests.orders import client_at
from tests.support.dragnet import SIGNER_SECRET

Opened = Callable[..., GatewayClient]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(secret=SIGNER_SECRET) as sandbox:
        yield sandbox


@pytest.fixture
async def opened(sandbox: Sandbox) -> AsyncIterator[Opened]:
    """Makes clients of the sandbox, that read little; and closes them."""
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> GatewayClient:
            chosen = {
                "signer": HmacSigner(SIGNER_SECRET),
                "retry": QUICK,
                "policy": BatchPolicy(chunk_size=2),
                "max_reply_bytes": 100_000,
                **settings,
            }
            client = client_at(sandbox.base_url, **chosen)
            stack.push_async_callback(client.aclose)
            return client

        yield make

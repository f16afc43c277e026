"""A gateway, a client with every lamp on, and a net below everything that they say."""

import asyncio
import logging
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from gateway_async import BatchPolicy, Credentials, GatewayClient, HmacSigner, RetryPolicy, Timeouts
from gateway_async.sandbox import Sandbox
from tests.secrets.data import SIGNER_SECRET
from tests.secrets.dragnet import Dragnet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from gateway_async import Operation

    Opened = Callable[..., GatewayClient]


@pytest.fixture
async def net(monkeypatch: pytest.MonkeyPatch) -> "AsyncIterator[Dragnet]":
    """A net that also knows every signature, whoever makes it; it must be empty at the end."""
    dragnet = Dragnet()
    sign = HmacSigner.sign

    def recorded(self: HmacSigner, operation: "Operation", fields: "Mapping[str, str]") -> str:
        signature = sign(self, operation, fields)
        dragnet.signatures.add(signature)
        return signature

    monkeypatch.setattr(HmacSigner, "sign", recorded)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.set_exception_handler(dragnet.on_loop_problem)
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(dragnet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield dragnet
    root.removeHandler(dragnet)
    root.setLevel(level)
    for warning in caught:
        dragnet.add("warning", f"{warning.message!r} {warning.source!r}")
    assert dragnet.hits() == []


@pytest.fixture
async def sandbox() -> "AsyncIterator[Sandbox]":
    async with Sandbox(secret=SIGNER_SECRET) as sandbox:
        yield sandbox


@pytest.fixture
async def opened(sandbox: Sandbox) -> "AsyncIterator[Opened]":
    """Makes clients of the sandbox, that read little; and closes them."""
    clients: list[GatewayClient] = []

    def make(**settings: Any) -> GatewayClient:
        signer = settings.pop("signer", None) or HmacSigner(SIGNER_SECRET)
        credentials = Credentials(merchant_id="M1", account_id="A1", signer=signer)
        settings = {
            "timeouts": Timeouts(reply_seconds=30),
            "retry": RetryPolicy(attempts=2, first_pause_seconds=0, max_pause_seconds=0),
            "policy": BatchPolicy(chunk_size=2),
            "max_reply_bytes": 100_000,
            **settings,
        }
        clients.append(GatewayClient(sandbox.base_url, credentials, **settings))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()

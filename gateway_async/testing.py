"""A pytest plugin: a sandbox, and a client of it, for the tests of your application.

Name it in the `conftest.py` at the top of your tests:

.. code-block:: python

    pytest_plugins = ["gateway_async.testing"]

It gives the fixtures `gateway_sandbox` and `gateway_client`, and takes their settings from
`gateway_sandbox_settings` and `gateway_client_settings`. They are synchronous, and the sandbox
runs on a thread with an event loop of its own: so they serve pytest-asyncio, anyio, Django and
tests without any loop alike. Tests that are not run by pytest use `threaded_sandbox` and
`sandbox_client`, on which the fixtures are built.

It is no entry point: pytest would import it, and with it this library, in every run of every
project of an environment, before coverage is measured.

PYTEST_DONT_REWRITE: nothing here asserts, and you may have imported it before pytest does.
"""

import asyncio
import contextlib
import copy
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar, cast

from gateway_async.client import GatewayClient
from gateway_async.errors import require_extra
from gateway_async.sandbox import Faults, Ledger, Sandbox
from gateway_async.settings import RecoveryPolicy, RetryPolicy

with require_extra(__name__, "pytest", install="pytest"):
    import pytest

__all__ = [
    "gateway_client",
    "gateway_client_settings",
    "gateway_sandbox",
    "gateway_sandbox_settings",
    "sandbox_client",
    "threaded_sandbox",
]

T = TypeVar("T")

_PARTS = (Sandbox, Faults, Ledger)
_CONTAINERS = (dict, deque, list, set)


class _Remote:
    """Stands for a part of the sandbox: what is asked of it happens on the sandbox's thread.

    Its functions may be called from any thread and loop; what is asynchronous there is here, too.
    """

    __slots__ = ("_loop", "_part")

    def __init__(self, part: Any, loop: asyncio.AbstractEventLoop) -> None:  # noqa: ANN401  # see above
        self._part = part
        self._loop = loop

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # as the part's own
        return self._ask(lambda: getattr(self._part, name))

    def __repr__(self) -> str:
        return self._there(lambda: repr(self._part))

    def __len__(self) -> int:
        return self._there(lambda: len(self._part))

    def __bool__(self) -> bool:
        return self._there(lambda: bool(self._part))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._there(lambda: list(self._part)))

    def _ask(self, question: Callable[[], object]) -> Any:  # noqa: ANN401  # as the part's own
        """Return what a question gives there, so that it may be used here."""

        def answer() -> object:
            value = question()
            # What is kept there may change while it is read here.
            return copy.copy(value) if isinstance(value, _CONTAINERS) else value

        value = self._there(answer)
        if isinstance(value, _PARTS):
            return _Remote(value, self._loop)
        if inspect.iscoroutinefunction(value):
            return partial(self._await, value)
        if callable(value):
            return lambda *values, **named: self._ask(lambda: value(*values, **named))
        return value

    def _there(self, work: Callable[[], T]) -> T:
        if self._loop.is_closed():  # the sandbox has ended; its books stay readable
            return work()

        async def do() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result()

    async def _await(self, function: Callable[..., Any], *values: object, **named: object) -> Any:  # noqa: ANN401  # as the part's own
        task = asyncio.run_coroutine_threadsafe(function(*values, **named), self._loop)
        return await asyncio.wrap_future(task)


@contextlib.contextmanager
def threaded_sandbox(**settings: Any) -> Iterator[Sandbox]:  # noqa: ANN401  # those of `Sandbox`
    """Run a sandbox on a thread and an event loop of its own.

    Args:
        settings: Those of `Sandbox`.

    Yields:
        It, to be used from any thread: all its functions, `faults`, `ledger`, `requests` and
        `notifications` are asked on its own thread. Lists and mappings are copies.

    Raises:
        ConfigurationError: If a setting is wrong.
    """
    sandbox = Sandbox(**settings)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="gateway_async sandbox")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(sandbox.__aenter__(), loop).result()
        try:
            yield cast("Sandbox", _Remote(sandbox, loop))
        finally:
            asyncio.run_coroutine_threadsafe(sandbox.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextlib.contextmanager
def sandbox_client(sandbox: Sandbox, **settings: Any) -> Iterator[GatewayClient]:  # noqa: ANN401  # those of `GatewayClient`
    """Make a client that knows a sandbox's merchant, for whichever event loop uses it.

    It knows the sandbox's dialect, repeats without a pause, records a baseline before refunds, and
    recovers without waiting for effects to land.

    Args:
        sandbox: The sandbox.
        settings: Those of `GatewayClient`. Each replaces the whole of the client's own: a
            `RecoveryPolicy` needs `settle_seconds=0` again, or recovery waits for a minute.

    Raises:
        ConfigurationError: If a setting is wrong.
    """
    quick = {
        "dialect": sandbox.dialect,
        "retry": RetryPolicy(first_pause_seconds=0),
        "recovery": RecoveryPolicy(settle_seconds=0, record_baseline=True),
    }
    gateway = GatewayClient(
        sandbox.base_url, sandbox.credentials, **cast("Any", {**quick, **settings})
    )
    try:
        yield gateway
    finally:
        _close(gateway)


def _close(gateway: GatewayClient) -> None:
    """Close a client, and what it opened on loops that go on after it: it would be dropped open."""
    with ThreadPoolExecutor(1) as executor:  # since a loop may run here
        executor.submit(asyncio.run, gateway.aclose()).result()
        for loop in gateway._transport.loops:  # noqa: SLF001  # no other module needs them
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(gateway.aclose(), loop)
            elif not loop.is_closed():
                executor.submit(loop.run_until_complete, gateway.aclose()).result()


@pytest.fixture
def gateway_sandbox_settings() -> dict[str, Any]:
    """Return the settings of `gateway_sandbox`; to be overridden."""
    return {}


@pytest.fixture
def gateway_client_settings() -> dict[str, Any]:
    """Return the settings of `gateway_client`; to be overridden."""
    return {}


@pytest.fixture
def gateway_sandbox(gateway_sandbox_settings: dict[str, Any]) -> Iterator[Sandbox]:
    """Run a new, empty sandbox on a thread of its own."""
    with threaded_sandbox(**gateway_sandbox_settings) as sandbox:
        yield sandbox


@pytest.fixture
def gateway_client(
    gateway_sandbox: Sandbox, gateway_client_settings: dict[str, Any]
) -> Iterator[GatewayClient]:
    """Make a client of `gateway_sandbox`."""
    with sandbox_client(gateway_sandbox, **gateway_client_settings) as gateway:
        yield gateway

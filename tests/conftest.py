"""What all tests share."""

import asyncio
import logging
import os
import signal
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from gateway_async import GatewayClient, HmacSigner, Operation, RetryPolicy
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox, faults
from gateway_async.telemetry import Log
from tests.journal.tables import Tables
from tests.support.clock import Clock
from tests.support.dragnet import SIGNER_SECRET, Dragnet
from tests.support.orders import Make, client_of, make_client
from tests.support.postgres import emptied, postgres_url

_SLOW_FOLDERS = ("tests/browser/", "tests/cli/", "tests/examples/", "tests/kills/", "tests/typed/")

# A busy machine is no failure; to explain one takes most of a minute, and to find it a second.
settings.register_profile(
    "no-clock",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
settings.load_profile("no-clock")


def pytest_configure(config: pytest.Config) -> None:
    # What runs in the background of a shell ignores it, and so would the programs that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A worker of xdist takes one test after the other: none has all that take long, or waits.
    config.option.maxschedchunk = 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what is in some folders, or has a PostgreSQL; the longest come first."""
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {}).values()
        has_server = "postgres" in getattr(item, "fixturenames", ())
        has_server |= any(isinstance(one, str) and one == "postgresql" for one in parameters)
        if item.nodeid.startswith(_SLOW_FOLDERS) or has_server:
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Take more workers than cores: many tests wait for a process or a server."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return (os.cpu_count() or 1) + 2


@pytest.fixture(scope="session", autouse=True)
def _a_loop_that_is_closed() -> Iterator[None]:
    """Set the loop that pytest-asyncio would else make for the main thread, and never close."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture(scope="session", autouse=True)
def _no_line_of_the_log_is_broken() -> Iterator[None]:
    """A log of the library says nothing of what is raised in it, nor of a wrong line of ours."""
    log = Log.log

    def checked(self: Log, level: int, msg: object, *args: object, **options: Any) -> None:
        logging.LogRecord("", level, "", 0, msg, args, None).getMessage()
        log(self, level, msg, *args, **{"stacklevel": 3, **options})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "log", checked)
        yield


@pytest.fixture
def unbroken(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """In the sandbox, no handler breaks: aiohttp would log it and answer 500."""
    yield
    logged = [one for one in caplog.get_records("call") if one.name == "aiohttp.server"]
    assert [one.getMessage() for one in logged if one.levelname == "ERROR"] == []


@pytest.fixture
async def sandbox(unbroken: None) -> AsyncIterator[Sandbox]:
    del unbroken
    async with Sandbox(secret=SIGNER_SECRET) as sandbox:
        yield sandbox


@pytest.fixture
async def gateway(sandbox: Sandbox) -> AsyncIterator[GatewayClient]:
    """A client of the sandbox that does not wait before it repeats."""
    async with client_of(sandbox, retry=RetryPolicy(first_pause_seconds=0)) as gateway:
        yield gateway


@pytest.fixture
async def make(sandbox: Sandbox) -> AsyncIterator[Make]:
    """Make clients of the sandbox that wait for nothing, each as another process would."""
    made: list[GatewayClient] = []

    def another(**settings: object) -> GatewayClient:
        made.append(make_client(sandbox, **settings))
        return made[-1]

    yield another
    for gateway in made:
        await gateway.aclose()


# Journals on both databases, and a look at their tables past the library


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with postgres_url() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that has no table."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return emptied(request.getfixturevalue("postgres"))


@pytest.fixture
def tables(url: str) -> Tables:
    return Tables(url)


@pytest.fixture
async def journal(url: str) -> AsyncIterator[Journal]:
    async with Journal.open(url) as journal:
        yield journal


@pytest.fixture
async def other(url: str, journal: Journal) -> AsyncIterator[Journal]:
    """Another process's journal, as far as the database can tell."""
    del journal
    async with Journal.open(url) as other:
        yield other


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def in_new_york() -> Iterator[None]:
    """This machine is in New York."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
async def held_for_long(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the sandbox holds a reply, the time limits of its client are over at once."""
    end, loop = Sandbox._end, asyncio.get_running_loop()

    async def ended(sandbox: Sandbox, request: Any, ending: faults.Ending, effect: Any) -> Any:
        if ending.connection == "held":
            loop.call_soon(clock.advance)  # once the effect is done
        return await end(sandbox, request, ending, effect)

    monkeypatch.setattr(Sandbox, "_end", ended)


@pytest.fixture
async def net(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Dragnet]:
    """A net that also knows every signature, whoever makes it; it must be empty at the end."""
    dragnet, sign = Dragnet(), HmacSigner.sign

    def recorded(self: HmacSigner, operation: Operation, fields: Mapping[str, str]) -> str:
        signature = sign(self, operation, fields)
        dragnet.signatures.add(signature)
        return signature

    monkeypatch.setattr(HmacSigner, "sign", recorded)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(dragnet.on_loop_problem)
    caplog.set_level(logging.DEBUG)
    logging.getLogger().addHandler(dragnet)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield dragnet
    logging.getLogger().removeHandler(dragnet)
    for warning in caught:
        dragnet.add("warning", f"{warning.message!r} {warning.source!r}")
    assert dragnet.hits() == []

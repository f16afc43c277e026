"""A session of the caller's own changes nothing of what the client promises, and stays open."""

from pathlib import Path

import aiohttp
import pytest

from gateway_async import ReplyTooLargeError
from gateway_async.sandbox import faults
from tests.faults.deeds import ATTEMPTS, NOT_SENT, SUCCEEDED, UNKNOWN, Trial, with_deeds
from tests.support.servers import Proxy, bind

MIB = 1024 * 1024


class Repeat:
    """A middleware as people write them: it repeats whatever did not go well."""

    used = 0

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        self.used += 1
        try:
            return await handler(request)
        except aiohttp.ClientError:
            return await handler(request)


@with_deeds("fault", [faults.DropReply(), faults.Status(500), faults.InvalidBody()])
async def test_neither_middlewares_nor_raise_for_status_are_used(
    trial: Trial, fault: faults.Fault
) -> None:
    trial.sandbox.faults.add(trial.operation, fault)
    repeat = Repeat()
    plain = await trial.run()
    async with aiohttp.ClientSession(raise_for_status=True, middlewares=(repeat,)) as session:
        other = await trial.run(session=session)
    assert (repeat.used, trial.requests) == (0, 2 * trial.by_kind(read=ATTEMPTS, money=1))
    assert plain.status is other.status is UNKNOWN
    assert [type(error) for error in plain.errors] == [type(error) for error in other.errors]


@with_deeds(
    "settings",
    [
        {"trust_env": True},
        {"auto_decompress": False},
        {"headers": {"Content-Type": "text/plain"}},
        {"skip_auto_headers": ["Content-Type", "User-Agent"]},
        {"timeout": aiohttp.ClientTimeout(total=0.000001)},
        {"base_url": "http://127.0.0.1:1/elsewhere/"},
        {"version": aiohttp.HttpVersion10},
        {"read_bufsize": 1},
        {"cookies": {"a": "b"}},
        {"connector_owner": False},
    ],
)
async def test_settings_of_a_given_session_change_nothing(
    trial: Trial, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login merchant password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    trial.sandbox.faults.add(trial.operation, faults.GzipReply())
    async with aiohttp.ClientSession(**settings) as session:  # type: ignore[arg-type]  # a table
        told = await trial.run(session=session)
        assert not session.closed
        await session.connector.close()  # type: ignore[union-attr]  # it is open, so it has one
    assert (told.status, trial.requests) == (SUCCEEDED, 1)


async def test_a_proxy_of_the_environment(
    trial: Trial, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A given session that trusts the environment goes by it; our own ignores it."""
    with bind() as refusing:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{refusing.getsockname()[1]}")
        assert (await trial.run()).status is SUCCEEDED
        async with aiohttp.ClientSession(trust_env=True) as session:
            assert (await trial.run(session=session)).status is NOT_SENT
            monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
            assert (await trial.run(session=session)).status is SUCCEEDED
    assert (proxy.requests, trial.requests) == (1, 2)


async def test_a_given_session_that_is_closed_as_a_request_begins(trial: Trial) -> None:
    async def close(session: aiohttp.ClientSession, *_: object) -> None:
        await session.close()

    hooks = aiohttp.TraceConfig()
    hooks.on_request_start.append(close)
    async with aiohttp.ClientSession(trace_configs=[hooks]) as session:
        told = await trial.run(session=session)
    assert (told.status, trial.requests) == (NOT_SENT, 0)


@pytest.mark.parametrize("trial", ["query"], indirect=True)
async def test_the_buffer_of_a_given_session_is_not_filled(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large it is: it would take in all of a reply that is refused for its size."""
    sizes: list[int] = []
    read = aiohttp.StreamReader.readany

    async def noted(self: aiohttp.StreamReader) -> bytes:
        piece = await read(self)
        sizes.append(len(piece))
        return piece

    monkeypatch.setattr(aiohttp.StreamReader, "readany", noted)
    trial.sandbox.faults.add(trial.operation, faults.GzipBomb(32 * MIB))
    async with aiohttp.ClientSession(read_bufsize=32 * MIB) as session:
        told = await trial.run(session=session, max_reply_bytes=4 * MIB)
    assert isinstance(told.error, ReplyTooLargeError)
    assert max(sizes) < 2 * MIB

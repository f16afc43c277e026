"""A session of the caller's own changes nothing of what the client promises, and stays open."""

from pathlib import Path

import aiohttp
import pytest

from gateway_async.sandbox import faults
from tests.faults.trial import NOT_SENT, Trial, status_of
from tests.support.books import statuses
from tests.support.servers import Proxy


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


@pytest.mark.parametrize(
    "fault",
    [faults.GzipReply(), faults.DropReply(), faults.Status(500), faults.InvalidBody()],
)
async def test_the_settings_of_a_given_session_change_nothing(
    trial: Trial, fault: faults.Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login merchant password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    trial.sandbox.faults.add(trial.operation, fault)
    plain = await trial.run()
    before, repeat = trial.requests, Repeat()
    async with aiohttp.ClientSession(
        base_url="http://127.0.0.1:1/elsewhere/",
        timeout=aiohttp.ClientTimeout(total=0.000001),
        headers={"Content-Type": "text/plain"},
        skip_auto_headers=["Content-Type", "User-Agent"],
        cookies={"a": "b"},
        version=aiohttp.HttpVersion10,
        read_bufsize=1,
        auto_decompress=False,
        raise_for_status=True,
        middlewares=(repeat,),
        trust_env=True,
        connector_owner=False,
    ) as session:
        other = await trial.run(session=session)
        assert not session.closed
        await session.connector.close()  # type: ignore[union-attr]  # it is open, so it has one
    assert statuses(other) == statuses(plain)
    assert type(other[0].error) is type(plain[0].error)
    assert (repeat.used, trial.requests) == (0, 2 * before)


async def test_a_given_session_that_trusts_the_environment_goes_by_its_proxy(
    trial: Trial, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
    async with aiohttp.ClientSession(trust_env=True) as session:
        assert (await trial.run(session=session)).ok
    assert (proxy.requests, trial.requests) == (1, 1)


async def test_a_given_session_that_is_closed_as_a_request_begins(trial: Trial) -> None:
    async def close(session: aiohttp.ClientSession, *_: object) -> None:
        await session.close()

    hooks = aiohttp.TraceConfig()
    hooks.on_request_start.append(close)
    async with aiohttp.ClientSession(trace_configs=[hooks]) as session:
        assert status_of(await trial.run(session=session)) is NOT_SENT
    assert trial.requests == 0

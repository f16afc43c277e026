"""Proxies and private authorities: what is sent by them is proved as well as without them."""

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import attrs
import pytest
import trustme

from gateway_async import CertificateError, ConfigurationError, NotSentError, ReplyStatusError
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import NoReply
from tests.faults.conftest import ATTEMPTS, Result, Trial, check_not_sent, error_of, status_of
from tests.support.books import UNKNOWN
from tests.support.clock import Clock
from tests.support.collaborators import Limiter
from tests.support.interruptions import asked
from tests.support.servers import NOTHING, Proxy, Trouble, bind, header, refusal, tls_of, trust_in

LOGIN, LOGIN_IN_URL = "me@corp:pa55:w%rd", "me%40corp:pa55%3Aw%25rd"
TUNNELS = ("https by http", "https by https")
KINDS = ("http by http", "http by https", *TUNNELS, "https by http without login")


@attrs.frozen
class Way:
    """A gateway that is reached by a proxy, over TLS or not, and what the client is made with."""

    trial: Trial
    gateway: Proxy
    proxy: Proxy
    settings: dict[str, Any]

    @property
    def is_tunnel(self) -> bool:
        return self.gateway.base_url.startswith("https")

    def client(self, **settings: Any) -> Any:
        return self.trial.client(self.gateway.base_url, **{**self.settings, **settings})

    async def run(self, **settings: Any) -> Result:
        async with self.client(**settings) as gateway:
            return await self.trial.run_with(gateway)

    async def run_in_vain(self, kind: Any = NotSentError, **settings: Any) -> str:
        """Check that nothing is sent, and that no error shows the login; return the first one."""
        attempts = Limiter()
        result = await self.run(limiter=attempts, **settings)
        check_not_sent(self.trial, result, attempts, kind)
        check_hidden(error_of(result))
        return str(error_of(result))


@pytest.fixture(params=KINDS)
async def way(
    request: pytest.FixtureRequest, sandbox: Sandbox, authority: trustme.CA
) -> AsyncIterator[Way]:
    """A way such as ``http by https``: the gateway's scheme, and the proxy's."""
    to_gateway, _, to_proxy, *without = request.param.split()
    tls = {"http": None, "https": tls_of(authority)}
    async with (
        Proxy(sandbox.base_url, tls=tls[to_gateway]) as gateway,
        Proxy(tls=tls[to_proxy], login="" if without else LOGIN) as proxy,
    ):
        url = proxy.base_url if without else proxy.with_login(LOGIN_IN_URL)
        settings = {"proxy": url, "ssl": trust_in(authority)}
        way = Way(Trial(sandbox, "refund"), gateway, proxy, settings)
        yield way
        way.trial.check()


def only(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", kinds, indirect=True)


def check_hidden(shown: object) -> None:
    """Nothing of a password is in what can be shown."""
    texts = [str(shown), repr(shown)]
    while isinstance(shown, BaseException):
        texts += [repr(shown), *traceback.format_exception(shown)]
        shown = shown.__cause__ or shown.__context__
    assert "pa55" not in "".join(texts)


@pytest.mark.usefixtures("clock")
async def test_everything_goes_by_the_proxy_over_one_connection(way: Way) -> None:
    async with way.client() as gateway:
        check_hidden(gateway)
        for _ in range(3):
            assert (await way.trial.run_with(gateway)).ok
    assert (way.proxy.connections, way.trial.requests) == (1, 3)
    host = way.gateway.base_url.partition("//")[2]
    line = f"CONNECT {host} " if way.is_tunnel else f"POST http://{host}/v1/"
    assert len(way.proxy.heads) == (1 if way.is_tunnel else 3)
    for head in way.proxy.heads:
        assert head.startswith(line)
        has_login = header(head, "proxy-authorization").startswith("Basic ")
        assert has_login == ("@" in way.settings["proxy"])
        assert not header(head, "authorization")
    assert len(way.gateway.heads) == 3
    assert "authorization" not in "".join(way.gateway.heads).lower()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"])
async def test_ended_or_unclean_idle_connections_are_not_used(way: Way, said: bytes) -> None:
    async with way.client() as gateway:
        assert (await way.trial.run_with(gateway)).ok
        if said:
            way.proxy.say(said)
        else:
            way.proxy.end_idle("reset")
        assert (await way.trial.run_with(gateway)).ok
    assert way.trial.requests == 2


async def test_a_reply_that_is_lost_on_its_way_back(way: Way) -> None:
    way.trial.sandbox.faults.add("refund", NoReply(times=1))
    running = asyncio.create_task(way.run())
    await asked(way.trial.sandbox)
    way.proxy.end_idle("reset")
    assert (status_of(await running), way.trial.requests) == (UNKNOWN, 1)


async def test_a_proxy_that_is_down(way: Way) -> None:
    with bind() as bound:
        address = f"{LOGIN_IN_URL}@127.0.0.1:{bound.getsockname()[1]}"
        scheme = way.proxy.base_url.partition(":")[0]
        error = await way.run_in_vain(proxy=f"{scheme}://{address}")
    assert "no connection to the proxy 127.0.0.1:" in error


@only(*TUNNELS)
@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (refusal(301), "the proxy opened no connection (HTTP 301)"),
        (refusal(502), "the proxy opened no connection (HTTP 502)"),
        (Trouble(NOTHING, end="close"), "nothing was sent"),
        (Trouble(NOTHING, end="silence"), "nothing was sent"),
    ],
)
async def test_a_tunnel_not_opened(way: Way, trouble: Trouble, error: str, clock: Clock) -> None:
    way.proxy.always = trouble
    way.proxy.on_silence = clock.advance
    assert error in await way.run_in_vain()
    assert len(way.proxy.heads) == ATTEMPTS


@only("http by http", "http by https")
@pytest.mark.parametrize("status", [407, 502])
async def test_an_answer_of_the_proxy_itself_proves_nothing(way: Way, status: int) -> None:
    way.proxy.always = refusal(status)
    result = await way.run()
    assert status_of(result) is UNKNOWN
    assert isinstance(error_of(result), ReplyStatusError)
    assert len(way.proxy.heads) == 1


@only(*TUNNELS)
@pytest.mark.parametrize("login", ["", "me:pa55word@"])
async def test_a_wrong_login_stops_at_once(way: Way, login: str) -> None:
    url = way.proxy.base_url.replace("://", f"://{login}")
    assert "HTTP 407" in await way.run_in_vain(ConfigurationError, proxy=url)


# Certificates


@only("http by https", *TUNNELS)
async def test_a_certificate_that_nobody_vouches_for(way: Way) -> None:
    """Of the gateway, of a proxy, and where a given session does not trust it."""
    if way.is_tunnel:
        async with Proxy(way.trial.sandbox.base_url, tls=tls_of(trustme.CA())) as gateway:
            error = await attrs.evolve(way, gateway=gateway).run_in_vain(CertificateError)
            assert gateway.base_url.rpartition(":")[2] in error
    if way.proxy.base_url.startswith("https"):
        async with Proxy(tls=tls_of(trustme.CA())) as proxy:
            error = await way.run_in_vain(CertificateError, proxy=proxy.base_url)
            assert proxy.heads == []
        assert proxy.base_url.rpartition(":")[2] in error
    else:
        async with aiohttp.ClientSession(proxy=way.settings["proxy"]) as session:
            result = await way.trial.run(way.gateway.base_url, session=session)
        assert type(error_of(result)) is CertificateError
        check_hidden(error_of(result))


# The environment


@only("http by http", "https by https")
@pytest.mark.parametrize(
    ("trust_env", "no_proxy", "is_used"),
    [
        (True, "example.com", True),
        (True, "example.com,127.0.0.1", False),
        (True, "*", False),
        (False, "", False),
    ],
)
async def test_the_environment_names_the_proxy(
    way: Way, monkeypatch: pytest.MonkeyPatch, no_proxy: str, trust_env: bool, is_used: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY" if way.is_tunnel else "HTTP_PROXY", way.settings["proxy"])
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (await way.run(proxy=None, trust_env=trust_env)).ok
    assert len(way.proxy.heads) == is_used
    assert (await way.run(trust_env=trust_env)).ok  # what is given goes over it
    assert len(way.proxy.heads) == is_used + 1

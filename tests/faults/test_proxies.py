"""Proxies and private authorities: what is sent by them is proved as well as without them."""

import asyncio
import ssl
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import attrs
import pytest
import trustme

from gateway_async import (
    BatchPolicy,
    CertificateError,
    ConfigurationError,
    NotSentError,
    ReplyStatusError,
)
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import NoReply
from tests.faults.deeds import (
    ATTEMPTS,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    Told,
    Trial,
    check_not_sent,
    refunds,
)
from tests.support.clock import Clock
from tests.support.collaborators import Limiter
from tests.support.servers import ForwardProxy, Proxy, bind, header, tls_of, trust_in

LOGIN, LOGIN_IN_URL = "me@corp:pa55:w%rd", "me%40corp:pa55%3Aw%25rd"
TUNNELS = ("https by http", "https by https")
KINDS = ("http by http", "http by https", *TUNNELS, "https by http without login")


@attrs.frozen
class Way:
    """A gateway that is reached by a proxy, over TLS or not, and what the client is made with."""

    trial: Trial
    gateway: Proxy
    proxy: ForwardProxy
    settings: dict[str, Any]

    @property
    def is_tunnel(self) -> bool:
        return self.gateway.base_url.startswith("https")

    def client(self, **settings: Any) -> Any:
        return self.trial.client(self.gateway.base_url, **{**self.settings, **settings})

    async def run(self, **settings: Any) -> Told:
        async with self.client(**settings) as gateway:
            return await self.trial.run_with(gateway)

    async def run_in_vain(self, kind: Any = NotSentError, **settings: Any) -> str:
        """Check that nothing is sent, and that no error shows the login; return the first one."""
        attempts = Limiter()
        told = await self.run(limiter=attempts, **settings)
        check_not_sent(self.trial, told, attempts, kind)
        check_hidden(*told.errors)
        return str(told.error)


@pytest.fixture(params=KINDS)
async def way(
    request: pytest.FixtureRequest, sandbox: Sandbox, authority: trustme.CA
) -> AsyncIterator[Way]:
    """A way such as ``http by https``: the gateway's scheme, and the proxy's."""
    to_gateway, _, to_proxy, *without = request.param.split()
    tls = {"http": None, "https": tls_of(authority)}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(Proxy(sandbox.base_url, tls=tls[to_gateway]))
        proxy = ForwardProxy(tls=tls[to_proxy], login="" if without else LOGIN)
        await stack.enter_async_context(proxy)
        url = proxy.base_url if without else proxy.with_login(LOGIN_IN_URL)
        settings = {"proxy": url, "ssl": trust_in(authority)}
        way = Way(Trial(sandbox, "refund"), gateway, proxy, settings)
        yield way
        way.trial.check()


def only(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", kinds, indirect=True)


def check_hidden(*shown: Any) -> None:
    """Nothing of a password is in what can be shown of these."""
    for one in shown:
        texts = [str(one), repr(one)]
        while isinstance(one, BaseException):
            texts += [repr(one), *traceback.format_exception(one)]
            one = one.__cause__ or one.__context__  # noqa: PLW2901  # one after the other
        assert "pa55" not in "".join(texts)


@pytest.mark.usefixtures("clock")
async def test_everything_goes_by_the_proxy_over_one_connection(way: Way) -> None:
    async with way.client() as gateway:
        check_hidden(gateway)
        for _ in range(3):
            assert (await way.trial.run_with(gateway)).status is SUCCEEDED
        assert way.proxy.connections == 1
    assert way.trial.requests == 3
    host = way.gateway.base_url.partition("//")[2]
    line = f"CONNECT {host} " if way.is_tunnel else f"POST http://{host}/v1/"
    assert len(way.proxy.heads) == (1 if way.is_tunnel else 3)
    for head in way.proxy.heads:
        assert head.startswith(line)
        login = header(head, "proxy-authorization")
        assert login.startswith("Basic ") or "@" not in way.settings["proxy"]
        assert not header(head, "authorization")
    assert len(way.gateway.heads) == 3
    assert "authorization" not in "".join(way.gateway.heads).lower()


@pytest.mark.parametrize("ends", ["drop_all", "say"])
async def test_idle_connections_that_ended_or_hold_something_are_not_used(
    way: Way, ends: str
) -> None:
    async with way.client() as gateway:
        assert (await way.trial.run_with(gateway)).status is SUCCEEDED
        if ends == "say":
            way.proxy.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        else:
            way.proxy.drop_all()
        assert (await way.trial.run_with(gateway)).status is SUCCEEDED
    assert way.trial.requests == 2


async def test_a_reply_that_is_lost_on_its_way_back(way: Way) -> None:
    way.trial.sandbox.faults.add("refund", NoReply(times=1))
    running = asyncio.create_task(way.run())
    while not way.trial.requests:  # noqa: ASYNC110  # the loop does the work
        await asyncio.sleep(0)
    way.proxy.drop_all()
    assert ((await running).status, way.trial.requests) == (UNKNOWN, 1)


async def test_a_proxy_that_is_down(way: Way) -> None:
    with bind() as bound:
        address = f"{LOGIN_IN_URL}@127.0.0.1:{bound.getsockname()[1]}"
        await way.run_in_vain(proxy=f"{way.proxy.base_url.partition(':')[0]}://{address}")


@only(*TUNNELS)
@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("refuses_with", 301, "the proxy opened no connection (HTTP 301)"),
        ("refuses_with", 502, "the proxy opened no connection (HTTP 502)"),
        ("hangs_up", True, "nothing was sent"),
        ("is_mute", True, "nothing was sent"),
    ],
)
async def test_a_tunnel_that_is_not_opened(
    way: Way, name: str, value: object, error: str, clock: Clock
) -> None:
    setattr(way.proxy, name, value)
    way.proxy.on_silence = clock.advance
    assert error in await way.run_in_vain()
    assert len(way.proxy.lines) == ATTEMPTS


@only(*TUNNELS)
async def test_a_place_behind_a_tunnel_is_not_waited_for_beyond_the_time_to_connect(
    way: Way, clock: Clock
) -> None:
    way.proxy.is_mute, way.proxy.on_silence = True, clock.advance
    orders = refunds(way.trial.sandbox, 4)
    policy = BatchPolicy(concurrency=1, chunk_size=1)
    async with way.client(max_connections=1, policy=policy) as gateway:
        results = await asyncio.gather(*(gateway.refund([order]) for order in orders))
    assert [result.counts[NOT_SENT] for result in results] == [1] * 4
    assert len(way.proxy.lines) == ATTEMPTS  # as all four give up when the first does
    assert way.trial.requests == 0


@only("http by http", "http by https")
@pytest.mark.parametrize("status", [407, 502])
async def test_what_a_proxy_answers_in_the_place_of_the_gateway_proves_nothing(
    way: Way, status: int
) -> None:
    way.proxy.refuses_with = status
    told = await way.run()
    assert told.status is UNKNOWN
    assert isinstance(told.error, ReplyStatusError)
    assert len(way.proxy.lines) == 1


@only(*TUNNELS)
@pytest.mark.parametrize("login", ["", "me:pa55word@"])
async def test_a_wrong_login_stops_at_once(way: Way, login: str) -> None:
    url = way.proxy.base_url.replace("://", f"://{login}")
    assert "HTTP 407" in await way.run_in_vain(ConfigurationError, proxy=url)


# Certificates


@only(*TUNNELS)
async def test_a_certificate_of_the_gateway_that_nobody_vouches_for(way: Way) -> None:
    async with Proxy(way.trial.sandbox.base_url, tls=tls_of(trustme.CA())) as gateway:
        error = await attrs.evolve(way, gateway=gateway).run_in_vain(CertificateError)
        assert gateway.base_url.rpartition(":")[2] in error


@only("https by http")
async def test_a_certificate_that_a_given_session_does_not_trust(way: Way) -> None:
    async with aiohttp.ClientSession(proxy=way.settings["proxy"]) as session:
        told = await way.trial.run(way.gateway.base_url, session=session)
    assert {type(error) for error in told.errors} == {CertificateError}
    check_hidden(*told.errors)


@only("http by https", "https by https")
async def test_a_certificate_of_the_proxy_that_nobody_vouches_for(way: Way) -> None:
    async with ForwardProxy(tls=tls_of(trustme.CA())) as proxy:
        error = await way.run_in_vain(CertificateError, proxy=proxy.base_url)
        assert proxy.heads == []
    assert proxy.base_url.rpartition(":")[2] in error


async def test_a_gateway_that_wants_a_certificate_of_ours(
    sandbox: Sandbox, authority: trustme.CA
) -> None:
    demanding, ours, trial = tls_of(authority), trust_in(authority), Trial(sandbox, "refund")
    demanding.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(demanding)
    authority.issue_cert("merchant.example").configure_cert(ours)
    async with Proxy(sandbox.base_url, tls=demanding) as gateway:
        assert (await trial.run(gateway.base_url, ssl=ours)).status is SUCCEEDED
        told = await trial.run(gateway.base_url, ssl=trust_in(authority))
    # With TLS 1.3 the refusal comes only once the request was written.
    assert told.status in (NOT_SENT, UNKNOWN)
    assert trial.requests == 1


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
    way: Way, monkeypatch: pytest.MonkeyPatch, no_proxy: str, *, trust_env: bool, is_used: bool
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY" if way.is_tunnel else "HTTP_PROXY", way.settings["proxy"])
    monkeypatch.setenv("NO_PROXY", no_proxy)
    assert (await way.run(proxy=None, trust_env=trust_env)).status is SUCCEEDED
    assert len(way.proxy.lines) == is_used
    assert (await way.run(trust_env=trust_env)).status is SUCCEEDED  # what is given goes over it
    assert len(way.proxy.lines) == is_used + 1


# Plain HTTP over a network that is trusted


@only("http by http")
async def test_plain_http_to_another_host_by_a_proxy(way: Way) -> None:
    url = way.gateway.base_url.replace("127.0.0.1", "gateway.internal")
    told = await way.trial.run(url, **way.settings, allow_http=True)
    assert told.status is SUCCEEDED
    assert way.proxy.lines[0].startswith("POST http://gateway.internal:")

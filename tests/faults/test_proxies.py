"""Proxies and private authorities: what is sent by them is proved as well as without them."""

import asyncio
import socket
import ssl
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import attrs
import pytest
import trustme
from aiohttp import web

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
    DEEDS,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    Attempts,
    Trial,
    client,
)
from tests.orders import orders_for
from tests.support.clock import Clock
from tests.support.servers import ForwardProxy, Proxy, answering, bind, header, tls_of, trust_in

LOGIN, LOGIN_IN_URL = "me@corp:pa55:w%rd", "me%40corp:pa55%3Aw%25rd"


@pytest.fixture
def trial(sandbox: Sandbox) -> Iterator[Trial]:
    """A refund: whatever reads is repeated by the same rules as everywhere."""
    trial = Trial(sandbox, DEEDS["refund"])
    yield trial
    trial.check()


@pytest.fixture(scope="module")
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """What a client is given that trusts the private authority."""
    return trust_in(authority)


@attrs.frozen
class Way:
    """A gateway that is reached by a proxy, over TLS or not.

    Attributes:
        gateway: What stands before the sandbox.
        proxy: The proxy.
        is_tunnel: Whether the gateway speaks TLS.
        settings: What the client is made with.
    """

    gateway: Proxy
    proxy: ForwardProxy
    is_tunnel: bool
    settings: dict[str, Any]

    async def run(self, trial: Trial, **settings: Any) -> Any:
        return await trial.run(self.gateway.base_url, **{**self.settings, **settings})

    def client(self, trial: Trial, **settings: Any) -> Any:
        return trial.client(self.gateway.base_url, **{**self.settings, **settings})


@asynccontextmanager
async def a_way(
    sandbox: Sandbox, authority: trustme.CA, trusting: ssl.SSLContext, kind: str, login: str = ""
) -> AsyncIterator[Way]:
    """Set up a way such as ``http by https``: the gateway's scheme, and the proxy's."""
    to_gateway, _, to_proxy = kind.split(" ")
    async with AsyncExitStack() as stack:
        tls = tls_of(authority) if to_gateway == "https" else None
        gateway = await stack.enter_async_context(Proxy(sandbox.base_url, tls=tls))
        tls = tls_of(authority) if to_proxy == "https" else None
        proxy = await stack.enter_async_context(ForwardProxy(tls=tls, login=login))
        url = proxy.with_login(LOGIN_IN_URL) if login else proxy.base_url
        yield Way(gateway, proxy, to_gateway == "https", {"proxy": url, "ssl": trusting})


KINDS = ("http by http", "https by http", "http by https", "https by https")
TUNNELS = ("https by http", "https by https")


@pytest.fixture(params=KINDS)
async def way(
    request: pytest.FixtureRequest,
    sandbox: Sandbox,
    authority: trustme.CA,
    trusting: ssl.SSLContext,
) -> AsyncIterator[Way]:
    login = getattr(request.cls, "login", "")
    async with a_way(sandbox, authority, trusting, request.param, login) as made:
        yield made


def only(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", kinds, indirect=True)


def check_not_sent(trial: Trial, told: Any, attempts: Attempts, kind: type = NotSentError) -> None:
    assert told.status is NOT_SENT
    assert {type(error) for error in told.errors} == {kind}
    assert attempts.count == (ATTEMPTS if kind is NotSentError else 1)
    assert trial.requests == 0


async def test_everything_goes_by_the_proxy(trial: Trial, way: Way) -> None:
    assert (await way.run(trial)).status is SUCCEEDED
    (line,) = way.proxy.lines
    host = way.gateway.base_url.partition("//")[2]
    assert line.startswith(f"CONNECT {host} " if way.is_tunnel else f"POST http://{host}/v1/")
    assert trial.requests == 1


@pytest.mark.usefixtures("clock")
async def test_connections_by_the_proxy_are_used_again(trial: Trial, way: Way) -> None:
    async with way.client(trial) as gateway:
        for _ in range(3):
            assert (await trial.run_with(gateway)).status is SUCCEEDED
        assert way.proxy.connections == 1
    assert len(way.proxy.lines) == (1 if way.is_tunnel else 3)


@pytest.mark.parametrize("ends", ["drop_all", "say"])
async def test_idle_connections_that_ended_or_hold_something_are_not_used(
    trial: Trial, way: Way, ends: str
) -> None:
    async with way.client(trial) as gateway:
        assert (await trial.run_with(gateway)).status is SUCCEEDED
        if ends == "say":
            way.proxy.say(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        else:
            way.proxy.drop_all()
        told = await trial.run_with(gateway)
    assert told.status is SUCCEEDED
    assert trial.requests == 2


async def test_a_reply_that_is_lost_on_its_way_back(trial: Trial, way: Way) -> None:
    trial.sandbox.faults.add(trial.kind.operation, NoReply(times=1))
    async with way.client(trial) as gateway:
        running = asyncio.create_task(trial.run_with(gateway))
        while not trial.requests:  # noqa: ASYNC110  # the loop does the work
            await asyncio.sleep(0)
        way.proxy.drop_all()
        told = await running
    assert (told.status, trial.requests) == (UNKNOWN, 1)


async def test_a_proxy_that_is_down(trial: Trial, way: Way, trusting: ssl.SSLContext) -> None:
    attempts = Attempts()
    with bind() as bound:
        url = f"{way.proxy.base_url.partition(':')[0]}://127.0.0.1:{bound.getsockname()[1]}"
        told = await way.run(trial, proxy=url, limiter=attempts, ssl=trusting)
    check_not_sent(trial, told, attempts)


@only(*TUNNELS)
@pytest.mark.parametrize("status", [301, 403, 502])
async def test_a_tunnel_that_is_refused(trial: Trial, way: Way, status: int) -> None:
    way.proxy.refuses_with = status
    attempts = Attempts()
    told = await way.run(trial, limiter=attempts)
    check_not_sent(trial, told, attempts)
    assert f"the proxy opened no connection (HTTP {status})" in str(told.error)
    assert len(way.proxy.lines) == ATTEMPTS


@only(*TUNNELS)
async def test_a_tunnel_that_breaks_off(trial: Trial, way: Way) -> None:
    way.proxy.hangs_up = True
    attempts = Attempts()
    check_not_sent(trial, await way.run(trial, limiter=attempts), attempts)


@only(*TUNNELS)
async def test_a_tunnel_that_is_never_opened(trial: Trial, way: Way, clock: Clock) -> None:
    way.proxy.is_mute, way.proxy.on_silence = True, clock.advance
    attempts = Attempts()
    told = await way.run(trial, limiter=attempts)
    check_not_sent(trial, told, attempts)


@only(*TUNNELS)
async def test_a_place_behind_a_tunnel_is_not_waited_for_beyond_the_time_to_connect(
    sandbox: Sandbox, way: Way, clock: Clock
) -> None:
    way.proxy.is_mute, way.proxy.on_silence = True, clock.advance
    orders = orders_for("refund", sandbox.seed(4, status="captured"))
    settings = {**way.settings, "max_connections": 1, "policy": ONE_BY_ONE}
    async with client(sandbox, way.gateway.base_url, **settings) as gateway:
        results = await asyncio.gather(*(gateway.refund([order]) for order in orders))
    assert [result.counts[NOT_SENT] for result in results] == [1] * 4
    assert len(way.proxy.lines) == ATTEMPTS  # as all four give up when the first does
    assert sandbox.requests["refund"] == 0


ONE_BY_ONE = BatchPolicy(concurrency=1, chunk_size=1)


@only("http by http", "http by https")
@pytest.mark.parametrize("status", [407, 502])
async def test_what_a_proxy_answers_in_the_place_of_the_gateway_proves_nothing(
    trial: Trial, way: Way, status: int
) -> None:
    way.proxy.refuses_with = status
    told = await way.run(trial)
    assert told.status is UNKNOWN
    assert isinstance(told.error, ReplyStatusError)
    assert len(way.proxy.lines) == 1


class TestWithLogin:
    """The proxy demands a user and a password."""

    login = LOGIN

    async def test_they_are_shown_to_it(self, trial: Trial, way: Way) -> None:
        assert (await way.run(trial)).status is SUCCEEDED
        (head,) = way.proxy.heads
        assert header(head, "proxy-authorization").startswith("Basic ")
        assert not header(head, "authorization")

    @pytest.mark.usefixtures("clock")
    async def test_they_are_shown_with_each_request(self, trial: Trial, way: Way) -> None:
        async with way.client(trial) as gateway:
            for _ in range(2):
                assert (await trial.run_with(gateway)).status is SUCCEEDED
            assert way.proxy.connections == 1

    @only(*TUNNELS)
    @pytest.mark.parametrize("login", ["", "me:pa55word@"])
    async def test_wrong_ones_stop_at_once(self, trial: Trial, way: Way, login: str) -> None:
        attempts = Attempts()
        url = way.proxy.base_url.replace("://", f"://{login}")
        told = await way.run(trial, proxy=url, limiter=attempts)
        check_not_sent(trial, told, attempts, ConfigurationError)
        assert "HTTP 407" in str(told.error)
        check_hidden(*told.errors)

    @only(*TUNNELS)
    async def test_the_gateway_does_not_see_them(
        self, way: Way, sandbox: Sandbox, authority: trustme.CA
    ) -> None:
        heads: list[Any] = []

        async def note(request: web.Request) -> web.Response:
            heads.append(request.headers)
            return web.json_response({"return_status": "1"})

        async with (
            answering(note, tls=tls_of(authority)) as url,
            client(sandbox, url, **way.settings) as gateway,
        ):
            await gateway.call("/v1/x", {})
        assert [name for name in heads[0] if "auth" in name.lower()] == []

    async def test_they_are_in_no_error(self, trial: Trial, way: Way) -> None:
        with bind() as bound:
            url = f"{way.proxy.base_url.partition(':')[0]}://{LOGIN_IN_URL}@127.0.0.1"
            url = f"{url}:{bound.getsockname()[1]}"
            told = await way.run(trial, proxy=url)
            gateway = way.client(trial, proxy=url)
        check_hidden(*told.errors, gateway)

    @only(*TUNNELS)
    async def test_they_are_in_no_error_over_the_certificate_of_the_gateway(
        self, trial: Trial, way: Way
    ) -> None:
        told = await way.run(trial, ssl=trust_in(trustme.CA()))
        check_hidden(*told.errors)

    @only("https by http")
    async def test_they_are_in_no_error_of_a_session_that_was_given(
        self, trial: Trial, way: Way
    ) -> None:
        url = way.proxy.with_login(LOGIN_IN_URL)
        async with aiohttp.ClientSession(proxy=url) as session:
            told = await trial.run(way.gateway.base_url, session=session)
        assert {type(error) for error in told.errors} == {CertificateError}
        check_hidden(*told.errors)


def check_hidden(*shown: Any) -> None:
    """Nothing of a password is in what can be shown of these."""
    for one in shown:
        texts = [str(one), repr(one)]
        while isinstance(one, BaseException):
            texts += [repr(one), *traceback.format_exception(one)]
            one = one.__cause__ or one.__context__  # noqa: PLW2901  # one after the other
        assert "pa55" not in "".join(texts)


# Certificates


async def test_a_private_authority_without_a_proxy(
    trial: Trial, sandbox: Sandbox, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    async with Proxy(sandbox.base_url, tls=tls_of(authority)) as gateway:
        told = await trial.run(gateway.base_url, ssl=trusting)
    assert told.status is SUCCEEDED


async def test_a_gateway_that_wants_a_certificate_of_ours(
    trial: Trial, sandbox: Sandbox, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    demanding = tls_of(authority)
    demanding.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(demanding)
    ours = trust_in(authority)
    authority.issue_cert("merchant.example").configure_cert(ours)
    async with Proxy(sandbox.base_url, tls=demanding) as gateway:
        assert (await trial.run(gateway.base_url, ssl=ours)).status is SUCCEEDED
        assert trial.requests == 1
        told = await trial.run(gateway.base_url, ssl=trusting)
    # With TLS 1.3 the refusal comes only once the request was written.
    assert told.status in (NOT_SENT, UNKNOWN)
    assert trial.requests == 1


@only(*TUNNELS)
async def test_a_certificate_of_the_gateway_that_nobody_vouches_for(
    trial: Trial, way: Way, sandbox: Sandbox
) -> None:
    attempts = Attempts()
    async with Proxy(sandbox.base_url, tls=tls_of(trustme.CA())) as gateway:
        told = await trial.run(gateway.base_url, **way.settings, limiter=attempts)
    check_not_sent(trial, told, attempts, CertificateError)
    assert gateway.base_url.rpartition(":")[2] in str(told.error)


@only("http by https", "https by https")
async def test_a_certificate_of_the_proxy_that_nobody_vouches_for(trial: Trial, way: Way) -> None:
    attempts = Attempts()
    async with ForwardProxy(tls=tls_of(trustme.CA())) as proxy:
        told = await way.run(trial, proxy=proxy.base_url, limiter=attempts)
        assert proxy.heads == []
    check_not_sent(trial, told, attempts, CertificateError)
    assert proxy.base_url.rpartition(":")[2] in str(told.error)


# The environment


def by_environment(way: Way, monkeypatch: pytest.MonkeyPatch, url: str, **others: str) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY" if way.is_tunnel else "HTTP_PROXY", url)
    for name, value in others.items():
        monkeypatch.setenv(name, value)


class TestEnvironment:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY."""

    login = LOGIN

    async def test_it_names_the_proxy(
        self, trial: Trial, way: Way, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_environment(way, monkeypatch, way.settings["proxy"])
        told = await way.run(trial, proxy=None, trust_env=True)
        assert told.status is SUCCEEDED
        assert len(way.proxy.lines) == 1

    async def test_it_excepts_hosts_from_it(
        self, trial: Trial, way: Way, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for no_proxy in ("127.0.0.1", "example.com,127.0.0.1", "*"):
            by_environment(way, monkeypatch, way.settings["proxy"], NO_PROXY=no_proxy)
            assert (await way.run(trial, proxy=None, trust_env=True)).status is SUCCEEDED
            assert way.proxy.lines == []
        by_environment(way, monkeypatch, way.settings["proxy"], NO_PROXY="example.com")
        assert (await way.run(trial, proxy=None)).status is SUCCEEDED  # it is not asked
        assert way.proxy.lines == []
        assert (await way.run(trial, proxy=None, trust_env=True)).status is SUCCEEDED
        assert len(way.proxy.lines) == 1

    async def test_a_proxy_that_is_given_goes_over_it(
        self, trial: Trial, way: Way, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        by_environment(way, monkeypatch, "http://127.0.0.1:9", NO_PROXY="*")
        assert (await way.run(trial, trust_env=True)).status is SUCCEEDED
        assert len(way.proxy.lines) == 1


# Plain HTTP over a network that is trusted


async def test_plain_http_to_another_host(
    trial: Trial, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int, **_: object) -> Any:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    url = sandbox.base_url.replace("127.0.0.1", "gateway.internal")
    assert (await trial.run(url, allow_http=True)).status is SUCCEEDED
    assert asked == ["gateway.internal"]


@only("http by http")
async def test_plain_http_to_another_host_by_a_proxy(trial: Trial, way: Way) -> None:
    url = way.gateway.base_url.replace("127.0.0.1", "gateway.internal")
    told = await trial.run(url, **way.settings, allow_http=True)
    assert told.status is SUCCEEDED
    assert way.proxy.lines[0].startswith("POST http://gateway.internal:")

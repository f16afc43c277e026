"""Settings of the way to the gateway: plain HTTP, certificates, proxies."""

import ssl
from typing import Any

import aiohttp
import pytest

from gateway_async import ConfigurationError
from tests.orders import client_at

HTTPS, LOCAL, REMOTE = "https://gateway.example", "http://127.0.0.1:8800", "http://sandbox:8800"
PROXY = "http://proxy.example:3128"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment, without proxies."""
    for name in ("http_proxy", "https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


RIGHT: list[tuple[str, dict[str, Any], dict[str, str]]] = [
    (REMOTE, {"allow_http": True}, {}),
    (REMOTE, {"allow_http": True, "proxy": PROXY}, {}),
    (HTTPS, {"proxy": f"{PROXY}/"}, {}),
    (HTTPS, {"proxy": "HTTPS://me:pa55@[::1]:3128"}, {}),
    (HTTPS, {"proxy": "http://me@proxy.example"}, {}),
    (LOCAL, {"proxy": "http://localhost:3128"}, {}),
    (HTTPS, {"trust_env": True, "ssl": ssl.create_default_context()}, {}),
    (HTTPS, {"trust_env": True}, {"HTTPS_PROXY": "proxy.example:3128"}),  # as curl takes it
    (HTTPS, {"trust_env": True}, {"HTTP_PROXY": "socks5://x"}),  # which is for another scheme
    (HTTPS, {"trust_env": True}, {"HTTPS_PROXY": "socks5://x", "NO_PROXY": "gateway.example"}),
    (LOCAL, {"trust_env": True}, {"HTTP_PROXY": PROXY, "NO_PROXY": "127.0.0.1"}),
    (HTTPS, {"trust_env": True}, {"HTTPS_PROXY": ""}),
    (HTTPS, {}, {"HTTPS_PROXY": "socks5://me:pa55@x"}),
]


@pytest.mark.parametrize(("base_url", "settings", "variables"), RIGHT)
def test_what_is_right_is_taken(
    base_url: str,
    settings: dict[str, Any],
    variables: dict[str, str],
    environment: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    assert "pa55" not in repr(client_at(base_url, **settings))


ENV = {"trust_env": True}
WRONG: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    (REMOTE, {}, {}, "base_url: plain http:// is refused .* or allow_http where you trust"),
    (HTTPS, {"allow_http": 1}, {}, "allow_http: expected True or False, got int"),
    (HTTPS, {"trust_env": "yes"}, {}, "trust_env: expected True or False, got str"),
    (HTTPS, {"ssl": False}, {}, "ssl: expected SSLContext, got bool"),
    *(
        (HTTPS, {"proxy": proxy}, {}, "proxy: expected a URL such as .* of scheme http or https")
        for proxy in (
            *("", "proxy.example:3128", "socks5://me:pa55@proxy.example:1080", 3128),
            *("http://me:pa55@proxy.example:abc", "http://me:pa55@", "http://[pa55"),
            *("http://proxy.example/pa55", "http://proxy.example?pa55", " http://pa55"),
        )
    ),
    (HTTPS, {"proxy": "http://m%3Ae:pa55@proxy"}, {}, "proxy: expected a user name without a col"),
    (LOCAL, {"proxy": PROXY}, {}, "proxy: requests to a plain http:// base_url would leave"),
    (HTTPS, ENV, {"HTTPS_PROXY": "socks5://me:pa55@x"}, "trust_env: HTTPS_PROXY: expected a URL"),
    (HTTPS, ENV, {"https_proxy": "http://me:pa55@x:y"}, "trust_env: HTTPS_PROXY: expected a URL"),
    (LOCAL, ENV, {"HTTP_PROXY": PROXY}, "trust_env: HTTP_PROXY: requests to a plain .*NO_PROXY"),
]


@pytest.mark.parametrize(("base_url", "settings", "variables", "expected"), WRONG)
def test_what_is_wrong_is_refused_and_not_shown(
    base_url: str,
    settings: dict[str, Any],
    variables: dict[str, str],
    expected: str,
    environment: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        environment.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"^{expected}") as caught:
        client_at(base_url, **settings)
    assert "pa55" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ssl", ssl.create_default_context()), ("proxy", PROXY), ("trust_env", True)],
)
async def test_a_session_that_is_given_has_its_own(name: str, value: Any) -> None:
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ConfigurationError, match=f"^session and {name}: expected one of them"):
            client_at(HTTPS, session=session, **{name: value})
        client_at(REMOTE, session=session, allow_http=True)

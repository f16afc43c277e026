"""The way to the gateway on the command line: options, environment and TOML file."""

import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import attrs
import pytest
import trustme

from gateway_async.cli.settings import Settings, read_settings
from gateway_async.errors import ConfigurationError
from gateway_async.sandbox import Sandbox
from tests.cli.running import Ended, run, statuses, write_refunds
from tests.support.servers import ForwardProxy, Proxy

PROXY = "http://me:pa55@proxy.example:3128"
TEXTS = {
    "proxy": PROXY,
    "ca_file": "/etc/ca.pem",
    "client_cert": "/etc/c.pem",
    "client_key": "/etc/k.pem",
}
SAID = Settings(
    allow_http=True,
    trust_env=True,
    proxy=PROXY,
    ca_file=Path("/etc/ca.pem"),
    client_cert=Path("/etc/c.pem"),
    client_key=Path("/etc/k.pem"),
)
NAMES = (*TEXTS, "allow_http", "trust_env")
NOWHERE = {"XDG_CONFIG_HOME": "/nowhere"}


@attrs.frozen
class Company:
    """A sandbox behind TLS of a private authority, and a proxy that demands a login."""

    sandbox: Sandbox
    gateway: Proxy
    proxy: ForwardProxy
    ca_file: Path

    async def run(self, path: Path, toml: str, *options: object) -> Ended:
        config = path.with_name("config.toml")
        config.write_text(toml)
        given = ("--base-url", self.gateway.base_url, "--config", config, *options)
        out = path.with_name("out.csv")
        return await run(self.sandbox, "refund", path, "--out", out, "--yes", *given)


@pytest.fixture
async def company(sandbox: Sandbox, tmp_path: Path) -> AsyncIterator[Company]:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(ca_file)
    async with (
        Proxy(sandbox.base_url, tls=tls) as gateway,
        ForwardProxy(login="me:pa55") as proxy,
    ):
        yield Company(sandbox, gateway, proxy, ca_file)


async def test_refunds_by_a_proxy_and_a_private_authority(company: Company, tmp_path: Path) -> None:
    path = write_refunds(company.sandbox, tmp_path / "r.csv", 3)
    toml = f'proxy = "{company.proxy.with_login("me:pa55")}"\nca_file = "{company.ca_file}"\n'
    ended = await company.run(path, toml)
    assert ended.code == 0, ended.stderr
    assert statuses(tmp_path / "out.csv") == {"succeeded": 3}
    assert {line.partition(" ")[0] for line in company.proxy.lines} == {"CONNECT"}


async def test_an_authority_that_is_not_named_stops_it(company: Company, tmp_path: Path) -> None:
    path = write_refunds(company.sandbox, tmp_path / "r.csv", 3)
    ended = await company.run(path, "")
    assert ended.code == 3
    assert "the TLS certificate is not valid" in ended.stderr
    assert statuses(tmp_path / "out.csv") == {"not_sent": 3}


async def test_a_password_in_an_option_is_refused(tmp_path: Path, company: Company) -> None:
    path = write_refunds(company.sandbox, tmp_path / "r.csv", 1)
    ended = await company.run(path, "", "--proxy", PROXY)
    assert ended.code == 2
    assert "--proxy: a password in an option shows in process lists" in ended.stderr
    assert "pa55" not in ended.stderr


def _of_options(_: Path) -> Settings:
    return read_settings({name: getattr(SAID, name) for name in NAMES}, NOWHERE)


def _of_environment(_: Path) -> Settings:
    said = {f"GATEWAY_{name.upper()}": text for name, text in TEXTS.items()}
    flags = {"GATEWAY_ALLOW_HTTP": "true", "GATEWAY_TRUST_ENV": "TRUE"}
    return read_settings({}, {**NOWHERE, **said, **flags})


def _of_file(path: Path) -> Settings:
    lines = [f'{name} = "{text}"' for name, text in TEXTS.items()]
    path.write_text("\n".join([*lines, "allow_http = true", "trust_env = true"]))
    return read_settings({"config": path}, NOWHERE)


@pytest.mark.parametrize("read", [_of_options, _of_environment, _of_file])
def test_all_of_it_can_be_said_everywhere(read: Callable[[Path], Settings], tmp_path: Path) -> None:
    network = read(tmp_path / "config.toml")
    assert [getattr(network, name) for name in NAMES] == [getattr(SAID, name) for name in NAMES]
    assert "pa55" not in repr(network)


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('allow_http = true\nproxy = "http://of-file.example"')
    said = {"GATEWAY_ALLOW_HTTP": "false", "GATEWAY_PROXY": PROXY}
    network = read_settings({"config": path}, {**NOWHERE, **said})
    assert (network.allow_http, network.proxy) == (False, PROXY)


@pytest.mark.parametrize(
    ("toml", "environment", "expected"),
    [
        ("allow_http = 1", {}, "allow_http: expected true or false, got int"),
        ("", {"GATEWAY_TRUST_ENV": "maybe"}, "GATEWAY_TRUST_ENV: expected true or false"),
        ('proxy = "socks5://me:pa55@x"', {}, "proxy: expected a URL such as"),
        ('ca_file = "/nowhere/ca.pem"', {}, "ca_file: /nowhere/ca.pem cannot be used [(]No such"),
        ('ca_file = "FILE"', {}, "ca_file: .* cannot be used .*; expected certificates in PEM"),
        ('client_cert = "FILE"', {}, "client_cert: .*; expected a certificate and its key in PEM"),
        ('client_key = "FILE"', {}, "client_key: expected client_cert, its certificate"),
    ],
)
def test_what_is_wrong_is_named(
    toml: str, environment: dict[str, str], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f'base_url = "https://gateway.example"\n{toml.replace("FILE", str(path))}')
    with pytest.raises(ConfigurationError, match=expected) as caught:
        _ = read_settings({"config": path}, {**NOWHERE, **environment}).base_url
    assert "pa55" not in str(caught.value)


def test_a_certificate_of_ours_is_loaded(tmp_path: Path) -> None:
    authority = trustme.CA()
    ours = authority.issue_cert("merchant.example")
    one, cert, key = (tmp_path / name for name in ("one.pem", "cert.pem", "key.pem"))
    ours.private_key_and_cert_chain_pem.write_to_path(one)
    ours.cert_chain_pems[0].write_to_path(cert)
    ours.private_key_pem.write_to_path(key)
    assert Settings().ssl_context() is None
    assert Settings(client_cert=one).ssl_context() is not None
    context = Settings(client_cert=cert, client_key=key).ssl_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname

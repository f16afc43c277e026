"""Where settings come from: options, environment, TOML file; and that the secret goes nowhere."""

import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway_async.cli.settings import Settings, config_path, read_settings
from gateway_async.dialect import PaymentState
from gateway_async.errors import ConfigurationError
from gateway_async.operations import REFUND
from gateway_async.signing import Credentials, HmacSigner

SECRET = "hidden-words"
PROXY = "http://me:pa55@proxy.example:3128"
NOWHERE = {"XDG_CONFIG_HOME": "/nowhere"}
WHO = {
    "GATEWAY_BASE_URL": "https://gateway.example",
    "GATEWAY_MERCHANT_ID": "M1",
    "GATEWAY_ACCOUNT_ID": "A1",
}
ENVIRONMENT = {**WHO, **NOWHERE, "GATEWAY_SECRET": SECRET}

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text.replace("FILE", str(path)))
        return path

    return to_file


def read(config: Path | None = None, **given: Any) -> Settings:
    return read_settings({"config": config, **given}, ENVIRONMENT)


def credentials(settings: Settings, environment: Mapping[str, str] = ENVIRONMENT) -> Credentials:
    return settings.credentials(environment)


def refused(
    text: str, write: Write, environment: Mapping[str, str] = ENVIRONMENT, **given: Any
) -> str:
    def use() -> None:
        settings = read_settings({"config": write(text), **given}, environment)
        settings.client(credentials(settings))

    with pytest.raises(ConfigurationError) as caught:
        use()
    return str(caught.value)


def signature(made: Credentials) -> str:
    return made.signer.sign(REFUND, {"order_no": "O1"})


SIGNED = HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})

# Sources


def test_missing_variables_are_all_named_with_what_they_should_hold() -> None:
    for name in WHO:
        environment = {**ENVIRONMENT, name: " "}
        with pytest.raises(ConfigurationError) as caught:
            credentials(read_settings({}, environment), environment)
        assert f"{name}: the " in str(caught.value)
        assert str(caught.value).count("GATEWAY_") == 1
    with pytest.raises(ConfigurationError) as caught:
        credentials(read_settings({}, NOWHERE), {})
    for word in (*WHO, "GATEWAY_SECRET", "secret_file", "keyring"):
        assert word in str(caught.value)


def test_options_go_over_the_environment_and_that_over_the_file(write: Write) -> None:
    path = write(
        'base_url = "https://of-file.example"\nmerchant_id = "of-file"\n'
        'journal = "sqlite:////f.db"\nallow_http = true\nproxy = "http://of-file.example"\n'
    )
    environment = {**ENVIRONMENT, "GATEWAY_ALLOW_HTTP": "false", "GATEWAY_PROXY": PROXY}
    settings = read_settings({"config": path, "base_url": "https://option.example"}, environment)
    assert (settings.base_url, settings.merchant_id) == ("https://option.example", "M1")
    assert settings.journal == "sqlite:////f.db"
    assert (settings.allow_http, settings.proxy) == (False, PROXY)
    made = credentials(settings)
    assert signature(made) == SIGNED
    for secret in (SECRET, "pa55"):
        assert secret not in repr(settings) + repr(made)


def test_the_usual_file_is_found_by_the_rules_of_xdg(tmp_path: Path) -> None:
    path = config_path(None, {"XDG_CONFIG_HOME": str(tmp_path)})
    path.parent.mkdir()
    path.write_text("\ufeffrate = 7.5")  # as an editor of Windows begins it
    assert read_settings({}, {"XDG_CONFIG_HOME": str(tmp_path)}).rate == 7.5
    assert config_path(None, {}) == Path.home() / ".config" / "gateway-async" / "config.toml"
    for name, place, words in (
        ("GATEWAY_CONFIG", "/nowhere.toml", "the file of GATEWAY_CONFIG, /nowhere.toml: No such"),
        ("XDG_CONFIG_HOME", f"/{'n' * 300}", "/n*/gateway-async/config.toml: File name too long"),
    ):
        with pytest.raises(ConfigurationError, match=f"cannot read {words}"):
            read_settings({}, {name: place})


def test_every_group_of_settings_can_be_reached(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    settings = read_settings({"config": write(text), "policy": {"concurrency": 4}}, {})
    assert settings.secret_file == Path("/run/secrets/gateway")
    assert (settings.rate, settings.timeouts.reply_seconds, settings.retry.attempts) == (20, 60, 4)
    assert (settings.policy.concurrency, settings.recovery.refund_evidence) == (4, "references")
    assert settings.dialect.declined_statuses == {"0"}
    assert settings.dialect.nothing_done_http_statuses == {429}
    assert settings.dialect.payment_states == {"3000": PaymentState.CAPTURED}
    assert settings.reconcile.states == {"3000": ["paid", "refunded"], "4100": "reserved"}
    assert settings.reconcile.refund_statuses == {"1": True, "2": False}
    path = write('[signer]\ndigest = "sha512"')
    expected = HmacSigner(SECRET, digest="sha512").sign(REFUND, {"order_no": "O1"})
    assert signature(credentials(read(path))) == expected


def test_a_place_of_the_secret_takes_the_place_of_another(write: Write) -> None:
    path = write('secret_file = "/etc/live"')
    environment = {**WHO, "GATEWAY_KEYRING": "test"}
    settings = read_settings({"config": path}, environment)
    assert (settings.secret_file, settings.keyring) == (None, "test")
    both = {**environment, "GATEWAY_SECRET": SECRET}
    with pytest.raises(ConfigurationError, match="GATEWAY_KEYRING and GATEWAY_SECRET: ") as caught:
        read_settings({"config": path}, both)
    assert SECRET not in str(caught.value)
    assert read_settings({"config": path, "keyring": "own"}, both).keyring == "own"
    with pytest.raises(ConfigurationError, match="--secret-file and --keyring: the secret has "):
        read_settings({"secret_file": Path("s"), "keyring": "own"}, ENVIRONMENT)
    both_in_file = refused("secret_file = 's'\nkeyring = 'k'", write, WHO)
    assert both_in_file.startswith("secret_file and keyring:")


# What is wrong


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[dialect]\ndone_status = 1", "dialect: done_status: not known; did you mean done_status"),
        ("merchant_id = 7", "Settings.merchant_id: expected a text without white space"),
        ("account_id = 'A1 '", "Settings.account_id: expected a text without white space"),
        ("keyring = [1]", "Settings.keyring: expected a text without white space"),
        ("[dialect]\ndone_statuses = [1]", "Dialect.done_statuses: expected texts such as"),
        ("policy = 5", "policy: expected a table"),
        ("secret_file = 5", "secret_file: expected a path, as text"),
        ("colour = 1", "colour: not known; there are: base_url"),
        ("rate = -1", "rate: expected a number above 0"),
        ("[reconcile]\nstates = 3", "reconcile.states: expected a table"),
        ("[signer]\ndigests = 'md5'", "signer: digests: not known; did you mean digest?"),
        ("[signer]\nfactory = 'nowhere_at_all:make'", "raised ModuleNotFoundError in "),
        ("[signer]\nfactory = 'hmac'", 'expected "module:function", which returns a signer'),
        ("journal = 'sqlite:///j.db'", "sqlite:///j.db depends on the working directory"),
        (f"secret = {SECRET}", "not TOML: Invalid value (at line 1"),
        (f"[signer]\nkey = '{SECRET}'\nkey = '{SECRET}'", "not TOML: Cannot overwrite a value"),
        (f"secret = '{SECRET}'", "secret: not known; did you mean secret_file?"),
        (f"[signer]\nsecret = '{SECRET}'", "no secret may stand in this file"),
        ("allow_http = 1", "allow_http: expected true or false, got int"),
        (f'proxy = "{PROXY.replace("http", "socks5")}"', "proxy: expected a URL such as"),
        ('ca_file = "/nowhere/ca.pem"', "ca_file: /nowhere/ca.pem cannot be used: No such"),
        ('ca_file = "FILE"', "; expected certificates in PEM"),
    ],
)
def test_mistakes_in_the_file_show_no_secret(text: str, words: str, write: Write) -> None:
    message = refused(text, write)
    assert words in message
    assert SECRET not in message
    assert "pa55" not in message


def test_every_table_that_is_wrong_is_named_at_once(write: Write) -> None:
    wrong = ("hue = 1", "[retry]", "attempts = 'y'", "[dialect]", "done_status = 1")
    lines = sorted(refused("\n".join(wrong), write).splitlines())
    words = ("dialect: done_status: not known; did", "hue: not known", "RetryPolicy.attempts: ")
    assert [word in line for word, line in zip(words, lines, strict=True)] == [True] * 3


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("JOURNAL", "sqlite:///j.db", "sqlite:///j.db depends on the working directory"),
        ("TRUST_ENV", "maybe", "trust_env: expected true or false"),
    ],
)
def test_mistakes_in_the_environment(name: str, value: str, words: str, write: Write) -> None:
    assert words in refused("", write, {**ENVIRONMENT, f"GATEWAY_{name}": value})


# The secret


class _Keyring(ModuleType):
    def get_password(self, service: str, user: str) -> str | None:
        if service == "broken":
            raise ModuleNotFoundError("the backend that the user configured")
        return {("gateway", "M1/A1"): SECRET}.get((service, user))


@pytest.mark.parametrize(
    ("place", "held", "wrong"),
    [
        ("variable", f"{SECRET}\r".encode(), ""),
        ("file", f"{SECRET}\n".encode(), ""),
        ("file", f"\ufeff{SECRET}\r\n".encode(), ""),
        ("file", None, "cannot read"),
        ("file", b"\n", "empty"),
        ("file", b"\xff", "not UTF-8"),
        ("keyring", b"gateway", ""),
        ("keyring", b"other", "keyring set other M1/A1"),
        ("keyring", b"broken", r"cannot be read \(ModuleNotFoundError\)"),
        ("no module", b"gateway", r"gateway-async\[keyring\]"),
    ],
)
def test_the_secret_may_be_in_a_variable_a_file_or_a_keyring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, held: bytes | None, wrong: str
) -> None:
    given: dict[str, Any] = {}
    environment = {**ENVIRONMENT, "GATEWAY_SECRET": ""}
    if place == "variable":
        environment["GATEWAY_SECRET"] = (held or b"").decode()
    elif place == "file":
        given["secret_file"] = tmp_path / "secret"
        if held is not None:
            given["secret_file"].write_bytes(held)
    else:
        given["keyring"] = (held or b"").decode()
        ring = _Keyring("keyring") if place == "keyring" else None
        monkeypatch.setitem(sys.modules, "keyring", ring)
    with pytest.raises(ConfigurationError, match=wrong) if wrong else nullcontext():
        assert signature(credentials(read(**given), environment)) == SIGNED


def make_signer(secret: str) -> HmacSigner:
    return HmacSigner(secret * 2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def make(secret):\n    return int(secret)", "ValueError"),
        ("def make(secret) return", "SyntaxError"),
    ],
)
def test_the_signer_may_be_ones_own_and_shows_no_secret_where_it_fails(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "broken_signers.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_signers", raising=False)
    message = refused("[signer]\nfactory = 'broken_signers:make'", write)
    assert f"signer: factory: 'broken_signers:make' raised {error} in " in message
    assert SECRET not in message
    made = credentials(read(write(f"[signer]\nfactory = '{__name__}:make_signer'")))
    assert signature(made) == HmacSigner(SECRET * 2).sign(REFUND, {"order_no": "O1"})

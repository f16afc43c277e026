"""Where settings come from, and that the secret goes nowhere else."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gateway_async.cli.settings import Settings, default_path, read_settings
from gateway_async.dialect import PaymentState
from gateway_async.errors import ConfigurationError
from gateway_async.operations import REFUND
from gateway_async.signing import Credentials, HmacSigner

SECRET = "hidden-words"
WHO = {
    "GATEWAY_BASE_URL": "https://gateway.example",
    "GATEWAY_MERCHANT_ID": "M1",
    "GATEWAY_ACCOUNT_ID": "A1",
}
ENVIRONMENT = {**WHO, "GATEWAY_SECRET": SECRET, "XDG_CONFIG_HOME": "/nowhere"}

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(text)
        return path

    return to_file


def read(config: Path | None = None, **given: Any) -> Settings:
    return read_settings({"config": config, **given}, ENVIRONMENT)


def credentials(settings: Settings, environment: Mapping[str, str] = ENVIRONMENT) -> Credentials:
    return settings.credentials(environment, warn=pytest.fail)


def refused(text: str, write: Write, **given: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        credentials(read(write(text), **given))
    return str(caught.value)


def signature(made: Credentials) -> str:
    return made.signer.sign(REFUND, {"order_no": "O1"})


def test_settings_come_from_the_environment_and_hide_the_secret() -> None:
    settings = read()
    made = credentials(settings)
    assert settings.base_url == "https://gateway.example"
    assert (made.merchant_id, made.account_id) == ("M1", "A1")
    assert signature(made) == HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})
    assert SECRET not in repr(settings) + repr(made)


@pytest.mark.parametrize("name", WHO)
def test_a_missing_variable_is_named_with_what_it_should_hold(name: str) -> None:
    environment = {**ENVIRONMENT, name: " "}
    with pytest.raises(ConfigurationError) as caught:
        credentials(read_settings({}, environment), environment)
    assert f"{name}: the " in str(caught.value)
    assert str(caught.value).count("GATEWAY_") == 1
    assert SECRET not in str(caught.value)


def test_all_missing_variables_are_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        credentials(read_settings({}, {"XDG_CONFIG_HOME": "/nowhere"}), {})
    assert all(name in str(caught.value) for name in WHO)


def test_options_go_over_the_environment_and_that_over_the_file(write: Write) -> None:
    path = write(
        'base_url = "https://of-file.example"\nmerchant_id = "of-file"\njournal = "sqlite:///f.db"'
    )
    settings = read(path, base_url="https://of-option.example")
    assert settings.who == {
        "base_url": "https://of-option.example",
        "merchant_id": "M1",
        "account_id": "A1",
    }
    assert settings.journal == "sqlite:///f.db"


def test_the_usual_file_is_found_by_the_rules_of_xdg(tmp_path: Path) -> None:
    path = default_path({"XDG_CONFIG_HOME": str(tmp_path)})
    path.parent.mkdir()
    path.write_text("rate = 7.5")
    assert read_settings({}, {"XDG_CONFIG_HOME": str(tmp_path)}).rate == 7.5
    assert default_path({}) == Path.home() / ".config" / "gateway-async" / "config.toml"


def test_every_group_of_settings_can_be_reached(write: Write) -> None:
    path = write("""
        rate = 20
        [timeouts]
        reply_seconds = 5
        [retry]
        attempts = 2
        [policy]
        concurrency = 3
        duplicates = "serialize"
        [recovery]
        settle_seconds = 1.5
        refund_evidence = "marker"
        [dialect]
        done_statuses = ["1", "2"]
        form_nesting = "brackets"
        json_content_type = "application/x-www-form-urlencoded"
        currency_places = { JPY = 0 }
        nothing_done_http_statuses = [429]
        payment_states = { "3000" = "captured" }
        [reconcile]
        states = { "3000" = ["paid", "refunded"] }
        refund_statuses = { "2" = false }
        [signer]
        digest = "sha512"
        uppercase = true
    """)
    settings = read(path, policy={"concurrency": 4})
    assert settings.timeouts.reply_seconds == 5
    assert settings.retry.attempts == 2
    assert (settings.policy.concurrency, settings.policy.duplicates) == (4, "serialize")
    assert (settings.recovery.settle_seconds, settings.recovery.record_baseline) == (1.5, False)
    assert settings.dialect.done_statuses == {"1", "2"}
    assert settings.dialect.form_nesting == "brackets"
    assert settings.dialect.json_content_type == "application/x-www-form-urlencoded"
    assert settings.dialect.places("JPY") == 0
    assert settings.dialect.nothing_done_http_statuses == {429}
    assert settings.dialect.payment_states == {"3000": PaymentState.CAPTURED}
    assert settings.reconcile.states == {"3000": ["paid", "refunded"]}
    assert settings.reconcile.refund_statuses == {"2": False}
    expected = HmacSigner(SECRET, digest="sha512", uppercase=True)
    assert signature(credentials(settings)) == expected.sign(REFUND, {"order_no": "O1"})


def test_the_file_on_the_page_can_be_read(write: Write) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
    text = page.partition("```toml\n")[2].partition("```")[0]
    path = write(text)
    settings = read_settings({"config": path, "profile": "test"}, {})
    assert settings.secret_file == Path("/home/me/.gateway-test-secret")
    assert settings.reconcile.refund_statuses == {"1": True, "2": False}


def test_a_profile_goes_over_the_rest(write: Write) -> None:
    path = write("""
        rate = 5
        secret_file = "/etc/live"
        [dialect]
        amount_places = 3
        done_statuses = ["9"]
        [profiles.test]
        rate = 6
        keyring = "test"
        [profiles.test.dialect]
        amount_places = 0
    """)
    assert (read(path).rate, read(path, profile="test").rate) == (5, 6)
    dialect = read(path, profile="test").dialect
    assert (dialect.amount_places, dialect.done_statuses) == (0, {"9"})
    test = read_settings({"config": path, "profile": "test"}, WHO)
    assert (test.secret_file, test.keyring) == (None, "test")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[dialect]\ndone_status = 1",
            "dialect: done_status: not known; did you mean done_statuses?",
        ),
        ("[dialect]\nxyz = 1", "dialect: xyz: not known; there are: body_formats"),
        ("[dialect]\ndone_statuses = [1]", "Dialect.done_statuses: expected a set of texts"),
        ("[policy]\nconcurrency = 0", "BatchPolicy.concurrency: expected an int of 1 or more"),
        ("[policy]\nconcurrency = true", "policy.concurrency: expected a whole number, got bool"),
        ("[timeouts]\nreply_seconds = 'x'", "timeouts.reply_seconds: expected a number, got str"),
        ("dialect = 1", "dialect: expected a table, got int"),
        ("dialect = ''", "dialect: expected a table, got str"),
        ("colour = 1", "colour: not known; there are: base_url"),
        ("profile = 1", "profile: not known; did you mean profiles?"),
        ("rate = -1", "rate: expected a number above 0"),
        ("base_url = 7", "base_url: expected a text, got int"),
        ("profiles = 1", "profiles: expected tables"),
        ("[profiles.b]\nrate = 'x'", "[profiles.b]: rate: expected a number, got str"),
        ("[reconcile]\nstates = 3", "reconcile.states: expected a table"),
        ("[signer]\njoiner = 5", "signer.joiner: expected a text, got int"),
        ("[signer]\ndigests = 'md5'", "signer: digests: not known; did you mean digest?"),
        ("[signer]\nfactory = 'a:b'\ndigest = 'md5'", "expected nothing beside it"),
        (
            "[signer]\nfactory = 'nowhere_at_all:make'",
            "has no module 'nowhere_at_all'; install it, or name its directory in PYTHONPATH",
        ),
        ("[signer]\nfactory = 'hmac'", 'signer: factory: expected "module:function"'),
        ("a = = 1", "not TOML: at line 1, column 5"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(text: str, words: str, write: Write) -> None:
    assert words in refused(text, write)


@pytest.mark.parametrize(
    "text",
    [
        f"secret = '{SECRET}'",
        f"[profiles.live]\nsecret = '{SECRET}'",
        f"[signer]\nsecret = '{SECRET}'",
        f"password = '{SECRET}'",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_shown(text: str, write: Write) -> None:
    message = refused(text, write)
    assert "no secret may stand in this file" in message
    assert "GATEWAY_SECRET_FILE" in message
    assert SECRET not in message


def test_everything_that_is_wrong_is_named_at_once(write: Write) -> None:
    message = refused("rate = 'x'\n[retry]\nattempts = 'y'\n[dialect]\ndone_status = 1", write)
    assert len(message.splitlines()) == 3


def test_a_broken_file_is_not_quoted(write: Write) -> None:
    assert SECRET not in refused(f"secret = {SECRET}", write)


def test_a_profile_that_is_not_there_is_named(write: Write) -> None:
    words = "no profile 'live'; there are: test"
    assert words in refused("[profiles.test]\nrate = 1", write, profile="live")


def test_a_file_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        read(tmp_path / "missing.toml")


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_the_secret_may_be_in_a_file_and_everybody_may_not_read_it(
    mode: int, warned: bool, tmp_path: Path
) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    path.chmod(mode)
    warnings: list[str] = []
    made = read(secret_file=path).credentials({}, warnings.append)
    assert signature(made) == HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})
    assert [str(path) in warning for warning in warnings] == [True] * warned


def test_a_secret_in_the_environment_ends_where_its_line_ends() -> None:
    made = credentials(read(), {**ENVIRONMENT, "GATEWAY_SECRET": f"{SECRET}\r"})
    assert signature(made) == HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})


@pytest.mark.parametrize("body", ["\ufeff{}\r\n", "{}\r\n", "{}"])
def test_a_secret_file_as_an_editor_of_windows_leaves_it(body: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(body.format(SECRET).encode())
    path.chmod(0o600)
    made = credentials(read(secret_file=path))
    assert signature(made) == HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})


def test_settings_may_begin_with_a_byte_order_mark(write: Write) -> None:
    assert read(write("\ufeffrate = 7.5")).rate == 7.5


@pytest.mark.parametrize(
    ("body", "words"), [(b"\n", "empty"), (b"\xff", "not UTF-8"), (None, "cannot read")]
)
def test_a_secret_file_that_holds_none(body: bytes | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    if body is not None:
        path.write_bytes(body)
        path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=words):
        credentials(read(secret_file=path))


def test_two_places_for_one_secret_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="the command names more than one place"):
        credentials(read(secret_file=tmp_path / "secret", keyring="gateway"))


def test_no_place_for_the_secret_names_all_of_them() -> None:
    environment = {**WHO, "XDG_CONFIG_HOME": "/nowhere"}
    with pytest.raises(ConfigurationError) as caught:
        credentials(read_settings({}, environment), environment)
    assert all(word in str(caught.value) for word in ("GATEWAY_SECRET", "secret_file", "keyring"))


class _Keyring(ModuleType):
    def get_password(self, service: str, user: str) -> str | None:
        if service == "broken":
            raise ModuleNotFoundError("the backend that the user configured")
        return {("gateway", "M1/A1"): SECRET}.get((service, user))


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", _Keyring("keyring"))


@pytest.mark.usefixtures("keyring")
def test_the_secret_may_be_in_a_keyring() -> None:
    made = credentials(read(keyring="gateway"))
    assert signature(made) == HmacSigner(SECRET).sign(REFUND, {"order_no": "O1"})
    with pytest.raises(ConfigurationError, match="keyring set other M1/A1"):
        credentials(read(keyring="other"))
    with pytest.raises(ConfigurationError, match="cannot be read: ModuleNotFoundError"):
        credentials(read(keyring="broken"))


def test_a_keyring_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigurationError, match=r"gateway-async\[keyring\]"):
        credentials(read(keyring="gateway"))


def make_signer(secret: str) -> HmacSigner:
    return HmacSigner(secret * 2)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def make(secret):\n    return int(secret)", "ValueError"),
        ("def make():\n    pass", "TypeError"),
        ("def make(secret) return", "SyntaxError"),
        ("raise KeyError('hidden-words')", "KeyError"),
    ],
)
def test_a_factory_that_fails_is_told_without_the_secret(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    (tmp_path / "broken_signers.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken_signers", raising=False)
    message = refused("[signer]\nfactory = 'broken_signers:make'", write)
    assert f"signer: factory: 'broken_signers:make' raised {error} in " in message
    assert SECRET not in message


def test_the_signer_may_be_ones_own(write: Write) -> None:
    made = credentials(read(write(f"[signer]\nfactory = '{__name__}:make_signer'")))
    assert signature(made) == HmacSigner(SECRET * 2).sign(REFUND, {"order_no": "O1"})

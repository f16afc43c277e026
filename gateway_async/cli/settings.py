"""Settings of a command: options go over the environment, and that over a TOML file.

The signing secret stands in no option, since those show in process lists, and not in the TOML file.
It is read last. cyclopts' own `config.Env` and `config.Toml` are not used: with them, a variable or
a line of the file could give `--yes` or `--again`, and nothing would tell a variable, which may
hold the password of a URL, from an option, which may not.
"""

import contextlib
import importlib
import json
import os
import ssl
import tomllib
import traceback
from collections.abc import Mapping, Set as AbstractSet
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import attrs
from aiolimiter import AsyncLimiter
from cattrs import BaseValidationError, Converter, ForbiddenExtraKeysError, transform_error

from gateway_async import settings as policies
from gateway_async.cli.console import explained
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, JournalError
from gateway_async.journal import Journal
from gateway_async.journal.engines import Sqlite, locate
from gateway_async.signing import Credentials, HmacSigner
from gateway_async.telemetry import Telemetry

T = TypeVar("T")
_ALLOWED_PLACES = (
    "the environment variable GATEWAY_SECRET, a file that secret_file (or --secret-file, or "
    "GATEWAY_SECRET_FILE) names, or a keyring whose service keyring (or --keyring, or "
    "GATEWAY_KEYRING) names"
)
_NO_SECRET = f"the secret that requests are signed with: put it into {_ALLOWED_PLACES}"
_WHO = {
    "base_url": "the gateway's address, such as https://gateway.example",
    "merchant_id": "the merchant identifier that the gateway gave you",
    "account_id": "the merchant account identifier that the gateway gave you",
}
_OF_CLIENT = (
    *("timeouts", "retry", "policy", "recovery", "dialect", "allow_http", "proxy", "trust_env"),
)
"""The settings that a client takes by the same names."""
_SECRET_PLACES = ("secret_file", "keyring", "secret")
_positive = policies.check(
    lambda value: value is None or (policies.is_duration(value) and value > 0), "a number above 0"
)
# The name of a job has identifiers: written in two ways, they would send a file as two jobs.
_identifier = policies.check(
    lambda value: value is None or (isinstance(value, str) and value == value.strip() > ""),
    "a text without white space around it, in quotes in the TOML file",
)


@attrs.frozen(kw_only=True)
class Network:
    """Which gateway, as whom, and the way to it.

    Attributes:
        base_url: The gateway's address (GATEWAY_BASE_URL).
        merchant_id: The merchant identifier (GATEWAY_MERCHANT_ID).
        account_id: The merchant account identifier (GATEWAY_ACCOUNT_ID).
        secret_file: The file that holds the signing secret (GATEWAY_SECRET_FILE); GATEWAY_SECRET
            holds the secret itself.
        keyring: The service under which the system's keyring holds the signing secret
            (GATEWAY_KEYRING).
        allow_http: Let plain http:// go to another machine, over a network that you trust
            (GATEWAY_ALLOW_HTTP=true).
        ca_file: The certificates, in PEM, of the authorities to trust in place of the system's
            (GATEWAY_CA_FILE).
        proxy: The proxy to go through, such as http://proxy.example:3128. A URL with a password
            goes into GATEWAY_PROXY or the TOML file.
        trust_env: Go through the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name
            (GATEWAY_TRUST_ENV=true).
    """

    base_url: str | None = None
    merchant_id: str | None = None
    account_id: str | None = None
    secret_file: Path | None = None
    keyring: str | None = None
    allow_http: bool = False
    ca_file: Path | None = None
    proxy: str | None = attrs.field(default=None, repr=False)
    trust_env: bool = False


VARIABLES = {
    name: f"GATEWAY_{name.upper()}" for name in (*attrs.fields_dict(Network), "secret", "journal")
}
"""By setting, the environment variable that holds it."""


@attrs.frozen(kw_only=True)
class Reconcile:
    """How the words of a ledger and of the gateway correspond.

    Attributes:
        states: By `payment_status`, the ledger's words for it.
        refund_statuses: By `refund_status`, whether such a refund gave money back.
    """

    states: Mapping[str, Any] | None = None
    refund_statuses: Mapping[str, bool] | None = None


@attrs.frozen(kw_only=True)
class Settings(Network):
    """The settings of one command, by their names in the TOML file.

    Attributes:
        journal: The URL of the journal; it may hold a password.
        rate: Requests a second at most; None for no limit.
        timeouts: See `Timeouts`.
        retry: See `RetryPolicy`.
        policy: See `BatchPolicy`.
        recovery: See `RecoveryPolicy`.
        dialect: See `Dialect`.
        signer: Fields of `HmacSigner`, or `factory`, the function that makes another signer.
        reconcile: See `Reconcile`.
    """

    merchant_id: str | None = attrs.field(default=None, validator=_identifier)
    account_id: str | None = attrs.field(default=None, validator=_identifier)
    keyring: str | None = attrs.field(default=None, validator=_identifier)
    journal: str = attrs.field(default="", repr=False)
    rate: float | None = attrs.field(default=None, validator=_positive)
    timeouts: policies.Timeouts = attrs.field(factory=policies.Timeouts)
    retry: policies.RetryPolicy = attrs.field(factory=policies.RetryPolicy)
    policy: policies.BatchPolicy = attrs.field(factory=policies.BatchPolicy)
    recovery: policies.RecoveryPolicy = attrs.field(factory=policies.RecoveryPolicy)
    dialect: Dialect = attrs.field(factory=Dialect)
    signer: Mapping[str, Any] = attrs.field(factory=dict)
    reconcile: Reconcile = attrs.field(factory=Reconcile)

    @property
    def address(self) -> str:
        """The gateway's address, checked.

        Raises:
            ConfigurationError: If it is no URL, or holds credentials, which would be shown.
        """
        return policies.checked_base_url(self.base_url or "", allow_http=self.allow_http)

    def client(
        self,
        credentials: Credentials,
        *,
        limiter: contextlib.AbstractAsyncContextManager[object] | None = None,
        telemetry: Telemetry | None = None,
    ) -> GatewayClient:
        """Make the client that the settings describe.

        Args:
            credentials: Who speaks, and how it signs.
            limiter: What stands in for one that holds the rate of this process alone.
            telemetry: Gets the times of requests.

        Raises:
            ConfigurationError: If a setting is wrong.
        """
        if limiter is None and self.rate is not None:
            limiter = AsyncLimiter(1, 1 / self.rate)  # requests leave evenly
        given: dict[str, Any] = {name: getattr(self, name) for name in _OF_CLIENT}
        given |= {"limiter": limiter, "telemetry": telemetry}
        with explained(f"ca_file: {self.ca_file} cannot be used", "expected certificates in PEM"):
            if self.ca_file is not None:
                given["ssl"] = ssl.create_default_context(cafile=self.ca_file)
        return GatewayClient(self.address, credentials, **given)

    @property
    def journal_file(self) -> Path | None:
        """The file of the journal; None for one on a server."""
        found = locate(self.journal)
        return found.path if isinstance(found, Sqlite) else None

    @property
    def place(self) -> str:
        """What people know the journal by: the path of its file, or the database."""
        return str(self.journal_file or locate(self.journal).shown)

    def open_journal(self, *, create: bool = True) -> Journal:
        """Make the journal, and the folder of the usual one; in messages, it has its whole path.

        Args:
            create: Whether a file is made where there is none.

        Raises:
            ConfigurationError: If the settings name one that cannot be.
            JournalError: If there is no file, and none can or is to be made.
        """
        path = self.journal_file
        with explained(f"cannot open the journal {path}"):
            if path is not None and not path.exists():
                if not create:
                    raise JournalError(f"there is no journal sqlite:///{path}")
                if self.journal == default_journal(os.environ):
                    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Journal.open(self.journal)

    def check_named(self, *missing: str) -> None:
        """Check that the gateway, and who speaks to it, are named.

        Args:
            missing: What else is known to be missing.

        Raises:
            ConfigurationError: Naming all that is missing.
        """
        unnamed = [
            f"{VARIABLES[name]}: {text} (or {_option(name)}, or {name} in the TOML file)"
            for name, text in _WHO.items()
            if getattr(self, name) is None
        ]
        if lacking := [*unnamed, *missing]:
            raise ConfigurationError("\n  ".join(["these settings are missing:", *lacking]))

    def credentials(self, environment: Mapping[str, str]) -> Credentials:
        """Read the secret, and make the credentials.

        Args:
            environment: The environment variables.

        Raises:
            ConfigurationError: If address, merchant, account or secret are missing or wrong.
        """
        secret = environment.get(VARIABLES["secret"], "").rstrip("\r\n")
        has_secret = self.secret_file or self.keyring or secret.strip()
        self.check_named(*([] if has_secret else [_NO_SECRET]))
        merchant_id, account_id = str(self.merchant_id), str(self.account_id)
        if self.secret_file is not None:
            with explained(f"cannot read {self.secret_file}"):
                secret = self.secret_file.read_text(encoding="utf-8-sig").rstrip("\r\n")
        elif self.keyring is not None:
            secret = _secret_of_keyring(self.keyring, f"{merchant_id}/{account_id}")
        if "factory" in self.signer:
            signer = _made(self.signer["factory"], secret)
        else:
            signer = _structured({**self.signer, "secret": secret}, HmacSigner, "signer")
        return Credentials(merchant_id=merchant_id, account_id=account_id, signer=signer)


def read_settings(options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Put the settings together: options go over the environment, and that over the TOML file.

    Args:
        options: What the given options say, by setting, with `config`.
        environment: The environment variables.

    Raises:
        ConfigurationError: Naming the setting that is wrong, and what would be right.
    """
    given = {**options}
    said: dict[str, Any] = {
        name: text
        for name, variable in VARIABLES.items()
        if (text := environment.get(variable, "").strip())
    }
    document = _read_file(given.pop("config", None), environment)
    merged: dict[str, Any] = {"journal": default_journal(environment)}
    places: list[str] = []
    for layer, named in ((document, str), (said, VARIABLES.__getitem__), (given, _option)):
        if found := [named(name) for name in _SECRET_PLACES if name in layer]:
            places = found  # they take the place of others
            merged = {name: one for name, one in merged.items() if name not in _SECRET_PLACES}
        merged |= layer
    if len(places) > 1:
        raise ConfigurationError(f"{' and '.join(places)}: the secret has one place; give one")
    merged["policy"] = {**document.get("policy", {}), **given.get("policy", {})}
    merged.pop("secret", None)  # the variable is read last
    locate(merged["journal"]).check_absolute()
    return _structured(merged, Settings, "settings")


def _option(name: str) -> str:
    """Return the option of a setting."""
    return f"--{name.replace('_', '-')}"


def config_path(option: Path | None, environment: Mapping[str, str]) -> Path:
    """Return where the TOML file is: as the option or a variable names it, or the usual place."""
    usual = _home(environment, "XDG_CONFIG_HOME", ".config") / "config.toml"
    return Path(option or environment.get("GATEWAY_CONFIG") or usual)


def default_journal(environment: Mapping[str, str]) -> str:
    """Return the URL of the journal if nothing names another."""
    return f"sqlite:///{_home(environment, 'XDG_STATE_HOME', '.local/state') / 'journal.db'}"


def _home(environment: Mapping[str, str], variable: str, usual: str) -> Path:
    """Return our directory, by the XDG rules."""
    base = Path(environment.get(variable, ""))
    return (base if base.is_absolute() else Path.home() / usual) / "gateway-async"


def _read_file(option: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of the TOML file; none where there is no file, and none is named.

    Raises:
        ConfigurationError: If it cannot be read, or any part of it is wrong.
    """
    chosen, variable = config_path(option, environment), environment.get("GATEWAY_CONFIG")
    named = "the file of GATEWAY_CONFIG, " if variable and not option else ""
    with explained(f"cannot read {named}{chosen}"):
        if not (option or variable or chosen.exists()):
            return {}
        text = chosen.read_text(encoding="utf-8-sig")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # it names keys and a character, and quotes no value
        raise ConfigurationError(f"{chosen}: not TOML: {error}") from None
    if "secret" in _structured(document, Settings, str(chosen)).signer:
        raise ConfigurationError(
            f"{chosen}: signer.secret: no secret may stand in this file; put it into "
            f"{_ALLOWED_PLACES}"
        )
    return document


def _structured(document: Mapping[str, Any], kind: type[T], source: str) -> T:
    """Make settings of a document; the classes check their values themselves.

    Raises:
        ConfigurationError: Naming every field that is wrong or not known.
    """
    converter = Converter(forbid_extra_keys=True, prefer_attrib_converters=True)
    for one in (str, int, float):
        converter.register_structure_hook(one, lambda value, _: value)
    converter.register_structure_hook(bool, lambda value, _: _flag(value))
    converter.register_structure_hook(  # TOML has no None
        float | None, lambda value, _: None if value is False else value
    )
    try:
        return converter.structure(document, kind)
    except BaseValidationError as error:
        found = transform_error(error, path="", format_exception=_described)
    problems = [problem.rpartition(" @ ") for problem in found]
    raise ConfigurationError(
        "\n".join(": ".join(filter(None, (source, at[1:], text))) for text, _, at in problems)
    )


def _flag(value: Any) -> bool:
    """Return a flag, of TOML or of the environment."""
    found = {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise ConfigurationError(f"expected true or false, got {type(value).__name__}")
    return found


def _described(error: BaseException, _: object) -> str:
    """Say what is wrong; beside a name that is not known, the nearest that is."""
    if isinstance(error, AttributeError | TypeError):
        return "expected a path, as text" if "PathLike" in str(error) else "expected a table"
    if not isinstance(error, ForbiddenExtraKeysError):
        return str(error)
    (name,), known = error.extra_fields, [*attrs.fields_dict(error.cl)]
    near = get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
    return f"{name}: not known; {advice}"


def _secret_of_keyring(service: str, user: str) -> str:
    try:
        import keyring

        secret = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001  # a backend is anybody's code, and may not be there
        raise ConfigurationError(
            f"the keyring cannot be read ({type(error).__name__}); it needs a backend, and pip "
            "install 'gateway-async[keyring]'"
        ) from None
    if secret is None:
        raise ConfigurationError(f"the keyring has no secret yet: keyring set {service} {user}")
    return secret


def _made(factory: object, secret: str) -> Any:
    """Make a signer by a function that `module:name` names; its errors may hold the secret.

    Raises:
        ConfigurationError: If there is no such function, or it raises.
    """
    module, _, name = str(factory).partition(":")
    try:
        return getattr(importlib.import_module(module), name)(secret)
    except Exception as error:  # noqa: BLE001  # whatever it raises, its text may hold the secret
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigurationError(
            f"signer: factory: {factory!r} raised {type(error).__name__} in {place.filename}, line "
            f'{place.lineno}; expected "module:function", which returns a signer of the secret'
        ) from None


def to_toml(value: Any) -> str:
    """Write a value as TOML, which has no None."""
    if isinstance(value, Mapping):
        pairs = [f"{to_toml(name)} = {to_toml(one)}" for name, one in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, AbstractSet | list | tuple):
        listed = sorted(value) if isinstance(value, AbstractSet) else value
        return f"[{', '.join(map(to_toml, listed))}]"
    return json.dumps(False if value is None else value, default=str, ensure_ascii=False)

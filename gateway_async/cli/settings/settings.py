"""All settings of one command, put together and checked; the secret is read at the very end."""

import importlib
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.cli.settings.config import (
    ALLOWED_PLACES,
    Config,
    default_journal,
    read_config,
)
from gateway_async.cli.settings.network import Network
from gateway_async.cli.settings.secret import (
    SECRET_VARIABLE,
    SecretPlace,
    choose_place,
    read_secret,
)
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, GatewayError
from gateway_async.settings import (
    BatchPolicy,
    RecoveryPolicy,
    RetryPolicy,
    Timeouts,
)
from gateway_async.signing import Credentials, HmacSigner

if TYPE_CHECKING:
    from collections.abc import Callable

_WHO = {
    "base_url": "the gateway's address, such as https://gateway.example",
    "merchant_id": "the merchant identifier that the gateway gave you",
    "account_id": "the merchant account identifier that the gateway gave you",
}
"""Settings without which nothing can be sent, and what each should hold."""

_SIGNER = {field.name: field for field in attrs.fields(HmacSigner) if field.name != "secret"}


@attrs.frozen(kw_only=True)
class Given:
    """What the options of a command say; None where they say nothing.

    Attributes:
        config: The TOML file.
        profile: A profile of it.
        base_url: The gateway's address.
        merchant_id: The merchant identifier.
        account_id: The merchant account identifier.
        secret_file: The file that holds the secret.
        keyring: The service under which a keyring holds the secret.
        journal: The URL of the journal.
        rate: Requests a second at most.
        policy: Fields of `BatchPolicy`.
        allow_http: Whether plain `http://` may go to another machine.
        ca_file: The certificates of the authorities that are trusted.
        client_cert: The certificate that is shown to the gateway.
        client_key: Its key.
        proxy: The URL of a proxy.
        trust_env: Whether the environment may name a proxy.
    """

    config: Path | None = None
    profile: str | None = None
    base_url: str | None = None
    merchant_id: str | None = None
    account_id: str | None = None
    secret_file: Path | None = None
    keyring: str | None = None
    journal: str | None = None
    rate: float | None = None
    policy: Mapping[str, Any] = attrs.field(factory=dict)
    allow_http: bool = False
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    proxy: str | None = attrs.field(default=None, repr=False)
    trust_env: bool = False


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of one command.

    Attributes:
        who: Address, merchant and account, as far as they are known.
        network: The way to the gateway.
        secret_places: Where options, environment and file say that the secret is.
        signer: What the TOML file says of the signer.
        source: What the TOML file is called.
        journal: The URL of the journal; it may hold a password.
        is_default_journal: Whether nothing names one, so that it is where state is kept.
        journal_lease_seconds: How long a job stays with a process that says nothing more.
        rate: Requests a second at most; None for no limit.
        timeouts: See `Timeouts`.
        retry: See `RetryPolicy`.
        policy: See `BatchPolicy`.
        recovery: See `RecoveryPolicy`; the references of refunds are recorded unless it is said
            not to, since without them `recover` proves nothing.
        dialect: See `Dialect`.
        states: By `payment_status`, the ledger's words for it.
        refund_statuses: By `refund_status`, whether such a refund gave money back.
    """

    who: Mapping[str, str]
    network: Network
    secret_places: Mapping[str, SecretPlace]
    signer: Mapping[str, Any]
    source: str
    journal: str = attrs.field(repr=False)
    is_default_journal: bool
    journal_lease_seconds: float
    rate: float | None
    timeouts: Timeouts
    retry: RetryPolicy
    policy: BatchPolicy
    recovery: RecoveryPolicy
    dialect: Dialect
    states: Mapping[str, Any] | None
    refund_statuses: Mapping[str, bool] | None

    @property
    def base_url(self) -> str:
        """The gateway's address, or what stands for it.

        Raises:
            ConfigurationError: If it is none, holds credentials, which would be shown, or cannot be
                reached by the network's settings.
        """
        given = self.who.get("base_url")
        return "a gateway that is not named yet" if given is None else self.network.checked(given)

    def address_of(self, path: str) -> str:
        """Name a path below the gateway's address, be that known or not.

        Raises:
            ConfigurationError: As `base_url`.
        """
        is_named = "base_url" in self.who
        return f"{self.base_url}{path}" if is_named else f"{path} of {self.base_url}"

    def credentials(
        self, environment: Mapping[str, str], warn: "Callable[[str], None]"
    ) -> Credentials:
        """Read the secret, and make the credentials.

        Args:
            environment: The environment variables.
            warn: Told what is unwise.

        Raises:
            ConfigurationError: If address, merchant, account or secret are missing.
        """
        place = choose_place(self.secret_places)
        self._check_who(has_secret=place is not None)
        merchant_id, account_id = self.who["merchant_id"], self.who["account_id"]
        signer = _make_signer(
            read_secret(
                place,
                environment=environment,
                user=f"{merchant_id}/{account_id}",
                warn=warn,
            ),
            self.signer,
            self.source,
        )
        return Credentials(merchant_id=merchant_id, account_id=account_id, signer=signer)

    def _check_who(self, *, has_secret: bool) -> None:
        """Name everything that is missing at once."""
        lines = [
            f"  {_variable(name)}: {text} (or --{name.replace('_', '-')}, or {name} in the "
            "TOML file)"
            for name, text in _WHO.items()
            if name not in self.who
        ]
        if not has_secret:
            lines.append(
                f"  the secret that requests are signed with: put it into {ALLOWED_PLACES}"
            )
        if lines:
            raise ConfigurationError("these settings are missing:\n" + "\n".join(lines))


def read_settings(given: Given, environment: Mapping[str, str]) -> Settings:
    """Put the settings together: options go over the environment, and that over the TOML file.

    Raises:
        ConfigurationError: Naming the setting that is wrong, and saying what would be right.
    """
    path = given.config or _path(environment.get("GATEWAY_CONFIG"))
    profile = given.profile or environment.get("GATEWAY_PROFILE") or None
    config = read_config(path, profile, environment)

    def first(name: str) -> str | None:
        return _first(name, given, environment, config)

    who = {name: value for name in _WHO if (value := first(name)) is not None}
    recovery = dict(config.table("recovery"))
    recovery.setdefault("record_baseline", recovery.get("refund_evidence") != "marker")
    policy = {**config.table("policy"), **given.policy}
    reconcile = _reconcile(config)
    return Settings(
        who=who,
        network=_network(given, environment, config),
        secret_places=_secret_places(given, environment, config),
        signer=config.table("signer"),
        source=config.source,
        journal=first("journal") or default_journal(environment),
        is_default_journal=first("journal") is None,
        journal_lease_seconds=_number(config, "journal_lease_seconds") or 15.0,
        rate=_rate(given, config),
        timeouts=_made(Timeouts, "timeouts", config.table("timeouts"), config),
        retry=_made(RetryPolicy, "retry", config.table("retry"), config),
        policy=_made(BatchPolicy, "policy", policy, config),
        recovery=_made(RecoveryPolicy, "recovery", recovery, config),
        dialect=_made(Dialect, "dialect", config.table("dialect"), config),
        states=reconcile.get("states"),
        refund_statuses=reconcile.get("refund_statuses"),
    )


def _first(name: str, given: Given, environment: Mapping[str, str], config: Config) -> str | None:
    """Return a setting that is a text, of the first that says anything."""
    of_file = config.text(name)
    said = getattr(given, name) or environment.get(_variable(name), "").strip() or of_file
    return None if said is None else str(said)


def _network(given: Given, environment: Mapping[str, str], config: Config) -> Network:
    sources = (given, environment, config)
    return Network(
        allow_http=_flag("allow_http", *sources),
        ca_file=_path(_first("ca_file", *sources)),
        client_cert=_path(_first("client_cert", *sources)),
        client_key=_path(_first("client_key", *sources)),
        proxy=_first("proxy", *sources),
        trust_env=_flag("trust_env", *sources),
    )


def _flag(name: str, given: Given, environment: Mapping[str, str], config: Config) -> bool:
    """Return a setting that is true or false, of the first that says anything."""
    of_file = config.flag(name)
    text = environment.get(_variable(name), "").strip().lower()
    if text not in ("", "true", "false"):
        raise ConfigurationError(f"{_variable(name)}: expected true or false, got {text!r}")
    return bool(getattr(given, name) or (text == "true" if text else of_file))


def _variable(name: str) -> str:
    return f"GATEWAY_{name.upper()}"


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _secret_places(
    given: Given, environment: Mapping[str, str], config: Config
) -> dict[str, SecretPlace]:
    return {
        "the command": SecretPlace(file=given.secret_file, keyring=given.keyring),
        "the environment": SecretPlace(
            variable=bool(environment.get(SECRET_VARIABLE, "").strip()),
            file=_path(environment.get("GATEWAY_SECRET_FILE")),
            keyring=environment.get("GATEWAY_KEYRING") or None,
        ),
        config.source: SecretPlace(
            file=_path(config.text("secret_file")), keyring=config.text("keyring")
        ),
    }


def _made(kind: Any, name: str, table: Mapping[str, Any], config: Config) -> Any:  # noqa: ANN401  # any settings
    """Make settings of a table.

    Raises:
        ConfigurationError: Naming the field that is wrong or not known.
    """
    _check_names(config, name, table, [field.name for field in attrs.fields(kind)])
    return kind(**table)


def _check_names(config: Config, name: str, table: Mapping[str, Any], known: "list[str]") -> None:
    for field in table:
        if field not in known:
            raise ConfigurationError(
                f"{config.source}: [{name}] {field}: not known; there are: {', '.join(known)}"
            )


def _number(config: Config, name: str) -> float | None:
    value = config.values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigurationError(f"{config.source}: {name}: expected a number above 0")
    return float(value)


def _rate(given: Given, config: Config) -> float | None:
    rate = given.rate if given.rate is not None else _number(config, "rate")
    if rate is not None and not 0 < rate < float("inf"):
        raise ConfigurationError("--rate: expected a number of requests a second, above 0")
    return rate


def _reconcile(config: Config) -> Mapping[str, Any]:
    table = config.table("reconcile")
    _check_names(config, "reconcile", table, ["states", "refund_statuses"])
    for field, value in table.items():
        if not isinstance(value, Mapping):
            raise ConfigurationError(
                f'{config.source}: [reconcile] {field}: expected a table like {{ "1" = ... }}'
            )
    return table


def _make_signer(secret: str, table: Mapping[str, Any], source: str) -> Any:  # noqa: ANN401  # any signer
    """Make the signer that the TOML file asks for."""
    if "factory" in table:
        if len(table) > 1:
            raise ConfigurationError(f"{source}: [signer] factory: expected nothing beside it")
        make = _load(table["factory"], source)
        try:
            return make(secret)
        except GatewayError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it raises, its text may hold the secret
            raise _failed(error, table["factory"], source) from None
    for name, value in table.items():
        field = _SIGNER.get(name)
        if field is None:
            known = ", ".join((*_SIGNER, "factory"))
            raise ConfigurationError(f"{source}: [signer] {name}: not known; there are: {known}")
        expected = list if name == "excluded" else type(field.default)
        if not isinstance(value, expected):
            raise ConfigurationError(
                f"{source}: [signer] {name}: expected {expected.__name__}, "
                f"got {type(value).__name__}"
            )
    return HmacSigner(secret, **table)


def _failed(error: Exception, name: object, source: str) -> ConfigurationError:
    """Say where a factory failed, and not why: that text may hold the secret."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return ConfigurationError(
        f"{source}: [signer] factory: {name!r} raised {type(error).__name__} "
        f"in {place.filename}, line {place.lineno}"
    )


def _load(name: object, source: str) -> "Callable[[str], Any]":
    """Import what makes the signer, from `module:name`."""
    module, found, attribute = str(name).partition(":")
    try:
        made = getattr(importlib.import_module(module), attribute) if found else None
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{source}: [signer] factory: {error}; install it, or name its directory in PYTHONPATH"
        ) from None
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError(f"{source}: [signer] factory: {error}") from None
    except Exception as error:  # noqa: BLE001  # whatever a module does where it is imported
        raise _failed(error, name, source) from None
    if not callable(made):
        raise ConfigurationError(
            f'{source}: [signer] factory: expected "module:function", which takes the secret and '
            f"returns a signer, got {name!r}"
        )
    result: Callable[[str], Any] = made
    return result

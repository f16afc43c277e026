"""The TOML file, read and checked by name. No secret may stand in it."""

import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = Path("gateway-async", "config.toml")
ALLOWED_PLACES = (
    "the environment variable GATEWAY_SECRET, a file that secret_file (or --secret-file, or "
    "GATEWAY_SECRET_FILE) names, or a keyring whose service keyring (or --keyring, or "
    "GATEWAY_KEYRING) names"
)
"""Where the secret may be, for messages."""

_VALUES = (
    *("base_url", "merchant_id", "account_id", "secret_file", "keyring"),
    *("journal", "journal_lease_seconds", "rate"),
    *("allow_http", "ca_file", "client_cert", "client_key", "proxy", "trust_env"),
)
TABLES = (
    *("dialect", "timeouts", "retry", "policy", "recovery"),
    *("signer", "reconcile"),
)
_SECRET_PLACES = frozenset({"secret_file", "keyring"})
_FORBIDDEN = frozenset({"secret", "password", "hmac_secret", "signing_secret", "key"})


@attrs.frozen(kw_only=True)
class Config:
    """What a TOML file says, its profile put over the rest.

    Attributes:
        source: What the file is called in messages.
        values: The settings that are no tables.
        tables: The tables.
    """

    source: str = "no file"
    values: "Mapping[str, Any]" = attrs.field(factory=dict)
    tables: "Mapping[str, Mapping[str, Any]]" = attrs.field(factory=dict)

    def table(self, name: str) -> "Mapping[str, Any]":
        """Return a table; empty where the file has none."""
        return self.tables.get(name, MappingProxyType({}))

    def text(self, name: str) -> str | None:
        """Return a setting that is a text.

        Raises:
            ConfigurationError: If it is none.
        """
        value = self.values.get(name)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        raise ConfigurationError(f"{self.source}: {name}: expected a text, got {value!r}")

    def flag(self, name: str) -> bool | None:
        """Return a setting that is true or false.

        Raises:
            ConfigurationError: If it is neither.
        """
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise ConfigurationError(f"{self.source}: {name}: expected true or false, got {value!r}")


def default_path(environment: "Mapping[str, str]") -> Path:
    """Return where the file is if nobody says so, by the XDG rules."""
    base = environment.get("XDG_CONFIG_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".config"
    return home / FILE_NAME


def default_journal(environment: "Mapping[str, str]") -> str:
    """Return the URL of the journal if nothing names another, by the XDG rules."""
    base = environment.get("XDG_STATE_HOME", "")
    home = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return f"sqlite:///{home / 'gateway-async' / 'journal.db'}"


def read_config(path: Path | None, profile: str | None, environment: "Mapping[str, str]") -> Config:
    """Read a TOML file.

    Args:
        path: The file; None for the usual place, where none need be.
        profile: The name of a table below `profiles` that goes over the rest.
        environment: Where the usual place is read from.

    Raises:
        ConfigurationError: If it cannot be read, or says anything that is not known here.
    """
    chosen = path or default_path(environment)
    try:
        document = tomllib.loads(chosen.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        if path is None and profile is None:
            return Config()
        raise ConfigurationError(f"cannot read {chosen}: there is no such file") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read {chosen}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{chosen}: not TOML: {_without_values(error)}") from None
    return _merged(str(chosen), document, profile)


def _without_values(error: Exception) -> str:
    """Say where a file is wrong without quoting it: it may hold what it should not."""
    _, found, place = str(error).rpartition("(at ")
    return f"at {place.rstrip(')')}" if found else "it is not UTF-8"


def _merged(source: str, document: dict[str, Any], profile: str | None) -> Config:
    profiles = document.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(p, dict) for p in profiles.values()):
        raise ConfigurationError(f"{source}: profiles: expected tables like [profiles.test]")
    for name, part in {"": document, **profiles}.items():
        _check(source, f"profiles.{name}." if name else "", part)
    if profile is not None and profile not in profiles:
        known = ", ".join(profiles) or "none"
        raise ConfigurationError(f"{source}: no profile {profile!r}; there are: {known}")
    over = profiles.get(profile, {})
    if not _SECRET_PLACES.isdisjoint(over):
        document = {name: one for name, one in document.items() if name not in _SECRET_PLACES}
    values = {name: one for name, one in {**document, **over}.items() if name not in TABLES}
    tables = {name: {**document.get(name, {}), **over.get(name, {})} for name in TABLES}
    return Config(source=source, values=values, tables=tables)


def _check(source: str, prefix: str, part: "Mapping[str, Any]") -> None:
    """Check the names of one part.

    Raises:
        ConfigurationError: Naming the first that is wrong; a secret is not shown.
    """
    for name, value in part.items():
        if name in _FORBIDDEN or _holds_secret(name, value):
            raise ConfigurationError(
                f"{source}: {prefix}{name}: no secret may stand in this file, where backups and "
                f"repositories take it along; put it into {ALLOWED_PLACES}"
            )
        if name in TABLES:
            if not isinstance(value, dict):
                raise ConfigurationError(f"{source}: {prefix}{name}: expected a table")
        elif name not in _VALUES:
            known = ", ".join((*_VALUES, *TABLES, "profiles"))
            raise ConfigurationError(f"{source}: {prefix}{name}: not known; there are: {known}")


def _holds_secret(name: str, value: object) -> bool:
    return name == "signer" and isinstance(value, dict) and bool(_FORBIDDEN & set(value))

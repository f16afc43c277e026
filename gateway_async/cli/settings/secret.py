"""Where the signing secret comes from: never an option, and never the TOML file."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECRET_VARIABLE = "GATEWAY_SECRET"  # noqa: S105  # the name of a variable
_LONGEST_BYTES = 65_536


@attrs.frozen(kw_only=True)
class SecretPlace:
    """Where the secret is; the secret itself is not here.

    Attributes:
        variable: Whether it is in the environment.
        file: The file that holds it.
        keyring: The service under which a keyring holds it.
    """

    variable: bool = False
    file: Path | None = None
    keyring: str | None = None

    @property
    def count(self) -> int:
        """How many places are named."""
        return self.variable + (self.file is not None) + (self.keyring is not None)


def choose_place(places: "Mapping[str, SecretPlace]") -> SecretPlace | None:
    """Return where the secret is; None if nobody says so.

    Args:
        places: What options, environment and file say, the one that goes first at first.

    Raises:
        ConfigurationError: If the first that says anything names two places.
    """
    for who, place in places.items():
        if place.count > 1:
            raise ConfigurationError(f"the secret: {who} names more than one place; name one")
        if place.count:
            return place
    return None


def read_secret(
    place: SecretPlace | None,
    *,
    environment: "Mapping[str, str]",
    user: str,
    warn: "Callable[[str], None]",
) -> str:
    """Read the secret.

    Args:
        place: Where it is.
        environment: The environment variables.
        user: Under which user name a keyring holds it.
        warn: Told where a file can be read by everybody.

    Raises:
        ConfigurationError: If it cannot be read, or is empty.
    """
    if place is None:
        secret = ""
    elif place.file is not None:
        secret = _from_file(place.file, warn)
    elif place.keyring is not None:
        secret = _from_keyring(place.keyring, user)
    else:
        secret = environment.get(SECRET_VARIABLE, "").rstrip("\r\n")
    if not secret.strip():
        raise ConfigurationError("the secret that requests are signed with is empty")
    return secret


def _from_file(path: Path, warn: "Callable[[str], None]") -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_LONGEST_BYTES)
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigurationError(f"cannot read the secret file {path}: {error.strerror}") from None
    if mode & stat.S_IROTH:
        warn(f"{path} can be read by every user of this machine; try: chmod 600 {path}")
    try:
        return raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ConfigurationError(f"the secret file {path} is not UTF-8") from None


def _from_keyring(service: str, user: str) -> str:
    try:
        import keyring  # noqa: PLC0415  # an extra
    except ModuleNotFoundError:
        raise ConfigurationError(
            "a keyring needs the keyring package: pip install 'gateway-async[keyring]'"
        ) from None
    try:
        secret = keyring.get_password(service, user)
    except Exception as error:  # noqa: BLE001  # a backend is anybody's code, and may not be there
        raise ConfigurationError(f"the keyring cannot be read: {type(error).__name__}") from None
    if secret is None:
        raise ConfigurationError(
            f"the keyring has no secret of service {service!r} for {user!r}; put it there with: "
            f"keyring set {service} {user}"
        )
    return secret

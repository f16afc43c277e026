"""What a client is made with, checked before anything else happens."""

import ipaddress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from gateway_async.errors import ConfigurationError
from gateway_async.settings import is_duration

if TYPE_CHECKING:
    from types import FrameType
    from urllib.parse import SplitResult

T = TypeVar("T")


def setting(name: str, value: "T | None", wanted: "type[T]") -> "T":
    """Return a setting, or its defaults where it is None.

    Raises:
        ConfigurationError: If it is of another class.
    """
    if value is None:
        return wanted()
    check_instance(name, value, wanted)
    return value


def check_instance(name: str, value: object, wanted: type) -> None:
    """Check that something is of a class.

    Raises:
        ConfigurationError: If it is not.
    """
    if not isinstance(value, wanted):
        raise ConfigurationError(f"{name}: expected {wanted.__name__}, got {type(value).__name__}")


def check_limiter(limiter: object) -> None:
    """Check that something can be entered around every attempt, or is None.

    Raises:
        ConfigurationError: If it cannot.
    """
    if limiter is not None and not hasattr(type(limiter), "__aenter__"):
        raise ConfigurationError(
            f"limiter: expected an asynchronous context manager, got {type(limiter).__name__}"
        )


def checked_count(name: str, value: object) -> int:
    """Return a whole number of 1 or more.

    Raises:
        ConfigurationError: If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigurationError(
            f"{name}: expected an int of 1 or more, got {value!r} ({type(value).__name__})"
        )
    return value


def checked_seconds(name: str, value: object) -> float:
    """Return a number of seconds, 0 or more.

    Raises:
        ConfigurationError: If it is none.
    """
    if not is_duration(value):
        raise ConfigurationError(
            f"{name}: expected a number of seconds, 0 or more, "
            f"got {value!r} ({type(value).__name__})"
        )
    return value  # type: ignore[return-value]  # checked above


def checked_base_url(value: object) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        ConfigurationError: If it is none, holds credentials, or is neither TLS nor this machine.
    """
    if not isinstance(value, str):
        raise ConfigurationError(f"base_url: expected str, got {type(value).__name__}")
    if set(value) & set("@?#"):
        raise ConfigurationError(
            "base_url: expected scheme, host and path alone; credentials go into Credentials"
        )
    parts = _url_parts(value)
    if parts is None:
        raise ConfigurationError(
            f"base_url: expected a URL such as 'https://gateway.example', got {value!r}"
        )
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            f"base_url: plain http:// is refused except to this machine; use https://{parts.netloc}"
        )
    return value.rstrip("/")


def _url_parts(url: str) -> "SplitResult | None":
    """Return the parts of an HTTP URL; None where it is none."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that hold no address, a wrong port, or a name that is none
        return None
    return parts if is_http and url.isprintable() and " " not in url else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def caller_place(frame: "FrameType | None") -> tuple[str, int]:
    """Return file and line of the nearest caller outside this package."""
    package = __name__.partition(".")[0]
    while frame is not None and frame.f_globals.get("__name__", "").startswith(f"{package}."):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)

"""What a client is made with, checked before anything else happens."""

import base64
import ipaddress
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit

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


def check_flag(name: str, value: object) -> None:
    """Check that something is True or False.

    Raises:
        ConfigurationError: If it is not.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}: expected True or False, got {type(value).__name__}")


def check_alone(session: object, **own: object) -> None:
    """Check that nothing is given beside `session=` that a session of ours would be made with.

    Raises:
        ConfigurationError: Naming both.
    """
    for name, value in own.items():
        if session is not None and value:
            raise ConfigurationError(
                f"session and {name}: expected one of them; make the session that you give with "
                f"its own {name}, or leave session out"
            )


def checked_base_url(value: object, *, allow_http: bool = False) -> str:
    """Return the base URL without a slash at its end.

    Args:
        value: The base URL.
        allow_http: Whether plain `http://` may go to another machine.

    Raises:
        ConfigurationError: If it is none, holds credentials, or is plain `http://` to another
            machine.
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
    if parts.scheme == "http" and not _is_loopback(parts.hostname or "") and not allow_http:
        raise ConfigurationError(
            f"base_url: plain http:// is refused except to this machine; use https://{parts.netloc}"
            ", or allow_http where you trust the network"
        )
    return value.rstrip("/")


def checked_proxy(
    proxy: object, *, base_url: str, trust_env: bool, allow_http: bool
) -> tuple[str | None, str]:
    """Return the URL of the proxy that leads to the gateway, and what it is shown of its user.

    Args:
        proxy: The URL as it was given, or None.
        base_url: The gateway's, checked.
        trust_env: Whether the environment may name one.
        allow_http: Whether plain `http://` may go to another machine.

    Returns:
        The URL without user and password, and the text of `Proxy-Authorization`, or an empty one;
        None for no proxy.

    Raises:
        ConfigurationError: If it is no such URL, or plain requests would leave this machine by it.
            The URL is not shown, since it may hold a password.
    """
    name, scheme = "proxy", urlsplit(base_url).scheme
    if proxy is None and trust_env:
        name, proxy = f"trust_env: {scheme.upper()}_PROXY", _proxy_of_environment(base_url)
    if proxy is None:
        return None, ""
    parts = _url_parts(proxy) if isinstance(proxy, str) else None
    if parts is None or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{name}: expected a URL such as 'http://proxy.example:3128' or "
            "'https://user:password@proxy.example', of scheme http or https, without a path"
        )
    if scheme == "http" and not allow_http and not _is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            f"{name}: requests to a plain http:// base_url would leave this machine by the proxy; "
            "use https://, except this host from the proxy (NO_PROXY), or use allow_http where you "
            "trust the network"
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if ":" in user:
        raise ConfigurationError(f"{name}: expected a user name without a colon")
    shown = base64.b64encode(f"{user}:{password}".encode()).decode()
    url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    return url, f"Basic {shown}" if user or password else ""


def _proxy_of_environment(base_url: str) -> str | None:
    """Return the proxy that the environment names for this address, found as aiohttp finds it."""
    import urllib.request  # noqa: PLC0415  # slow to load, and only who trusts the environment needs it

    parts = urlsplit(base_url)
    found = urllib.request.getproxies().get(parts.scheme)
    if not found or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return found if "://" in found else f"http://{found}"


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

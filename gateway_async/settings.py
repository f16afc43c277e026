"""Settings: plain frozen data, checked when made, and the checks of a client's arguments.

Durations are in seconds. Nothing here acts; the session, the batches and recovery read it.
"""

import base64
import contextlib
import ipaddress
import sys
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.models.values import is_encodable, to_texts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Kind = tuple[Callable[[Any], bool], str]

T = TypeVar("T")

DUPLICATE_RULES = ("reject", "serialize", "allow")
REFUND_EVIDENCE = ("references", "marker")
DEFAULT_LINGER_SECONDS = 0.005
"""How long a single order waits at most for others to leave with it."""

DEFAULT_SLICE_SIZE = 1000
"""How many orders a slice of a job has."""

DEFAULT_LEASE_SECONDS = 15.0
"""How long a job, or a slice, stays with a process that does not renew its lease."""

_LONGEST_LEASE_SECONDS = 86_400


def is_duration(value: object) -> bool:
    """Say whether a value is a finite number of 0 or more."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max  # type: ignore[operator]  # a number


def is_count(value: object, least: int = 0) -> bool:
    """Say whether a value is a whole number, and not below the least."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


FLAG: "Kind" = (lambda value: isinstance(value, bool), "True or False")
TEXT: "Kind" = (lambda value: isinstance(value, str), "a str")
NAME: "Kind" = (
    lambda value: isinstance(value, str) and value != "" and is_encodable(value),
    "a non-empty str that UTF-8 can carry",
)
COUNT: "Kind" = (lambda value: is_count(value, 1), "an int of 1 or more")
SECONDS: "Kind" = (is_duration, "a number of seconds, 0 or more")
LEASE: "Kind" = (
    lambda value: is_duration(value) and 0 < value <= _LONGEST_LEASE_SECONDS,
    "a number of seconds above 0, and at most a day (86400): a crash holds the job for so long",
)


def check(
    accepts: "Callable[[Any], bool]", expected: str
) -> "Callable[[object, attrs.Attribute[Any], Any], None]":
    """Return a validator of a field.

    Args:
        accepts: Returns True for a valid value.
        expected: Which values are valid, for the error.
    """

    def validator(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        expect(f"{type(instance).__name__}.{attribute.name}", value, (accepts, expected))

    return validator


def expect(name: str, value: T, kind: "Kind | type") -> T:
    """Return a value if it is valid.

    Args:
        name: Its name, for the error.
        value: The value. Where a class is expected, the error does not show it: it may be a secret.
        kind: The class that is expected; or a function that returns True for a valid value, and
            the name of such values.

    Raises:
        ConfigurationError: If it is not valid.
    """
    if isinstance(kind, type):
        if not isinstance(value, kind):
            given = type(value).__name__
            raise ConfigurationError(f"{name}: expected {kind.__name__}, got {given}")
    elif not kind[0](value):
        raise ConfigurationError(
            f"{name}: expected {kind[1]}, got {value!r} ({type(value).__name__})"
        )
    return value


def converted(name: str, value: object, convert: "Callable[[Any], T]", expected: str) -> T:
    """Return what a setting holds.

    Args:
        name: Its name, for the error.
        value: What is given.
        convert: Returns what the setting holds, or raises `ValueError`.
        expected: Which values are valid, for the error.

    Raises:
        ConfigurationError: If it is not valid.
    """
    with contextlib.suppress(ValueError):
        return convert(value)
    raise ConfigurationError(f"{name}: expected {expected}, got {value!r} ({type(value).__name__})")


def converted_field(
    convert: "Callable[[Any], Any]",
    expected: str,
    *,
    default: Any = attrs.NOTHING,  # noqa: ANN401  # of the field
    kw_only: bool | None = None,
) -> Any:  # noqa: ANN401  # as attrs.field
    """Declare a field that converts what it is given; see `converted`."""

    def converter(value: object, instance: object, attribute: "attrs.Attribute[Any]") -> object:
        name = f"{type(instance).__name__}.{attribute.name}"
        return converted(name, value, convert, expected)

    given = attrs.Converter(converter, takes_self=True, takes_field=True)
    return attrs.field(default=default, converter=given, kw_only=kw_only)


def only(convert: "Callable[[Any], T]", accepts: "Callable[[T], object]") -> "Callable[[Any], T]":
    """Return a converter that takes only what is accepted of what another one returns."""

    def convert_accepted(value: object) -> T:
        if not accepts(found := convert(value)):
            raise ValueError
        return found

    return convert_accepted


def to_set(value: object) -> frozenset[str]:
    """Return several texts as a set."""
    return frozenset(to_texts(value))


def choose(name: str, value: object, choices: "Mapping[str, T]") -> T:
    """Return what a text stands for.

    Args:
        name: Its name, for the error.
        value: The text.
        choices: By text, what it stands for.

    Raises:
        ConfigurationError: If it is another text.
    """
    if isinstance(value, str) and value in choices:
        return choices[value]
    expected = ", ".join(repr(str(choice)) for choice in choices)
    raise ConfigurationError(f"{name}: expected one of {expected}, got {value!r}")


_positive = check(lambda value: is_duration(value) and value != 0, "a number of seconds above 0")
_not_negative = check(*SECONDS)
_count = check(*COUNT)
_hours = check(
    lambda value: value is None or is_duration(value), "a number of hours, 0 or more, or None"
)


def one_of(*values: str) -> "Callable[[object, attrs.Attribute[Any], Any], None]":
    """Return a validator of a text that must be one of several."""
    return check(lambda value: value in values, "one of " + ", ".join(map(repr, values)))


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long one call may take.

    Attributes:
        connect_seconds: For a connection: waiting for a place in the pool, look-up of the
            address, TCP and TLS.
        reply_seconds: The longest silence while waiting for the reply or between two parts of it.
        total_seconds: For everything: all attempts of one call, or of one chunk, and the pauses
            between them, from when the limiter has let the first one pass. A limiter is waited
            for longer; then nothing more is sent.
    """

    connect_seconds: float = attrs.field(default=10.0, validator=_positive)
    reply_seconds: float = attrs.field(default=60.0, validator=_positive)
    total_seconds: float = attrs.field(default=120.0, validator=_positive)


@attrs.frozen(kw_only=True)
class RetryPolicy:
    """How often, and after which pause, what may be repeated is repeated.

    Reads may always be repeated, and payouts with `Dialect.payout_deduplicates`; what moves money
    else only on proof that nothing was sent. The pause before attempt n+1 is drawn evenly between 0
    and `first_pause_seconds` times 2 to the power of n-1, capped by `max_pause_seconds`; a
    Retry-After of the gateway is honoured up to that cap.

    Attributes:
        attempts: Attempts in all, the first included. A job sends and recovers so often at most.
        first_pause_seconds: The upper bound of the first pause.
        max_pause_seconds: The upper bound of every pause.
    """

    attempts: int = attrs.field(default=4, validator=_count)
    first_pause_seconds: float = attrs.field(default=0.5, validator=_not_negative)
    max_pause_seconds: float = attrs.field(default=30.0, validator=_not_negative)


@attrs.frozen(kw_only=True)
class BatchPolicy:
    """How a batch is run.

    Attributes:
        concurrency: Requests in flight at most.
        chunk_size: Orders in one request; None for the interface's limit (section 8).
        deadline_seconds: From the start of the batch; then nothing more is sent, and what is in
            flight gets `drain_seconds` more, so that the whole may take the sum of both. The rest
            of a plain generator is still taken, each order as `not_sent`: it must have an end.
            None for no deadline.
        drain_seconds: How long what is in flight may still take once the batch is stopped, be it
            by the deadline, by a cancellation, or by leaving its `async with`.
        stop_after_unknown: After so many chunks in a row (in order of completion) without a
            readable reply, nothing more is sent, and the rest of the input is taken, each order as
            `not_sent`. A reply to captures, cancels, reviews or refunds that lists none of them,
            and does not decline them, counts as none.
        duplicates: `"reject"`: the same identity twice is an error. `"serialize"`: the same
            identity is never in flight together, and after an unknown outcome the later ones are
            not sent. `"allow"`: you vouch for them; equal identities never share a request.
    """

    concurrency: int = attrs.field(default=8, validator=_count)
    chunk_size: int | None = attrs.field(default=None, validator=attrs.validators.optional(_count))
    deadline_seconds: float | None = attrs.field(
        default=None, validator=attrs.validators.optional(_positive)
    )
    drain_seconds: float = attrs.field(default=30.0, validator=_not_negative)
    stop_after_unknown: int = attrs.field(default=3, validator=_count)
    duplicates: str = attrs.field(default="reject", validator=one_of(*DUPLICATE_RULES))


@attrs.frozen(kw_only=True)
class RecoveryPolicy:
    """How unknown outcomes are settled from the gateway's own records.

    Attributes:
        settle_seconds: How long after the end of a lost request an absence may count: a refund
            may land late. In a job, from the start of the run.
        resend_absent: Send again what was proved not to be done: yours to choose, since it relies
            on the gateway's records.
        refund_evidence: What proves a refund. `"references"`: a refund reference that was not
            there before and belongs to no other outcome; needs `record_baseline`, and a gateway
            that gives each refund a reference of its own: a refund is unknown where the reply
            names one that was done before, since it may be the reply to an earlier request, come
            twice. `"marker"`: a marker of ours, put before `refund_reason`, where it stays
            visible.
        record_baseline: Look up, before each chunk of refunds is sent, which refund references
            its transactions have already. One more request a chunk. A job does so in any case,
            unless `refund_evidence` is `"marker"`.
        hold_alike_hours: How far back the guard against a second refund looks, from the start of
            the batch, or from when its job was submitted. If the look-up of `record_baseline`
            lists a refund of the same transaction and amount from that time, which is not of the
            same batch or job, the order is not sent, and in a job held. The same goes for a refund
            without a readable date or amount. An order is not sent either if the reply may lack
            earlier refunds of it: it is full, or lists refunds that were not asked for. None, in a
            TOML file `false`, switches both guards off.
    """

    settle_seconds: float = attrs.field(default=60.0, validator=_not_negative)
    resend_absent: bool = attrs.field(default=False, validator=check(*FLAG))
    refund_evidence: str = attrs.field(default="references", validator=one_of(*REFUND_EVIDENCE))
    record_baseline: bool = attrs.field(default=False, validator=check(*FLAG))
    hold_alike_hours: float | None = attrs.field(default=24.0, validator=_hours)


@attrs.frozen(kw_only=True)
class WorkerPolicy:
    """How the slices of jobs are shared out to workers.

    Attributes:
        slice_size: How many orders a slice has, but for those of one transaction, which are always
            in one slice.
        lease_seconds: Lease of a slice: without renewal for so long, another worker may take the
            slice over.
        sweep_seconds: How often a worker looks for slices that no process has.
        wake_seconds: How long a slice that was handed to the queue is left to it, before it is
            handed over once more.
        watch_seconds: How often `watch` looks, unless looking takes long.
    """

    slice_size: int = attrs.field(default=DEFAULT_SLICE_SIZE, validator=_count)
    lease_seconds: float = attrs.field(default=DEFAULT_LEASE_SECONDS, validator=check(*LEASE))
    sweep_seconds: float = attrs.field(default=2.0, validator=_positive)
    wake_seconds: float = attrs.field(default=60.0, validator=_positive)
    watch_seconds: float = attrs.field(default=1.0, validator=_positive)


def setting(name: str, value: "T | None", wanted: "type[T]") -> "T":
    """Return a setting, or its defaults where it is None.

    Raises:
        ConfigurationError: If it is of another class.
    """
    return wanted() if value is None else expect(name, value, wanted)


def check_alone(session: object, **own: object) -> None:
    """Refuse options of our own session beside `session=`, which would ignore them.

    Raises:
        ConfigurationError: Naming both.
    """
    for name, value in own.items():
        if session is not None and value:
            raise ConfigurationError(
                f"session and {name}: expected one of them; make the session that you give with "
                f"its own {name}, or leave session out"
            )


DEFAULT_PORTS = {"https": 443, "http": 80}


def checked_base_url(url: str, *, allow_http: bool = False) -> str:
    """Return the base URL as that gateway is always written.

    Scheme and host are in lower case, without a default port or a slash at the end: a job compares
    its gateway by this text.

    Args:
        url: The base URL.
        allow_http: Whether plain `http://` may go to another machine.

    Raises:
        ConfigurationError: If it is no such URL, holds credentials, or is plain `http://` to
            another machine.
    """
    expect("base_url", url, str)
    parts = None if set(url) & set("@?#") else _url_parts(url)
    if parts is None:  # it may hold a password
        raise ConfigurationError(
            "base_url: expected a URL such as 'https://gateway.example': http:// or https://, host "
            "and path, without user, password, query or fragment"
        )
    host = parts.hostname or ""
    if parts.scheme == "http" and not is_loopback(host) and not allow_http:
        raise ConfigurationError(
            f"base_url: plain http:// is refused except to this machine; use https://{parts.netloc}"
            ", or allow_http where you trust the network"
        )
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in {None, DEFAULT_PORTS[parts.scheme]} else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


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
    if scheme == "http" and not allow_http and not is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            f"{name}: requests to a plain http:// base_url would leave this machine by the proxy; "
            "use https://, except this host from the proxy (NO_PROXY), or use allow_http where you "
            "trust the network"
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
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


def _url_parts(url: str) -> SplitResult | None:
    """Return the parts of an HTTP URL; None for any other text."""
    try:
        parts = urlsplit(url)
        (parts.hostname or "").encode("idna")
        is_http = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # brackets that hold no address, a wrong port, or no host name
        return None
    return parts if is_http and url.isprintable() and " " not in url else None


def is_loopback(host: str) -> bool:
    """Say whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

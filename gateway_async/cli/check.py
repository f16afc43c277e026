"""What `gateway-async check` finds: pure functions of what was observed.

What the interface does not show is not guessed: such a finding holds what was seen, what it may
mean, and whom to ask. This module does no input or output; `commands.check` observes.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import attrs

from gateway_async.cli.questions import QUESTIONS
from gateway_async.dialect import Dialect
from gateway_async.errors import CertificateError, ConfigurationError, GatewayError, RejectedError
from gateway_async.models.orders import OutcomeStatus
from gateway_async.models.values import mask_card
from gateway_async.operations import OPERATIONS

_CLOCK_TOLERANCE = timedelta(seconds=30)
_CERTIFICATE_TOLERANCE = timedelta(days=14)
_LONGEST_EXCERPT = 160
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_CARD_LIKE = re.compile(r"[0-9](?:[ -]?[0-9]){11,18}")
_SHOWN = (
    *("order_no", "transaction_id", "reference_no", "amount", "currency", "payment_status"),
    *("query_result", "transaction_date", "is3ds", "refund_amount", "refund_status"),
    *("refund_reference", "refund_reference_id", "refund_date", "refund_processing_date"),
)
"""Fields of a record whose values are shown; of all others, which may be personal, the names."""


class FindingStatus(StrEnum):
    """What one line of the check comes to."""

    OK = "ok"
    """It works."""

    ASK = "ask"
    """It works, and a question to the gateway is open."""

    WRONG = "wrong"
    """It was refused, or does not fit the settings."""

    UNKNOWN = "unknown"
    """There was no answer that can be read."""

    SKIPPED = "skipped"
    """Not looked at, since something before it failed."""


@attrs.frozen(kw_only=True)
class Finding:
    """One line of the check.

    Attributes:
        check: What was checked.
        status: What it comes to.
        seen: What was seen.
        advice: What to do; empty where nothing is to be done.
        fields: The fields of `Dialect` that matter for it.
    """

    check: str
    status: FindingStatus
    seen: str
    advice: str = ""
    fields: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Certificate:
    """The TLS certificate of the gateway, once it was accepted.

    Attributes:
        version: The version of TLS, such as `TLSv1.3`.
        issuer: Who issued it.
        expires_at: When it expires.
    """

    version: str
    issuer: str
    expires_at: datetime


@attrs.frozen(kw_only=True)
class Connection:
    """How far a connection came, to the gateway or to the proxy before it.

    Attributes:
        host: The host that was looked up.
        port: The port that was connected to.
        addresses: The addresses of the host.
        local_address: The address of this machine in the connection; empty if there was none.
        certificate: The gateway's certificate; None over plain HTTP and through a proxy.
        problem: Why it came no further; empty if it was made.
    """

    host: str
    port: int
    addresses: tuple[str, ...] = ()
    local_address: str = ""
    certificate: Certificate | None = None
    problem: str = ""


@attrs.frozen(kw_only=True)
class Answer:
    """The answer to a look-up that asks for no order in particular.

    Attributes:
        sent_at: When the request was sent, by this machine's clock.
        received_at: When the reply was there.
        http_status: Its HTTP status; None where no reply came.
        dated: Its `Date` header; None where it has none that can be read.
        media_type: Its content type.
        excerpt: The beginning of a body that is no JSON object, masked.
        return_status: Its `return_status`; None where it has none.
        return_message: Its `return_message`, masked.
        records: How many records it lists.
        is_signed: Whether it carries an `encryption_data`.
        is_json: Whether its body is a JSON object.
        error: Why it does not count as answered; None if it does.
    """

    sent_at: datetime
    received_at: datetime
    http_status: int | None = None
    dated: datetime | None = None
    media_type: str = ""
    excerpt: str = ""
    return_status: str | None = None
    return_message: str = ""
    records: int = 0
    is_signed: bool = False
    is_json: bool = False
    error: GatewayError | None = None

    @property
    def is_refused(self) -> bool:
        """Whether the gateway, or something before it, answered no."""
        if self.error is None or self.http_status is None:
            return False
        if self.http_status == HTTPStatus.OK:
            return self.is_json
        return 400 <= self.http_status < 500  # noqa: PLR2004  # the statuses of a refusal


@attrs.frozen(kw_only=True)
class LookedUp:
    """One order that was looked up.

    Attributes:
        operation: `query` or `search_refunds`.
        reference: The order, as it was asked for.
        status: The status of the outcome.
        error: The error of the outcome.
        records: Its records.
        looked_at: When, by the gateway's clock if that is known, in UTC.
    """

    operation: str
    reference: str
    status: OutcomeStatus
    error: GatewayError | None = None
    records: tuple[Any, ...] = ()
    looked_at: datetime


@attrs.frozen(kw_only=True)
class Observed:
    """All that was observed.

    Attributes:
        base_url: The gateway's address.
        merchant_id: The merchant that asked.
        account_id: Its account.
        is_loopback: Whether the gateway is on this machine.
        proxy: The proxy that leads to it, without user and password; None for none.
        has_unused_proxy: Whether the environment names a proxy that the settings do not use.
        verifies: Whether the signer checks the signatures of replies.
        connection: How far a connection came.
        answers: The answers to `query` and `search_refunds` without an order; empty where there
            was no connection.
        looked_up: The orders that were looked up.
    """

    base_url: str
    merchant_id: str
    account_id: str
    is_loopback: bool = False
    proxy: str | None = None
    has_unused_proxy: bool = False
    verifies: bool = False
    connection: Connection
    answers: Mapping[str, Answer] = attrs.field(factory=dict)
    looked_up: tuple[LookedUp, ...] = ()


def find(seen: Observed, dialect: Dialect) -> list[Finding]:
    """Return a finding for each thing that is checked, in the order of the way to the gateway."""
    return [
        *_find_connection(seen),
        _find_proxy(seen),
        _find_reply(seen),
        _find_time(seen),
        *_find_credentials(seen),
        _find_registration(seen),
        *(finding for one in seen.looked_up for finding in _find_order(one, dialect)),
    ]


def exit_code(findings: list[Finding]) -> int:
    """Return 0 if all works, 1 if something was refused or does not fit, 3 without an answer."""
    statuses = {finding.status for finding in findings}
    if FindingStatus.UNKNOWN in statuses:
        return 3
    return int(FindingStatus.WRONG in statuses)


def _ok(check: str, seen: str) -> Finding:
    return Finding(check=check, status=FindingStatus.OK, seen=seen)


def _unknown(check: str, seen: str, advice: str) -> Finding:
    return Finding(check=check, status=FindingStatus.UNKNOWN, seen=seen, advice=advice)


def _wrong(check: str, seen: str, advice: str) -> Finding:
    return Finding(check=check, status=FindingStatus.WRONG, seen=seen, advice=advice)


def _ask(check: str, seen: str, advice: str = "") -> Finding:
    return Finding(check=check, status=FindingStatus.ASK, seen=seen, advice=advice)


def _skipped(check: str, seen: str) -> Finding:
    return Finding(check=check, status=FindingStatus.SKIPPED, seen=seen)


def _find_connection(seen: Observed) -> Iterator[Finding]:
    """Find how far a connection came: address, connection, TLS."""
    to, whose = seen.connection, "base_url" if seen.proxy is None else "proxy"
    if not to.addresses:
        yield _unknown(
            "address",
            f"{to.host} has no address ({to.problem})",
            f"check the host in {whose} for a typing error; then ask for the DNS of your network",
        )
        yield _skipped("connection", "there is no address")
        yield _skipped("tls", "there is no connection")
        return
    yield _ok("address", f"{to.host} is {', '.join(to.addresses)}")
    if not to.local_address:
        hint = (
            "; the environment names a proxy that is not used: give --trust-env if it leads there"
            if seen.has_unused_proxy
            else ""
        )
        yield _unknown(
            "connection",
            f"no connection to {to.host}:{to.port} ({to.problem})",
            f"check the port in {whose}, and whether a firewall lets this machine connect to "
            f"{to.host}:{to.port}{hint}",
        )
        yield _skipped("tls", "there is no connection")
        return
    yield _ok("connection", f"connected to {to.host}:{to.port} from {to.local_address}")
    if seen.base_url.lower().startswith("https:"):
        yield _find_tls(seen)
    elif seen.is_loopback:
        yield _ok("tls", "plain HTTP, which does not leave this machine")
    else:
        plain = "plain HTTP: everything on the way can be read and changed"
        yield _wrong("tls", plain, "use https:// for anything but a sandbox")


def _find_tls(seen: Observed) -> Finding:
    to, error = seen.connection, _first_error(seen)
    problem = to.problem or (str(error) if isinstance(error, CertificateError) else "")
    if problem:
        return _unknown(
            "tls",
            problem,
            "if a private authority issued the certificate, name its certificates in ca_file; "
            "if not, something between here and the gateway may have replaced it: ask your "
            "network team",
        )
    if (certificate := to.certificate) is not None:
        shown = f"{certificate.version}, certificate by {certificate.issuer}"
        shown += f", valid until {certificate.expires_at:%Y-%m-%d}"
        now = next((one.received_at for one in seen.answers.values()), None)
        if now is not None and certificate.expires_at - now < _CERTIFICATE_TOLERANCE:
            return _ask("tls", shown, "ask the gateway when it renews the certificate")
        return _ok("tls", shown)
    if any(one.http_status is not None for one in seen.answers.values()):
        return _ok("tls", "the gateway's certificate was accepted, through the proxy")
    return _skipped("tls", "the proxy opened no connection to the gateway")


def _find_proxy(seen: Observed) -> Finding:
    if seen.proxy is None:
        return _ok("proxy", "none is set")
    error, answer = _first_error(seen), seen.answers.get("query")
    status = None if answer is None else answer.http_status
    is_login = isinstance(error, ConfigurationError) and status is None
    if is_login or status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        return _unknown(
            "proxy",
            f"{seen.proxy} does not let this user through (HTTP 407)",
            "put http://user:password@host:port into GATEWAY_PROXY, or into proxy in the TOML file",
        )
    if answer is None:
        return _skipped("proxy", "there is no connection to it")
    if status is None and not isinstance(error, CertificateError):
        return _unknown(
            "proxy",
            f"{seen.proxy} gave no way to the gateway: {error}",
            "ask your network team whether the proxy may connect to the gateway's host and port",
        )
    return _ok("proxy", f"requests go through {seen.proxy}")


def _find_reply(seen: Observed) -> Finding:
    """Find whether the look-up of transactions is answered by something like the gateway."""
    answer = seen.answers.get("query")
    path = OPERATIONS["query"].path
    if answer is None:
        return _skipped("reply", "nothing was sent: there is no connection")
    if answer.http_status is None:
        return _unknown(
            "reply",
            f"no reply to {path}: {answer.error}",
            "see the lines above; if they are ok, try again, and ask the gateway if it lasts",
        )
    shown = f"HTTP {answer.http_status}"
    if answer.excerpt:
        shown += f" with {answer.media_type or 'no content type'}: {answer.excerpt!r}"
    if answer.http_status != HTTPStatus.OK:
        advice = _STATUS_ADVICE.get(answer.http_status, _OTHER_STATUS)
        make = _wrong if answer.is_refused else _unknown
        return make("reply", f"{path} answered {shown}", advice)
    if not answer.is_json:
        return _unknown(
            "reply",
            f"{path} answered {shown}, and not JSON",
            "check base_url: a web site, or the login page of a network, may have answered",
        )
    return _ok("reply", f"{path} answered HTTP 200 with JSON, {answer.records} records")


_NOT_SHOWN = "the interface shows no HTTP status but 200, so ask the gateway what it means"
_STATUS_ADVICE: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: f"{_NOT_SHOWN}: it may be the credentials, or the signature",
    HTTPStatus.FORBIDDEN: (
        f"{_NOT_SHOWN}: it may be an address of yours that is not registered, the credentials, or "
        "a firewall before the gateway"
    ),
    HTTPStatus.NOT_FOUND: f"{_NOT_SHOWN}: it may be a wrong path in base_url, without the /v1",
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: "see the line of the proxy",
}
_OTHER_STATUS = f"try again; {_NOT_SHOWN}"


def _find_time(seen: Observed) -> Finding:
    dated = [(one, one.dated) for one in seen.answers.values() if one.dated is not None]
    if not dated:
        return _skipped("time", "no reply with a Date header came")
    answer, date = dated[0]
    ahead = date - (answer.sent_at + (answer.received_at - answer.sent_at) / 2)
    seconds = abs(ahead) // timedelta(seconds=1)
    if abs(ahead) <= _CLOCK_TOLERANCE:
        return _ok("time", f"the clocks agree to {seconds} s")
    return _wrong(
        "time",
        f"the gateway's clock is {seconds:,} s {'ahead of' if ahead > timedelta() else 'behind'} "
        "this machine's",
        "set this machine's clock by NTP; if it is right, tell the gateway. TLS certificates and "
        "RecoveryPolicy.hold_alike_hours go by it",
    )


def _find_credentials(seen: Observed) -> Iterator[Finding]:
    """Find whether merchant, account and signature were accepted."""
    who = f"merchant_id {seen.merchant_id!r} and account_id {seen.account_id!r}"
    read = [one for one in seen.answers.values() if one.is_json]
    accepted = [one for one in read if one.error is None]
    if accepted:
        yield _ok("credentials", f"{who}: accepted")
        if not any(one.is_signed for one in accepted):
            of_reply = "the reply carries none"
        elif seen.verifies:
            of_reply = "that of the reply is right"
        else:
            of_reply = "that of the reply is not checked"
        seen_with = "a request with it was accepted, if the gateway checks that of look-ups"
        yield _ok("signature", f"{seen_with}; {of_reply}")
        return
    if not read:
        yield _skipped("credentials", "no reply came that could accept or refuse them")
        yield _skipped("signature", "no reply came that could accept or refuse it")
        return
    yield _wrong(
        "credentials",
        f"{who}: {_refusal(read[0])}",
        "the interface shows no code of a refusal: it may mean them, the signature or the "
        "registered address. Compare both with what the gateway gave you",
    )
    yield _wrong(
        "signature",
        _refusal(read[0]),
        "if the credentials are right, check the secret, and ask how encryption_data is made: "
        "algorithm, fields, order ([signer] in the TOML file)",
    )


def _refusal(answer: Answer) -> str:
    if not isinstance(answer.error, RejectedError):
        return str(answer.error)
    message = answer.return_message
    return f"refused with return_status {answer.return_status!r}, return_message {message!r}"


def _find_registration(seen: Observed) -> Finding:
    """Find whether the gateway lets this address look transactions up (section 4)."""
    name, where = "registered address", OPERATIONS["query"].path
    query, refunds = seen.answers.get("query"), seen.answers.get("search_refunds")
    local = seen.connection.local_address
    if query is None or refunds is None:
        return _skipped(name, "nothing was sent: there is no connection")
    if query.error is None:
        return _ok(name, f"{where} is answered, to requests from {local}")
    if not query.is_refused:
        return _skipped(name, f"no reply of {where} that can be read came")
    register = (
        f"the gateway must register the address that it sees requests come from ({local} here; "
        "behind a router or proxy it is another one)"
    )
    if refunds.error is None:
        return _wrong(
            name,
            f"{where} is refused, and {OPERATIONS['search_refunds'].path} is answered",
            f"the interface demands a registered address for the first alone: {register}",
        )
    return _ask(
        name,
        "both look-ups are refused, so this cannot be told from wrong credentials",
        register,
    )


def _first_error(seen: Observed) -> GatewayError | None:
    return next((one.error for one in seen.answers.values() if one.error is not None), None)


def _find_order(one: LookedUp, dialect: Dialect) -> Iterator[Finding]:
    """Find how the gateway describes one order, and whether the dialect fits that."""
    check = f"{one.operation} of {one.reference}"
    if one.status is OutcomeStatus.ABSENT:
        advice = "if it is right, ask how a look-up selects orders (Dialect.selection_fields)"
        if one.operation == "query":
            seen = "the gateway answered without it"
            yield _wrong(check, seen, f"check the order_no or transaction_id; {advice}")
        else:  # an order without refunds is nothing unusual
            yield _ok(check, "no refund is listed")
        return
    if one.status is not OutcomeStatus.SUCCEEDED:
        yield _unknown(check, f"{one.status}: {one.error}", "see the field that the text names")
    if not one.records:
        return
    for record in one.records:
        yield _ok(check, _shown(record))
    for field, finding in _misfits(one, dialect):
        yield attrs.evolve(finding, check=check, fields=(field,) if field else ())


def _misfits(one: LookedUp, dialect: Dialect) -> Iterator[tuple[str, Finding]]:
    """Compare records with the dialect; with each finding comes its field, if it has one."""
    yield from _status_misfits(one.records, dialect)
    yield from _amount_misfits(one.records, dialect)
    yield from _date_misfits(one, dialect)
    if unlisted := {name for record in one.records for name in record.extra}:
        names = ", ".join(sorted(unlisted))
        seen = f"fields that the interface does not list: {names}; record.extra has them"
        yield "", _ask("", _printable(seen), "ask what they mean")
    references = [r.refund_reference_id for r in one.records if hasattr(r, "refund_reference_id")]
    if references and (not all(references) or len(set(references)) < len(references)):
        yield (
            "",
            _wrong(
                "",
                "its refunds do not each have a refund_reference_id of their own",
                'recovery cannot go by them: set refund_evidence = "marker" under [recovery]',
            ),
        )


def _status_misfits(records: tuple[Any, ...], dialect: Dialect) -> Iterator[tuple[str, Finding]]:
    states = _values(records, "payment_status")
    for value in sorted(states - set(dialect.payment_states)):
        yield (
            "payment_states",
            _ask(
                "",
                f"payment_status {value!r} has no meaning in Dialect.payment_states",
                f"{QUESTIONS['dialect']['payment_states']} Until then recovery settles no capture "
                "and no cancel by it",
            ),
        )
    found = dialect.found_query_results | dialect.absent_query_results
    for value in sorted(_values(records, "query_result") - found):
        seen = f"query_result {value!r} is in no field of the dialect"
        advice = QUESTIONS["dialect"]["absent_query_results"]
        yield "absent_query_results", _wrong("", seen, advice)
    known = dialect.done_statuses | dialect.declined_statuses | dialect.pending_statuses
    for value in sorted(_values(records, "refund_status") - known):
        seen = f"refund_status {value!r} is in no field of the dialect: such a refund is unknown"
        yield "declined_statuses", _ask("", seen, QUESTIONS["dialect"]["declined_statuses"])


def _amount_misfits(records: tuple[Any, ...], dialect: Dialect) -> Iterator[tuple[str, Finding]]:
    found: dict[tuple[str, int], str] = {}
    for record in records:
        for name in ("amount", "refund_amount"):
            if (amount := getattr(record, name, None)) is not None and amount.is_finite():
                places = max(0, -int(amount.as_tuple().exponent))
                found[record.currency or "", places] = f"{name} {amount} {record.currency or ''}"
    for (currency, places), shown in found.items():
        ours = dialect.places(currency)
        if places == ours:
            continue
        seen = f"{shown} has {places} decimal places, and requests are written with {ours}"
        make = _wrong if places > ours else _ask
        yield "currency_places", make("", seen, QUESTIONS["dialect"]["currency_places"])


def _date_misfits(one: LookedUp, dialect: Dialect) -> Iterator[tuple[str, Finding]]:
    unread = {
        f"{name} {text!r}" if name in _SHOWN else name
        for record in one.records
        for name, text in record.unreadable.items()
    }
    if unread:
        seen = f"cannot be read: {', '.join(sorted(unread))}"
        advice = "ask for its format; the record has None, and its text in record.unreadable"
        yield "", _wrong("", _printable(seen), advice)
    offset = timedelta(hours=dialect.utc_offset_hours)
    latest = (one.looked_at + offset + _CLOCK_TOLERANCE).replace(tzinfo=None)
    for name in ("transaction_date", "refund_date"):
        for value in _values(one.records, name):
            if value.replace(tzinfo=None) > latest:
                seen = f"{name} {value:%Y-%m-%d %H:%M:%S} lies in the future by utc_offset_hours"
                advice = QUESTIONS["dialect"]["utc_offset_hours"]
                yield "utc_offset_hours", _wrong("", seen, advice)


def _values(records: tuple[Any, ...], name: str) -> set[Any]:
    """Return the values that records have of a field."""
    return {value for one in records if (value := getattr(one, name, None)) not in (None, "")}


def _shown(record: Any) -> str:  # noqa: ANN401  # a record of any look-up
    """Show a record: what names and counts it; of what may be personal, the names alone."""
    filled = {
        field.name: value
        for field in attrs.fields(type(record))
        if field.name not in ("extra", "unreadable")
        and (value := getattr(record, field.name)) not in (None, "", ())
    }
    shown = ", ".join(f"{name} {filled[name]}" for name in _SHOWN if name in filled)
    rest = ", ".join(sorted(filled.keys() - set(_SHOWN)))
    return _printable(f"{shown}; also filled: {rest}" if rest else shown)


def excerpt(body: bytes, signature: str) -> str:
    """Return the beginning of a body as one line, without signature, tags and card numbers."""
    text = body[:65_536].decode("utf-8", errors="replace")
    if signature:
        text = text.replace(signature, "***")
    title = _TITLE.search(text)
    return masked(title[1] if title and title[1].strip() else _TAG.sub(" ", text))


def masked(text: str) -> str:
    """Return the beginning of a text as one line, with anything like a card number masked."""
    hidden = _CARD_LIKE.sub(lambda found: mask_card(re.sub("[ -]", "", found[0])), text)
    return " ".join(_printable(hidden).split())[:_LONGEST_EXCERPT]


def _printable(text: str) -> str:
    """Take from a text what could control a terminal."""
    return "".join(one if one.isprintable() else " " for one in text)

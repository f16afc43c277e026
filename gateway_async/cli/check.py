"""`check`: look whether the gateway can be reached and is understood, before money moves.

It sends look-ups alone. What the interface does not show is not guessed: such a finding has what
was seen, what it may mean, and the question to ask.
"""

import contextlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.resources import files
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import attrs

from gateway_async.cli import options
from gateway_async.cli.console import Exit, explained, output, print_json
from gateway_async.cli.files import STDIO, out_file, to_text
from gateway_async.cli.settings import Network, Settings, default_journal, to_toml
from gateway_async.client import GatewayClient
from gateway_async.dialect import Dialect
from gateway_async.errors import (
    CertificateError,
    ConfigurationError,
    GatewayError,
    NotSentError,
    RejectedError,
)
from gateway_async.journal.engines import locate
from gateway_async.models.orders import OrderRef, OutcomeStatus
from gateway_async.operations import OPERATIONS
from gateway_async.outcomes import Outcome
from gateway_async.payments import recent_request
from gateway_async.settings import checked_proxy, is_loopback
from gateway_async.signing import Credentials, HmacSigner
from gateway_async.transport import SendTracker

_TEXTS: Mapping[str, Any] = tomllib.loads(
    files(__package__).joinpath("check.toml").read_text(encoding="utf-8")
)
QUESTIONS: Mapping[str, Mapping[str, str]] = _TEXTS["questions"]
"""By TOML table and field, the question that the interface leaves open; the class has the default.

A test holds the fields of `Dialect` and `HmacSigner` against it.
"""
_PLAIN, _OTHER_TABLES = ("rate", "journal"), ("retry", "policy", "reconcile")
"""Settings and tables without a question."""
_ADVICE: Mapping[str, Mapping[str, str]] = _TEXTS["advice"]
"""By line and status, what to do; of an order, by what its look-ups show."""

OK, ASK, WRONG, UNKNOWN, SKIPPED = "ok", "ask", "wrong", "unknown", "skipped"
"""What a line comes to; the reference page of the command line has what each means."""
_SHOWN = (
    *("order_no", "transaction_id", "reference_no", "amount", "currency", "payment_status"),
    *("query_result", "transaction_date", "is3ds", "refund_amount", "refund_status"),
    *("refund_reference", "refund_reference_id", "refund_date", "refund_processing_date"),
)
"""Fields of a record that are shown; all others may be personal."""
_OWN = "registered address"
_LOOK_UPS = ("query", "search_refunds")
_QUERY, _REFUNDS = (OPERATIONS[name].path for name in _LOOK_UPS)
_CLOCK_TOLERANCE_SECONDS = 30
_REFUSALS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)

# The command


async def check(
    *,
    order_no: str | None = None,
    transaction_id: str | None = None,
    write: options.Target = None,
    json: bool = False,
    given: options.Gateway = options.Gateway(),
    console: options.Shown,
) -> int:
    """Look whether the gateway can be reached and is understood. It never moves money.

    Example: `gateway-async check --order-no A-1 --write config.toml`

    It makes both look-ups, and prints what it saw and what to do: address, TLS, proxy, reply, time,
    signature, credentials, registered address.

    Exit codes: 0, all works; 1, something was refused, or does not fit the settings; 2, the
    command or a setting is wrong; 3, no reply came that can be read.

    Args:
        order_no: An order that the gateway knows: shows how it and its refunds look, and whether
            the fields of the dialect that matter for it fit.
        transaction_id: The same, by the gateway's identifier.
        write: The new file for a config.toml in which each open question of the interface stands
            with its default; - prints it, and the findings go to standard error.
        json: Print one JSON object: exit_code and findings.
    """
    settings = given.settings()
    credentials = settings.credentials(os.environ)
    with explained(f"--write: cannot write {write}"):
        if write is not None and write.exists():
            raise ConfigurationError(f"--write: {write} exists; name a new file")
    if write == STDIO and json:
        raise ConfigurationError("--write: not -, since --json has standard output for itself")
    named = {"order_no": order_no, "transaction_id": transaction_id}
    refs = [OrderRef(**{name: value}) for name, value in named.items() if value is not None]
    with contextlib.nullcontext() if write is None else out_file(write) as file:
        console.has_begun = True
        findings = await look(settings, credentials, refs)
        if file is not None:
            file.write(write_config(settings))
    statuses = {one.status for one in findings}
    tell = console.say if write == STDIO else output
    code = Exit.UNSETTLED if UNKNOWN in statuses else int(WRONG in statuses)
    if json:
        print_json({"exit_code": code, "findings": [attrs.asdict(one) for one in findings]})
    for one in () if json else findings:
        if console.is_quiet and one.status == OK:
            continue
        tell(f"{one.status:<8} {one.check}: {one.seen}")
        if one.advice:
            tell(f"         -> {one.advice}")
    if write not in (None, STDIO):
        console.note(f"{write} has these settings and the open questions; use it by --config")
    return code


@attrs.frozen
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
    status: str
    seen: str
    advice: str = ""
    fields: tuple[str, ...] = ()


# The way to the gateway


@attrs.define
class Answer:
    """The answer to a look-up that asks for no order in particular.

    Attributes:
        http_status: Its HTTP status; None where no reply came.
        ahead: How far its `Date` is ahead of this machine's clock; None without one.
        error: Why it does not count as answered; None if it does.
    """

    http_status: int | None = None
    ahead: timedelta | None = None
    error: GatewayError | None = None

    @property
    def is_judged(self) -> bool:
        """Whether it is a reply to a look-up, which was accepted, or refused by a return_status."""
        return self.error is None or isinstance(self.error, RejectedError)

    @property
    def is_refused(self) -> bool:
        """Whether the gateway, or something before it, answered no."""
        return self.error is not None and (self.is_judged or self.http_status in _REFUSALS)

    def blame(self, place: str) -> tuple[str, str]:
        """Return what it comes to where it does not count, and what was seen."""
        but = "HTTP 200, but " * (self.http_status == HTTPStatus.OK)
        return WRONG if self.is_refused else UNKNOWN, f"{place}: {but}{self.error}"


async def look(settings: Settings, credentials: Credentials, refs: list[OrderRef]) -> list[Finding]:
    """Go the way to the gateway, and look orders up; return a finding for each step."""
    proxy, _ = checked_proxy(
        settings.proxy,
        base_url=settings.address,
        trust_env=settings.trust_env,
        allow_http=settings.allow_http,
    )
    found, orders = dict[str, Finding](), list[Finding]()
    async with settings.client(credentials) as client:
        query, refunds = [await _ask(name, client) for name in _LOOK_UPS]
        for check, holds, status, seen in _judge(query, refunds, settings, credentials, proxy):
            if holds:  # the first row that does counts
                advice = _ADVICE.get(check, {}).get(status, "")
                found.setdefault(check, Finding(check, status, seen, advice))
        for ref, name in product(refs, _LOOK_UPS) if query.error is None else ():
            result = await client.batch(name, [ref])
            strangers = result.unexpected.count
            orders += describe_order(name, result[0], settings.dialect, strangers=strangers)
    return [*found.values(), *orders]


async def _ask(name: str, client: GatewayClient) -> Answer:
    """Make a look-up that asks for no order, once, and keep how it was answered."""
    session = client._session  # noqa: SLF001  # no method of a client gives a reply as it came
    request, answer = recent_request(OPERATIONS[name], session), Answer()
    message, seconds = session.compose(request), session.timeouts.total_seconds
    try:
        response = await session.transport.send(message, tracker=SendTracker(), seconds=seconds)
        answer.http_status = response.status
        with contextlib.suppress(ValueError, TypeError):  # no date, or one without a zone
            date = parsedate_to_datetime(response.headers.get("Date", ""))
            answer.ahead = date - datetime.now(UTC)
        session.decode(request, response, message.signature)
    except GatewayError as error:
        answer.error = error
    return answer


def _judge(
    query: Answer, refunds: Answer, settings: Settings, credentials: Credentials, proxy: str | None
) -> Iterator[tuple[str, bool, str, str]]:
    """Yield what was checked, whether this is how it is, what it then comes to, and what was seen.

    Of each check, the first row that holds counts.
    """
    error, address, status = query.error, settings.address, query.http_status
    is_untrusted = isinstance(error, CertificateError)
    is_unsent = isinstance(error, NotSentError | ConfigurationError)
    is_lost, is_plain = is_unsent and not is_untrusted, address.startswith("http:")
    hosts = [urlsplit(one).hostname or "" for one in (address, proxy) if one]
    is_open = not all(map(is_loopback, hosts))
    reached = f"{urlsplit(proxy or address).netloc} was reached"
    is_barred = status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
    yield "address", not is_lost or proxy is not None, OK, reached
    yield "address", True, UNKNOWN, str(error)
    yield "proxy", proxy is None, OK, "none is set"
    yield "proxy", is_barred, UNKNOWN, f"{proxy} lets this user not through (HTTP 407)"
    yield "proxy", is_lost, UNKNOWN, f"{proxy}: {error}"
    yield "proxy", True, OK, f"requests go through {proxy}"
    yield "tls", is_plain and is_open, WRONG, "plain HTTP can be read and changed"
    yield "tls", is_plain, OK, "plain HTTP, which does not leave this machine"
    yield "tls", is_untrusted, UNKNOWN, str(error)
    yield "tls", not is_lost, OK, "the certificate of the gateway is valid"
    yield "tls", True, SKIPPED, "there is no connection"
    yield "reply", is_unsent, SKIPPED, "there is no connection"
    yield "reply", status is None, UNKNOWN, f"no reply to {_QUERY}: {error}"
    yield "reply", not query.is_judged, *query.blame(_QUERY)
    is_half = error is None and refunds.error is not None
    yield "reply", is_half, *refunds.blame(f"{_QUERY} is answered, {_REFUNDS}")
    yield "reply", True, OK, f"{_QUERY} answered HTTP {status} with JSON"
    ahead = query.ahead if query.ahead is not None else refunds.ahead
    yield "time", ahead is None, SKIPPED, "no reply with a Date header came"
    seconds = (ahead or timedelta()).total_seconds()
    is_right = abs(seconds) <= _CLOCK_TOLERANCE_SECONDS
    off = f"the gateway's clock is {round(seconds):+,} s off this machine's"
    yield "time", True, OK if is_right else WRONG, off
    read = [one for one in (query, refunds) if one.is_judged]
    is_accepted = any(one.error is None for one in read)
    who = f"merchant_id {credentials.merchant_id!r} and account_id {credentials.account_id!r}"
    accepted = "a request with it was accepted, if the gateway checks that of look-ups"
    for check in ("signature", "credentials"):
        yield check, not read, SKIPPED, "no reply came that could accept or refuse it"
    yield "signature", is_accepted, OK, accepted
    yield "signature", True, WRONG, str(read[0].error) if read else ""
    yield "credentials", is_accepted, OK, f"{who}: accepted"
    yield "credentials", True, ASK, f"{who}: refused together with the signature"
    both = "both look-ups are refused, as they are with a wrong signature too"
    yield _OWN, error is None, OK, f"{_QUERY} is answered"
    yield _OWN, not query.is_refused, SKIPPED, f"no reply of {_QUERY} that can be read came"
    yield _OWN, not refunds.error, WRONG, f"{_QUERY} is refused, and {_REFUNDS} is answered"
    yield _OWN, True, ASK, both


# Records


def describe_order(
    operation: str, outcome: Outcome[Any, Any], dialect: Dialect, *, strangers: int = 0
) -> Iterator[Finding]:
    """Find how the gateway describes one order, and whether the dialect fits that.

    Args:
        operation: `query` or `search_refunds`.
        outcome: The outcome of the look-up.
        dialect: The dialect.
        strangers: How many records of other orders the reply has.
    """
    named = [f"{k} {v!r}" for k, v in attrs.asdict(outcome.order).items() if v is not None]
    check, records = f"{operation} of {' '.join(named)}", tuple(outcome.record or ())
    advice = _ADVICE["order"]
    if outcome.status is OutcomeStatus.ABSENT and operation == "search_refunds":
        yield Finding(check, OK, "no refund is listed")
    elif outcome.status is OutcomeStatus.ABSENT:
        yield Finding(check, WRONG, "the gateway answered without it", advice["absent"])
    elif outcome.status is not OutcomeStatus.SUCCEEDED:
        seen = f"{outcome.status}: {outcome.error}"
        yield Finding(check, UNKNOWN, seen, advice["unknown"])
    if strangers:
        seen, field = f"the reply lists others, too: {strangers:,}", "selection_fields"
        yield Finding(check, WRONG, seen, QUESTIONS["dialect"][field], (field,))
    for record in records:
        texts = ((name, to_text(getattr(record, name, None))) for name in _SHOWN)
        yield Finding(check, OK, ", ".join(f"{name} {text}" for name, text in texts if text))
    for status, seen, field in dict.fromkeys(_fits(records, dialect)):
        question = "" if status == OK else QUESTIONS["dialect"][field]
        yield Finding(check, status, seen, question, (field,))
    if unread := ", ".join(sorted({name for record in records for name in record.unreadable})):
        yield Finding(check, WRONG, f"cannot be read: {unread}", advice["unreadable"])
    references = [one.refund_reference_id for one in records if hasattr(one, "refund_reference_id")]
    if not all(references) or len(set(references)) < len(references):
        seen = "its refunds do not each have a refund_reference_id of their own"
        yield Finding(check, WRONG, seen, advice["references"])


_STATUS_FIELDS = (
    ("payment_status", ASK, ("payment_states",)),
    ("query_result", WRONG, ("absent_query_results", "found_query_results")),
    ("refund_status", ASK, ("declined_statuses", "done_statuses", "pending_statuses")),
)
"""Of records: a status, what an unlisted value comes to, and the fields of the dialect for it."""


def _fits(records: tuple[Any, ...], dialect: Dialect) -> Iterator[tuple[str, str, str]]:
    """Compare records with the dialect; give status, what was seen, and the field."""
    for name, unlisted, fields in _STATUS_FIELDS:
        for value in sorted({value for one in records if (value := getattr(one, name, None))}):
            listing = [field for field in fields if value in getattr(dialect, field)]
            (field, *_), is_listed = listing or fields, "is" if listing else "is not"
            seen = f"{name} {value!r} {is_listed} in Dialect.{field}"
            yield OK if listing else unlisted, seen, field
    for record, name in product(records, ("amount", "refund_amount")):
        amount, currency = getattr(record, name, None), record.currency or "no currency"
        if amount is not None and amount.is_finite():
            places, ours = max(0, -int(amount.as_tuple().exponent)), dialect.places(currency)
            status = OK if places == ours else WRONG if places > ours else ASK
            seen = f"{name} in {currency} has {places} decimal places; requests have {ours}"
            yield status, f"{seen} (Dialect.currency_places)", "currency_places"


# The file


def write_config(settings: Settings) -> str:
    """Write the settings as TOML, with each open question beside what counts now.

    A default is a comment. What may hold a password is left out: such a journal, and such a proxy.
    """
    lines = [_TEXTS["config"]["head"]]
    journal, unwritten = settings.journal, {None, False, "", default_journal(os.environ)}
    unwritten |= {settings.proxy} if "@" in (settings.proxy or "") else set()
    unwritten |= {journal} if journal and journal != locate(journal).shown else set()
    given = {name: getattr(settings, name) for name in (*attrs.fields_dict(Network), *_PLAIN)}
    lines += [f"{name} = {to_toml(one)}" for name, one in given.items() if one not in unwritten]
    for table in (*QUESTIONS, *_OTHER_TABLES):
        own, questions = getattr(settings, table), QUESTIONS.get(table, {})
        default = HmacSigner("-") if table == "signer" else type(own)()
        usual = attrs.asdict(default, recurse=False)
        answers = own if table == "signer" else attrs.asdict(own, recurse=False)
        lines += ["", f"[{table}]"]
        for name, value in {**usual, **answers}.items():
            is_usual = name in usual and value == usual[name]
            lines += [f"# {questions[name]}"] if name in questions else []
            if name in questions or not is_usual:
                lines.append(f"{'# ' * is_usual}{name} = {to_toml(value)}")
    return "\n".join([*lines, ""])

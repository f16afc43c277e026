"""`check`: look whether the gateway can be reached and is understood, before money moves."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import attrs
from cyclopts import Parameter

from gateway_async.cli.check import (
    Answer,
    Certificate,
    Connection,
    Finding,
    LookedUp,
    Observed,
    excerpt,
    exit_code,
    find,
    masked,
)
from gateway_async.cli.options import GatewayOptions
from gateway_async.cli.questions import differing, write_config
from gateway_async.cli.run import RefusedError, guarded, make_client
from gateway_async.cli.talk import Talk, standard_output
from gateway_async.client import DEFAULT_MAX_REPLY_BYTES
from gateway_async.errors import ConfigurationError, GatewayError, ReplyUnreadableError
from gateway_async.models.orders import OrderRef
from gateway_async.operations import OPERATIONS
from gateway_async.payments import recent_request
from gateway_async.session import HTTP_OK, Session
from gateway_async.settings import checked_proxy
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.telemetry import Instrumentation
from gateway_async.transport import AiohttpTransport, ConnectionOptions, SendTracker
from gateway_async.wire.decode import decode_json, identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway_async.cli.settings import Settings
    from gateway_async.signing import Credentials

_LOOK_UPS = ("query", "search_refunds")
_PORTS = {"http": 80, "https": 443}
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_OWN_MODE = 0o600
_Flag = Parameter(negative="", show_default=False)


def check(  # noqa: PLR0913  # one keyword an option
    *,
    order_no: str | None = None,
    transaction_id: str | None = None,
    write: Path | None = None,
    yes: Annotated[bool, _Flag] = False,
    json: Annotated[bool, _Flag] = False,
    gateway: GatewayOptions | None = None,
) -> int:
    """Look whether the gateway can be reached and is understood. It never moves money.

    It connects, makes both look-ups, and prints what it saw and what to do: address, connection,
    TLS, proxy, reply, time, credentials, signature, registered address. Then it prints a
    config.toml in which each open question of the interface stands with its default.

    Example: gateway-async check --order-no A-1 --write config.toml

    Exit codes: 0, all works; 1, something was refused, or does not fit the settings; 2, the
    command or a setting is wrong; 3, no reply came that can be read.

    Args:
        order_no: An order that the gateway knows: shows how it and its refunds look, and which
            fields of the dialect do not fit.
        transaction_id: The same, by the gateway's identifier.
        write: The file for the config.toml, in place of printing it; only you can read it.
        yes: Do not ask before that file is replaced.
        json: Print one JSON object: exit_code, findings and config.
    """
    who = gateway or GatewayOptions()
    talk = who.talk()
    given = {"order_no": order_no, "transaction_id": transaction_id}

    def work() -> int:
        settings = who.settings(os.environ)
        credentials = settings.credentials(os.environ, talk.warn)
        refs = [OrderRef(**{name: value}) for name, value in given.items() if value is not None]
        if write is not None:
            _allow(write, talk, yes=yes)
        findings = find(asyncio.run(_observe(settings, credentials, refs)), settings.dialect)
        config = _config(settings)
        if write is not None:
            _write(write, config)
        _show(findings, config, is_json=json, is_written=write is not None)
        if write is not None:
            talk.tell("written", f"{write} is written", path=write)
        return exit_code(findings)

    return guarded(talk, work)


def _show(findings: list[Finding], config: str, *, is_json: bool, is_written: bool) -> None:
    if is_json:
        shown = {
            "exit_code": exit_code(findings),
            "findings": [attrs.asdict(one) for one in findings],
            "config": config,
        }
        sys.stdout.write(json.dumps(shown, indent=2) + "\n")
        return
    out = partial(standard_output().print, soft_wrap=True)
    for one in findings:
        out(f"{one.status:<8} {one.check}: {one.seen}")
        if one.advice:
            out(f"         -> {one.advice}")
    if not is_written:
        out(f"\n{config}", end="")


async def _observe(
    settings: "Settings", credentials: "Credentials", refs: list[OrderRef]
) -> Observed:
    """Go the way to the gateway step by step, and note what is seen; nothing is judged here."""
    base_url = settings.base_url
    proxy, authorization = checked_proxy(
        settings.proxy,
        base_url=base_url,
        trust_env=settings.trust_env,
        allow_http=settings.allow_http,
    )
    options = ConnectionOptions(
        limit=1, ssl=settings.ssl_context(), proxy=proxy, proxy_authorization=authorization
    )
    connection = await _connect(settings, options)
    answers: dict[str, Answer] = {}
    looked_up: list[LookedUp] = []
    if connection.local_address:
        answers = {name: await _ask(name, settings, credentials, options) for name in _LOOK_UPS}
        if refs and answers["query"].error is None:
            now = answers["query"].dated or answers["query"].received_at
            looked_up = await _look_up(refs, settings, credentials, now)
    return Observed(
        base_url=base_url,
        merchant_id=credentials.merchant_id,
        account_id=credentials.account_id,
        is_loopback=_is_loopback(connection) and proxy is None,
        proxy=proxy,
        has_unused_proxy=proxy is None and any(os.environ.get(name) for name in _PROXIES),
        verifies=getattr(credentials.signer, "verify", None) is not None,
        connection=connection,
        answers=answers,
        looked_up=tuple(looked_up),
    )


async def _connect(settings: "Settings", options: ConnectionOptions) -> Connection:
    """Connect to the gateway, or to the proxy before it, and close again."""
    parts = urlsplit(options.proxy or settings.base_url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    seconds = settings.timeouts.connect_seconds
    seen = Connection(host=host, port=port)
    try:
        async with asyncio.timeout(seconds):
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = tuple(dict.fromkeys(str(one[4][0]) for one in found))
            seen = attrs.evolve(seen, addresses=addresses)
            _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return attrs.evolve(seen, problem=_reason(error, seconds))
    try:
        seen = attrs.evolve(seen, local_address=writer.get_extra_info("sockname")[0])
        if parts.scheme == "https" and options.proxy is None:
            context = options.ssl or ssl.create_default_context()
            async with asyncio.timeout(seconds):
                await writer.start_tls(context, server_hostname=host)
            seen = attrs.evolve(seen, certificate=_certificate(writer.get_extra_info("ssl_object")))
    except OSError as error:
        seen = attrs.evolve(seen, problem=_reason(error, seconds))
    finally:
        writer.transport.abort()
    return seen


def _reason(error: OSError, seconds: float) -> str:
    """Give the reason of a failure in words, without the names of a library."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {error.reason or error}"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there: the connection was refused"
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    return error.strerror or f"{type(error).__name__}: {error}"


def _certificate(connection: ssl.SSLObject) -> Certificate | None:
    found = connection.getpeercert()
    if not found:
        return None
    issuer = {str(part[0]): str(part[1]) for row in found.get("issuer", ()) for part in row}
    names = (issuer.get("organizationName"), issuer.get("commonName"))
    expires = ssl.cert_time_to_seconds(str(found["notAfter"]))
    return Certificate(
        version=connection.version() or "TLS",
        issuer=masked(next((name for name in names if name), "an issuer without a name")),
        expires_at=datetime.fromtimestamp(expires, UTC),
    )


def _is_loopback(connection: Connection) -> bool:
    return bool(connection.addresses) and all(
        ip_address(one.partition("%")[0]).is_loopback for one in connection.addresses
    )


async def _ask(
    name: str, settings: "Settings", credentials: "Credentials", options: ConnectionOptions
) -> Answer:
    """Make a look-up that asks for no order, once, over a connection of its own."""
    transport = AiohttpTransport(
        settings.base_url,
        timeouts=settings.timeouts,
        max_reply_bytes=DEFAULT_MAX_REPLY_BYTES,
        options=options,
        session=None,
    )
    session = Session(
        transport=transport,
        credentials=credentials,
        dialect=settings.dialect,
        timeouts=settings.timeouts,
        retry=settings.retry,
        limiter=None,
        observer=Instrumentation(None, settings.base_url),
    )
    request = recent_request(OPERATIONS[name], session)
    message = session.compose(request)
    sent_at, failure = datetime.now(UTC), None
    try:
        response = await transport.send(
            message, tracker=SendTracker(), seconds=settings.timeouts.total_seconds
        )
    except GatewayError as error:
        failure = error
    finally:
        await transport.aclose()
    received_at = datetime.now(UTC)
    if failure is not None:
        return Answer(sent_at=sent_at, received_at=received_at, error=failure)
    payload: Mapping[str, Any] | None = None
    with contextlib.suppress(ReplyUnreadableError):
        payload = decode_json(response.body)
    try:
        session.decode(request, response, message.signature)
    except GatewayError as error:
        failure = error
    is_json = payload is not None
    payload = payload or {}
    records = payload.get(OPERATIONS[name].list_field or "")
    return Answer(
        sent_at=sent_at,
        received_at=received_at,
        http_status=response.status,
        dated=_date(response.headers.get("Date", "")),
        media_type=masked(response.headers.get("Content-Type", "")),
        excerpt=""
        if is_json and response.status == HTTP_OK
        else excerpt(response.body, message.signature),
        return_status=identifier(payload.get("return_status")),
        return_message=masked(identifier(payload.get("return_message")) or ""),
        records=len(records) if isinstance(records, list) else 0,
        is_signed=bool(payload.get(SIGNATURE_FIELD)),
        is_json=is_json,
        error=failure,
    )


def _date(text: str) -> datetime | None:
    """Read a Date header, which is in UTC even where it does not name it."""
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC)


async def _look_up(
    refs: list[OrderRef], settings: "Settings", credentials: "Credentials", now: datetime
) -> list[LookedUp]:
    """Look orders and their refunds up, each by a request of its own."""
    found = []
    async with make_client(settings, credentials) as gateway:
        for ref in refs:
            for name in _LOOK_UPS:
                (outcome,) = await gateway.batch(name, [ref])
                given = [f"{k} {v!r}" for k, v in attrs.asdict(ref).items() if v is not None]
                found.append(
                    LookedUp(
                        operation=name,
                        reference=" ".join(given),
                        status=outcome.status,
                        error=outcome.error,
                        records=tuple(outcome.record or ()),
                        looked_at=now,
                    )
                )
    return found


def _config(settings: "Settings") -> str:
    """Write the settings of this command, without any secret, and the open questions."""
    values: dict[str, object] = {
        **settings.who,
        "keyring": settings.keyring,
        "rate": settings.rate,
        "allow_http": settings.allow_http or None,
        "trust_env": settings.trust_env or None,
        "proxy": None if settings.proxy is None or "@" in settings.proxy else settings.proxy,
        **{
            name: str(path.absolute())
            for name in ("secret_file", "ca_file", "client_cert", "client_key")
            if (path := getattr(settings, name)) is not None
        },
    }
    recovery = differing(settings.recovery)
    if recovery.get("record_baseline"):  # the command line's own default
        del recovery["record_baseline"]
    return write_config(
        {name: value for name, value in values.items() if value is not None},
        {
            "timeouts": differing(settings.timeouts),
            "recovery": recovery,
            "signer": settings.signer,
            "dialect": differing(settings.dialect),
            "policy": differing(settings.policy),
            "retry": differing(settings.retry),
            "reconcile": differing(settings.reconcile),
        },
    )


def _allow(path: Path, talk: Talk, *, yes: bool) -> None:
    """Ask before a file is replaced.

    Raises:
        RefusedError: If the answer is no, or there is no terminal to ask at.
    """
    if yes or not path.exists():
        return
    if not talk.can_ask:
        raise RefusedError(f"--write: {path} exists; give --yes to replace it, or another name")
    try:
        talk.console.print(f"{path} exists. Replace it? [y/N] ", end="")
        answer = input()
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise RefusedError(f"--write: {path} was left as it is")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123  # a descriptor
            file.write(text)
        Path(name).chmod(_OWN_MODE)
        Path(name).replace(path)
    except OSError as error:
        raise ConfigurationError(f"--write: cannot write {path}: {error.strerror}") from None

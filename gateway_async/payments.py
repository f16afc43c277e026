"""The single calls: payments, payouts, pages of recent records, and any other signed call.

Each is written from its model, and its reply is read and compared with what was sent. It is made in
a task of its own: what may have been sent is not given up before the drain time is over, even where
the caller is cancelled; then the outcome hangs on the original `CancelledError`, as `outcome`.
"""

import asyncio
import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import attrs

from gateway_async.batching.judge import Judge, listed_items
from gateway_async.errors import (
    ConfigurationError,
    InvalidOrderError,
    RejectedError,
    ReplyUnreadableError,
    hide_given,
)
from gateway_async.models.records import Page
from gateway_async.models.values import (
    SHORTEST_CARD,
    SignatureText,
    Unpicklable,
    mask_card,
    plain_text,
    to_number,
    to_text,
)
from gateway_async.operations import (
    ADDED_FIELDS,
    BodyFormat,
    Operation,
    OperationClass,
    ReplyFormat,
)
from gateway_async.session import CALL_CANCELLED, Attempts, Gate, Request, wait_out
from gateway_async.settings import FLAG, choose, expect
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.telemetry import RequestSpan
from gateway_async.transport import HttpResponse
from gateway_async.wire.decode import (
    NO_DIGITS,
    decode_json,
    decode_page,
    decode_respon,
    message,
    signed_parts,
)
from gateway_async.wire.encode import JsonText, encode_fields
from gateway_async.wire.records import read_page, read_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.session import Session

T = TypeVar("T")

_BETWEEN_DIGITS = "[^0-9]{0,20}"
_PATH = re.compile(r"/(?!/)(?:(?![?#\\])[!-~])*")
"""A path, without query or fragment; two slashes would begin a host."""


@attrs.frozen(kw_only=True)
class Reply(Unpicklable):
    """The reply to `GatewayClient.call`; it may repeat the signature, and is not pickled.

    Attributes:
        status: The HTTP status; always 200, since others are errors.
        headers: The headers, names in any case.
        data: A dict for JSON and XML, in which a signature shows as `***`; else the text, as it
            came.
    """

    status: int
    headers: "Mapping[str, str]" = attrs.field(repr=False)
    data: Any = attrs.field(repr=False)


def payment_request(operation: Operation, sent: object, session: "Session") -> Request[Any]:
    """Write a payment or payout (section 4, rows 1 to 3 and 10); the result is held against it.

    Raises:
        InvalidOrderError: For anything but what the operation takes, and for an amount with more
            decimal places than its currency has.
    """
    wanted = operation.order_class
    if not isinstance(sent, wanted):
        raise InvalidOrderError(f"expected {wanted.__name__}, got {type(sent).__name__}")
    dialect = session.dialect
    judge = Judge(operation, dialect)

    def read(raw: HttpResponse) -> object:
        if operation.reply is ReplyFormat.PAGE:
            return decode_page(raw.body)
        decode = decode_respon if operation.reply is ReplyFormat.XML else decode_json
        result = decode(raw.body)
        card = plain_text(getattr(sent, "card", None) or "")
        # A shorter number may be a part of anything.
        if len(card) >= SHORTEST_CARD and _may_hold(raw.body, card):
            pattern = re.compile(_BETWEEN_DIGITS.join(card))
            result = _without_card(result, pattern, mask_card(card))
        session.check_owner(result)
        problem = judge.find_missing_result(result)
        if problem is not None:
            raise problem
        contradiction = judge.find_contradiction(result, sent)
        if contradiction is not None:
            raise ReplyUnreadableError(contradiction)
        return read_record(operation.record_class, result)

    def find_refusal(result: Any) -> RejectedError | None:  # noqa: ANN401  # what `read` returns
        status, reason = result.status, result.failure_reason
        is_done = status in dialect.payout_done_statuses and not reason
        if is_done or status in dialect.pending_statuses:
            return None
        said = f"the gateway answered status {status!r}, {reason!r}"
        return RejectedError(said, code=status, text=reason or "")

    return Request(
        operation=operation,
        fields=encode_fields(sent, dialect),
        decode=read,
        find_refusal=find_refusal if operation.is_keyed else None,
        is_verbatim=operation.reply is ReplyFormat.PAGE,
    )


def _may_hold(body: bytes, card: str) -> bool:
    """Return False if no text of a reply in XML holds a card number, however it is grouped."""
    # References, comments and instructions of XML may join digits, or stand for some. The
    # declaration at the beginning, which is left out, does not.
    rest = body[1:]
    is_written = b"&" in rest or b"<!" in rest or b"<?" in rest
    return is_written or card.encode() in body.translate(None, NO_DIGITS)


def _without_card(value: Any, card: "re.Pattern[str]", mask: str) -> Any:  # noqa: ANN401  # as XML is read
    """Mask the card number of a payment in the texts of its reply, however it is grouped."""
    if isinstance(value, Mapping):
        items = value.items()
        return {_without_card(n, card, mask): _without_card(one, card, mask) for n, one in items}
    if isinstance(value, list):
        return [_without_card(one, card, mask) for one in value]
    return card.sub(mask, value)


def recent_request(operation: "Operation", session: "Session") -> Request[Page[Any]]:
    """Write a look-up that asks for no order in particular: the interface's sample call."""

    def read(raw: HttpResponse) -> Page[Any]:
        payload = decode_json(raw.body)
        session.check_owner(payload)
        code = message(payload.get("return_status")) or ""
        text = message(payload.get("return_message")) or ""
        if code not in session.dialect.done_return_statuses:
            if not code:
                raise ReplyUnreadableError(
                    f"the reply has no readable return_status; return_message {text!r}"
                )
            raise RejectedError(
                f"the gateway refused the look-up: return_status {code!r}, return_message {text!r}",
                code=code,
                text=text,
            )
        listed = listed_items(operation, payload)
        if listed is None:
            raise ReplyUnreadableError("the reply has no list of records")
        return read_page(operation.record_class, payload, operation.list_field, listed)

    return Request(operation=operation, fields={}, decode=read)


@hide_given
def custom_request(
    path: str, fields: "Mapping[str, object]", *, body: str, reply: str, repeatable: bool
) -> Request[Reply]:
    """Write a request of an operation whose shape the interface does not show.

    Raises:
        ConfigurationError: For a wrong path, an unknown body or reply format, or a field that is
            neither text, a whole number, a `Decimal` nor JSON.
    """
    is_path = isinstance(path, str) and _PATH.fullmatch(path)  # type: ignore[redundant-expr]  # anything may be given
    if not is_path or {".", ".."} & {*unquote(path).split("/")}:
        raise ConfigurationError(
            f"path: expected a path such as '/v1/subscription/cancel', got {path!r}"
        )
    expect("repeatable", repeatable, FLAG)
    body_format, read_body = choose("body", body, _BODIES), choose("reply", reply, _READERS)
    expect("fields", fields, Mapping)
    kind = OperationClass.READ if repeatable else OperationClass.MONEY

    def read(raw: HttpResponse) -> Reply:
        data = read_body(raw.body)
        for part in signed_parts(data):
            found = part[SIGNATURE_FIELD]  # what is no text signs nothing
            part[SIGNATURE_FIELD] = SignatureText(found if isinstance(found, str) else "")
        return Reply(status=raw.status, headers=raw.headers, data=data)

    return Request(
        operation=Operation(name="call", path=path, kind=kind, body=body_format),
        fields=dict(_text_field(name, value) for name, value in fields.items()),
        decode=read,
        is_verbatim=reply == "text",
    )


_BODIES = {"form": BodyFormat.FORM, "json": BodyFormat.JSON}
_READERS: "dict[str, Callable[[bytes], Any]]" = {
    "json": decode_json,
    "xml": decode_respon,
    "text": lambda body: body.decode(errors="replace"),
}


def _text_field(name: object, value: object) -> tuple[str, str]:
    """Write one field of a custom request as text, with its name."""
    if not isinstance(name, str) or not name or name in ADDED_FIELDS:
        raise ConfigurationError(
            f"fields: {name!r} cannot be the name of a field: a name is a non-empty str, and the "
            "client itself adds merchant_id, account_id and encryption_data"
        )
    try:
        if isinstance(value, str):
            return to_text(name), to_text(value)
        if isinstance(value, Decimal):
            return to_text(name), format(to_number(value), "f")
        if isinstance(value, int | dict | list | tuple):
            text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
            return to_text(name), JsonText(to_text(text))
        problem = f"expected str, int, Decimal, dict or list, got {type(value).__name__}"
    except (ValueError, TypeError, RecursionError) as error:
        problem = str(error)
    raise ConfigurationError(f"fields[{name!r}]: {problem}")


async def carry_out(
    session: "Session", request: Request[T], about: object, *, drain_seconds: float
) -> T:
    """Make one request and return its decoded reply.

    Args:
        session: The way to the gateway.
        request: What to send.
        about: The payment or payout that it is about, or None.
        drain_seconds: How long it may still take once the caller is cancelled.

    Raises:
        NotSentError: Nothing was sent.
        OutcomeUnknownError: It may have happened.
        RejectedError: The gateway did nothing, by a status that the dialect lists as that.
        asyncio.CancelledError: Its `outcome` is the result, or an error.
    """
    gate, operation = Gate(), request.operation
    attempts: Attempts[T] = Attempts(session, gate)
    with RequestSpan(session.instrumentation, operation, attempts, None) as span:
        span.begin()
        task = asyncio.create_task(
            attempts.run(lambda: request), name=f"gateway_async {operation.name}"
        )
        cancelled: asyncio.CancelledError | None = None
        try:
            await asyncio.wait({task})  # which is not cancelled with its caller
        except asyncio.CancelledError as error:
            cancelled = error
            gate.stop(CALL_CANCELLED)
            await wait_out([task], 0 if operation.is_look_up else drain_seconds, task.cancel)
        except GeneratorExit:  # it is closed: no caller is left who could wait
            gate.stop(CALL_CANCELLED)
            raise
        failure = None if task.cancelled() else task.exception()
        if cancelled is None and failure is not None and not attempts.sent:
            raise failure  # of a collaborator
        problem = attempts.error
        Judge(operation, session.dialect).explain(problem, about)
        if cancelled is not None:
            cancelled.outcome = problem or attempts.value  # type: ignore[attr-defined]  # a subclass would break asyncio.timeout
            cancelled.add_note(f"gateway_async: {problem or 'a reply came: see `outcome`'}")
            raise cancelled
        if failure is not None and problem is not None:
            raise problem from failure
        if problem is not None:
            raise problem  # with the cause that it has
        return attempts.value  # type: ignore[return-value]  # there is one where there is no error

"""Requests of the operations that take no batch: payments, payouts, pages of recent records.

Each is written from its model, and its reply is read and held against what was sent. What it takes
to send one is not known here.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import unquote

import attrs
import orjson

from gateway_async.batching.matching import find_contradiction, identifier
from gateway_async.errors import ConfigurationError, RejectedError, ReplyUnreadableError
from gateway_async.hiding import hide_given
from gateway_async.models.payments import ApmPayment, DirectPayment, RedirectPayment
from gateway_async.models.payout_results import PayoutResult
from gateway_async.models.payouts import PayoutRequest
from gateway_async.models.records import Page, Record
from gateway_async.models.results import ApmPaymentResult, CheckoutPage, DirectPaymentResult
from gateway_async.models.values import (
    SHORTEST_CARD,
    SensitiveText,
    SignatureText,
    is_encodable,
    mask_card,
)
from gateway_async.operations import (
    CHECKOUT,
    PAY_APM,
    PAY_DIRECT,
    PAYOUT,
    BodyFormat,
    Operation,
    OperationClass,
)
from gateway_async.session import Request
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.texts import plain_text
from gateway_async.wire.converter import read_page, read_record
from gateway_async.wire.decoding import (
    charset_of,
    codec_of,
    decode_json,
    decode_surely,
    without_text,
)
from gateway_async.wire.encoding import JsonText, payment_fields, payout_fields
from gateway_async.wire.pages import decode_page
from gateway_async.wire.respon import decode_respon

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway_async.batching.plans import Plan
    from gateway_async.dialect import Dialect
    from gateway_async.session import Session
    from gateway_async.transport import RawReply

T = TypeVar("T", bound=Record)

_PAYMENT_TELLS = ("transaction_id", "order_status", "result_info", "issuer_url")
_PAYOUT_TELLS = ("transaction_id", "status", "failure_reason", "failure_type")
"""A result has one of these: what only repeats the request says nothing of what became of it."""

_ADDED = frozenset({"merchant_id", "account_id", SIGNATURE_FIELD})


@attrs.frozen(kw_only=True)
class Reply:
    """The reply to `GatewayClient.call`.

    Attributes:
        status: The HTTP status; always 200, since others are errors.
        headers: The headers, names in any case.
        data: A dict for JSON and XML, in which a signature shows as `***`; else the text, as it
            came.
    """

    status: int
    headers: "Mapping[str, str]" = attrs.field(repr=False)
    data: Any = attrs.field(repr=False)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        del protocol
        raise TypeError("Reply may repeat the signature and is not pickled; take from its data")


def direct_request(payment: DirectPayment, session: "Session") -> Request[DirectPaymentResult]:
    """Write a payment by card (section 4, row 1)."""
    _check_type(payment, DirectPayment)
    return Request(
        operation=PAY_DIRECT,
        fields=payment_fields(payment, session.dialect),
        decode=_hide_card(
            payment, _result_reader(PAY_DIRECT, payment, DirectPaymentResult, session)
        ),
    )


def apm_request(payment: ApmPayment, session: "Session") -> Request[ApmPaymentResult]:
    """Write a payment by an alternative payment method (section 4, row 2)."""
    _check_type(payment, ApmPayment)
    return Request(
        operation=PAY_APM,
        fields=payment_fields(payment, session.dialect),
        decode=_result_reader(PAY_APM, payment, ApmPaymentResult, session),
    )


def checkout_request(payment: RedirectPayment, dialect: "Dialect") -> Request[CheckoutPage]:
    """Write a hosted payment (section 4, row 3)."""
    _check_type(payment, RedirectPayment)
    return Request(
        operation=CHECKOUT,
        fields=payment_fields(payment, dialect),
        decode=_read_checkout,
        is_verbatim=True,
    )


def payout_request(request: PayoutRequest, session: "Session") -> Request[PayoutResult]:
    """Write a payout (section 4, row 10)."""
    _check_type(request, PayoutRequest)
    return Request(
        operation=PAYOUT,
        fields=payout_fields(request, session.dialect),
        decode=_result_reader(PAYOUT, request, PayoutResult, session),
    )


def recent_request(plan: "Plan", session: "Session") -> Request[Page[Any]]:
    """Write a look-up that asks for no order in particular: the interface's sample call."""

    def read(raw: "RawReply") -> Page[Any]:
        payload = decode_json(raw.body)
        session.check_owner(payload)
        code = identifier(payload.get("return_status")) or ""
        text = identifier(payload.get("return_message")) or ""
        if code not in session.dialect.done_return_statuses:
            raise RejectedError(
                f"the gateway refused the page: return_status {code!r}, return_message {text!r}",
                code=code,
                text=text,
            )
        return read_page(plan.record_class, payload, plan.operation.list_field or "")

    return Request(operation=plan.operation, fields={}, decode=read)


@hide_given
def custom_request(
    path: str,
    fields: "Mapping[str, object]",
    *,
    body: str,
    reply: str,
    repeatable: bool,
) -> Request[Reply]:
    """Write a request of an operation whose shape the interface does not show.

    Raises:
        ConfigurationError: For a path that is none, or an unknown body or reply format.
        TypeError: For a field that is neither text, a whole number, a `Decimal` nor JSON.
    """
    _check_path(path)
    if not isinstance(fields, Mapping):
        raise ConfigurationError(f"fields: expected a mapping, got {type(fields).__name__}")
    if not isinstance(repeatable, bool):
        raise ConfigurationError(
            f"repeatable: expected True or False, got {repeatable!r} ({type(repeatable).__name__})"
        )
    _check_choice("body", body, _BODIES)
    _check_choice("reply", reply, _READERS)
    kind = OperationClass.READ if repeatable else OperationClass.MONEY
    return Request(
        operation=Operation(name="call", path=path, kind=kind, body=_BODIES[body]),
        fields=dict(_field_text(name, value) for name, value in fields.items()),
        decode=_READERS[reply],
        is_verbatim=reply == "text",
    )


def _result_reader(
    operation: Operation, sent: object, result_class: type[T], session: "Session"
) -> "Callable[[RawReply], T]":
    """Return what reads the result of one payment or payout, and holds it against the request."""
    is_payout = operation is PAYOUT
    decode = decode_surely if is_payout else decode_respon
    tells = _PAYOUT_TELLS if is_payout else _PAYMENT_TELLS

    def read(raw: "RawReply") -> T:
        fields = decode(raw.body)
        session.check_owner(fields)
        if not any(fields.get(name) for name in tells):
            raise _silence(fields, session.dialect)
        contradiction = find_contradiction(operation, fields, sent, session.dialect)
        if contradiction is not None:
            raise ReplyUnreadableError(contradiction)
        return read_record(result_class, fields)

    return read


def _hide_card(
    payment: DirectPayment, read: "Callable[[RawReply], T]"
) -> "Callable[[RawReply], T]":
    """Mask the card number of a payment wherever its reply repeats it, be it within a text."""
    return lambda raw: read(attrs.evolve(raw, body=_without_card(raw.body, payment)))


def _without_card(body: bytes, payment: DirectPayment) -> bytes:
    number = plain_text(payment.card or "")
    if len(number) < SHORTEST_CARD:  # which may be a part of anything
        return body
    return without_text(body, number, mask_card(number))


def _silence(
    fields: "Mapping[str, Any]", dialect: "Dialect"
) -> "RejectedError | ReplyUnreadableError":
    """Make the error of a reply that does not say what became of the payment."""
    code = identifier(fields.get("return_status")) or ""
    text = identifier(fields.get("return_message")) or ""
    said = f"return_status {code!r}, return_message {text!r}"
    if code in dialect.nothing_done_return_statuses:
        return RejectedError(f"the gateway did nothing: {said}", code=code, text=text)
    return ReplyUnreadableError(f"the reply does not say what became of it: {said}")


def _read_checkout(raw: "RawReply") -> CheckoutPage:
    return decode_page(raw.body, charset_of(raw.headers.get("Content-Type", "")))


def _read_fields(
    decode: "Callable[[bytes], dict[str, Any]]",
) -> "Callable[[RawReply], Reply]":
    def read(raw: "RawReply") -> Reply:
        data = decode(raw.body)
        _hide_signatures(data)
        return Reply(status=raw.status, headers=raw.headers, data=data)

    return read


def _hide_signatures(data: dict[str, Any]) -> None:
    """Wrap every signature, however deep: without recursion, since a reply may be deep."""
    left: list[Any] = [data]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if (signature := part.get(SIGNATURE_FIELD)) is not None:
                part[SIGNATURE_FIELD] = SignatureText(
                    signature if isinstance(signature, str) else ""  # what is no text signs nothing
                )
            left += part.values()
        elif isinstance(part, list):
            left += part


def _read_text(raw: "RawReply") -> Reply:
    charset = charset_of(raw.headers.get("Content-Type", "")) or ""
    text = raw.body.decode(codec_of(charset) or "utf-8", errors="replace")
    return Reply(status=raw.status, headers=raw.headers, data=text)


_BODIES = {"form": BodyFormat.FORM, "json": BodyFormat.JSON}
_READERS = {
    "json": _read_fields(decode_json),
    "xml": _read_fields(decode_respon),
    "text": _read_text,
}


def _check_type(value: object, wanted: type) -> None:
    if not isinstance(value, wanted):
        raise TypeError(f"expected {wanted.__name__}, got {type(value).__name__}")


def _check_path(path: object) -> None:
    is_path = (
        isinstance(path, str)
        and path.startswith("/")
        and not path.startswith("//")
        and path.isascii()
        and path.isprintable()
        and not set(path) & set("?#\\ ")
        and not {".", ".."} & set(unquote(path).split("/"))
    )
    if not is_path:
        raise ConfigurationError(
            f"path: expected a path such as '/v1/subscription/cancel', got {path!r}"
        )


def _check_choice(name: str, value: object, choices: "Mapping[str, object]") -> None:
    if not isinstance(value, str) or value not in choices:
        raise ConfigurationError(
            f"{name}: expected one of {', '.join(map(repr, choices))}, got {value!r}"
        )


def _field_text(name: object, value: object) -> tuple[str, str]:
    """Write one field of a custom request as text, with its name."""
    if not isinstance(name, str) or not name or name in _ADDED:
        raise ConfigurationError(
            f"fields: {name!r} cannot be the name of a field: a name is a non-empty str, and the "
            "client itself adds merchant_id, account_id and encryption_data"
        )
    name = plain_text(name)
    if isinstance(value, SensitiveText):
        return name, value.reveal()
    if isinstance(value, str) and is_encodable(name + value):
        return name, plain_text(value)
    if isinstance(value, str):
        raise TypeError(f"fields[{name!r}]: holds half a surrogate pair, which UTF-8 cannot carry")
    if isinstance(value, Decimal) and value.is_finite():
        return name, format(value, "f")
    if isinstance(value, int | dict | list | tuple):
        return name, _json_field(name, value)
    raise TypeError(
        f"fields[{name!r}]: expected str, int, Decimal, dict or list, got {type(value).__name__}"
    )


def _json_field(name: str, value: object) -> JsonText:
    problem = ""
    try:
        text = orjson.dumps(value).decode()
        json.dumps(value, allow_nan=False, default=str)  # refuses NaN, which orjson writes as null
        return JsonText(text)
    except (ValueError, TypeError) as error:
        problem = str(error)
    raise TypeError(f"fields[{name!r}]: cannot be written as JSON: {problem}")

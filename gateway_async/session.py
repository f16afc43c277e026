"""How a request is signed and written, and how its reply is read.

Law: what is signed is what goes out, text by text. Only a reply of HTTP status 200 is decoded, and
none whose signature the signer finds wrong; another status proves nothing, unless the dialect says
so. Nothing is sent here: when a request is made, and how often, is known to `attempts`. This module
knows no order and no batch.
"""

import time
import traceback
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import attrs

from gateway_async.batching.matching import identifier, shown
from gateway_async.errors import (
    ConfigurationError,
    GatewayError,
    RejectedError,
    ReplyStatusError,
    ReplyUnreadableError,
)
from gateway_async.models.values import MASK
from gateway_async.operations import BodyFormat, Operation, OperationClass
from gateway_async.signing import SIGNATURE_FIELD
from gateway_async.transport import Message, RawReply
from gateway_async.wire.decoding import in_utf8, reply_fields, without_text
from gateway_async.wire.encoding import JsonText, encode_form, encode_json, written_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from gateway_async.dialect import Dialect
    from gateway_async.settings import RetryPolicy, Timeouts
    from gateway_async.signing import Credentials
    from gateway_async.transport import Transport
    from gateway_async.watching import Observer

T = TypeVar("T")

HTTP_OK = 200
_REDIRECTS = range(300, 400)

_SHORTEST_SIGNATURE = 16
"""What is shorter may be a part of anything; it is masked only where a field is named after it."""

_ESCAPES = (("/", "\\/"), ("=", "\\u003d"), ("+", "\\u002B"))
"""What PHP, Gson and .NET write of Base64 in JSON."""


@attrs.frozen(kw_only=True)
class Request(Generic[T]):
    """One request to make, of any operation; nothing of its content shows.

    Attributes:
        operation: What is asked for.
        fields: The fields but identity and signature, as text, ready for the wire.
        decode: Reads the body of a reply with HTTP status 200, or raises `ReplyUnreadableError`.
        is_verbatim: Whether its reply is passed on as it came: a page repeats the signature.
    """

    operation: Operation
    fields: "Mapping[str, str]" = attrs.field(repr=False)
    decode: "Callable[[RawReply], T]" = attrs.field(repr=False)
    is_verbatim: bool = False


@attrs.frozen(kw_only=True, eq=False)
class Session:
    """What leads down to the gateway and back, the same for every request.

    Attributes:
        transport: What carries messages.
        credentials: Who speaks and signs.
        dialect: What the interface leaves open.
        timeouts: How long one call may take.
        retry: How what may be repeated is repeated.
        limiter: Entered around every attempt.
        observer: Told what is done.
    """

    transport: "Transport"
    credentials: "Credentials"
    dialect: "Dialect"
    timeouts: "Timeouts"
    retry: "RetryPolicy"
    limiter: "AbstractAsyncContextManager[object]"
    observer: "Observer"

    def decode(self, request: Request[T], raw: RawReply, signature: str) -> T:
        """Read a reply, in which nothing shows of the signature that it answers.

        Raises:
            RejectedError: For a status by which the dialect says that nothing was done.
            OutcomeUnknownError: For any other status than 200, and for what cannot be read.
        """
        if raw.status != HTTP_OK:
            raise self._status_error(request.operation, raw)
        readable = _in_utf8(raw)
        self._verify(request, readable)
        return request.decode(raw if request.is_verbatim else _masked(request, signature, readable))

    def check_owner(self, fields: "Mapping[str, Any]") -> None:
        """Refuse a decoded reply that names another merchant or account than ours.

        Raises:
            ReplyUnreadableError: If it does; what is missing or empty names none.
        """
        for name in ("merchant_id", "account_id"):
            said, ours = fields.get(name), getattr(self.credentials, name)
            is_empty = said in (None, [], {}) or (isinstance(said, str) and not said.strip())
            if not is_empty and identifier(said) != ours.strip():
                raise ReplyUnreadableError(
                    f"the reply is for another {name}: expected {ours!r}, got {shown(said)!r}"
                )

    def compose(self, request: Request[T]) -> Message:
        """Sign the fields as they go out, and write the body around those very texts."""
        operation = request.operation
        body_format = self.dialect.body_formats.get(operation.name, operation.body)
        is_json = body_format is BodyFormat.JSON
        fields = {
            "merchant_id": self.credentials.merchant_id,
            "account_id": self.credentials.account_id,
            **written_fields(request.fields, body_format, self.dialect),
        }
        signature = self._sign(operation, {**fields})  # a signer may add its key to what it signs
        body = (encode_json if is_json else encode_form)({**fields, SIGNATURE_FIELD: signature})
        content_type = self.dialect.json_content_type if is_json else body_format.value
        return Message(operation.path, content_type, body, signature)

    def _sign(self, operation: Operation, fields: "Mapping[str, str]") -> str:
        try:
            signature = self.credentials.signer.sign(operation, fields)
        except Exception as error:  # noqa: BLE001  # the caller's code: its frames know the fields
            place = _innermost(error)
            raise ConfigurationError(
                f"nothing was sent: the signer raised {type(error).__name__} at {place}"
            ) from None
        if not isinstance(signature, str):
            raise ConfigurationError(
                f"nothing was sent: the signer must return str, not {type(signature).__name__}"
            )
        return signature

    def _status_error(self, operation: Operation, raw: RawReply) -> GatewayError:
        trusted = raw.status in self.dialect.nothing_done_http_statuses
        if trusted and operation.kind is not OperationClass.READ:
            return RejectedError(
                f"the gateway answered HTTP {raw.status}, which the dialect lists as "
                '"nothing was done"',
                code=str(raw.status),
            )
        followed = "; redirects are not followed" if raw.status in _REDIRECTS else ""
        return ReplyStatusError(
            f"the gateway answered HTTP {raw.status}{followed}",
            status=raw.status,
            retry_after_seconds=retry_after(raw.headers),
        )

    def _verify(self, request: Request[Any], raw: RawReply) -> None:
        """Have the signer check a reply that carries a signature, if it can."""
        verify = getattr(self.credentials.signer, "verify", None)
        if verify is None:
            return
        try:
            fields = reply_fields(raw.body)
        except ReplyUnreadableError:
            if request.is_verbatim:  # a page, or a text
                return
            raise  # decoding might make something of it, and a signature would go unchecked
        signature = fields.pop(SIGNATURE_FIELD, "")
        is_null = isinstance(signature, JsonText) and signature == "null"
        if not signature or is_null:
            return
        try:
            right = verify(request.operation, fields, signature)
        except Exception as error:  # noqa: BLE001  # the caller's code: its frames know the fields
            raise ReplyUnreadableError(
                f"the signer raised {type(error).__name__} at {_innermost(error)} over the reply"
            ) from None
        if not right:
            raise ReplyUnreadableError("the reply's signature is not right")


def _in_utf8(raw: RawReply) -> RawReply:
    body = in_utf8(raw.body, raw.headers.get("Content-Type", ""))
    return raw if body is raw.body else attrs.evolve(raw, body=body)


def _masked(request: Request[Any], signature: str, raw: RawReply) -> RawReply:
    """Mask a signature in the reply to its request, also as others write it in JSON.

    One that stands in what was signed, such as the name of an order, is no secret of its own.
    """
    if len(signature) < _SHORTEST_SIGNATURE:
        return raw
    body = raw.body
    for text in {signature, *(signature.replace(*escape) for escape in _ESCAPES)}:
        body = without_text(body, text, MASK)
    if body is raw.body or any(signature in text for text in request.fields.values()):
        return raw
    return attrs.evolve(raw, body=body)


def _innermost(error: BaseException) -> str:
    """Name the file and line where an exception was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename}:{frame.lineno}"


def retry_after(headers: "Mapping[str, str]") -> float | None:
    """Read a Retry-After header: seconds, or a date."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)  # as every date of HTTP, said or not
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, OverflowError):
        return None

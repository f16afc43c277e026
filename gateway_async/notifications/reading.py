"""The bytes of a notification, as fields, and whether they are signed. Pure.

Any bytes are read whole or are a `NotificationError`, in time and memory of the order of their
size. Nothing of them is taken for true: only the gateway's own records are. The interface does not
show whether and how notifications are signed (section 6), so nothing is verified unless the
merchant says how.
"""

import codecs
import hmac
import json
import re
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import attrs

from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError, NotificationError, ReplyUnreadableError
from gateway_async.models.orders import OrderRef
from gateway_async.models.values import SignatureText, is_encodable
from gateway_async.operations import BodyFormat, Operation, OperationClass
from gateway_async.signing import SIGNATURE_FIELD, HmacSigner, Signer
from gateway_async.wire.decode import (
    charset_of,
    codec_of,
    decode_json,
)
from gateway_async.wire.documents import decode_respon, reply_fields
from gateway_async.wire.records import without_secrets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

MAX_BYTES = 64 * 1024
_MOST_FIELDS = 1000
_LONGEST_NAME = 200
_DEEPEST = 32
_BLANK = b"\xef\xbb\xbf \t\r\n"
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_DECLARED = re.compile(  # of UTF-16 it cannot be, where a byte is a character
    rb"<\?xml[^>]*?\sencoding\s*=\s*[\"'](?!(?i:utf-16))"
)
_ENCODING = re.compile(r"^(<\?xml[^>]*?)\sencoding\s*=\s*[\"'][^\"']*[\"']")


@attrs.frozen(kw_only=True)
class Notification:
    """What a notification claims: a hint, and no proof.

    Attributes:
        order_no: The merchant's order number that it names.
        transaction_id: The gateway's identifier of the payment that it names.
        request_id: The identifier of the payout that it names.
        fields: Every field, by name, as text; nested ones as JSON. Card data and signatures show
            as `***` (`reveal()` gives them). Never shown.
    """

    order_no: str | None = None
    transaction_id: str | None = None
    request_id: str | None = None
    fields: "Mapping[str, str]" = attrs.field(factory=dict, repr=False, hash=False)

    @property
    def is_payout(self) -> bool:
        """Whether it is about a payout, which cannot be looked up."""
        return self.request_id is not None and self.order_no is None

    @property
    def ref(self) -> OrderRef:
        """How to look up the payment that it names."""
        if self.transaction_id is not None:
            return OrderRef(transaction_id=self.transaction_id)
        return OrderRef(order_no=self.order_no)


def parse(
    headers: "Mapping[str, str]",
    body: bytes,
    *,
    dialect: Dialect | None = None,
    max_bytes: int = MAX_BYTES,
) -> Notification:
    """Read a notification: a form, a JSON object, or the XML `respon` (section 6).

    Which of them it is shows in the body; the headers are asked for the charset alone, and XML
    that declares one need not be found there.

    Args:
        headers: The HTTP headers, names in any case.
        body: The body, as it came.
        dialect: Its `notification_fields` say which fields name the order.
        max_bytes: The largest body that is read.

    Raises:
        NotificationError: It is too large, cannot be read, has a field twice, or names no order.
        TypeError: The body is not of bytes.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"body: expected bytes, got {type(body).__name__}")
    problem = ""
    try:
        return _parse(headers, body, dialect or Dialect(), max_bytes)
    except (NotificationError, ReplyUnreadableError) as error:
        problem = str(error)
    del headers, body  # a traceback would show them, and so would the frames of the caught error
    raise NotificationError(problem)


def _parse(
    headers: "Mapping[str, str]", body: bytes, dialect: Dialect, max_bytes: int
) -> Notification:
    if len(body) > max_bytes:
        raise NotificationError(f"the notification is larger than {max_bytes} bytes")
    content_type = next((v for n, v in headers.items() if n.lower() == "content-type"), "")
    if content_type.strip().lower().startswith("multipart/"):
        raise NotificationError("expected a form, JSON or XML, got a multipart body")
    values = _read(bytes(body), charset_of(content_type))
    names = dialect.notification_fields
    found = {kind: _identifier(kind, fields, values) for kind, fields in names.items()}
    if not any(found.values()):
        expected = ", ".join(name for fields in names.values() for name in fields)
        raise NotificationError(f"the notification names no order: it has none of {expected}")
    fields = {name: _hidden(name, text, value) for name, (text, value) in values.items()}
    return Notification(**found, fields=fields)


def plain_fields(notification: Notification) -> dict[str, str]:
    """Return every field as it came, for a verifier."""
    return {
        name: text.reveal() if isinstance(text, SignatureText) else text
        for name, text in notification.fields.items()
    }


def _read(body: bytes, named: str | None) -> "dict[str, tuple[str, Any]]":
    """Return the text and the value of each field, by its name."""
    if _DECLARED.match(body.lstrip(_BLANK)):
        return _read_xml(body)
    charset = "utf-16" if body.startswith(_MARKS) else named or "utf-8"
    text = _decode(body, charset).strip()
    if not text:
        raise NotificationError("expected a form, JSON or XML, got an empty body")
    if text.startswith("<"):  # what it declares is not so any more
        return _read_xml(_ENCODING.sub(r"\1", text, count=1).encode())
    return _read_json(text.encode()) if text.startswith("{") else _read_form(text, charset)


def _decode(body: bytes, charset: str) -> str:
    codec = codec_of(charset)
    if codec is None:
        raise NotificationError("the notification is in a charset that is not known")
    try:
        return body.decode(codec).removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise NotificationError(f"the notification is not in {codec}") from None


def _read_json(body: bytes) -> "dict[str, tuple[str, Any]]":
    values = decode_json(body)
    _check_depth(values)
    texts = reply_fields(body)
    # The parsers above take the last of several; a verifier may have checked the first.
    json.loads(body, object_pairs_hook=_check_pairs, parse_int=str, parse_float=str)
    return {name: (texts[name], value) for name, value in values.items()}


def _check_depth(values: "dict[str, Any]") -> None:
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        children = [c for part in level for c in (part.values() if type(part) is dict else part)]
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return
    raise NotificationError(f"JSON nested more than {_DEEPEST} deep")


def _check_pairs(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise NotificationError("the notification has a field twice")
    if not all(is_encodable(one) for pair in pairs for one in pair if isinstance(one, str)):
        raise NotificationError("JSON with half a surrogate pair, which names nothing")


def _read_xml(body: bytes) -> "dict[str, tuple[str, Any]]":
    values = decode_respon(body)
    for value in values.values():
        if isinstance(value, list) and any(isinstance(one, str) for one in value):
            raise NotificationError("the notification has a field twice")
    texts = reply_fields(body)
    return {name: (texts[name], value) for name, value in values.items()}


def _read_form(text: str, charset: str) -> "dict[str, tuple[str, Any]]":
    try:
        pairs = parse_qsl(
            text.strip(),
            keep_blank_values=True,
            encoding=codec_of(charset) or charset,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except UnicodeDecodeError:
        raise NotificationError(f"the notification is not in {charset}") from None
    except ValueError:
        raise NotificationError(f"the notification has more than {_MOST_FIELDS} fields") from None
    values = {name: (value, value) for name, value in pairs}
    if len(values) != len(pairs):
        raise NotificationError("the notification has a field twice")
    return values


def _identifier(
    kind: str, names: "Iterable[str]", values: "Mapping[str, tuple[str, Any]]"
) -> str | None:
    """Return what the notification names, under whichever of the names."""
    found = {
        text.strip()
        for name in names
        if (text := _identifying_text(name, *values.get(name, ("", ""))))
    }
    if len(found) > 1:
        raise NotificationError(f"the notification has two different values of {kind}")
    identifier = next(iter(found), None)
    if identifier is None or (len(identifier) <= _LONGEST_NAME and identifier.isprintable()):
        return identifier
    raise NotificationError(f"{kind}: expected printable text of up to {_LONGEST_NAME} characters")


def _identifying_text(name: str, text: str, value: object) -> str:
    if isinstance(value, str):
        return text.strip()
    if text.isascii() and text.isdigit():  # a number, whose value may have lost digits
        return text
    if value is None:
        return ""
    raise NotificationError(f"{name}: expected text, got another kind of value")


def _hidden(name: str, text: str, value: object) -> str:
    """Return a text that does not show where it, or something in it, is named like a secret."""
    is_secret = without_secrets({name: value}) != {name: value}
    return SignatureText(text) if is_secret else str(text)


# Whether it is signed


NOTIFICATION = Operation(
    name="notification", path="", kind=OperationClass.READ, body=BodyFormat.FORM
)
"""The operation that a signer gets."""


class Verifier(Protocol):
    """Says whether a notification is the gateway's; any function of this shape is one.

    It may be asynchronous. Compare secrets with `hmac.compare_digest`, which takes the same time
    wherever they differ.
    """

    def __call__(
        self, headers: "Mapping[str, str]", body: bytes, fields: "Mapping[str, str]"
    ) -> "bool | Awaitable[bool]":
        """Return whether it is the gateway's: True, and nothing else that counts as true.

        Args:
            headers: The HTTP headers, names in lower case.
            body: The body, as it came.
            fields: Its fields as text, the signature among them; nested ones as the very JSON of
                the body.
        """
        ...


@attrs.frozen
class SignatureVerifier:
    """Expects `encryption_data` to be what a signer makes of the other fields.

    With an `HmacSigner`, a notification is refused in which a value holds `&name=`: its signature
    could be that of other fields, such as a checkout's with a shopper's text among them.

    Attributes:
        signer: The signer; it is given the operation "notification". Never shown.

    Raises:
        ConfigurationError: If the signer has no `sign`.
    """

    signer: Signer = attrs.field(repr=False)

    @signer.validator
    def _check(self, _: object, signer: object) -> None:
        if not isinstance(signer, Signer):
            raise ConfigurationError(
                "SignatureVerifier.signer: expected an object with sign(operation, fields), got "
                f"{type(signer).__name__}"
            )

    def __call__(
        self, headers: "Mapping[str, str]", body: bytes, fields: "Mapping[str, str]"
    ) -> bool:
        """Return whether the signature is right, and of no other fields than these."""
        del headers, body
        others = {name: text for name, text in fields.items() if name != SIGNATURE_FIELD}
        if isinstance(self.signer, HmacSigner) and self.signer.is_ambiguous(others):
            return False
        expected = self.signer.sign(NOTIFICATION, others)
        return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode())

"""The bytes of a notification, as fields, and whether they are signed. Pure.

Any bytes are read whole or are a `NotificationError`, in time and memory of the order of their
size. Nothing of them is taken for true: only the gateway's own records are. The interface does not
show whether and how notifications are signed (section 6), so nothing is verified unless the
merchant says how.
"""

import hmac
import json
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl

import attrs

from gateway_async.dialect import Dialect
from gateway_async.errors import NotificationError, ReplyUnreadableError
from gateway_async.models.orders import OrderRef
from gateway_async.models.values import SignatureText
from gateway_async.operations import Operation
from gateway_async.settings import expect
from gateway_async.signing import SIGNATURE_FIELD, HmacSigner, Signer
from gateway_async.wire.decode import charset_of, encoding_of, identifier, in_utf8, reply_fields
from gateway_async.wire.encode import JsonText
from gateway_async.wire.records import without_secrets

MAX_BYTES = 64 * 1024
_LONGEST_NAME = 200


_TWICE = "the notification has a field twice"  # of which a verifier may read the other one


@attrs.frozen(kw_only=True)
class Notification:
    """What a notification claims: a hint, and no proof.

    Attributes:
        order_no: The merchant's order number that it names.
        transaction_id: The gateway's identifier of the payment that it names.
        request_id: The identifier of the payout that it names.
        fields: Every field, by name, as text; nested ones as JSON. Card data and signatures show
            as `***`. Never shown.
    """

    order_no: str | None = None
    transaction_id: str | None = None
    request_id: str | None = None
    fields: Mapping[str, str] = attrs.field(factory=dict, repr=False, hash=False)

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

    def reveal(self) -> dict[str, str]:
        """Return every field as it came, card data and signatures too."""
        return {
            name: text.reveal() if isinstance(text, SignatureText) else text
            for name, text in self.fields.items()
        }


def parse(
    headers: Mapping[str, str],
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
        NotificationError: It is too large, cannot be read, or names no order.
    """
    if len(body) > max_bytes:
        raise NotificationError(f"the notification is larger than {max_bytes} bytes")
    try:
        return _parse(headers, body, dialect or Dialect())
    except (NotificationError, RecursionError, ReplyUnreadableError) as error:
        problem = str(error)
    del headers, body  # a traceback would show them, and so would the frames of the caught error
    raise NotificationError(problem)


def _parse(headers: Mapping[str, str], body: bytes, dialect: Dialect) -> Notification:
    content_type = next((v for n, v in headers.items() if n.lower() == "content-type"), "")
    body = in_utf8(body, content_type).strip()
    texts = _read(body, content_type)
    values = {n: json.loads(t) if isinstance(t, JsonText) else t for n, t in texts.items()}
    lists = [value for value in values.values() if isinstance(value, list)]
    if body.startswith(b"<") and any(isinstance(one, str) for each in lists for one in each):
        raise NotificationError(_TWICE)
    names = dialect.notification_fields
    found = {kind: _identifier(kind, known, values) for kind, known in names.items()}
    if not any(found.values()):
        expected = ", ".join(name for known in names.values() for name in known)
        raise NotificationError(f"the notification names no order: it has none of {expected}")
    fields = {
        name: str(texts[name])
        if without_secrets({name: value}) == {name: value}
        else SignatureText(texts[name])
        for name, value in values.items()
    }
    return Notification(**found, fields=fields)


def _read(body: bytes, content_type: str) -> Mapping[str, str]:
    """Return each field as text; what is no text, as the JSON that it is."""
    encoding = encoding_of(charset_of(content_type) or "utf-8")
    if encoding is None:
        raise NotificationError("the notification is in a charset that is not known")
    if body.startswith((b"{", b"<")):
        return reply_fields(body)
    if not body:
        raise NotificationError("expected a form, JSON or XML, got an empty body")
    try:
        codec = encoding.codec_info.name
        pairs = parse_qsl(body.decode(), keep_blank_values=True, encoding=codec, errors="strict")
    except (UnicodeDecodeError, LookupError):  # the latter of what only browsers know
        raise NotificationError(f"the notification is not in {encoding.name}") from None
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise NotificationError(_TWICE)
    return fields


def _identifier(kind: str, names: Iterable[str], values: Mapping[str, Any]) -> str | None:
    """Return what the notification names, under whichever of the names."""
    found = {text for name in names if (text := identifier(values.get(name)))}
    if len(found) > 1:
        raise NotificationError(f"the notification has two different values of {kind}")
    if any(len(text) > _LONGEST_NAME or not text.isprintable() for text in found):
        expected = f"printable text of up to {_LONGEST_NAME} characters"
        raise NotificationError(f"{kind}: expected {expected}")
    return next(iter(found), None)


# Whether it is signed


NOTIFICATION = Operation(name="notification", path="")
"""The operation that a signer gets."""


class Verifier(Protocol):
    """Says whether a notification is the gateway's; any function of this shape is one.

    It may be asynchronous. Compare secrets with `hmac.compare_digest`, which takes the same time
    wherever they differ.
    """

    def __call__(
        self, headers: Mapping[str, str], body: bytes, fields: Mapping[str, str]
    ) -> bool | Awaitable[bool]:
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
        expect("SignatureVerifier.signer", signer, Signer)

    def __call__(self, headers: Mapping[str, str], body: bytes, fields: Mapping[str, str]) -> bool:
        """Return whether the signature is right, and of no other fields than these."""
        del headers, body
        others = {name: text for name, text in fields.items() if name != SIGNATURE_FIELD}
        if isinstance(self.signer, HmacSigner) and self.signer.is_ambiguous(others):
            return False
        expected = self.signer.sign(NOTIFICATION, others)
        return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode())

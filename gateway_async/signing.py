"""Who the merchant is, and how a message is signed (sections 2.1 and 5 of the interface).

The interface does not show the signing algorithm, the fields it covers, or the secret. What is
here makes any of them possible and claims none to be the gateway's.
"""

import contextlib
import hmac
import inspect
import re
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import attrs

from gateway_async.errors import ConfigurationError, hide_arguments
from gateway_async.models.values import SensitiveText, Unpicklable, is_encodable, to_text
from gateway_async.settings import FLAG, TEXT, check, converted, converted_field, only, to_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway_async.operations import Operation

SIGNATURE_FIELD = "encryption_data"

_PAIR = "{name}={value}"
_NAME_SIGN = r"[\w.\[\]-]+="
"""How a field begins that is written so."""


def _is_digest(name: object) -> bool:
    with contextlib.suppress(ValueError, TypeError):  # unknown, of no fixed length, or not allowed
        return isinstance(name, str) and bool(hmac.digest(b"", b"", name))
    return False


def _is_template(template: str) -> bool:
    """Say whether one field can be written by a template, and its value shows in it."""
    with contextlib.suppress(ValueError, LookupError, AttributeError, TypeError):
        return str.format(template, name="", value="1") != str.format(template, name="", value="2")
    return False


def _to_secret(secret: str) -> SensitiveText:
    got = type(secret).__name__
    if isinstance(secret, str):
        if secret and is_encodable(secret):
            return SensitiveText(str.__str__(secret))  # that of another signer shows as a mask
        got = "one that UTF-8 cannot carry" if secret else "an empty one"
    raise ConfigurationError(f"HmacSigner.secret: expected a non-empty str, got {got}")


@runtime_checkable
class Signer(Protocol):
    """Makes the text for `encryption_data`.

    A signer may also have a method `verify(operation, fields, signature) -> bool`; it is then
    asked about every reply that carries an `encryption_data`, with the reply's top-level fields
    as text (nested ones as the very JSON text of the reply), and a reply that it turns down
    counts as unreadable. No signature is checked where a signer has no `verify`.
    """

    def sign(self, operation: "Operation", fields: "Mapping[str, str]") -> str:
        """Return the signature of one request.

        Args:
            operation: The operation of the request, with its `name` and `path`.
            fields: The fields exactly as they go out, without `encryption_data`; nested ones are
                the very JSON text that is sent.
        """
        ...


@hide_arguments
@attrs.frozen
class HmacSigner(Unpicklable):
    """HMAC over the sorted fields: a stand-in until you know the gateway's algorithm.

    The interface does not show how `encryption_data` is made. The message signed here is
    `name=value` for each field but `encryption_data`, sorted by name, joined by `&`, in UTF-8.

    Attributes:
        secret: The shared secret. Never shown: it is text that shows as `***`.
        digest: The name of a `hashlib` digest.
        joiner: What stands between two fields.
        template: How one field is written, with `{name}` and `{value}`.
        uppercase: Whether the hexadecimal digits are upper case.
        excluded: Names of fields that are not signed.
        check_replies: Whether replies that carry an `encryption_data` are verified in the same
            way. Off by default: the interface does not show what the gateway signs.
    """

    secret: SensitiveText = attrs.field(converter=_to_secret, repr=False)
    digest: str = attrs.field(
        default="sha256",
        validator=check(_is_digest, "a digest of hashlib that HMAC can use, such as 'sha256'"),
        kw_only=True,
    )
    joiner: str = attrs.field(default="&", validator=check(*TEXT), kw_only=True)
    template: str = attrs.field(
        default=_PAIR,
        validator=check(_is_template, "a str with {name} and {value}, or {value} alone"),
        kw_only=True,
    )
    uppercase: bool = attrs.field(default=False, validator=check(*FLAG), kw_only=True)
    excluded: Collection[str] = converted_field(
        to_set,
        "names of fields such as {'note'}",
        default=frozenset({SIGNATURE_FIELD}),
        kw_only=True,
    )
    check_replies: bool = attrs.field(default=False, validator=check(*FLAG), kw_only=True)

    @cached_property
    def _keyed(self) -> hmac.HMAC:
        """The HMAC of nothing: to copy it takes half the time of making one."""
        return hmac.new(self.secret.encode(), digestmod=self.digest)

    def sign(self, operation: "Operation", fields: "Mapping[str, str]") -> str:
        """Return the hexadecimal HMAC of the fields; the operation is not part of it."""
        del operation
        names = sorted(fields.keys() - self.excluded)
        if self.template == _PAIR:  # written out, it takes a quarter of the time
            written = [f"{name}={fields[name]}" for name in names]
        else:
            written = [self.template.format(name=name, value=fields[name]) for name in names]
        digest = self._keyed.copy()
        digest.update(self.joiner.join(written).encode())
        text = digest.hexdigest()
        return text.upper() if self.uppercase else text

    def is_ambiguous(self, fields: "Mapping[str, str]") -> bool:
        """Say whether the text that is signed of these fields may be that of others as well.

        It may where a value holds `&name=`, which reads as one more field. Requests are signed all
        the same, since a note or an address may hold anything; `SignatureVerifier` refuses a
        notification of which this is so. With an empty `joiner`, no text is recognised as such.
        """
        another = re.escape(self.joiner) + (_NAME_SIGN if self.template == _PAIR else "")
        return bool(self.joiner) and any(
            re.search(another, f"{name}={value}")
            for name, value in fields.items()
            if name not in self.excluded
        )

    @property
    def verify(self) -> "Callable[[Operation, Mapping[str, str], str], bool] | None":
        """What checks a reply's signature; None unless `check_replies` is set."""
        return self._is_right if self.check_replies else None

    def _is_right(
        self, operation: "Operation", fields: "Mapping[str, str]", signature: str
    ) -> bool:
        return hmac.compare_digest(self.sign(operation, fields).encode(), signature.encode())


@attrs.frozen
class _CallableSigner(Unpicklable):
    """A plain function in the place of a signer."""

    function: "Callable[[Operation, Mapping[str, str]], str]" = attrs.field(repr=False)

    def sign(self, operation: "Operation", fields: "Mapping[str, str]") -> str:
        return self.function(operation, fields)


def _to_signer(value: "Signer | Callable[[Operation, Mapping[str, str]], str]") -> Signer:
    """Accept a signer as it is, and any callable as its `sign`."""
    if inspect.iscoroutinefunction(getattr(value, "sign", value)):
        raise ConfigurationError(
            "Credentials.signer: expected a plain function, got an `async def`; await what it "
            "needs, such as a key, before the client is made"
        )
    if isinstance(value, Signer):
        return value
    if callable(value):
        return _CallableSigner(value)
    raise ConfigurationError(
        f"Credentials.signer: expected an object with sign(operation, fields) or a callable, got "
        f'{type(value).__name__}; HmacSigner("secret") is one'
    )


_to_name = only(to_text, str.strip)


# Named functions: a type checker sees by them what is taken, and that it must be given.


def _to_merchant(merchant_id: str) -> str:
    return converted("Credentials.merchant_id", merchant_id, _to_name, "a non-empty str")


def _to_account(account_id: str) -> str:
    return converted("Credentials.account_id", account_id, _to_name, "a non-empty str")


@hide_arguments
@attrs.frozen(kw_only=True)
class Credentials(Unpicklable):
    """The merchant account, and the signer of its requests (section 2.1).

    Attributes:
        merchant_id: The merchant identifier.
        account_id: The merchant account identifier.
        signer: A `Signer`, or any callable `(operation, fields) -> str`. Never shown.
    """

    merchant_id: str = attrs.field(converter=_to_merchant)
    account_id: str = attrs.field(converter=_to_account)
    signer: Signer = attrs.field(converter=_to_signer, repr=False)

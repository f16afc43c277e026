"""Whether a notification was signed by whoever knows the secret. Pure.

The interface does not show whether and how notifications are signed (section 6): so nothing is
verified unless the merchant says how.
"""

import hmac
from typing import TYPE_CHECKING, Protocol

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.operations import BodyFormat, Operation, OperationClass
from gateway_async.signing import SIGNATURE_FIELD, Signer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

NOTIFICATION = Operation(
    name="notification", path="", kind=OperationClass.READ, body=BodyFormat.FORM
)
"""What a signer is told that it signs."""


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

    Attributes:
        signer: The signer; it is told that the operation is a "notification". Never shown.

    Raises:
        ConfigurationError: If it is none.
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
        """Return whether the signature is right."""
        del headers, body
        others = {name: text for name, text in fields.items() if name != SIGNATURE_FIELD}
        expected = self.signer.sign(NOTIFICATION, others)
        return hmac.compare_digest(expected.encode(), fields.get(SIGNATURE_FIELD, "").encode())

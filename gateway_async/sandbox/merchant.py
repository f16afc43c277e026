"""The one merchant that a sandbox knows."""

import attrs

from gateway_async.signing import HmacSigner


@attrs.frozen(kw_only=True)
class Merchant:
    """The one merchant that the sandbox knows.

    Attributes:
        merchant_id: The merchant identifier.
        account_id: The merchant account identifier.
        secret: What its messages are signed with. Never shown.
    """

    merchant_id: str = "M1"
    account_id: str = "A1"
    secret: str = attrs.field(default="sandbox-secret", repr=False)

    @property
    def identity(self) -> dict[str, str]:
        """The fields of section 2.1 that every message carries."""
        return {"merchant_id": self.merchant_id, "account_id": self.account_id}

    @property
    def signer(self) -> HmacSigner:
        """The signature of requests, replies and notifications alike."""
        return HmacSigner(self.secret)

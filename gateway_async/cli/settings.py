"""Which gateway the command line talks to, read from the environment.

The secret is read from there too and is never an option: options show in process lists and in
the history of a shell.
"""

from typing import TYPE_CHECKING

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.signing import Credentials, HmacSigner

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = {
    "GATEWAY_BASE_URL": "the gateway's address, such as https://gateway.example",
    "GATEWAY_MERCHANT_ID": "the merchant identifier that the gateway gave you",
    "GATEWAY_ACCOUNT_ID": "the merchant account identifier that the gateway gave you",
    "GATEWAY_SECRET": "the secret that requests are signed with",
}
"""The environment variables, and what each should hold."""


@attrs.frozen(kw_only=True)
class GatewaySettings:
    """Which gateway, and as whom.

    Attributes:
        base_url: The gateway's address.
        credentials: The merchant's identifiers and signer.
    """

    base_url: str
    credentials: Credentials


def read_settings(environment: "Mapping[str, str]") -> GatewaySettings:
    """Read the settings from environment variables.

    Raises:
        ConfigurationError: Where variables are missing or empty; it names every one of them and
            says what it should hold.
    """
    missing = [name for name in VARIABLES if not environment.get(name, "").strip()]
    if missing:
        lines = [f"  {name}: {VARIABLES[name]}" for name in missing]
        raise ConfigurationError("set these environment variables:\n" + "\n".join(lines))
    base_url, merchant_id, account_id, secret = (environment[name] for name in VARIABLES)
    return GatewaySettings(
        base_url=base_url,
        credentials=Credentials(
            merchant_id=merchant_id, account_id=account_id, signer=HmacSigner(secret)
        ),
    )

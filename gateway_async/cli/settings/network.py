"""The way to the gateway: certificates, a proxy, plain HTTP."""

import ssl
from pathlib import Path

import attrs

from gateway_async.errors import ConfigurationError
from gateway_async.settings import checked_base_url, checked_proxy


@attrs.frozen(kw_only=True)
class Network:
    """The way to the gateway; see `GatewayClient`.

    Attributes:
        allow_http: Whether plain `http://` may go to another machine.
        ca_file: The certificates of the authorities that are trusted, in place of the system's.
        client_cert: The certificate that is shown to the gateway, with its key.
        client_key: Its key, where that is in a file of its own; without a password.
        proxy: The URL of a proxy; it may hold a password.
        trust_env: Whether HTTP_PROXY, HTTPS_PROXY and NO_PROXY are looked at.
    """

    allow_http: bool = False
    ca_file: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None
    proxy: str | None = attrs.field(default=None, repr=False)
    trust_env: bool = False

    def checked(self, base_url: str) -> str:
        """Return the gateway's address, if it can be reached by these settings.

        Raises:
            ConfigurationError: If one of them is wrong, or does not fit the address.
        """
        address = checked_base_url(base_url, allow_http=self.allow_http)
        checked_proxy(
            self.proxy, base_url=address, trust_env=self.trust_env, allow_http=self.allow_http
        )
        self.ssl_context()
        return address

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what certificates are judged by; None where no file says anything of it.

        Raises:
            ConfigurationError: If a file cannot be used.
        """
        if self.client_key is not None and self.client_cert is None:
            raise ConfigurationError("client_key: expected client_cert, its certificate, beside it")
        if self.ca_file is None and self.client_cert is None:
            return None
        name, path, wanted = "ca_file", self.ca_file, "certificates in PEM"
        try:
            context = ssl.create_default_context(cafile=path)
            if self.client_cert is not None:
                name, path = "client_cert", self.client_cert
                wanted = "a certificate and its key in PEM, the key without a password"
                context.load_cert_chain(path, self.client_key, password=lambda: "")
        except OSError as error:
            raise ConfigurationError(
                f"{name}: {path} cannot be used ({error.strerror}); expected {wanted}"
            ) from None
        context.set_alpn_protocols(["http/1.1"])
        return context

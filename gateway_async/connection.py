"""What a client is made of: settings, collaborators, and its life."""

import contextlib
import sys
import warnings
from importlib import import_module
from ssl import SSLContext
from typing import TYPE_CHECKING, Self, TypeVar

import attrs

from gateway_async.checks import (
    caller_place,
    check_alone,
    check_flag,
    check_instance,
    check_limiter,
    checked_base_url,
    checked_count,
    checked_proxy,
    setting,
)
from gateway_async.dialect import Dialect
from gateway_async.errors import ConfigurationError
from gateway_async.session import Session
from gateway_async.settings import BatchPolicy, RecoveryPolicy, RetryPolicy, Timeouts
from gateway_async.signing import Credentials
from gateway_async.single import carry_out
from gateway_async.transport import AiohttpTransport, ConnectionOptions
from gateway_async.watching import Observer

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from aiohttp import ClientSession

    from gateway_async.session import Request
    from gateway_async.telemetry import Telemetry

    T = TypeVar("T")

DEFAULT_MAX_REPLY_BYTES = 16 * 1024 * 1024
DEFAULT_MAX_CONNECTIONS = 100

_NEEDED_UNDER_WAY = (
    "cattrs",
    "tenacity",
    "gateway_async.wire.converter",
    "gateway_async.wire.respon",
)
"""Loaded with the first client: once requests are under way, loading could fail, and lose one."""


class Connection:
    """The way to the gateway: made anywhere, opened by its first request, closed once.

    What it is made with is described by `GatewayClient`.
    """

    def __init__(  # noqa: PLR0913  # one keyword a setting or collaborator
        self,
        base_url: str,
        credentials: Credentials,
        *,
        timeouts: Timeouts | None = None,
        retry: RetryPolicy | None = None,
        policy: BatchPolicy | None = None,
        recovery: RecoveryPolicy | None = None,
        dialect: Dialect | None = None,
        session: "ClientSession | None" = None,
        limiter: "AbstractAsyncContextManager[object] | None" = None,
        telemetry: "Telemetry | None" = None,
        max_reply_bytes: int = DEFAULT_MAX_REPLY_BYTES,
        max_connections: int | None = None,
        allow_http: bool = False,
        ssl: "SSLContext | None" = None,
        proxy: str | None = None,
        trust_env: bool = False,
    ) -> None:
        self._made_at = caller_place(sys._getframe(1))  # noqa: SLF001  # the only cheap way to know
        self._policy = setting("policy", policy, BatchPolicy)
        self._recovery = setting("recovery", recovery, RecoveryPolicy)
        check_instance("credentials", credentials, Credentials)
        check_limiter(limiter)
        check_flag("allow_http", allow_http)
        check_flag("trust_env", trust_env)
        if ssl is not None:
            check_instance("ssl", ssl, SSLContext)
        check_alone(session, ssl=ssl, proxy=proxy, trust_env=trust_env)
        address = checked_base_url(base_url, allow_http=allow_http)
        proxy_url, proxy_authorization = checked_proxy(
            proxy, base_url=address, trust_env=trust_env, allow_http=allow_http
        )
        timeouts = setting("timeouts", timeouts, Timeouts)
        self._closed = False
        for module in _NEEDED_UNDER_WAY:
            import_module(module)
        self._transport = AiohttpTransport(
            address,
            timeouts=timeouts,
            max_reply_bytes=checked_count("max_reply_bytes", max_reply_bytes),
            options=ConnectionOptions(
                limit=(
                    max(DEFAULT_MAX_CONNECTIONS, self._policy.concurrency)
                    if max_connections is None
                    else checked_count("max_connections", max_connections)
                ),
                ssl=ssl,
                proxy=proxy_url,
                proxy_authorization=proxy_authorization,
            ),
            session=session,
        )
        self._session = Session(
            transport=self._transport,
            observer=Observer(telemetry, self._transport.base_url),
            credentials=credentials,
            dialect=setting("dialect", dialect, Dialect),
            timeouts=timeouts,
            retry=setting("retry", retry, RetryPolicy),
            limiter=limiter or contextlib.nullcontext(),
        )

    @property
    def dialect(self) -> Dialect:
        """What the interface leaves open, as this client was told."""
        return self._session.dialect

    @property
    def credentials(self) -> Credentials:
        """Which merchant speaks, and how it signs."""
        return self._session.credentials

    async def aclose(self) -> None:
        """Close the connections that were opened on the running loop; `session=` stays open."""
        self._closed = True
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        self._closed = False
        self._transport.reopen()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        transport = getattr(self, "_transport", None)
        if transport is not None and transport.left_open:
            filename, line = self._made_at
            warnings.warn_explicit(
                "a GatewayClient made here was left open; use `async with`, or await its aclose()",
                ResourceWarning,
                filename,
                line,
                source=self,
            )

    def __repr__(self) -> str:
        if not hasattr(self, "_session"):  # in the traceback of an argument that was refused
            return "<GatewayClient unfinished>"
        return f"<GatewayClient {self._transport.base_url} {self._session.credentials}>"

    def _batch_policy(self, policy: BatchPolicy | None) -> BatchPolicy:
        policy = self._policy if policy is None else setting("policy", policy, BatchPolicy)
        # More requests than connections would only wait for each other, and time out.
        concurrency = min(policy.concurrency, self._transport.capacity)
        return attrs.evolve(policy, concurrency=concurrency)

    async def _single(self, request: "Request[T]", about: object = None) -> "T":
        self._check_open()
        return await carry_out(
            self._session, request, about, drain_seconds=self._policy.drain_seconds
        )

    def _check_open(self) -> None:
        if self._closed:
            raise ConfigurationError(
                "this GatewayClient is closed; enter it again with `async with`, or make another"
            )

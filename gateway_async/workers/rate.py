"""So many requests in so many seconds, over all processes of all machines together.

Nothing leaves unless the store, the journal's PostgreSQL, granted it; where it cannot be
asked, nothing is sent. The counting is pyrate-limiter's; this module keeps it off the event loop,
and on one time zone: its rows have none, so that sessions of different zones would not see each
other's.
"""

import asyncio
import contextlib
import hashlib
import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from gateway_async.errors import (
    ConfigurationError,
    JournalError,
    NotSentError,
    hide_given,
    require_extra,
)
from gateway_async.journal.database import plain_url
from gateway_async.journal.location import locate
from gateway_async.settings import COUNT, expect, is_duration

_PACKAGES = ("psycopg", "psycopg_pool", "pyrate_limiter")
with require_extra(__name__, *_PACKAGES, install="'gateway-async[workers]'"):
    import psycopg
    from psycopg_pool import ConnectionPool
    from pyrate_limiter import Limiter, PostgresBucket, Rate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from contextlib import AbstractAsyncContextManager

__all__ = ["SharedRate", "shared_rate"]

_SETTINGS = (
    "SET timezone = 'UTC'",
    "SET lock_timeout = '5s'",
    "SET statement_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '5s'",
)  # a process that is frozen with the table locked loses it soon
_CONNECT_SECONDS = 10
_TURN_SECONDS = 1.0
_BUFFER_MILLISECONDS = 5
# A request leaves a moment after its turn: so much longer, at most, is the window of turns.
_LATE_SHARE = 0.1
_LATE_SECONDS = 0.1


class _Bucket(PostgresBucket):
    """A bucket whose old rows are cleared away again once the database is back."""

    def leak(self, current_timestamp: int | None = None) -> "int | Awaitable[int]":
        """Clear old rows away; where that fails, the next time is soon enough.

        An error would end the limiter's thread that clears, for good.
        """
        try:
            return super().leak(current_timestamp)
        except psycopg.Error:
            return 0


class SharedRate:
    """A `limiter=` for `GatewayClient`; made by `shared_rate`.

    Entering it waits for a turn. It raises `NotSentError` where the store cannot be asked.
    """

    def __init__(self, limiter: Limiter, name: str) -> None:
        self._limiter = limiter
        self._name = name
        self._thread = ThreadPoolExecutor(1, "gateway rate")

    def __repr__(self) -> str:
        return f"<SharedRate {self._name!r}>"

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not await loop.run_in_executor(self._thread, self._take_turn):
                pass
        except psycopg.Error as error:
            raise NotSentError(
                f"nothing was sent: the shared rate could not be asked ({type(error).__name__})"
            ) from None

    async def __aexit__(self, *error: object) -> None:
        pass

    def _take_turn(self) -> bool:
        """Wait for a turn, but not for long: a task that was cancelled may have asked."""
        try:
            return bool(self._limiter.try_acquire(self._name, timeout=_TURN_SECONDS))
        except TimeoutError:
            return False

    def close(self) -> None:
        """End the threads."""
        self._thread.shutdown()
        self._limiter.close()


@hide_given
def shared_rate(
    journal_url: str, name: str, *, requests: int, seconds: float = 1.0
) -> "AbstractAsyncContextManager[SharedRate]":
    """Give a `limiter=` that all processes share which use the same database and name.

        async with (
            shared_rate("postgresql://...", "M1", requests=20) as limiter,
            GatewayClient(..., limiter=limiter) as gateway,
        ):
            ...

    Entering it raises `JournalError` if the database cannot be reached.

    Args:
        journal_url: ``postgresql://user@host/database``, such as the journal's.
        name: What is limited, such as a merchant at a gateway; it has a table of its own.
        requests: How many requests at most, look-ups included, in any `seconds`: give all
            processes the same figures. Up to a tenth fewer leave, since each leaves a moment
            after its turn.
        seconds: The length of that window.

    Raises:
        ConfigurationError: For another URL, or figures that are no such numbers.
    """
    if locate(journal_url).is_sqlite:
        raise ConfigurationError(
            "shared_rate: expected the URL of a PostgreSQL database; without one, let a single "
            "process send, with an aiolimiter.AsyncLimiter as its limiter"
        )
    expect("requests", requests, COUNT)
    if not is_duration(seconds) or not 1 <= seconds * 1000 < math.inf:
        raise ConfigurationError(f"seconds: expected a number of 0.001 or more, got {seconds!r}")
    window = seconds + min(seconds * _LATE_SHARE, _LATE_SECONDS)
    pool = ConnectionPool(
        plain_url(journal_url),
        min_size=1,
        max_size=2,
        kwargs={"connect_timeout": _CONNECT_SECONDS},
        configure=_set_up,
        timeout=_CONNECT_SECONDS,
        open=False,
    )
    return _sharing(pool, name, Rate(requests, math.ceil(window * 1000)))


@contextlib.asynccontextmanager
async def _sharing(pool: ConnectionPool, name: str, rate: Rate) -> "AsyncIterator[SharedRate]":
    try:
        limiter = await asyncio.to_thread(_open, pool, name, rate)
    except psycopg.Error as error:
        raise JournalError(
            f"the shared rate {name!r} cannot be opened ({type(error).__name__})"
        ) from None
    shared = SharedRate(limiter, name)
    try:
        yield shared
    finally:
        await asyncio.to_thread(shared.close)
        await asyncio.to_thread(pool.close)


def _set_up(connection: "psycopg.Connection[Any]") -> None:
    """Set a session up after it was made: the environment would have the last word before."""
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.commit()


def _open(pool: ConnectionPool, name: str, rate: Rate) -> Limiter:
    digest = hashlib.sha256(name.encode())
    lock = int.from_bytes(digest.digest()[:8], signed=True)
    try:
        pool.open(wait=True, timeout=_CONNECT_SECONDS)
        with pool.connection() as connection:
            # PostgreSQL lets two that make a table "if it does not exist" stumble over each other.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            bucket = _Bucket(pool, digest.hexdigest()[:16], [rate])
        return Limiter(bucket, buffer_ms=_BUFFER_MILLISECONDS)
    except BaseException:
        pool.close()
        raise

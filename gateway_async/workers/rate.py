"""So many requests in so many seconds, over all processes of all machines together.

Nothing leaves unless the store, the journal's PostgreSQL, granted it; where it cannot be asked,
nothing is sent. A turn is a row with its time, by the database's clock: now, or once the window of
the turn that is `requests` before it is over. A turn is taken only shortly before it is due, since
a process that is killed leaves its turns behind. The journal's `Database` asks for it, off the
event loop, and ends every wait.
"""

import asyncio
import contextlib
import hashlib
import math
import uuid
from typing import TYPE_CHECKING

from gateway_async.errors import (
    ConfigurationError,
    JournalError,
    NotSentError,
    hide_given,
    require_extra,
)
from gateway_async.journal.database import Database
from gateway_async.journal.engines import make_engine
from gateway_async.journal.location import locate
from gateway_async.settings import COUNT, expect, is_duration

with require_extra(__name__, "psycopg", install="'gateway-async[workers]'"):
    import psycopg  # noqa: F401  # else it is missed only when a rate is entered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from gateway_async.journal.database import Transaction

__all__ = ["SharedRate", "shared_rate"]

# A request leaves a moment after its turn: so much longer, at most, is the window of turns.
_LATE_SHARE = 0.1
_LATE_SECONDS = 0.1
# How long before it is due a turn may be taken.
_AHEAD_SECONDS = 1.0
_LOCK_OF_TABLE = 0x6761_7261_7465

_MAKE = """
CREATE TABLE IF NOT EXISTS gateway_rate_turns (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, at DOUBLE PRECISION NOT NULL
)"""
_TAKE = """
WITH next AS (SELECT greatest(0, :window - NOW_SECONDS + coalesce((
    SELECT at FROM gateway_rate_turns WHERE name = :name ORDER BY at DESC LIMIT 1 OFFSET :others
), 0)) AS wait), taken AS (
    INSERT INTO gateway_rate_turns (id, name, at)
    SELECT :id, :name, NOW_SECONDS + wait FROM next WHERE wait <= :ahead
) SELECT wait FROM next"""
_FORGET = "DELETE FROM gateway_rate_turns WHERE name = :name AND at < NOW_SECONDS - :window"
_GIVE_BACK = "DELETE FROM gateway_rate_turns WHERE id = :id"


class SharedRate:
    """A `limiter=` for `GatewayClient`; made by `shared_rate`.

    Entering it waits for a turn. It raises `NotSentError` where the store cannot be asked, and in
    another event loop than the one that opened it.
    """

    def __init__(self, database: Database, name: str, requests: int, window: float) -> None:
        self._database = database
        self._queue = asyncio.Lock()
        self._name = name
        self._requests = requests
        self._window = window
        self._lock = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)

    def __repr__(self) -> str:
        return f"<SharedRate {self._name!r}>"

    async def __aenter__(self) -> None:
        turn = uuid.uuid4().hex
        try:
            # In another event loop it must not wait here: asking the database raises.
            is_behind = self._database.is_at_home and self._queue.locked()
            wait = math.inf if is_behind else await self._take(turn)
            if wait > _AHEAD_SECONDS:
                async with self._queue:  # those of this process ask again, in their order
                    while (wait := await self._take(turn)) > _AHEAD_SECONDS:  # noqa: ASYNC110  # the clock is the database's
                        await asyncio.sleep(_AHEAD_SECONDS / 2)
            await asyncio.sleep(wait)
        except asyncio.CancelledError:
            self._database.post("cannot give back", lambda tx: tx.run(_GIVE_BACK, id=turn))
            raise
        except JournalError as error:
            raise NotSentError(
                f"nothing was sent: the shared rate could not be asked ({error})"
            ) from None

    async def __aexit__(self, *error: object) -> None:
        pass

    def _take(self, turn: str) -> "asyncio.Future[float]":
        """Take the next turn, if it is due soon; return the seconds until it is due."""
        rate = {"name": self._name, "window": self._window}
        limits = {"others": self._requests - 1, "ahead": _AHEAD_SECONDS}

        def take(transaction: "Transaction") -> float:
            transaction.lock(self._lock)
            transaction.run(_FORGET, **rate)
            return float(transaction.run(_TAKE, id=turn, **rate, **limits).fetchone()[0])

        return self._database.run("cannot take a turn", take)


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
        name: What is limited, such as a merchant at a gateway.
        requests: How many requests at most, look-ups included, in any `seconds`: give all
            processes the same figures. Up to a tenth fewer leave, since each leaves a moment
            after its turn.
        seconds: The length of that window.

    Raises:
        ConfigurationError: For another URL, or figures that are no such numbers.
    """
    location = locate(journal_url)
    if location.is_sqlite:
        raise ConfigurationError(
            "shared_rate: expected the URL of a PostgreSQL database; without one, let a single "
            "process send, with an aiolimiter.AsyncLimiter as its limiter"
        )
    expect("requests", requests, COUNT)
    if not is_duration(seconds) or not 1 <= seconds * 1000 < math.inf:
        raise ConfigurationError(f"seconds: expected a number of 0.001 or more, got {seconds!r}")
    window = seconds + min(seconds * _LATE_SHARE, _LATE_SECONDS)

    def make(transaction: "Transaction") -> None:
        # PostgreSQL lets two that make a table "if it does not exist" stumble over each other.
        transaction.lock(_LOCK_OF_TABLE)
        transaction.run(_MAKE)

    @contextlib.asynccontextmanager
    async def sharing() -> "AsyncIterator[SharedRate]":
        database = Database(make_engine(location))
        try:
            await database.run(f"the shared rate {name!r} cannot be opened", make)
            yield SharedRate(database, name, requests, window)
        finally:
            await database.aclose()

    return sharing()

"""So many requests in so many seconds, over all processes of all machines together.

Nothing leaves unless the store, the journal's PostgreSQL, granted it; where it cannot be asked,
nothing is sent. A turn is a row with its time, by the database's clock: now, or once the window of
the turn that is `requests` before it is over. The journal's `Database` asks for it, off the event
loop, and ends every wait.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from gateway_async.errors import ConfigurationError, JournalError, NotSentError, hide_given
from gateway_async.journal.database import Database
from gateway_async.journal.engines import locate
from gateway_async.settings import COUNT, expect, is_duration

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from gateway_async.journal.database import Transaction

__all__ = ["SharedRate", "shared_rate"]

# A request leaves a moment after its turn: so much longer, at most, is the window of turns.
_LATE_SHARE = 0.1
_LATE_SECONDS = 0.1
_LOCK_OF_TURNS = 0x6761_7261_7465

_MAKE = """
CREATE TABLE IF NOT EXISTS gateway_rate_turns (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, at DOUBLE PRECISION NOT NULL
)"""
_TAKE = """
INSERT INTO gateway_rate_turns (id, name, at)
SELECT gen_random_uuid(), :name, greatest(NOW_SECONDS, :window + coalesce((
    SELECT at FROM gateway_rate_turns WHERE name = :name ORDER BY at DESC LIMIT 1 OFFSET :others
), 0)) RETURNING at - NOW_SECONDS"""
_FORGET = "DELETE FROM gateway_rate_turns WHERE name = :name AND at < NOW_SECONDS - :window"


class SharedRate:
    """A `limiter=` for `GatewayClient`; made by `shared_rate`.

    Entering it waits for a turn. It raises `NotSentError` where the store cannot be asked, and in
    another event loop than the one that opened it.
    """

    def __init__(self, database: Database, name: str, requests: int, window: float) -> None:
        self._database = database
        self._name = name
        self._requests = requests
        self._window = window

    async def __aenter__(self) -> None:
        rate = {"name": self._name, "window": self._window}

        def take(transaction: "Transaction") -> float:
            transaction.lock(_LOCK_OF_TURNS)
            transaction.run(_FORGET, **rate)
            taken = transaction.run(_TAKE, others=self._requests - 1, **rate)
            return float(taken.fetchone()[0])  # the seconds until it is due

        try:
            await asyncio.sleep(await self._database.run("cannot take a turn", take))
        except JournalError as error:
            raise NotSentError(
                f"nothing was sent: the shared rate could not be asked ({error})"
            ) from None

    async def __aexit__(self, *error: object) -> None:
        pass


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
    engine = locate(journal_url)
    if engine.is_sqlite:
        raise ConfigurationError(
            "shared_rate: expected the URL of a PostgreSQL database; without one, let a single "
            "process send, with an aiolimiter.AsyncLimiter as its limiter"
        )
    expect("requests", requests, COUNT)
    if not is_duration(seconds) or not seconds:
        raise ConfigurationError(f"seconds: expected a number above 0, got {seconds!r}")
    window = seconds + min(seconds * _LATE_SHARE, _LATE_SECONDS)

    def make(transaction: "Transaction") -> None:
        # PostgreSQL lets two that make a table "if it does not exist" stumble over each other.
        transaction.lock(_LOCK_OF_TURNS)
        transaction.run(_MAKE)

    @contextlib.asynccontextmanager
    async def sharing() -> "AsyncIterator[SharedRate]":
        database = Database(engine)
        try:
            await database.run(f"the shared rate {name!r} cannot be opened", make)
            yield SharedRate(database, name, requests, window)
        finally:
            await database.aclose()

    return sharing()

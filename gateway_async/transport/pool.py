"""Which connections are used again.

Law: none that has ended, or holds what nobody asked for; and none for a while, where a gateway
ends them with a reply owing: it may do so after each reply, and half of all would be lost. Whoever
has waited longest for a connection gets the next.
"""

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

import aiohttp

from gateway_async.transport.listening import is_at_rest
from gateway_async.transport.witness import WitnessedPayload

if TYPE_CHECKING:
    from aiohttp.connector import Connection

    from gateway_async.transport.messages import Evidence

KEEP_IDLE_SECONDS = 1.0
"""A connection idle for longer is not used: closed meanwhile, it would look like a lost reply."""

_MOST_LOST = 3
_DISTRUST_SECONDS = 60.0
"""After so many replies in a row that were lost on used connections, so long none is used again.

Then one is tried, and the others not until it is answered, or as long again: all at once, as many
replies would be lost each time.
"""


class Pool(aiohttp.TCPConnector):
    """A pool that gives away no connection again that may not carry another request."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401  # aiohttp's
        super().__init__(**options)
        self._given: weakref.WeakSet[Any] = weakref.WeakSet()
        self._places = asyncio.Semaphore(self.limit)
        self._lost = 0
        self._distrusts_until = 0.0

    async def connect(self, req: Any, traces: Any, timeout: Any) -> "Connection":  # noqa: ANN401, ASYNC109  # aiohttp's
        """Give a connection to a request, once it is its turn.

        To aiohttp, whoever asks in the moment in which one is free comes first: a worker of a batch
        with its next request, so that those of other batches would wait until they time out.
        """
        # For whoever has to wait, that counts as well; for others, aiohttp's own limit is enough.
        async with asyncio.timeout(timeout.connect if self._places.locked() else None):
            await self._places.acquire()
            connection = None
            try:
                connection = await self._connect(req, traces, timeout)
            finally:
                if connection is None:
                    self._places.release()
            connection.add_callback(self._places.release)
        return connection

    async def _connect(self, req: Any, traces: Any, timeout: Any) -> "Connection":  # noqa: ANN401, ASYNC109  # aiohttp's
        """Find a connection for a request, and tell its evidence whether it is a used one."""
        while True:
            if self.closed:  # it would connect first, and keep that place for ever
                raise aiohttp.ClientConnectionError("the client was closed meanwhile")
            connection = await super().connect(req, traces, timeout)
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:
                return connection
            # A new one is taken as it is: there is no end to those of a gateway that speaks first.
            is_reused = protocol in self._given
            if not is_reused or (self._trusts and await is_at_rest(connection)):
                self._given.add(protocol)
                if isinstance(req.body, WitnessedPayload):
                    req.body.evidence.is_reused = is_reused
                    req.body.evidence.is_trial = is_reused and self._beware()
                return connection
            connection.close()
            transport.abort()  # over TLS, a farewell would be waited for, half a minute

    def note(self, evidence: "Evidence", *, is_lost: bool) -> None:
        """Learn from a request that was written whether its connection ended with a reply owing."""
        if not evidence.is_reused:
            return
        if is_lost:
            self._lost += 1
            self._beware()
        elif self._lost < _MOST_LOST or evidence.is_trial:  # not what had left before
            self._lost, self._distrusts_until = 0, 0.0

    def _beware(self) -> bool:
        """Use none again for a while, where too many were lost; trying one begins it anew."""
        is_due = self._lost >= _MOST_LOST
        if is_due:
            self._distrusts_until = self._loop.time() + _DISTRUST_SECONDS
        return is_due

    @property
    def _trusts(self) -> bool:
        return self._loop.time() >= self._distrusts_until

"""Clients and orders for jobs, and what the sandbox's books must say of them."""

from collections.abc import Iterable
from typing import Any

from gateway_async import GatewayClient, Outcome
from gateway_async.errors import NotSentError
from gateway_async.journal import Journal, OrderState
from tests.support.memory import HttpRequest, HttpResponse, put_transport


def references_of(outcomes: Iterable[Outcome[Any, Any]]) -> list[str]:
    """Return the refund reference of each, which it must have."""
    records: list[Any] = [outcome.record for outcome in outcomes]
    assert all(record.refund_reference_id for record in records)
    return [record.refund_reference_id for record in records]


async def streamed(batch: Any) -> list[Outcome[Any, Any]]:
    """Return what a batch tells when it is streamed."""
    async with batch:
        return [outcome async for outcome in batch]


async def kept(journal: Journal, name: str = "job") -> list[Outcome[Any, Any]]:
    """Return what the journal says of each order."""
    return [outcome async for outcome in journal.outcomes(name)]


async def counts(journal: Journal, name: str = "job") -> dict[OrderState, int]:
    """Return how many orders are in each state that has any."""
    status = await journal.status(name)
    return {state: count for state, count in status.counts.items() if count}


class Interposed:
    """A transport of a client that asks the test before or after each request."""

    def __init__(self, gateway: GatewayClient, before: Any = None, after: Any = None) -> None:
        self._inner, self._before, self._after = gateway._session.transport, before, after
        put_transport(gateway, self)

    async def send(self, message: HttpRequest, **how: Any) -> HttpResponse:
        if self._before is not None:
            await self._before(message)
        reply = await self._inner.send(message, **how)
        if self._after is not None:
            await self._after(message)
        return reply

    async def aclose(self) -> None:
        await self._inner.aclose()


async def refuse(*_: object, **__: object) -> None:
    """Stand in for a transport that reaches no gateway."""
    raise NotSentError("nothing was sent: no connection")

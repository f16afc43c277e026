"""A shop that refunds by jobs, with a journal on SQLite and another on PostgreSQL."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from gateway_async import Outcome
from gateway_async.errors import NotSentError
from gateway_async.journal import Journal, OrderState
from gateway_async.sandbox import Sandbox
from tests.journal.tables import Tables, kept
from tests.support import books
from tests.support.memory import HttpRequest, HttpResponse, put_transport
from tests.support.orders import ORDER_CLASSES, Make, seeded

_OPERATIONS = {kind: operation for operation, kind in ORDER_CLASSES.items()}


@attrs.frozen
class Shop:
    """A shop; what it makes jobs of is called `job`, unless a test names it."""

    sandbox: Sandbox  # its gateway
    journal: Journal
    _other: Journal
    tables: Tables  # those of the journal, past the library
    make: Make  # makes clients that wait for nothing, and send two orders a request

    @property
    def elsewhere(self) -> "Shop":
        """The same shop and journal, in another process."""
        return attrs.evolve(self, journal=self._other)

    def orders(self, count: int = 6, operation: str = "refund", **changes: Any) -> list[Any]:
        return seeded(self.sandbox, count, operation, **changes)

    def client(self, before: Any = None, after: Any = None, **settings: Any) -> Any:
        """Return a client that asks the test before or after each request."""
        client = self.make(**settings)
        inner: Any = client._session.transport

        async def send(message: HttpRequest, **how: Any) -> HttpResponse:
            if before is not None:
                await before(message)
            reply: HttpResponse = await inner.send(message, **how)
            if after is not None:
                await after(message)
            return reply

        put_transport(client, SimpleNamespace(send=send, aclose=inner.aclose))
        return client

    def batch(self, operation: str, orders: Any, name: str = "job", **settings: Any) -> Any:
        return self.client(**settings).batch(operation, orders, job=self.journal.job(name))

    def refund(self, orders: Any, name: str = "job", **settings: Any) -> Any:
        return self.batch("refund", orders, name, **settings)

    def resume(self, name: str = "job", **settings: Any) -> Any:
        return self.client(**settings).resume(self.journal.job(name))

    async def counts(self, name: str = "job") -> dict[OrderState, int]:
        """Return how many orders are in each state that has any."""
        status = await self.journal.status(name)
        return {state: count for state, count in status.counts.items() if count}

    async def kept(self, name: str = "job") -> list[Outcome[Any, Any]]:
        return await kept(self.journal, name)

    def effects(self, orders: list[Any]) -> list[int]:
        return books.effects(self.sandbox, orders, _OPERATIONS.get(type(orders[0]), "payout"))

    def check(self, outcomes: Iterable[Outcome[Any, Any]]) -> None:
        """Check that nothing was refunded twice, and that the outcomes say what was done."""
        books.check_books(self.sandbox, outcomes)


def references_of(outcomes: Iterable[Outcome[Any, Any]]) -> list[str]:
    """Return the refund reference of each, which it must have."""
    records: list[Any] = [outcome.record for outcome in outcomes]
    assert all(record.refund_reference_id for record in records)
    return [record.refund_reference_id for record in records]


async def refuse(*_: object) -> None:
    """Stand in for a network that reaches no gateway, before each request."""
    raise NotSentError("nothing was sent: no connection")


async def refuse_refunds(message: HttpRequest) -> None:
    if message.path.endswith("/refund"):
        await refuse()


@pytest.fixture
def shop(sandbox: Sandbox, make: Make, journal: Journal, other: Journal, tables: Tables) -> Shop:
    return Shop(sandbox, journal, other, tables, make)

"""What the pages take for granted, as the tests of their blocks define it; nothing here runs."""

from collections.abc import Callable
from typing import TypeVar

from aiohttp import web

from gateway_async import Credentials, Dialect, GatewayClient, Journal, OrderRef, RefundOrder
from gateway_async.reconciliation import LedgerEntry
from gateway_async.sandbox import Sandbox

F = TypeVar("F")


class Celery:
    """What the pages need of Celery."""

    def task(self, *, acks_late: bool) -> Callable[[F], F]:
        """Make a function a task."""
        raise NotImplementedError


app: web.Application
base_url: str
celery: Celery
credentials: Credentials
dialect: Dialect
entries: list[LedgerEntry]
gateway: GatewayClient
journal: Journal
journal_url: str
make_gateway: Callable[[], GatewayClient]
orders: list[RefundOrder]
refs: list[OrderRef]
sandbox: Sandbox
book: Callable[..., None]
look_into: Callable[..., None]
on_payment: Callable[..., None]
save: Callable[..., None]
ship: Callable[..., None]
show: Callable[..., None]

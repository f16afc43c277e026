"""The orders of a job are read a page ahead."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway_async import jobs
from gateway_async.jobs import NewOrders

PAGES: dict[int, list[tuple[Sequence[int], Sequence[object]]]] = {
    -1: [((0, 1), "ab")],
    1: [((2,), "c")],
    2: [],
}


class Book:
    """Stands for a lease, and says which pages were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def new(
        self, *, after: int, limit: int, orders: bool
    ) -> list[tuple[Sequence[int], Sequence[object]]]:
        assert limit
        assert orders
        self.asked.append(after)
        return list(PAGES[after])


def orders_of(book: Any) -> NewOrders:
    return NewOrders(book, None, lambda _: False)


async def pulled(orders: NewOrders, count: int) -> list[tuple[int, object]]:
    """Pull so many orders, or as many as there are."""
    indices: list[int] = []
    found: list[object] = []
    while len(found) < count and not orders.ended:
        positions, more = await orders.pull(count - len(found))
        indices += positions
        found += more
    return list(zip(indices, found, strict=True))


async def turns_of_the_loop() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.0)


async def test_the_next_page_is_read_while_this_one_is_sent() -> None:
    book = Book()
    orders = orders_of(book)
    await pulled(orders, 1)
    await turns_of_the_loop()
    assert book.asked == [-1, 1]
    assert await pulled(orders, 3) == [(1, "b"), (2, "c")]
    assert orders.ended


async def test_nothing_is_read_once_it_is_closed() -> None:
    book = Book()
    orders = orders_of(book)
    await pulled(orders, 1)
    await orders.aclose()
    await turns_of_the_loop()
    assert book.asked == [-1]

"""One wrong order means that nothing of a job is sent, and that nothing is left of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway_async import InvalidOrderError
from gateway_async.errors import JournalError
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import (
    Make,
    check_conserved,
    effects,
    seeded,
    streamed,
)
from tests.journal.tables import Tables
from tests.orders import refunds

pytestmark = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@pytest.mark.parametrize("given", [list, iter])
async def test_a_corrected_line_works(
    sandbox: Sandbox, make: Make, journal: Journal, given: Any
) -> None:
    orders, job = seeded(sandbox), journal.job("job")
    for wrong in ("no order", None, 7):
        broken = [*orders[:3], wrong, *orders[3:]]
        with pytest.raises(InvalidOrderError, match="3"):
            await make().refund(given(broken), job=job)
        with pytest.raises(InvalidOrderError, match="3"):
            await streamed(make().refund(given(broken), job=job))
    assert sandbox.requests.total() == 0
    check_conserved(await make().refund(given(orders), job=job), orders)
    with pytest.raises(InvalidOrderError, match=r"; this run sent nothing$"):
        await make().refund(iter([*orders[:3], 7]), job=job)
    assert effects(sandbox, orders) == [1] * 6


@pytest.mark.parametrize(("how", "wrong"), [("refund", "no order"), ("submit", "a duplicate")])
async def test_nothing_is_left_of_a_long_stream_with_a_wrong_order(
    make: Make, journal: Journal, url: str, how: str, wrong: str
) -> None:
    orders: list[Any] = refunds(2500)
    given = iter([*orders, orders[0] if wrong == "a duplicate" else wrong])
    job, gateway = journal.job("job"), make()
    with pytest.raises(InvalidOrderError, match="order 2500"):
        await (
            gateway.refund(given, job=job)
            if how == "refund"
            else gateway.submit("refund", given, job=job)
        )
    assert [outcome async for outcome in journal.outcomes("job")] == []
    assert Tables(url).run("SELECT count(*) FROM gateway_orders") == [(0,)]
    assert await gateway.submit("refund", iter(orders), job=job) == 2500


async def test_an_input_that_raises(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = seeded(sandbox)

    def given() -> Iterator[Any]:
        yield from orders[:4]
        raise LookupError("the file ended")

    batch = make().refund(given(), job=journal.job("job"))
    with pytest.raises(LookupError, match="the file ended"):
        await batch
    assert sandbox.requests.total() == 0
    assert not batch.result.exhausted
    with pytest.raises(JournalError, match="not submitted to its end"):
        await make().resume(journal.job("job"))
    check_conserved(await make().refund(orders, job=journal.job("job")), orders)

"""The journal knows before the gateway does, and before the caller does; else nothing is sent."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async.errors import JournalError
from gateway_async.journal import Journal
from gateway_async.sandbox import Sandbox
from tests.jobs.books import POLICY, RESENDING, Interposed, Make
from tests.journal.tables import Tables
from tests.memory import HttpRequest, fields_of
from tests.orders import seeded
from tests.support.books import DECLINED, SUCCEEDED, check_books, effects, statuses

LEASE = ("keep the lease", "release the lease")


async def test_intents_are_kept_before_the_first_byte_and_outcomes_before_they_are_told(
    sandbox: Sandbox, make: Make, journal: Journal, tables: Tables
) -> None:
    orders, gateway, found = seeded(sandbox, 10), make(), []
    names = [order.transaction_id for order in orders]

    async def look(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            known = dict(zip(names, tables.states(), strict=True))
            asked = fields_of(message)["refund_orders"]
            found.append([known[order["transaction_id"]] for order in asked])

    Interposed(gateway, before=look)
    async with gateway.refund(orders, job=journal.job("job")) as batch:
        async for outcome in batch:
            assert tables.states()[outcome.index] == "succeeded"
    assert found == [["intent", "intent"]] * 5


@attrs.define
class Failing:
    """Lets chosen calls of a journal's thread fail, but those about the lease.

    Attributes:
        run: The real one.
        fails: Given the number of a call, whether it fails.
        after: Whether it fails only once it was carried out: its commit is in doubt.
    """

    run: Callable[..., Any]
    fails: Callable[[int], bool]
    after: bool
    calls: int = -1
    failed: int = 0

    def __call__(self, what: str, operation: Any) -> asyncio.Future[Any]:
        return asyncio.ensure_future(self._run(what, operation))

    async def _run(self, what: str, operation: Any) -> Any:
        self.calls += not (is_lease := what.endswith(LEASE))
        if is_lease or not self.fails(self.calls):
            return await self.run(what, operation)
        self.failed += 1
        if self.after:
            await self.run(what, operation)
        raise JournalError(f"{what}: the disk is on fire")


MOST_CALLS = 60


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("after", "from_then_on"), [(False, True), (True, False), (True, True)])
async def test_a_write_that_fails_doubles_nothing_and_is_not_glossed_over(  # fixtures
    sandbox: Sandbox,
    make: Make,
    journal: Journal,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    after: bool,  # a parameter
    from_then_on: bool,  # a parameter
) -> None:
    gateway, resending = make(), make(recovery=RESENDING)
    whole, real = 0, journal.database.run
    for number in range(MOST_CALLS):
        name, orders = f"job {number}", seeded(sandbox, 6)
        fails = number.__le__ if from_then_on else number.__eq__
        failing = Failing(real, fails, after)
        batch = gateway.refund(orders, job=journal.job(name))
        with monkeypatch.context() as patched:
            patched.setattr(journal.database, "run", failing)
            error = await _ended(batch)
        if not failing.failed:
            whole = number
            break
        assert isinstance(error, JournalError)
        await _check_told(sandbox, journal, name, batch)
        tables.end_leases()  # one that was taken, as nobody was told, runs out by itself
        assert (await resending.refund(orders, job=journal.job(name))).counts[SUCCEEDED] == 6
        assert effects(sandbox, orders) == [1] * 6
    assert whole > 6


async def _ended(batch: Any) -> Exception | None:
    try:
        await batch
    except JournalError as error:
        return error
    return None


async def _check_told(sandbox: Sandbox, journal: Journal, name: str, batch: Any) -> None:
    """Check that what was told is true, and final only where it was kept."""
    check_books(sandbox, batch.result)
    if not any(status.imported for status in await journal.jobs() if status.name == name):
        assert not {SUCCEEDED, DECLINED} & set(statuses(batch.result))
        return
    known = [outcome.status async for outcome in journal.outcomes(name)]
    for outcome in batch.result:
        if outcome.status in {SUCCEEDED, DECLINED}:
            assert known[outcome.index] is outcome.status


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("ending", "concurrency"), [("", 4), ("-wal", 1)])
async def test_without_its_file_a_job_sends_no_more(
    sandbox: Sandbox, make: Make, url: str, ending: str, concurrency: int
) -> None:
    orders, path = seeded(sandbox, 100), Path(url.removeprefix("sqlite:///") + ending)
    gateway = make(policy=attrs.evolve(POLICY, concurrency=concurrency))

    async def unlink(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            await asyncio.to_thread(path.unlink, missing_ok=True)

    Interposed(gateway, after=unlink)
    async with Journal.open(url) as journal:
        batch = gateway.refund(orders, job=journal.job("job"))
        with pytest.raises(JournalError, match="deleted, moved or replaced"):
            await batch
    assert 0 < sum(effects(sandbox, orders)) < len(orders)
    check_books(sandbox, batch.result)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_full_disk_at_any_moment_doubles_nothing(
    sandbox: Sandbox, make: Make, journal: Journal, url: str, tables: Tables
) -> None:
    policy = attrs.evolve(POLICY, chunk_size=50)
    gateway = make(policy=policy)
    ends = []
    for spare in range(0, 120, 8):
        name, orders = f"job {spare}", seeded(sandbox, 300)
        async with Journal.open(url) as small:
            await small.database.run("cannot shrink", functools.partial(_limit, spare=spare))
            batch = gateway.refund(orders, job=small.job(name))
            error = await _ended(batch)
            check_books(sandbox, batch.result)
        ends.append((error is None, sum(effects(sandbox, orders)) > 0))
        result = await gateway.refund(orders, job=journal.job(name))
        assert result.counts[SUCCEEDED] == 300
        assert effects(sandbox, orders) == [1] * 300
        assert tables.run("PRAGMA integrity_check") == [("ok",)]
    assert {(False, False), (True, True)} <= set(ends)


def _limit(inside: Any, spare: int) -> None:
    (used,) = inside.run("PRAGMA page_count").fetchone()
    inside.run(f"PRAGMA max_page_count = {used + spare}")

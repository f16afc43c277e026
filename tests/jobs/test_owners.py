"""A job has one owner: the others wait, and one that lost it sends and changes nothing."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest

from gateway_async import OutcomeStatus, RecoveryPolicy
from gateway_async.errors import JobBusyError, JournalError, LeaseLostError
from gateway_async.jobs import work
from gateway_async.journal import Journal, OrderState, leases
from gateway_async.journal.leases import Lease
from gateway_async.journal.rows import Known, noted
from gateway_async.journal.states import Proof, Transition
from gateway_async.sandbox import faults
from tests.jobs.conftest import Shop
from tests.journal.tables import MERCHANT, Tables, kept, on_a_file, submitted
from tests.support.books import NOT_SENT, SUCCEEDED, UNKNOWN, statuses
from tests.support.interruptions import until
from tests.support.memory import Asked, HttpRequest, client_over, listing
from tests.support.orders import ONE_BY_ONE, RESENDING, refunds

LEASE_SECONDS = 15.0
"""What a journal gives by default: no test here waits for so long."""
Pass = Callable[..., None]


@attrs.frozen
class Halted:
    """A job under way that stops before the first byte of a refund, as a frozen process does."""

    batch: Any
    task: "asyncio.Task[Any]"
    goes_on: asyncio.Event

    async def ends(self, said: str | None = None) -> None:
        """Let it go on, and see that it finds its lease lost and calls nothing `not_sent`."""
        self.goes_on.set()
        with pytest.raises(LeaseLostError, match=said):
            await self.task
        assert {UNKNOWN, SUCCEEDED} >= set(statuses(self.batch.result))


async def halt(shop: Shop, orders: list[Any], **settings: Any) -> Halted:
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def before(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            reached.set()
            await goes_on.wait()

    batch = shop.refund(orders, before=before, **settings)
    task = asyncio.create_task(batch)
    await reached.wait()
    return Halted(batch, task, goes_on)


@pytest.fixture
def frozen(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this journal renew nothing, and say nothing of it: as a frozen process does."""
    real = Lease.keep

    async def keep(lease: Lease) -> None:
        if lease._database is journal.database:
            await asyncio.Event().wait()
        await real(lease)

    monkeypatch.setattr(Lease, "keep", keep)


@pytest.fixture
def let_it_pass(monkeypatch: pytest.MonkeyPatch) -> Pass:
    """Let the time of a lease pass, by this process's clocks or by one of them."""
    real, passed = leases.read_clocks, [0.0, 0.0]
    monkeypatch.setattr(
        leases, "read_clocks", lambda: tuple(map(sum, zip(real(), passed, strict=True)))
    )

    def let_it_pass(*, awake: float = LEASE_SECONDS, wall: float = LEASE_SECONDS) -> None:
        passed[:] = awake, wall

    return let_it_pass


@pytest.fixture
def renewed_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases be renewed twenty times a second."""
    monkeypatch.setattr(leases, "_RENEWALS_A_LEASE", 300)


async def test_a_job_has_one_lease(journal: Journal, other: Journal) -> None:
    await submitted(journal)
    ended = await asyncio.gather(
        *(each.job("job").take(MERCHANT) for number in range(3) for each in (journal, other)),
        return_exceptions=True,
    )
    (lease,) = [each for each in ended if isinstance(each, Lease)]
    refused = [each for each in ended if isinstance(each, JobBusyError)]
    assert len(refused) == 5
    assert all(0 < error.seconds_left <= 15 and error.job == "job" for error in refused)
    assert "'job' is with '" in str(refused[0])
    assert (await other.status("job")).is_running
    await lease.release()
    assert not (await journal.status("job")).is_running
    await other.job("job").take(MERCHANT)
    await lease.release()  # repeatable, and only of one's own
    assert (await other.status("job")).is_running


async def test_a_lease_that_was_taken_over_changes_nothing_in_the_same_transaction(
    journal: Journal, tables: Tables
) -> None:
    lease = await (await submitted(journal)).take(MERCHANT)
    tables.end_leases()

    def intend(position: int) -> "asyncio.Future[None]":
        note = noted({}, None, 0)
        return lease.change("keep it", lambda orders: orders.intend((position,), note))

    before = intend(0)
    taking = asyncio.create_task(journal.job("job").take(MERCHANT))
    await asyncio.sleep(0)
    with pytest.raises(LeaseLostError, match="another process took it"):
        await intend(1)
    await before
    await (await taking).release()
    assert tables.states()[:2] == ["unknown", "new"]


async def test_one_that_waits_goes_on_once_the_other_has_ended(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """And not only once its lease would have run out: here, in an hour."""
    caplog.set_level(logging.INFO)
    orders = shop.orders()
    async with Journal.open(shop.tables.url, lease_seconds=3600) as journal, asyncio.timeout(600):
        first = await (await submitted(journal, orders)).take(MERCHANT)
        waiting = asyncio.ensure_future(attrs.evolve(shop, journal=journal).refund(orders))
        await until(lambda: "s at most: another process has it" in caplog.text)
        await first.release()
        shop.check(await waiting)


async def test_one_that_is_left_while_it_waits_calls_its_orders_unknown(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The other may have sent them, or may send them yet."""
    caplog.set_level(logging.INFO)
    orders = shop.orders()
    lease = await (await submitted(shop.journal, orders)).take(MERCHANT)
    waiting = shop.refund(orders)
    task = asyncio.create_task(waiting)
    await until(lambda: "s at most: another process has it" in caplog.text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await lease.release()
    assert statuses(waiting.result) == [UNKNOWN] * len(orders)
    assert shop.sandbox.requests["refund"] == 0


async def test_what_was_in_flight_or_held_is_looked_up(journal: Journal, tables: Tables) -> None:
    await submitted(journal)
    for position, state in enumerate(OrderState):
        tables.put(position, state=state, text="why", proof=Proof.NOT_DONE)
    await journal.job("job").take(MERCHANT)
    assert [(known.state, known.text) for known in tables.known()] == [
        ("new", "why"),
        ("unknown", "it was in flight when its process ended"),
        ("succeeded", "why"),
        ("declined", "why"),
        ("unknown", "why"),
        ("unknown", "earlier, why"),
        *[("new", "")] * 4,
    ]


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("passed", [{}, {"awake": 0.0}, {"wall": 0.0}, {"wall": -900.0}], ids=str)
async def test_one_whose_lease_is_over_by_either_clock_sends_nothing_and_changes_nothing(
    shop: Shop, let_it_pass: Pass, passed: dict[str, float]
) -> None:
    halted = await halt(shop, shop.orders())
    let_it_pass(**passed)
    shop.tables.end_leases()
    assert (await shop.elsewhere.resume(recovery=RESENDING)).counts[SUCCEEDED] >= 2
    before = shop.tables.snapshot(), shop.sandbox.requests["refund"]
    await halted.ends()
    assert (shop.tables.snapshot(), shop.sandbox.requests["refund"]) == before
    shop.check(halted.batch.result)


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize("is_taken", [True, False])
async def test_one_whose_lease_is_over_by_the_databases_clock_sends_no_more(
    shop: Shop, is_taken: bool
) -> None:
    orders, tables = shop.orders(), shop.tables
    halted = await halt(shop, orders, policy=ONE_BY_ONE)
    tables.end_leases()
    if is_taken:
        await shop.elsewhere.journal.job("job").take(MERCHANT)
    before = tables.snapshot()
    await halted.ends("another process took it" if is_taken else "ran out")
    assert shop.effects(orders) == [1, 1, 0, 0, 0, 0]
    assert statuses(halted.batch.result)[:2] == [UNKNOWN if is_taken else SUCCEEDED] * 2
    assert (tables.snapshot() == before) is is_taken
    assert is_taken or tables.states() == ["succeeded"] * 2 + ["new"] * 4


# A database that lacks the last commits, after a failover or from a backup, may have another's job,
# slice or lease in the place of one of ours: with the same number, and the same epoch.


async def test_a_lease_that_another_took_in_an_exchanged_database_is_lost(
    journal: Journal, tables: Tables
) -> None:
    lease = await (await submitted(journal)).take(MERCHANT)
    tables.run("UPDATE gateway_slices SET owner = 'another'")
    before = tables.snapshot()
    with pytest.raises(LeaseLostError, match="another process took it"):
        await lease.change("intend", lambda orders: orders.intend(range(10), ""), alive=True)
    assert lease.lost is not None
    assert tables.snapshot() == before


@pytest.mark.parametrize(
    "change", ["name = 'another'", "created_at = 0"], ids=["no such job", "another of that name"]
)
async def test_no_order_of_another_job_is_an_outcome_from_an_exchanged_database(
    shop: Shop, change: str
) -> None:
    orders, tables = shop.orders(), shop.tables

    async def exchange(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            tables.run(f"UPDATE gateway_jobs SET {change}")  # noqa: S608  # ours
            tables.run("UPDATE gateway_slices SET owner = 'another'")
            tables.run("UPDATE gateway_chunks SET state = 'succeeded'")

    batch = shop.refund(orders, after=exchange, policy=ONE_BY_ONE)
    with pytest.raises(JournalError, match="'job'"):
        await batch
    assert statuses(batch.result) == [UNKNOWN] * 6
    assert shop.effects(orders) == [1, 1, 0, 0, 0, 0]


async def test_one_that_ended_its_lease_intends_nothing_in_the_same_transaction(
    journal: Journal,
) -> None:
    lease = await (await submitted(journal)).take(MERCHANT)
    lease.run("keep the lease", lease._renew)
    lease.run("end it", lease._end)
    with pytest.raises(LeaseLostError, match="ran out"):
        await lease.change("intend", lambda orders: orders.intend(range(10), ""), alive=True)


@on_a_file
async def test_a_renewal_counts_from_when_it_was_asked_for(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = (100.0, 9000.0)
    monkeypatch.setattr(leases, "read_clocks", lambda: now)
    lease = await (await submitted(journal)).take(MERCHANT)
    now = (110.0, 9010.0)
    renewing = asyncio.ensure_future(lease.renew())
    await asyncio.sleep(0)
    now = (122.0, 9022.0)
    await renewing
    assert lease.expires_in() == 3


@on_a_file
@pytest.mark.usefixtures("renewed_often")
async def test_one_that_found_its_lease_lost_renews_it_no_more(
    journal: Journal, other: Journal, tables: Tables, let_it_pass: Pass
) -> None:
    """Its caller may take its time over what is left; another process takes the job meanwhile."""
    lease = await (await submitted(journal)).take(MERCHANT)
    let_it_pass()
    with pytest.raises(LeaseLostError):
        lease.check()
    let_it_pass(awake=0.0, wall=0.0)
    tables.end_leases()
    async with asyncio.timeout(120):
        await lease.keep()
    await other.job("job").take(MERCHANT)


def test_the_clock_goes_on_in_a_suspended_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    if hasattr(time, "CLOCK_BOOTTIME"):
        before = time.clock_gettime(time.CLOCK_BOOTTIME)
        assert before <= leases.read_clocks()[0] <= time.clock_gettime(time.CLOCK_BOOTTIME)
        monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    before = time.monotonic()
    assert before <= leases.read_clocks()[0] <= time.monotonic()


@pytest.mark.usefixtures("renewed_often")
async def test_a_job_that_runs_longer_than_its_lease_keeps_it(shop: Shop) -> None:
    orders, other = shop.orders(), shop.elsewhere.journal
    halted = await halt(shop, orders)
    shop.tables.end_leases()
    while not (await other.status("job")).is_running:  # noqa: ASYNC110  # it is renewed by itself
        await asyncio.sleep(0)
    with pytest.raises(JobBusyError):
        await other.job("job").take(MERCHANT)
    halted.goes_on.set()
    assert (await halted.task).ok
    assert shop.effects(orders) == [1] * 6


@on_a_file
@pytest.mark.usefixtures("renewed_often")
async def test_one_that_loses_its_lease_while_it_waits_to_look_again_ends_at_once(
    journal: Journal, other: Journal, tables: Tables
) -> None:
    orders, looked = refunds(2), asyncio.Event()
    await submitted(journal, orders)
    before = {order.transaction_id: frozenset[str]() for order in orders}
    tables.put(state="unknown", sent=noted(before, None, 0))

    def answer(asked: Asked) -> Any:
        looked.set()
        return listing([])(asked)

    patient = client_over(answer, recovery=RecoveryPolicy(settle_seconds=3600))
    batch = patient.resume(journal.job("job"))
    async with asyncio.timeout(600):
        task = asyncio.create_task(batch)
        await looked.wait()
        lease = None
        while lease is None:  # the owner may renew in between
            tables.end_leases()
            with suppress(JobBusyError):
                lease = await other.job("job").take(MERCHANT)
        with pytest.raises(LeaseLostError):
            await task
    assert statuses(batch.result) == [UNKNOWN] * 2


@pytest.mark.usefixtures("frozen")
async def test_one_that_stood_still_while_it_yielded_what_is_left_says_so(
    shop: Shop, let_it_pass: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has sent it meanwhile."""
    monkeypatch.setattr(work, "_READ_AT_ONCE", 1)
    orders, told = shop.orders(12), list[OutcomeStatus]()
    shop.sandbox.faults.add("refund", faults.DropReply(times=1))
    batch = shop.refund(orders, policy=attrs.evolve(ONE_BY_ONE, stop_after_unknown=1))

    async def stream() -> None:
        async with batch:
            async for outcome in batch:
                told.append(outcome.status)
                if outcome.status is NOT_SENT and told.count(NOT_SENT) == 1:
                    let_it_pass()
                    shop.tables.end_leases()
                    await shop.elsewhere.resume(recovery=RESENDING)

    with pytest.raises(LeaseLostError):
        await stream()
    assert shop.effects(orders) == [1] * 12
    assert told[-1] is SUCCEEDED


@on_a_file
async def test_what_an_operator_decides_meanwhile_is_not_proved_again(shop: Shop) -> None:
    order, single = shop.orders(2)
    await shop.make().refund([order])
    await submitted(shop.journal, [order, order, single])
    sent = noted({order.transaction_id: frozenset(), single.transaction_id: frozenset()}, None, 0)
    shop.tables.put(state="unknown", sent=sent)

    async def decide(_: object) -> None:
        if (await shop.counts()).get(OrderState.UNKNOWN) == 3:
            await shop.elsewhere.journal.resolve("job", 1, "succeeded", "it is this one")

    result = await shop.resume(after=decide)
    assert shop.effects([order, single]) == [1, 0]
    assert statuses(result) == [UNKNOWN, SUCCEEDED, NOT_SENT]
    assert [known.note for known in shop.tables.known()] == ["", "it is this one", ""]


async def test_a_pending_order_stays_so_until_its_next_request_ends(
    journal: Journal, tables: Tables
) -> None:
    """Whatever is decided."""
    job, retracted = await submitted(journal), {4: Known(OrderState.NEW)}
    tables.put(4, state="unknown", is_pending=True)
    await journal.resolve("job", 4, "not_sent", "a mistake")
    lease = await job.take(MERCHANT)
    await lease.change("intend", lambda orders: orders.intend((4,), ""))
    await lease.change("retract", lambda orders: orders.change(Transition.RETRACT, retracted))
    await lease.release()
    await journal.resolve("job", 4, "unknown", "it is under way")
    assert getattr((await kept(journal))[4].error, "is_pending", False)

"""The journal knows before the gateway does, and before the caller does; else nothing is sent."""

import asyncio
import contextlib
import functools
import itertools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import Dialect
from gateway_async.errors import JournalError
from gateway_async.journal import Journal, OrderState, engines
from tests.jobs.conftest import Shop, refuse
from tests.journal.tables import CALLS, Failures, Tables, kept, on_a_file
from tests.support.books import DECLINED, NOT_SENT, SUCCEEDED, statuses, streamed
from tests.support.clock import Clock
from tests.support.collaborators import Limiter
from tests.support.interruptions import until
from tests.support.memory import Asked, HttpRequest, client_over, fields_of
from tests.support.orders import ONE_BY_ONE, RESENDING, refunds


async def test_the_journal_knows_of_an_order_before_the_gateway_and_before_the_caller_do(
    shop: Shop,
) -> None:
    """What waits for the limiter, to be sent or to be tried again, is still new."""
    orders, known, sent = shop.orders(10), set[OrderState](), list[tuple[list[int], list[int]]]()
    places = {order.transaction_id: place for place, order in enumerate(orders)}

    async def look(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            asked = [places[one["transaction_id"]] for one in fields_of(message)["refund_orders"]]
            states = enumerate(shop.tables.states())
            sent.append((asked, [place for place, state in states if state == "intent"]))
            if len(sent) % 2:
                await refuse()  # and be tried again

    async def wait(_: int) -> None:
        known.update(await shop.counts())

    limiter = Limiter(enter=wait)
    async with shop.refund(orders, before=look, limiter=limiter, policy=ONE_BY_ONE) as batch:
        async for outcome in batch:
            assert outcome.status is SUCCEEDED
            assert shop.tables.states()[outcome.index] == "succeeded"
    assert known == {OrderState.NEW, OrderState.SUCCEEDED}
    assert len(sent) == 10
    assert all(asked == intended for asked, intended in sent)


ONCE, FROM_THEN_ON = operator.eq, operator.le
FAILURES = [
    ("sqlite", "refused", ONCE),
    ("sqlite", "refused", FROM_THEN_ON),
    ("sqlite", "in doubt", ONCE),
    ("sqlite", "full", FROM_THEN_ON),
    ("postgresql", "refused", ONCE),  # a server's disk is not ours to fill
    ("postgresql", "in doubt", FROM_THEN_ON),
]


@pytest.mark.slow
@pytest.mark.parametrize(("url", "how", "fails"), FAILURES, indirect=["url"])
async def test_a_database_that_fails_doubles_nothing_and_is_not_glossed_over(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, how: str, fails: Callable[[int, int], bool]
) -> None:
    """At each statement or commit in turn: once, or from then on."""
    url, ended = shop.tables.url, list[bool]()
    engine = type(engines.locate(url))
    connect: Any = engine.connect
    for first in itertools.count():
        of = ("commit",) if how == "in doubt" else CALLS
        failures = Failures(functools.partial(fails, first), how, of)
        name, orders, told = f"job {first}", shop.orders(4, refund_reason="r" * 900), list[Any]()
        with monkeypatch.context() as patch, contextlib.suppress(JournalError):
            patch.setattr(engine, "connect", failures.over(connect))
            ended.append(False)
            async with Journal.open(url) as journal:
                batch = attrs.evolve(shop, journal=journal).refund(orders, name)
                try:
                    await batch
                finally:
                    told += batch.result
            ended[-1] = True
        assert len(told) in {0, len(orders)}  # none where the job could not begin
        async with Journal.open(url) as journal:
            shop.check(told)
            names = [status.name for status in await journal.jobs()]
            known = statuses(await kept(journal, name)) if name in names else []
            for outcome in told:
                if outcome.status in {SUCCEEDED, DECLINED}:
                    assert known[outcome.index] is outcome.status
            shop.tables.end_leases()  # one that was taken, as nobody was told, runs out by itself
            again = attrs.evolve(shop, journal=journal).refund(orders, name, recovery=RESENDING)
            assert (await again).ok
        assert shop.effects(orders) == [1] * 4
        if not failures.failed:
            break
    assert ended[-1]
    assert ended.count(False) > 5


@on_a_file
async def test_nothing_is_sent_behind_an_outcome_that_could_not_be_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, real = shop.orders(), shop.journal.database.run

    def fail(_: object) -> None:
        raise JournalError("the disk is on fire")

    def run(what: str, operation: Any) -> Any:
        return real(what, fail if what.endswith("keep the outcomes") else operation)

    monkeypatch.setattr(shop.journal.database, "run", run)
    batch = shop.refund(orders, policy=ONE_BY_ONE)
    with pytest.raises(JournalError, match="on fire"):
        await batch
    shop.check(batch.result)
    assert shop.effects(orders) == [1, 1, 0, 0, 0, 0]


@on_a_file
async def test_nothing_leaves_if_the_deadline_passes_while_its_intent_is_kept(
    shop: Shop, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, real = shop.orders(), shop.journal.database.run

    def run(what: str, action: Any) -> Any:
        if what.endswith("about to be sent"):
            clock.advance(60)
        return real(what, action)

    monkeypatch.setattr(shop.journal.database, "run", run)
    result = await shop.refund(orders, policy=attrs.evolve(ONE_BY_ONE, deadline_seconds=60))
    assert set(statuses(result)) == {NOT_SENT}
    assert shop.tables.states() == ["new"] * 6
    assert shop.effects(orders) == [0] * 6


async def test_what_never_left_is_new_also_where_its_intent_is_in_doubt(shop: Shop) -> None:
    """Else a person would have to decide on orders that this process knows it did not send."""
    orders, failures = shop.orders(), Failures(lambda number: number == 0, "in doubt", ("commit",))

    async def looked_up(message: HttpRequest) -> None:
        if message.path.endswith("/retrievalRefund") and not failures.counts:
            failures.counts["commit"] = 1  # a read, which is refused as well
            failures.strike(shop.journal)
            failures.counts["commit"] = 0

    batch = shop.refund(orders, after=looked_up, policy=ONE_BY_ONE)
    with pytest.raises(JournalError, match="about to be sent: the server is gone"):
        await batch
    assert failures.failed == 1
    assert shop.effects(orders) == [0] * 6
    assert shop.tables.states() == ["new"] * 6
    assert set(statuses(batch.result)) == {NOT_SENT}
    assert (await shop.resume()).ok


# Nothing secret gets into the journal, whatever the gateway says

CARD = "4111111111111111"
SIGNATURE = f"s3cret-of-the-signer-{'c2lnbmVk' * 8}"
TEXTS = (f"E1:card {CARD} was declined", f"E1:{SIGNATURE} is not right", "E1:a\0b\ud800")


def _echoing(asked: Asked) -> Any:
    """Answer half of the refunds as done, decline the others, and say too much of each."""
    reply = asked.done(encryption_data=SIGNATURE, card=CARD)
    if asked.operation.name == "search_refunds":
        return reply
    for number, item in enumerate(reply["refund_orders"]):
        item |= {"card": CARD, "encryption_data": SIGNATURE, "refund_reference_id": f"R{number}"}
        if number % 2:
            item |= {"refund_status": "0", "refund_message": TEXTS[number % len(TEXTS)]}
    return reply


async def test_neither_card_nor_secret_nor_signature_is_kept(
    journal: Journal, url: str, tables: Tables
) -> None:
    dialect = Dialect(declined_statuses={"0"})
    gateway = client_over(_echoing, signer=lambda *_: SIGNATURE, dialect=dialect)
    result = await gateway.refund(refunds(60), job=journal.job("job"))
    assert len(result.declined) == 30
    errors: list[Any] = [outcome.error for outcome in await kept(journal) if outcome.error]
    assert {error.code for error in errors} == {"E1"}
    for shown in ({str(error) for error in errors}, {error.text for error in errors}):
        assert {"*** is not right", "a\ufffdb\ufffd"} < shown
    known = repr(tables.snapshot()).encode()
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        known = b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))
    assert b"T000001" in known
    assert b"E1" in known
    assert not [one for one in (CARD, SIGNATURE, "s3cret") if one.encode() in known]


# Cancelled wherever it is, a job doubles nothing once it is run again

TURNS = [*range(1, 20, 2), *(int(20 * 1.5**number) for number in range(15))]


def as_it_is(batch: Any) -> Any:
    return batch


async def _left(batch: Any) -> Any:
    """Leave a stream early, and then wait to be cancelled."""
    async with batch:
        async for _ in batch:
            break
    await asyncio.sleep(0)


@on_a_file
@pytest.mark.parametrize(
    ("drive", "is_resumed", "most"),  # cancellations; anyio cancels in each turn
    [(as_it_is, False, 1), (streamed, True, 1), (_left, False, 1), (as_it_is, True, 10**9)],
)
async def test_a_job_that_is_cancelled_in_any_turn_doubles_nothing(
    shop: Shop, drive: Any, is_resumed: bool, most: int
) -> None:
    cancelled, before = 0, asyncio.all_tasks()
    for turns in TURNS:
        orders, name = shop.orders(), f"job {turns}"
        if is_resumed:
            await shop.refund(orders, name, before=refuse)
        again = {"recovery": RESENDING}
        batch = shop.resume(name, **again) if is_resumed else shop.refund(iter(orders), name)
        task = asyncio.create_task(drive(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        for _ in range(most):
            if not task.cancel():
                break
            await asyncio.sleep(0)
        await asyncio.wait({task})
        cancelled += task.cancelled()
        assert not {one for one in asyncio.all_tasks() - before if "job" in one.get_name()}
        with contextlib.suppress(RuntimeError):  # it was never begun
            shop.check(batch.result)
            assert batch.result.counts[SUCCEEDED] <= len(orders)
            assert drive is not _left or batch.result.counts[NOT_SENT] == 0
        if any(status.name == name for status in await shop.journal.jobs()):
            status = await shop.journal.status(name)
            assert (status.is_running, status.counts[OrderState.INTENT]) == (False, 0)
            shop.check(await shop.kept(name))
        assert (await shop.refund(orders, name, **again)).ok  # the same line ends it
        assert shop.effects(orders) == [1] * 6
    assert cancelled > 10


@on_a_file
async def test_a_second_cancellation_ends_an_input_that_takes_its_time_to_end(shop: Shop) -> None:
    orders, begun, ending = shop.orders(1), asyncio.Event(), asyncio.Event()

    async def given() -> Any:
        try:
            yield orders[0]
            begun.set()
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(shop.refund(given()))
    for reached in (begun, ending):
        await reached.wait()
        task.cancel()
    await asyncio.wait({task}, timeout=120)
    assert task.cancelled()
    assert shop.sandbox.requests.total() == 0


class AlarmError(Exception):
    """What a signal handler raises, wherever the program is just then."""


@on_a_file
async def test_what_waits_is_sent_no_more_once_a_job_that_was_cut_short_called_it_not_sent(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = asyncio.wait

    async def alarmed(tasks: Any, *, return_when: str = asyncio.ALL_COMPLETED, **given: Any) -> Any:
        if return_when == asyncio.FIRST_EXCEPTION:  # the job waits for its workers
            # The first refund is made; the second waits for its turn.
            await until(lambda: batch.progress.counts[SUCCEEDED])
            raise AlarmError
        return await wait(tasks, return_when=return_when, **given)

    monkeypatch.setattr(asyncio, "wait", alarmed)
    orders, told = shop.orders(), list[Any]()
    turns = asyncio.Semaphore(3)  # for two look-ups and a refund
    limiter = Limiter(enter=lambda _: turns.acquire())
    with contextlib.suppress(AlarmError):
        async with shop.refund(orders, limiter=limiter) as batch:
            await until(lambda: batch.progress.counts[NOT_SENT])
            for _ in orders:  # the lease is still ours, until the outcomes are read
                turns.release()
            if working := {task for task in asyncio.all_tasks() if "worker" in task.get_name()}:
                await asyncio.wait(working, timeout=120)
            monkeypatch.undo()
            async for outcome in batch:
                told.append(outcome)  # it raises in the end
    told += batch.result
    assert statuses(told).count(NOT_SENT) == 4
    shop.check(told)
    assert sum(shop.effects(orders)) == 2
    assert (await shop.resume()).ok
    assert shop.effects(orders) == [1] * 6

"""The journal knows before the gateway does, and before the caller does; else nothing is sent."""

import asyncio
import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, Timeouts
from gateway_async.errors import JournalError
from gateway_async.journal import Journal, OrderState, engines
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.jobs.books import Interposed, counts, kept, refuse
from tests.journal.tables import Tables, on_a_file
from tests.support.books import (
    DECLINED,
    NOT_SENT,
    SUCCEEDED,
    check_books,
    check_conserved,
    effects,
    statuses,
)
from tests.support.collaborators import Limiter
from tests.support.interruptions import until
from tests.support.memory import Asked, HttpRequest, MemoryTransport, client_over, fields_of
from tests.support.orders import POLICY, RESENDING, Make, refunds, seeded


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
class Failures:
    """The statements and commits of drivers' connections that fail, by their number from 0."""

    how: str
    fails: Callable[[int], bool]
    numbers: Iterator[int] = attrs.field(factory=itertools.count)
    failed: int = 0

    def over(self, connect: Callable[[Any], Any]) -> Callable[[Any], "FailingDriver"]:
        return lambda engine: FailingDriver(connect(engine), engine.error, self)

    def call(self, failing: "FailingDriver", name: str, *given: Any) -> Any:
        call: Callable[..., Any] = getattr(failing.driver, name)
        is_counted = name == "commit" or self.how != "in doubt"
        if not is_counted or not self.fails(next(self.numbers)):
            return call(*given)
        self.failed += 1
        if self.how == "refused":
            raise failing.error("disk I/O error")
        if self.how == "full":
            failing.driver.execute("PRAGMA max_page_count = 1")  # or as many as it has
            return call(*given)
        call()
        raise failing.error("the server is gone")


@attrs.frozen
class FailingDriver:
    """A driver's connection, or a cursor of it."""

    driver: Any
    error: type[Exception]
    failures: Failures

    def cursor(self) -> "FailingDriver":
        return attrs.evolve(self, driver=self.driver.cursor())

    def __getattr__(self, name: str) -> Any:
        if name in {"execute", "executemany", "commit"}:
            return functools.partial(self.failures.call, self, name)
        return getattr(self.driver, name)


DATABASES, ONCE_AND_FROM_THEN_ON = ("sqlite", "postgresql"), (operator.eq, operator.le)
FAILURES = [
    *itertools.product(DATABASES, ("refused", "in doubt"), ONCE_AND_FROM_THEN_ON),
    ("sqlite", "full", operator.le),  # a server's disk is not ours to fill
]


@pytest.mark.slow
@pytest.mark.parametrize(("url", "how", "fails"), FAILURES, indirect=["url"])
async def test_a_database_that_fails_doubles_nothing_and_is_not_glossed_over(  # a table
    sandbox: Sandbox,
    make: Make,
    url: str,
    tables: Tables,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    fails: Callable[[int, int], bool],
) -> None:
    """At each statement or commit in turn: once, or from then on."""
    engine, resending, ended = type(engines.locate(url)), make(recovery=RESENDING), list[bool]()
    connect: Any = engine.connect
    for first in itertools.count():
        failures = Failures(how, functools.partial(fails, first))
        name, orders = f"job {first}", seeded(sandbox, 6, refund_reason="r" * 900)
        told = list[Any]()
        with monkeypatch.context() as patch, contextlib.suppress(JournalError):
            patch.setattr(engine, "connect", failures.over(connect))
            ended.append(False)
            async with Journal.open(url) as journal:
                batch = make().refund(orders, job=journal.job(name))
                try:
                    await batch
                finally:
                    told += batch.result
            ended[-1] = True
        async with Journal.open(url) as journal:
            await _check_told(sandbox, journal, name, told)
            tables.end_leases()  # one that was taken, as nobody was told, runs out by itself
            assert (await resending.refund(orders, job=journal.job(name))).ok
        assert effects(sandbox, orders) == [1] * 6
        if not failures.failed:
            break
    assert ended[-1]
    assert ended.count(False) > 5


@on_a_file
async def test_nothing_is_sent_behind_an_outcome_that_could_not_be_kept(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, gateway = seeded(sandbox, 6), make(policy=attrs.evolve(POLICY, concurrency=1))
    real: Any = journal.database.run

    def fail(_: object) -> None:
        raise JournalError("the disk is on fire")

    def run(what: str, operation: Any) -> Any:
        return real(what, fail if what.endswith("keep the outcomes") else operation)

    monkeypatch.setattr(journal.database, "run", run)
    batch = gateway.refund(orders, job=journal.job("job"))
    with pytest.raises(JournalError, match="on fire"):
        await batch
    check_books(sandbox, batch.result)
    assert effects(sandbox, orders) == [1, 1, 0, 0, 0, 0]


async def _check_told(sandbox: Sandbox, journal: Journal, name: str, told: list[Any]) -> None:
    """Check that what was told is true, and final only where it was kept."""
    check_books(sandbox, told)
    known = []
    if any(status.name == name for status in await journal.jobs()):
        known = [outcome.status async for outcome in journal.outcomes(name)]
    for outcome in told:
        if outcome.status in {SUCCEEDED, DECLINED}:
            assert known[outcome.index] is outcome.status


# Nothing secret gets into the journal, whatever the gateway says

CARD = "4111111111111111"
SIGNATURE = f"s3cret-of-the-signer-{'c2lnbmVk' * 8}"
TEXTS = (f"E1:card {CARD} was declined", f"E1:{SIGNATURE} is not right", "E1:a\0b\ud800")


def _echoing(asked: Asked) -> Any:
    """Answer half of the refunds as done, decline the others, and say too much of each."""
    reply = asked.done(encryption_data=SIGNATURE, card=CARD)
    if asked.operation.name == "search_refunds":  # earlier refunds, unlike those of the job
        for item in reply["refund_orders"]:
            item["refund_amount"] = "0.01"
    if asked.operation.name == "refund":
        for number, item in enumerate(reply["refund_orders"]):
            secrets = {"card": CARD, "encryption_data": SIGNATURE}
            item |= {**secrets, "refund_reference_id": f"R{number}"}
            if number % 2:
                item |= {"refund_status": "0", "refund_message": TEXTS[number % len(TEXTS)]}
    return reply


async def test_neither_card_nor_secret_nor_signature_is_kept(
    journal: Journal, url: str, tables: Tables
) -> None:
    dialect = Dialect(declined_statuses={"0"})
    gateway = client_over(MemoryTransport(_echoing), signer=lambda *_: SIGNATURE, dialect=dialect)
    result = await gateway.refund(refunds(60), job=journal.job("job"))
    assert len(result.declined) == 30
    errors: list[Any] = [outcome.error for outcome in await kept(journal) if outcome.error]
    assert {error.code for error in errors} == {"E1"}
    assert {"*** is not right", "a\ufffdb\ufffd"} < {str(error) for error in errors}
    known = repr(tables.snapshot()).encode()
    if url.startswith("sqlite"):
        file = Path(url.removeprefix("sqlite:///"))
        known = b"".join(part.read_bytes() for part in file.parent.glob(f"{file.name}*"))
    assert b"T000001" in known
    assert b"E1" in known
    for secret in (CARD, SIGNATURE, "s3cret"):
        assert secret.encode() not in known


# Cancelled wherever it is, a job doubles nothing once it is run again


TURNS = [*range(1, 20), *(int(20 * 1.5**number) for number in range(15))]


async def _awaited(batch: Any) -> Any:
    return await batch


async def _streamed(batch: Any) -> Any:
    async with batch:
        async for _ in batch:
            await asyncio.sleep(0)


async def _left(batch: Any) -> Any:
    """Leave a stream early, and then wait to be cancelled."""
    async with batch:
        async for _ in batch:
            break
    await asyncio.sleep(0)


@on_a_file
@pytest.mark.parametrize(
    ("drive", "is_resumed"), [(_awaited, False), (_streamed, True), (_left, False)]
)
async def test_a_job_that_is_cancelled_in_any_turn_doubles_nothing(
    sandbox: Sandbox, make: Make, journal: Journal, drive: Any, is_resumed: bool
) -> None:
    gateway, refusing, cancelled = make(recovery=RESENDING), make(), 0
    Interposed(refusing, before=refuse)
    before = asyncio.all_tasks()
    for turns in TURNS:
        orders, job = seeded(sandbox, 6), journal.job(f"job {turns}")
        if is_resumed:
            await refusing.refund(orders, job=job)
        batch = gateway.resume(job) if is_resumed else gateway.refund(iter(orders), job=job)
        task = asyncio.create_task(drive(batch))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        cancelled += task.cancelled()
        assert not {one for one in asyncio.all_tasks() - before if "job" in one.get_name()}
        with contextlib.suppress(RuntimeError):  # it was never begun
            check_books(sandbox, batch.result)
            assert batch.result.counts[SUCCEEDED] <= len(orders)
        for status in await journal.jobs():
            if status.name == job.name:
                assert not status.is_running
                assert status.counts[OrderState.INTENT] == 0
                check_books(sandbox, await kept(journal, job.name))
        assert (await gateway.refund(orders, job=job)).ok  # the same line ends it
        assert effects(sandbox, orders) == [1] * 6
    assert cancelled > 10


@on_a_file
async def test_a_second_cancel_ends_drain(sandbox: Sandbox, make: Make, journal: Journal) -> None:
    orders = seeded(sandbox, 6)
    sandbox.faults.add("refund", Latency(seconds=3600))
    patient = make(
        policy=attrs.evolve(POLICY, drain_seconds=3600),
        timeouts=Timeouts(reply_seconds=3600, total_seconds=3600),
    )
    task = asyncio.create_task(patient.refund(orders, job=journal.job("job")))
    await until(lambda: sandbox.requests["refund"] == 2)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=120)
    assert task.cancelled()
    assert await counts(journal) == {OrderState.UNKNOWN: 4, OrderState.NEW: 2}
    sandbox.faults.clear()
    assert (await make(recovery=RESENDING).resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6


@on_a_file
async def test_a_second_cancellation_ends_an_input_that_takes_its_time_to_end(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders, begun, ending = seeded(sandbox, 1), asyncio.Event(), asyncio.Event()

    async def given() -> Any:
        try:
            yield orders[0]
            begun.set()
            await asyncio.Event().wait()
        finally:
            ending.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(make().refund(given(), job=journal.job("job")))
    for reached in (begun, ending):
        await reached.wait()
        task.cancel()
    await asyncio.wait({task}, timeout=120)
    assert task.cancelled()
    assert sandbox.requests.total() == 0


# What the journal keeps of requests whose turn has not come


class Turnstile(Limiter):
    """Lets as many requests through as it is told."""

    def __init__(self) -> None:
        super().__init__(enter=lambda _: self._free.acquire())
        self._free = asyncio.Semaphore(0)

    async def let(self, through: int, *, until_asked: int = 0) -> None:
        """Let requests through, and wait until so many have come."""
        for _ in range(through):
            self._free.release()
        await until(lambda: self.entered >= until_asked)


@on_a_file
async def test_what_waits_for_the_limiter_is_new_and_sent_by_the_next_run(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders, turnstile = seeded(sandbox, 8), Turnstile()
    gateway = make(policy=BatchPolicy(concurrency=4, chunk_size=2), limiter=turnstile)
    batch = asyncio.create_task(gateway.refund(orders, job=journal.job("job")))
    await turnstile.let(4, until_asked=8)  # each chunk's look-up
    assert await counts(journal) == {OrderState.NEW: 8}
    await turnstile.let(1)
    while await counts(journal) != {OrderState.NEW: 6, OrderState.SUCCEEDED: 2}:  # noqa: ASYNC110  # it has no event
        await asyncio.sleep(0)
    batch.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await batch
    result = cancelled.value.outcome  # type: ignore[attr-defined]  # the batch's result
    check_conserved(result, orders)
    assert (result.counts[SUCCEEDED], result.counts[NOT_SENT]) == (2, 6)
    assert await counts(journal) == {OrderState.NEW: 6, OrderState.SUCCEEDED: 2}
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 8


@on_a_file
@pytest.mark.parametrize("is_cancelled", [True, False])
async def test_a_request_that_is_tried_again_is_intended_only_when_it_is_sent(
    sandbox: Sandbox, make: Make, journal: Journal, is_cancelled: bool
) -> None:
    orders, turnstile = seeded(sandbox, 2, "capture"), Turnstile()
    gateway, tries = make(limiter=turnstile), 0

    async def refuse_the_first(_: object) -> None:
        nonlocal tries
        tries += 1
        assert await counts(journal) == {OrderState.INTENT: 2}
        if tries == 1:
            await refuse()

    Interposed(gateway, before=refuse_the_first)
    batch = asyncio.create_task(gateway.capture(orders, job=journal.job("job")))
    await turnstile.let(1, until_asked=2)
    assert await counts(journal) == {OrderState.NEW: 2}
    if is_cancelled:
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch
        assert await counts(journal) == {OrderState.NEW: 2}
        batch = asyncio.ensure_future(make().resume(journal.job("job")))
    await turnstile.let(1)
    assert (await batch).ok
    assert tries == 2 - is_cancelled
    assert effects(sandbox, orders, "capture") == [1] * 2


class AlarmError(Exception):
    """What a signal handler raises, wherever the program is just then."""


@on_a_file
async def test_what_waits_is_sent_no_more_once_a_job_that_was_cut_short_called_it_not_sent(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = asyncio.wait

    async def alarmed(tasks: Any, *, return_when: str = asyncio.ALL_COMPLETED, **given: Any) -> Any:
        if return_when == asyncio.FIRST_EXCEPTION:  # the job waits for its workers
            # The first refund is made; the second waits for its turn.
            await until(lambda: batch.progress.counts[SUCCEEDED])
            raise AlarmError
        return await wait(tasks, return_when=return_when, **given)

    monkeypatch.setattr(asyncio, "wait", alarmed)
    orders, turnstile, told = seeded(sandbox, 6), Turnstile(), list[Any]()
    with contextlib.suppress(AlarmError):
        async with make(limiter=turnstile).refund(orders, job=journal.job("job")) as batch:
            await turnstile.let(3)  # two look-ups and a refund
            await until(lambda: batch.progress.counts[NOT_SENT])
            await turnstile.let(6)  # the lease is still ours, until the outcomes are read
            if working := {task for task in asyncio.all_tasks() if "worker" in task.get_name()}:
                await asyncio.wait(working, timeout=120)
            monkeypatch.undo()
            async for outcome in batch:
                told.append(outcome)  # it raises in the end
    told += batch.result
    assert statuses(told).count(NOT_SENT) == 4
    check_books(sandbox, told)
    assert sum(effects(sandbox, orders)) == 2
    assert (await make().resume(journal.job("job"))).ok
    assert effects(sandbox, orders) == [1] * 6

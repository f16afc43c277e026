"""The journal knows before the gateway does, and before the caller does; else nothing is sent."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, Timeouts
from gateway_async.errors import JournalError
from gateway_async.journal import Journal, OrderState
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import Latency
from tests.jobs.books import Interposed, counts, kept, refuse
from tests.journal.tables import Tables, on_a_file
from tests.memory import Asked, HttpRequest, MemoryTransport, client_over, fields_of
from tests.orders import POLICY, RESENDING, Make, refunds, seeded
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


def failing(
    run: Callable[..., Any], fails: Callable[[int], bool], *, after: bool
) -> tuple[Callable[..., Any], list[int]]:
    """Let chosen calls of a journal's thread fail, but those about the lease.

    `fails` is given the number of a call. It fails before it is carried out, or after: then its
    commit is in doubt. Return what takes the calls, and the numbers of those that failed.
    """
    numbers, failed = itertools.count(), list[int]()

    async def call(what: str, operation: Any) -> Any:
        is_lease = what.endswith(("keep the lease", "release the lease"))
        if is_lease or not fails(number := next(numbers)):
            return await run(what, operation)
        failed.append(number)
        if after:
            await run(what, operation)
        raise JournalError(f"{what}: the disk is on fire")

    return lambda *call_of: asyncio.ensure_future(call(*call_of)), failed


@on_a_file
@pytest.mark.parametrize(("after", "from_then_on"), [(False, True), (True, False), (True, True)])
async def test_a_write_that_fails_doubles_nothing_and_is_not_glossed_over(
    sandbox: Sandbox, make: Make, journal: Journal, tables: Tables, after: bool, from_then_on: bool
) -> None:
    gateway, resending, number = make(), make(recovery=RESENDING), 0
    real: Any = journal.database.run
    while True:
        name, orders = f"job {number}", seeded(sandbox, 6)
        fails = number.__le__ if from_then_on else number.__eq__
        calls: Any
        calls, failed = failing(real, fails, after=after)
        batch = gateway.refund(orders, job=journal.job(name))
        journal.database.run = calls  # type: ignore[method-assign]  # of this one alone
        error = await _ended(batch)
        journal.database.run = real  # type: ignore[method-assign]  # see above
        if not failed:
            break
        assert error
        await _check_told(sandbox, journal, name, batch)
        tables.end_leases()  # one that was taken, as nobody was told, runs out by itself
        assert (await resending.refund(orders, job=journal.job(name))).ok
        assert effects(sandbox, orders) == [1] * 6
        number += 1
    assert number > 6


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


async def _ended(batch: Any) -> bool:
    """Say whether it ended by an error of the journal."""
    try:
        await batch
    except JournalError:
        return True
    return False


async def _check_told(sandbox: Sandbox, journal: Journal, name: str, batch: Any) -> None:
    """Check that what was told is true, and final only where it was kept."""
    check_books(sandbox, batch.result)
    known = []
    if any(status.name == name for status in await journal.jobs()):
        known = [outcome.status async for outcome in journal.outcomes(name)]
    for outcome in batch.result:
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

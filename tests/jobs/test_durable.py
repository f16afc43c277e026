"""The journal knows before the gateway does, and before the caller does; else nothing is sent."""

import asyncio
import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect
from gateway_async.errors import JournalError
from gateway_async.jobs.recorder import JournalIntent
from gateway_async.jobs.work import JobWork
from gateway_async.journal import Journal, OrderState
from gateway_async.sandbox import Sandbox
from tests.jobs.books import RESENDING, Interposed, counts, kept
from tests.journal.tables import Tables, on_a_file
from tests.memory import Asked, HeldReplies, HttpRequest, MemoryTransport, client_over, fields_of
from tests.orders import POLICY, Make, made_up, orders_for, refunds, seeded
from tests.support.books import DECLINED, SUCCEEDED, check_books, effects


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


async def test_no_intent_is_recorded_of_a_request_that_waits_for_others(journal: Journal) -> None:
    held, policy = HeldReplies(), BatchPolicy(chunk_size=1, drain_seconds=0)
    orders = orders_for("capture", made_up(20))
    capture = held.client(policy=policy).capture(orders, job=journal.job("job"))
    batch = asyncio.create_task(capture)
    await held.asked.wait()
    while held.most < policy.concurrency:
        await counts(journal)
    for _ in range(3):  # after a kill, the others are just sent
        assert await counts(journal) == {OrderState.INTENT: 8, OrderState.NEW: 12}
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch


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


@on_a_file
async def test_no_more_outcomes_wait_to_be_written_than_there_are_workers(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, conclude = list[int](), JournalIntent.conclude

    def count(intent: JournalIntent, *arguments: Any) -> None:
        conclude(intent, *arguments)
        waiting.append(len(intent._recorder.recordings))

    monkeypatch.setattr(JournalIntent, "conclude", count)
    policy = BatchPolicy(chunk_size=1, concurrency=3)
    gateway = client_over(MemoryTransport(lambda asked: asked.done()), policy=policy)
    orders = orders_for("capture", made_up(40))
    assert (await gateway.capture(orders, job=journal.job("job"))).ok
    assert len(waiting) == 40
    assert max(waiting) <= policy.concurrency


@on_a_file
async def test_outcomes_that_cannot_be_added_end_the_job(
    sandbox: Sandbox, make: Make, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory is out: what is missing must not look like a result."""
    orders, gateway = seeded(sandbox, 6), make(policy=attrs.evolve(POLICY, concurrency=1))
    add, job = JobWork._add_final, journal.job("job")

    def fail_once(*_: Any, **_more: Any) -> None:
        monkeypatch.setattr(JobWork, "_add_final", add)
        raise MemoryError

    monkeypatch.setattr(JobWork, "_add_final", fail_once)
    with pytest.raises(MemoryError):
        await gateway.refund(orders, job=job)
    check_books(sandbox, await gateway.resume(job))
    assert effects(sandbox, orders) == [1] * 6


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
    if any(status.imported for status in await journal.jobs() if status.name == name):
        known = [outcome.status async for outcome in journal.outcomes(name)]
    for outcome in batch.result:
        if outcome.status in {SUCCEEDED, DECLINED}:
            assert known[outcome.index] is outcome.status


@on_a_file
async def test_a_full_disk_at_any_moment_doubles_nothing(
    sandbox: Sandbox, make: Make, journal: Journal, url: str, tables: Tables
) -> None:
    def limit(inside: Any, spare: int) -> None:
        (used,) = inside.run("PRAGMA page_count").fetchone()
        inside.run(f"PRAGMA max_page_count = {used + spare}")

    gateway, ends = make(policy=attrs.evolve(POLICY, chunk_size=50)), set()
    for spare in range(0, 50, 4):
        name, orders = f"job {spare}", seeded(sandbox, 100)
        async with Journal.open(url) as small:
            await small.database.run("cannot shrink", functools.partial(limit, spare=spare))
            batch = gateway.refund(orders, job=small.job(name))
            failed = await _ended(batch)
            check_books(sandbox, batch.result)
        ends.add((failed, sum(effects(sandbox, orders)) > 0))
        assert (await gateway.refund(orders, job=journal.job(name))).ok
        assert effects(sandbox, orders) == [1] * 100
        assert tables.run("PRAGMA integrity_check") == [("ok",)]
    assert {(True, False), (False, True)} <= ends


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

"""Refunds of a job: replies that never come, refunds that are listed already, what is held."""

import sqlite3
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import BatchPolicy, Dialect, EvidenceError, OutcomeUnknownError, RefundOrder
from gateway_async.errors import AlikeRefundError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.database import Transaction
from gateway_async.journal.rows import noted
from gateway_async.sandbox import Sandbox
from gateway_async.sandbox.faults import DropReply, EmptyLookUp, ResetBeforeEffect
from tests.jobs.books import Interposed, counts, kept, references_of, refuse
from tests.journal.tables import Tables, on_a_file, submitted
from tests.support import postgres
from tests.support.books import (
    DECLINED,
    NOT_SENT,
    SUCCEEDED,
    UNKNOWN,
    check_books,
    check_conserved,
    effects,
    statuses,
)
from tests.support.memory import Asked, HttpRequest, MemoryTransport, client_over, listing
from tests.support.orders import (
    AT_ONCE,
    MARKER,
    POLICY,
    RESENDING,
    Make,
    as_sent,
    refunds,
    reply_to,
    seeded,
)

ONE_BY_ONE = attrs.evolve(POLICY, concurrency=1)


@on_a_file
async def test_replies_that_are_lost_stop_a_job_over_all_of_its_rounds(journal: Journal) -> None:
    """Two are lost in each round, and three in a row stop it."""
    first, *others = refunds(3)

    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            (item,) = asked.done()["refund_orders"]
            is_first = asked.transactions == [first.transaction_id]
            done = reply_to("refund", [{**item, "refund_reference_id": "R1"}])
            return done if is_first else b"no reply"
        is_done = len(transport.asked) > 2 and first.transaction_id in asked.transactions
        record = {"transaction_id": first.transaction_id, "refund_reference_id": "R1"}
        return reply_to("search_refunds", [{**record, "refund_amount": "1.11"}] if is_done else [])

    transport = MemoryTransport(answer)
    policy = attrs.evolve(ONE_BY_ONE, chunk_size=1)
    gateway = client_over(transport, policy=policy, recovery=RESENDING)
    result = await gateway.refund([first, *others], job=journal.job("job"))
    assert result[0].status is SUCCEEDED
    assert sum(asked.operation.name == "refund" for asked in transport.asked) == 4


@pytest.mark.parametrize("lost", [None, DropReply(times=1), ResetBeforeEffect(times=1)])
async def test_a_refund_that_another_job_made_is_no_success_of_this_one(
    sandbox: Sandbox, make: Make, journal: Journal, lost: Any
) -> None:
    """Two jobs mean a refund each, alike; the second is made, and its reply may be lost."""
    orders = seeded(sandbox, 2)
    sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    gateway = make(recovery=AT_ONCE)
    assert not (await gateway.refund(orders[:1], job=journal.job("first"))).succeeded
    if lost is not None:
        sandbox.faults.add("refund", lost)
    second = await gateway.refund(orders, job=journal.job("second"))
    again = await gateway.resume(journal.job("first"))
    found = [again[0].status, second[0].status]
    assert found.count(SUCCEEDED) == (lost is None)  # else it may be that of either
    assert effects(sandbox, orders)[0] == (lost is None or isinstance(lost, DropReply))


async def test_a_refund_that_another_job_begins_to_send_during_a_look_up_proves_nothing(
    journal: Journal, tables: Tables
) -> None:
    (order,) = orders = refunds(1)
    sent = noted({order.transaction_id: frozenset()}, None)
    await submitted(journal, orders, "first")
    tables.put(state="unknown", sent=sent)
    await submitted(journal, orders, "second")
    done = {"refund_reference_id": "R1", "refund_status": "1"}

    def answer(_: Asked) -> Any:
        tables.run(
            f"UPDATE gateway_chunks SET state = 'intent', sent = '{sent}' WHERE job_id = "  # noqa: S608  # ours
            "(SELECT id FROM gateway_jobs WHERE name = 'second')"
        )
        return reply_to("search_refunds", [{**as_sent(order), **done}])

    gateway = client_over(MemoryTransport(answer), recovery=AT_ONCE)
    assert statuses(await gateway.resume(journal.job("first"))) == [UNKNOWN]


@on_a_file
async def test_a_refund_that_is_listed_after_a_person_called_it_not_sent_is_held_once_more(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    """The gateway took it and lists it late, such as one that books at night."""
    orders, job = seeded(sandbox, 2), journal.job("job")
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("search_refunds", EmptyLookUp())
    assert statuses(await make().refund(orders, job=job)) == [UNKNOWN] * 2
    sandbox.faults.clear()
    await journal.resolve("job", range(2), "not_sent", "not in the portal")
    listed = await make().resume(job)
    assert statuses(listed) == [NOT_SENT] * 2
    assert {type(outcome.error) for outcome in listed} == {AlikeRefundError}
    assert effects(sandbox, orders) == [1] * 2

    await journal.resolve("job", 0, "succeeded", "it is the one that is listed")
    await journal.resolve("job", 1, "not_sent", "the one that is listed was made in the portal")
    assert (await make().resume(job)).ok
    assert effects(sandbox, orders) == [1, 2]


@on_a_file
async def test_what_cannot_be_settled_is_held_with_the_evidence_until_a_run_that_can(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    orders = seeded(sandbox)
    sandbox.faults.add("refund", DropReply(times=1))
    sandbox.faults.add("search_refunds", EmptyLookUp())
    result = await make(policy=ONE_BY_ONE).refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert await counts(journal) == {OrderState.SUCCEEDED: 4, OrderState.HELD: 2}
    for outcomes in (result, await kept(journal)):
        assert statuses(outcomes) == [UNKNOWN] * 2 + [SUCCEEDED] * 4
        for outcome in outcomes[:2]:
            assert isinstance(outcome.error, OutcomeUnknownError)
            assert "recovery does not settle it" in str(outcome.error)
    assert (await journal.status("job")).done
    sandbox.faults.clear()
    assert (await make().resume(journal.job("job"))).ok
    assert sandbox.requests["refund"] == 3
    assert effects(sandbox, orders) == [1] * 6


@on_a_file
async def test_what_the_evidence_fails_on_is_never_new_again(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    async def answered_unasked(message: HttpRequest) -> Any:
        raise EvidenceError(f"a reply came to {message.path}, which was never written")

    orders, gateway = seeded(sandbox, 4), make(policy=ONE_BY_ONE, recovery=MARKER)
    Interposed(gateway, before=answered_unasked)
    result = await gateway.refund(orders, job=journal.job("job"))
    check_conserved(result, orders)
    assert statuses(result) == [UNKNOWN, UNKNOWN, NOT_SENT, NOT_SENT]
    assert await counts(journal) == {OrderState.HELD: 2, OrderState.NEW: 2}
    await make(recovery=MARKER).resume(journal.job("job"))
    assert await counts(journal) == {OrderState.HELD: 2, OrderState.SUCCEEDED: 2}
    assert effects(sandbox, orders) == [0, 0, 1, 1]


@on_a_file
async def test_what_the_gateway_said_of_a_doubtful_refund_is_kept(journal: Journal) -> None:
    def answer(asked: Asked) -> Any:
        (item,) = asked.done()["refund_orders"]
        said = {"refund_status": "2", "refund_message": "V0009:in process"}
        return reply_to("refund", [{**item, **said}])

    gateway = client_over(MemoryTransport(listing([], answer)), recovery=AT_ONCE)
    job = journal.job("job")
    for batch in (gateway.refund(refunds(1), job=job), gateway.resume(job)):
        for outcomes in (await batch, await kept(journal)):
            error: Any = outcomes[0].error
            assert (error.code, error.text) == ("V0009", "in process")


# A refund that the gateway lists already is held, whatever the journal has forgotten

SERIAL = BatchPolicy(concurrency=2, chunk_size=2, duplicates="serialize")


async def test_the_same_orders_under_another_name_are_held_until_a_person_decides(
    sandbox: Sandbox, make: Make, journal: Journal, other: Journal
) -> None:
    orders = seeded(sandbox, 6, refund_amount=Decimal("5.00"))
    first = await make().refund(orders[:4], job=journal.job("first"))
    for _ in range(2):  # held when it is run, and held when it is run again
        result = await make().refund(orders, job=other.job("second"))
        assert statuses(result) == [NOT_SENT] * 4 + [SUCCEEDED] * 2
        for outcome, reference in zip(result, references_of(first), strict=False):
            error = outcome.error
            assert isinstance(error, AlikeRefundError)
            assert error.reference == reference
            assert error.refund_date is not None
            assert reference in str(error)
            assert "until you decide" in str(error)
    assert effects(sandbox, orders) == [1] * 6
    assert await counts(journal, "second") == {OrderState.HELD: 4, OrderState.SUCCEEDED: 2}
    await other.resolve("second", orders[0], "not_sent", "another one is meant")
    await other.resolve("second", orders[1], "declined", "the first job did it")
    expected = [SUCCEEDED, DECLINED, NOT_SENT, NOT_SENT, SUCCEEDED, SUCCEEDED]
    assert statuses(await make().resume(other.job("second"))) == expected
    assert statuses(await kept(other, "second")) == expected
    assert effects(sandbox, orders) == [2, 1, 1, 1, 1, 1]


@on_a_file
async def test_a_job_of_which_every_refund_is_listed_is_read_through_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each chunk: of a million orders, that takes hours."""
    read, run = list[str](), Transaction.run

    def noted_run(self: Transaction, statement: str, **parameters: object) -> Any:
        read.extend([statement] * ("SELECT first, lookup_keys" in statement))
        return run(self, statement, **parameters)

    monkeypatch.setattr(Transaction, "run", noted_run)
    orders = refunds(20)
    listed = [{**as_sent(one), "refund_reference_id": f"R{n}"} for n, one in enumerate(orders)]
    gateway = client_over(MemoryTransport(listing(listed)), policy=ONE_BY_ONE, recovery=AT_ONCE)
    result = await gateway.refund(orders, job=journal.job("job"))
    assert {type(outcome.error) for outcome in result} == {AlikeRefundError}
    assert len(read) == 1
    await journal.resolve("job", [*orders[1:]], "not_sent", "made in the portal")
    assert len(read) == 2
    assert await counts(journal) == {OrderState.HELD: 1, OrderState.NEW: 19}


@on_a_file
@pytest.mark.parametrize("submitted", ["serialize", "allow"])
async def test_the_reply_to_the_first_of_two_equal_refunds_proves_no_second(
    journal: Journal, submitted: str
) -> None:
    """Nor in a later run, whatever its policy says, where the gateway's list lags."""

    def answer(asked: Asked) -> Any:
        (item,) = asked.done()["refund_orders"]
        return reply_to("refund", [{**item, "refund_reference_id": f"{item['transaction_id']}-01"}])

    transport = MemoryTransport(listing([], answer))
    first, other = refunds(2)
    job, policy = journal.job("job"), attrs.evolve(ONE_BY_ONE, chunk_size=1, duplicates=submitted)
    gateway = client_over(transport, policy=policy, recovery=AT_ONCE)
    async with gateway.refund([first, other, first], job=job) as batch:
        async for outcome in batch:
            assert outcome.status is SUCCEEDED
            break
    again = client_over(transport, policy=attrs.evolve(ONE_BY_ONE, chunk_size=1), recovery=AT_ONCE)
    result = await again.resume(job)
    assert statuses(result) == [SUCCEEDED, SUCCEEDED, UNKNOWN]
    assert "a refund that was done before" in str(result[2].error)


@on_a_file
@pytest.mark.parametrize("decided", [1, 2])
async def test_a_decision_to_send_holds_although_the_first_request_was_withdrawn(
    sandbox: Sandbox, make: Make, journal: Journal, decided: int
) -> None:
    orders = seeded(sandbox, 2, refund_amount=Decimal("5.00"))
    assert (await make().refund(orders, job=journal.job("first"))).ok
    await make().refund(orders, job=journal.job("second"))
    await journal.resolve("second", range(decided), "not_sent", "another one is meant")
    refusing = make()

    async def refuse_refunds(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            assert (await counts(journal, "second"))[OrderState.INTENT] == decided
            await refuse()

    Interposed(refusing, before=refuse_refunds)
    await refusing.resume(journal.job("second"))
    assert (await counts(journal, "second"))[OrderState.NEW] == decided
    result = await make().resume(journal.job("second"))
    assert result.counts[SUCCEEDED] == decided
    assert effects(sandbox, orders) == [2] * decided + [1] * (2 - decided)


def _copied(url: str, folder: Path, stack: ExitStack) -> str:
    """Copy a journal as it is: a backup of the file, or a replica of the server."""
    if not url.startswith("sqlite"):
        return stack.enter_context(postgres.copied(url))
    with (
        closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as source,
        closing(sqlite3.connect(folder / "backup.db")) as target,
    ):
        source.backup(target)
    return f"sqlite:///{folder / 'backup.db'}"


@pytest.mark.parametrize("turns", [0, 4], ids=["nothing done", "half of it done"])
async def test_a_backup_or_a_replica_that_lacks_the_last_commits_moves_no_money_twice(
    sandbox: Sandbox, make: Make, url: str, tmp_path: Path, turns: int
) -> None:
    orders, left = seeded(sandbox, 8), iter(range(turns))
    closing_soon = make(policy=BatchPolicy(concurrency=1, chunk_size=2))

    async def let_some_through(_: object) -> None:
        if next(left, None) is None:
            await refuse()

    Interposed(closing_soon, before=let_some_through)
    async with Journal.open(url) as journal:
        result = await closing_soon.refund(orders, job=journal.job("job"))
    assert statuses(result) == [SUCCEEDED] * turns + [NOT_SENT] * (8 - turns)
    with ExitStack() as stack:
        behind = _copied(url, tmp_path, stack)
        async with Journal.open(url) as journal:
            assert (await make().resume(journal.job("job"))).ok
        async with Journal.open(behind) as journal:
            for _ in range(2):
                result = await make().resume(journal.job("job"))
                check_books(sandbox, result.succeeded)
                assert statuses(result) == [SUCCEEDED] * turns + [NOT_SENT] * (8 - turns)
                assert all(isinstance(one.error, AlikeRefundError) for one in result.not_sent)
            assert (await counts(journal)).get(OrderState.HELD) == 8 - turns
    assert effects(sandbox, orders) == [1] * 8


@on_a_file
async def test_alike_refunds_of_one_job_do_not_hold_each_other(
    sandbox: Sandbox, make: Make, journal: Journal
) -> None:
    parts = seeded(sandbox, 2, refund_amount=Decimal("1.50"))
    result = await make(policy=SERIAL).refund([*parts, *parts], job=journal.job("job"))
    assert statuses(result) == [SUCCEEDED] * 4
    assert len({*references_of(result)}) == 4
    assert references_of(await kept(journal)) == references_of(result)


@on_a_file
async def test_a_declined_refund_that_is_listed_holds_the_next_like_it(journal: Journal) -> None:
    listed: list[dict[str, str]] = []

    def answer(asked: Asked) -> dict[str, Any]:
        (item,) = asked.fields["refund_orders"]
        done = {**item, "refund_reference_id": f"R-{len(listed)}"}
        status = "1" if listed else "5"
        listed.append({**done, "refund_status": "1"})
        return reply_to("refund", [{**done, "refund_status": status}])

    dialect = Dialect(declined_statuses={"5"})
    gateway = client_over(
        MemoryTransport(listing(listed, answer)), dialect=dialect, recovery=AT_ONCE
    )
    given = {"transaction_id": "T1", "currency": "EUR", "amount": "50.00"}
    orders = [RefundOrder(**given, order_no=name, refund_amount="5.00") for name in ("A", "B")]
    result = await gateway.refund(orders, job=journal.job("job"), policy=SERIAL)
    assert statuses(result) == [DECLINED, NOT_SENT]
    assert len(listed) == 1

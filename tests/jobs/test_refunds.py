"""Refunds of a job: replies that never come, refunds that are listed already, what is held."""

import asyncio
import logging
import re
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from gateway_async import Dialect, EvidenceError, OutcomeUnknownError, RefundOrder
from gateway_async.errors import AlikeRefundError
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.database import Transaction
from gateway_async.journal.rows import noted
from gateway_async.sandbox.faults import DropReply, EmptyLookUp, ResetBeforeEffect
from tests.jobs.conftest import Shop, references_of, refuse, refuse_refunds
from tests.journal.tables import Tables, kept, on_a_file, submitted
from tests.support import postgres
from tests.support.books import DECLINED, NOT_SENT, SUCCEEDED, UNKNOWN, check_conserved, statuses
from tests.support.interruptions import until
from tests.support.memory import (
    Asked,
    HttpRequest,
    MemoryTransport,
    client_over,
    listing,
    refund_done,
)
from tests.support.orders import (
    AT_ONCE,
    MARKER,
    ONE_BY_ONE,
    POLICY,
    RESENDING,
    as_sent,
    refunds,
    reply_to,
)

EACH_ALONE = attrs.evolve(ONE_BY_ONE, chunk_size=1)
SERIAL = attrs.evolve(POLICY, duplicates="serialize")
DONE, HELD, NEW = OrderState.SUCCEEDED, OrderState.HELD, OrderState.NEW


@on_a_file
async def test_replies_that_are_lost_stop_a_job_over_all_of_its_rounds(journal: Journal) -> None:
    """Two are lost in each round, and three in a row stop it."""
    first, *others = refunds(3)
    name = first.transaction_id

    def answer(asked: Asked) -> Any:
        if asked.operation.name != "search_refunds":
            return refund_done(asked) if asked.transactions == [name] else b"no reply"
        is_done = len(transport.asked) > 2 and name in asked.transactions
        record = {"transaction_id": name, "refund_reference_id": f"{name}-01"}
        return reply_to("search_refunds", [{**record, "refund_amount": "1.11"}] if is_done else [])

    transport = MemoryTransport(answer)
    gateway = client_over(transport, policy=EACH_ALONE, recovery=RESENDING)
    result = await gateway.refund([first, *others], job=journal.job("job"))
    assert result[0].status is SUCCEEDED
    assert sum(asked.operation.name == "refund" for asked in transport.asked) == 4


@on_a_file
async def test_a_reference_that_two_refunds_share_is_not_taken_for_the_jobs_own(
    journal: Journal,
) -> None:
    first = refunds(1)[0]
    second = attrs.evolve(first, refund_amount="0.50")
    made: list[dict[str, Any]] = []

    def answer(asked: Asked) -> Any:
        item = {**asked.done()["refund_orders"][0], "refund_reference_id": "-"}
        made.extend([item, {**item, "refund_amount": "0.50"}])  # the other one by a portal
        return reply_to("refund", made[:1])

    policy = attrs.evolve(EACH_ALONE, duplicates="serialize")
    gateway = client_over(listing(made, answer), policy=policy, recovery=AT_ONCE)
    result = await gateway.refund([first, second], job=journal.job("job"))
    assert isinstance(result[1].error, AlikeRefundError)


@on_a_file
async def test_no_order_follows_one_of_its_payment_that_is_held(journal: Journal) -> None:
    """Another order, which is sent again, brings a second round to the job."""
    first, second, third = refunds(3)
    made: list[dict[str, Any]] = []

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "search_refunds":
            found = [one for one in made if one["transaction_id"] in asked.transactions]
            return reply_to("search_refunds", found)
        (item,) = asked.done()["refund_orders"]
        item["refund_reference_id"] = item["transaction_id"]
        if asked.transactions == [first.transaction_id]:
            made.append({**item, "refund_status": "1"})
            return reply_to("refund", made)
        if asked.transactions == [second.transaction_id]:  # listed, and not as done
            made.append({**item, "refund_status": "2"})
        return b"lost"

    transport = MemoryTransport(answer)
    policy = attrs.evolve(EACH_ALONE, duplicates="serialize", stop_after_unknown=9)
    gateway = client_over(transport, policy=policy, recovery=RESENDING)
    orders = [first, second, third, attrs.evolve(second, refund_amount="0.50")]
    await gateway.refund(orders, job=journal.job("job"))
    sent = [asked.transactions[0] for asked in transport.asked if asked.operation.name == "refund"]
    assert sent.count(second.transaction_id) == 1
    assert sent.count(third.transaction_id) > 1


@on_a_file
async def test_a_marker_alone_shows_that_a_refund_of_the_job_is_listed(journal: Journal) -> None:
    """The gateway gives its refunds no reference."""
    first, second = refunds(2)
    made: list[dict[str, Any]] = []

    def answer(asked: Asked) -> Any:
        if asked.transactions == [second.transaction_id]:
            return b"no reply"
        made.append({**asked.done()["refund_orders"][0], "refund_status": "1"})
        return reply_to("refund", made)

    gateway = client_over(listing(made, answer), policy=EACH_ALONE, recovery=MARKER)
    result = await gateway.refund([first, second], job=journal.job("job"))
    assert statuses(result) == [SUCCEEDED, NOT_SENT]


@on_a_file
async def test_a_job_does_not_send_again_what_the_gateway_has_not_decided_on(
    journal: Journal,
) -> None:
    first, second = refunds(2)

    def answer(asked: Asked) -> Any:
        if asked.operation.name == "search_refunds":
            made = {"transaction_id": first.transaction_id, "refund_reference_id": "1"}
            is_done = len(transport.asked) > 1 and made["transaction_id"] in asked.transactions
            return reply_to("search_refunds", [{**made, "refund_amount": "7"}] if is_done else [])
        is_first = asked.transactions == [first.transaction_id]
        return refund_done(asked, refund_status="1" if is_first else "2", refund_reference_id="1")

    transport = MemoryTransport(answer)
    dialect = Dialect(pending_statuses={"2"})
    gateway = client_over(transport, policy=EACH_ALONE, recovery=RESENDING, dialect=dialect)
    await gateway.refund([first, second], job=journal.job("job"))
    await gateway.resume(journal.job("job"))
    await journal.resolve("job", second, "not_sent", "it is not in the portal")
    await journal.resolve("job", second, "unknown", "; recovery does not settle it: a mistake")
    for _ in range(2):
        result = await gateway.resume(journal.job("job"))
        assert statuses(result) == [SUCCEEDED, UNKNOWN]
        assert getattr(result[1].error, "is_pending", False)
    assert sum(asked.operation.name == "refund" for asked in transport.asked) == 2


@on_a_file
@pytest.mark.parametrize("ended_at", [None, 1.0], ids=["it was killed", "its clock was behind"])
async def test_what_an_earlier_process_sent_may_be_under_way_when_the_job_is_taken_over(
    shop: Shop, caplog: pytest.LogCaptureFixture, ended_at: float | None
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    orders = shop.orders(2)
    await submitted(shop.journal, orders)
    sent = noted({order.transaction_id: frozenset() for order in orders}, None, 0)
    shop.tables.put(state="intent", sent=sent, ended_at=ended_at)
    resumed = shop.resume(recovery=attrs.evolve(RESENDING, settle_seconds=3600))
    task = asyncio.ensure_future(resumed)
    await until(lambda: "looked at again" in caplog.text or task.done())
    task.cancel()
    await asyncio.wait({task})
    assert re.search(r"looked at again in 3[56]\d\d s", caplog.text)
    assert statuses(resumed.result) == [UNKNOWN] * 2


async def test_a_lost_reply_is_waited_for_from_its_end_and_not_from_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "gateway_async")
    now, behind = time.time, [3000]
    monkeypatch.setattr(time, "time", lambda: now() - sum(behind))

    def lose(_: Asked) -> bytes:
        behind.clear()
        return b"lost"

    gateway = client_over(listing([], lose), recovery=attrs.evolve(AT_ONCE, settle_seconds=3600))
    async with Journal.open(f"sqlite:///{tmp_path}/jobs.db", lease_seconds=86_400) as journal:
        task = asyncio.ensure_future(gateway.refund(refunds(1), job=journal.job("job")))
        await until(lambda: "looked at again" in caplog.text or task.done())
        task.cancel()
        await asyncio.wait({task})
    assert re.search(r"looked at again in 3[56]\d\d s", caplog.text)


@on_a_file
@pytest.mark.parametrize(
    ("amounts", "left", "duplicates", "expected", "times"),
    [
        # It follows the one like it, once that was looked up.
        ("12", "intent", "serialize", [SUCCEEDED, SUCCEEDED], 2),
        # No order follows one that stays in doubt.
        ("32", "held", "serialize", [UNKNOWN, NOT_SENT], 1),
        # One in doubt explains no listed refund of another amount.
        ("21", "unknown", "allow", [UNKNOWN, NOT_SENT], 1),
    ],
)
async def test_a_refund_behind_one_of_the_same_transaction_that_a_dead_process_left(
    shop: Shop, amounts: str, left: str, duplicates: str, expected: list[Any], times: int
) -> None:
    (order,) = shop.orders(1)
    await shop.make().refund([order])
    orders = [attrs.evolve(order, refund_amount=Decimal(amount)) for amount in amounts]
    await submitted(shop.journal, orders)
    shop.tables.put(0, state=left, sent=noted({order.transaction_id: frozenset()}, None, 0))
    result = await shop.resume(policy=attrs.evolve(POLICY, duplicates=duplicates))
    assert statuses(result) == expected
    assert shop.effects([order]) == [times]
    references = [one.record.refund_reference_id for one in await shop.kept() if one.record]
    assert len({*references}) == expected.count(SUCCEEDED)
    assert isinstance(result[1].error, AlikeRefundError) is (left == "unknown")


@pytest.mark.parametrize("lost", [None, DropReply(times=1), ResetBeforeEffect(times=1)])
async def test_a_refund_that_another_job_made_is_no_success_of_this_one(
    shop: Shop, lost: Any
) -> None:
    """Two jobs mean a refund each, alike; the second is made, and its reply may be lost."""
    orders = shop.orders(2)
    shop.sandbox.faults.add("refund", ResetBeforeEffect(times=1))
    assert not (await shop.refund(orders[:1], "first")).succeeded
    if lost is not None:
        shop.sandbox.faults.add("refund", lost)
    found = [(await shop.refund(orders, "second"))[0].status]
    found += statuses(await shop.resume("first"))
    assert found.count(SUCCEEDED) == (lost is None)  # else it may be that of either
    assert shop.effects(orders)[0] == (lost is None or isinstance(lost, DropReply))


async def test_a_refund_that_another_job_begins_to_send_during_a_look_up_proves_nothing(
    journal: Journal, tables: Tables
) -> None:
    (order,) = orders = refunds(1)
    sent = noted({order.transaction_id: frozenset()}, None, 0)
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

    gateway = client_over(answer, recovery=AT_ONCE)
    assert statuses(await gateway.resume(journal.job("first"))) == [UNKNOWN]


@on_a_file
async def test_what_cannot_be_settled_is_held_until_a_run_or_a_person_can(shop: Shop) -> None:
    """The gateway books at night: a person calls refunds not sent that it lists later."""
    orders, resolve = shop.orders(), shop.journal.resolve
    shop.sandbox.faults.add("refund", DropReply(times=2))
    shop.sandbox.faults.add("search_refunds", EmptyLookUp())
    result = await shop.refund(orders, policy=ONE_BY_ONE)
    check_conserved(result, orders)
    assert await shop.counts() == {HELD: 4, DONE: 2}
    for outcomes in (result, await shop.kept()):
        assert statuses(outcomes) == [UNKNOWN] * 4 + [SUCCEEDED] * 2
        for outcome in outcomes[:4]:
            assert isinstance(outcome.error, OutcomeUnknownError)
            assert "recovery does not settle it" in str(outcome.error)
    assert (await shop.journal.status("job")).done
    shop.sandbox.faults.clear()
    await resolve("job", [2, 3], "not_sent", "not in the portal")
    listed = await shop.resume()
    assert statuses(listed) == [SUCCEEDED] * 2 + [NOT_SENT] * 2 + [SUCCEEDED] * 2
    assert {type(outcome.error) for outcome in listed.not_sent} == {AlikeRefundError}
    assert shop.sandbox.requests["refund"] == 3
    assert shop.effects(orders) == [1] * 6

    await resolve("job", 2, "succeeded", "it is the one that is listed")
    await resolve("job", 3, "not_sent", "the one that is listed was made in the portal")
    assert (await shop.resume()).ok
    assert shop.effects(orders) == [1, 1, 1, 2, 1, 1]


@on_a_file
async def test_what_the_evidence_fails_on_is_never_new_again(shop: Shop) -> None:
    async def answered_unasked(message: HttpRequest) -> Any:
        raise EvidenceError(f"a reply came to {message.path}, which was never written")

    orders = shop.orders(4)
    result = await shop.refund(orders, before=answered_unasked, policy=ONE_BY_ONE, recovery=MARKER)
    check_conserved(result, orders)
    assert statuses(result) == [UNKNOWN, UNKNOWN, NOT_SENT, NOT_SENT]
    assert await shop.counts() == {HELD: 2, NEW: 2}
    await shop.resume(recovery=MARKER)
    assert await shop.counts() == {HELD: 2, DONE: 2}
    assert shop.effects(orders) == [0, 0, 1, 1]


@on_a_file
async def test_what_the_gateway_said_of_a_doubtful_refund_is_kept(journal: Journal) -> None:
    said = {"refund_status": "2", "refund_message": "V0009:in process"}
    (order,) = refunds(1)
    answer = listing([], lambda _: reply_to("refund", [{**as_sent(order), **said}]))
    gateway, job = client_over(answer, recovery=AT_ONCE), journal.job("job")
    for batch in (gateway.refund([order], job=job), gateway.resume(job)):
        for outcomes in (await batch, await kept(journal)):
            error: Any = outcomes[0].error
            assert (error.code, error.text) == ("V0009", "in process")


@on_a_file
async def test_a_refund_that_is_dated_before_the_run_proves_nothing(
    journal: Journal, tables: Tables
) -> None:
    """The list before the request may have lacked it, however long ago the job was submitted."""
    (order,), listed = refunds(1), list[dict[str, str]]()
    date = datetime.now(UTC) - timedelta(days=5)
    found = {"refund_reference_id": "R-1", "refund_date": f"{date:%Y%m%d%H%M%S}"}

    def lose(_: Asked) -> bytes:
        listed.append({**as_sent(order), "refund_status": "1", **found})
        return b"lost"

    job = await submitted(journal, [order])
    tables.run("UPDATE gateway_jobs SET created_at = created_at - 864000")
    gateway = client_over(listing(listed, lose), recovery=AT_ONCE)
    assert statuses(await gateway.resume(job)) == [UNKNOWN]


# A refund that the gateway lists already is held, whatever the journal has forgotten


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
    now = {"refund_date": f"{datetime.now(UTC):%Y%m%d%H%M%S}"}
    listed = [
        {**as_sent(one), "refund_reference_id": f"R{n}", **now} for n, one in enumerate(orders)
    ]
    gateway = client_over(listing(listed), policy=ONE_BY_ONE, recovery=AT_ONCE)
    result = await gateway.refund(orders, job=journal.job("job"))
    assert len(read) == 1
    before = await kept(journal)
    await journal.resolve("job", range(20), "unknown", "to be asked")
    for outcome in (*result, *before, *await kept(journal)):
        assert isinstance(outcome.error, AlikeRefundError)
        assert outcome.error.reference == f"R{outcome.index}"
        date = outcome.error.refund_date
        assert date is not None
        said = str(outcome.error)
        assert all(part in said for part in (f"R{outcome.index}", f"{date:%Y}", "until you decide"))
    await journal.resolve("job", [*orders[1:]], "not_sent", "made in the portal")
    assert len(read) == 3
    counts = (await journal.status("job")).counts
    assert (counts[HELD], counts[NEW]) == (1, 19)
    ago = {"refund_date": f"{datetime.now(UTC) - timedelta(hours=25):%Y%m%d%H%M%S}"}
    gateway = client_over(listing([{**listed[0], **ago}]), recovery=AT_ONCE)
    assert (await gateway.refund(orders[:1], job=journal.job("another"))).ok


@on_a_file
async def test_the_second_refund_of_a_payment_is_recorded_apart(journal: Journal) -> None:
    """The orders around it are of one request; all three are of one chunk in the journal."""
    first, other = refunds(2)
    policy = attrs.evolve(SERIAL, chunk_size=None)
    gateway = client_over(listing([]), policy=policy, recovery=AT_ONCE)
    assert (await gateway.refund([first, first, other], job=journal.job("job"))).ok


@on_a_file
@pytest.mark.parametrize("submitted", ["serialize", "allow"])
async def test_the_reply_to_the_first_of_two_equal_refunds_proves_no_second(
    journal: Journal, submitted: str
) -> None:
    """Nor in a later run, whatever its policy says, where the gateway's list lags."""
    first, other = refunds(2)
    job, policy = journal.job("job"), attrs.evolve(EACH_ALONE, duplicates=submitted)
    gateway = client_over(listing([], refund_done), policy=EACH_ALONE, recovery=AT_ONCE)
    async with gateway.refund([first, other, other, first], job=job, policy=policy) as batch:
        async for outcome in batch:
            assert outcome.status is SUCCEEDED
            break
    result = await gateway.resume(job)
    assert statuses(result) == [SUCCEEDED, SUCCEEDED, UNKNOWN, UNKNOWN]
    assert all("a refund that was done before" in str(one.error) for one in result.unknown)


@on_a_file
@pytest.mark.parametrize("decided", [1, 2])
async def test_a_decision_to_send_holds_although_the_first_request_was_withdrawn(
    shop: Shop, decided: int
) -> None:
    orders = shop.orders(2, refund_amount=Decimal("5.00"))
    assert (await shop.refund(orders, "first")).ok
    await shop.refund(orders, "second")
    for status in ("unknown", "not_sent", "unknown", "not_sent"):
        await shop.journal.resolve("second", range(decided), status, "another one is meant")

    async def look_and_refuse(message: HttpRequest) -> None:
        if message.path.endswith("/refund"):
            assert (await shop.counts("second"))[OrderState.INTENT] == decided
        await refuse_refunds(message)

    await shop.resume("second", before=look_and_refuse)
    assert (await shop.counts("second"))[NEW] == decided
    assert (await shop.resume("second")).counts[SUCCEEDED] == decided
    assert shop.effects(orders) == [2] * decided + [1] * (2 - decided)
    notes = [known.note for known in shop.tables.known()]
    assert notes.count("another one is meant") == decided


@on_a_file
async def test_with_markers_a_job_compares_refunds_only_where_asked(shop: Shop) -> None:
    orders = shop.orders(2)
    assert (await shop.refund(orders, "first")).ok
    asked = attrs.evolve(MARKER, record_baseline=True)
    for name, recovery, times in (("second", asked, 1), ("third", MARKER, 2)):
        assert (await shop.refund(orders, name, recovery=recovery)).ok is (times == 2)
        assert shop.effects(orders) == [times] * 2


@on_a_file
async def test_a_refund_whose_request_was_withdrawn_is_compared_again(shop: Shop) -> None:
    orders = shop.orders(2)
    await shop.refund(orders, "first", before=refuse_refunds)
    assert (await shop.refund(orders, "second")).ok
    result = await shop.resume("first")
    assert {type(outcome.error) for outcome in result} == {AlikeRefundError}
    assert shop.effects(orders) == [1, 1]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # tests/cli has a copied file
async def test_a_replica_that_lacks_the_last_commits_moves_no_money_twice(shop: Shop) -> None:
    orders, left = shop.orders(8), iter(range(4))
    expected = [SUCCEEDED] * 4 + [NOT_SENT] * 4

    async def let_some_through(_: object) -> None:
        if next(left, None) is None:
            await refuse()

    first = await shop.refund(orders, before=let_some_through, policy=ONE_BY_ONE)
    assert statuses(first) == expected
    for journal in (shop.journal, shop.elsewhere.journal):
        await journal.__aexit__(None, None, None)  # a database in use has no replica
    with postgres.copied(shop.tables.url) as behind:
        async with Journal.open(shop.tables.url) as journal:
            assert (await attrs.evolve(shop, journal=journal).resume()).ok
        async with Journal.open(behind) as journal:
            lagging = attrs.evolve(shop, journal=journal)
            for _ in range(2):
                result = await lagging.resume()
                shop.check(result.succeeded)
                assert statuses(result) == expected
                assert all(isinstance(one.error, AlikeRefundError) for one in result.not_sent)
            assert (await lagging.counts()).get(HELD) == 4
    assert shop.effects(orders) == [1] * 8


@on_a_file
async def test_alike_refunds_of_one_job_do_not_hold_each_other(shop: Shop) -> None:
    parts = shop.orders(2, refund_amount=Decimal("1.50"))
    result = await shop.refund([*parts, *parts], policy=SERIAL)
    assert statuses(result) == [SUCCEEDED] * 4
    assert len({*references_of(result)}) == 4
    assert references_of(await shop.kept()) == references_of(result)


@on_a_file
async def test_a_declined_refund_that_is_listed_holds_the_next_like_it(journal: Journal) -> None:
    listed: list[dict[str, str]] = []

    def answer(asked: Asked) -> dict[str, Any]:
        (item,) = asked.fields["refund_orders"]
        done = {**item, "refund_reference_id": f"R-{len(listed)}"}
        status = "1" if listed else "5"
        listed.append({**done, "refund_status": "1"})
        return reply_to("refund", [{**done, "refund_status": status}])

    dialect, given = Dialect(declined_statuses={"5"}), attrs.asdict(refunds(1)[0])
    gateway = client_over(listing(listed, answer), dialect=dialect, recovery=AT_ONCE)
    orders = [RefundOrder(**{**given, "order_no": name}) for name in ("A", "B")]
    result = await gateway.refund(orders, job=journal.job("job"), policy=SERIAL)
    assert statuses(result) == [DECLINED, NOT_SENT]
    assert len(listed) == 1

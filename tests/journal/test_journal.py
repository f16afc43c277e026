"""The journal as a whole: where it is, what it is given and tells, and what a person may decide."""

import asyncio
import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gateway_async import OutcomeStatus, RefundOrder
from gateway_async.errors import (
    ConfigurationError,
    InvalidOrderError,
    JobConflictError,
    JournalError,
    NotDoneError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.rows import Merchant
from gateway_async.journal.states import Proof
from gateway_async.workers import Workers
from gateway_async.workers.rate import shared_rate
from tests.journal.tables import MERCHANT, Tables, kept, on_a_file, pages_of, submit, submitted
from tests.support.dragnet import Dragnet
from tests.support.memory import QUICK, Asked, MemoryTransport, client_over
from tests.support.orders import made_up, orders_for, refunds


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if f"{name}.".startswith("psycopg.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gateway-async\[journal\]'"):
        await Journal.open("postgresql://u@127.0.0.1:1/db").__aenter__()


URLS: list[Any] = [
    *(None, "refunds.db", "mysql://user:hush@host/db", "postgresql:db"),
    *("postgresql://user:hush@host", "postgresql://[user:hush/db", "postgresql://user:1hush/db"),
    *("postgresql://user:1/hush@host/db", "postgresql://user:1?hush@host/db"),
    *("postgresql://u:hu@sh@host/db", "sqlite://refunds.db", "sqlite:///:memory:"),
    *("sqlite:////x.db?timeout=3", "sqlite:////x\0.db"),
]


@pytest.mark.parametrize("url", URLS)
async def test_other_urls_are_refused_without_password(net: Dragnet, url: Any) -> None:
    net.signatures |= {"hush", "hu@sh", "sh@host"}

    async def enqueue(*_: object) -> None: ...

    for make in (
        lambda: Journal.open(url),
        lambda: shared_rate(url, "M1", requests=0),
        lambda: Workers(enqueue, None, url),  # type: ignore[arg-type]  # neither is right
    ):
        with net.raises(ConfigurationError):
            make()
    with pytest.raises(ConfigurationError, match="journal URL: "):
        Journal.open(url)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://u:hush@host:5433/db?password=hush", "postgresql://u@host:5433/db"),
        ("POSTGRESQL://u@h/db", "postgresql://u@h/db"),
        ("sqlite:////a b.db", "sqlite:////a b.db"),
        ("SQLITE:////a b.db", "SQLITE:////a b.db"),
    ],
)
def test_a_journal_shows_where_it_is_and_no_password(given: str, shown: str) -> None:
    assert repr(Journal.open(given)) == f"<Journal {shown}>"
    assert "hush" not in repr(Journal.open(given)._engine)


def test_leases_and_names_of_jobs() -> None:
    wrong: list[Any] = [0, -1, 86_401, float("nan"), float("inf"), True, "15", None]
    for seconds in wrong:
        with pytest.raises(ConfigurationError, match="lease_seconds: "):
            Journal.open("sqlite:////x.db", lease_seconds=seconds)
    journal = Journal.open("sqlite:////x.db", lease_seconds=3)
    wrong = ["", "x" * 201, "a\nb", "a\0", "\ud800", None, 3]
    for name in wrong:
        with pytest.raises(ConfigurationError, match="job: expected a name of 1 to 200"):
            journal.job(name)
    assert journal.job("Rückläufer 2024-05 #1").name == "Rückläufer 2024-05 #1"


async def test_a_journal_of_a_newer_version_is_left_alone(url: str, tables: Tables) -> None:
    async with Journal.open(url) as journal:
        await submitted(journal)
    tables.run("UPDATE gateway_journal_version SET version_num = '7'")
    known = tables.snapshot()
    with pytest.raises(JournalError, match=r"is of version 7, .* reads versions 1 to 4"):
        await Journal.open(url).__aenter__()
    assert tables.snapshot() == known


KNOWN: list[tuple[str, dict[str, str], str, type[Exception | None], str]] = [
    ("new", {}, "not_sent", NotSentError, "the job has not come to it yet"),
    ("new", {"text": "withdrawn"}, "not_sent", NotSentError, "withdrawn"),
    ("intent", {}, "unknown", OutcomeUnknownError, "in flight when its process ended"),
    ("succeeded", {}, "succeeded", type(None), ""),
    ("declined", {"code": "V1", "text": "no"}, "declined", RejectedError, "no"),
    ("unknown", {"text": "lost"}, "unknown", OutcomeUnknownError, "lost"),
    ("held", {"text": "unclear"}, "unknown", OutcomeUnknownError, "unclear"),
    ("held", {"proof": Proof.NOT_DONE}, "not_sent", NotDoneError, "; it is held"),
    ("unknown", {"proof": Proof.NOT_DONE}, "unknown", OutcomeUnknownError, ""),
]


async def test_outcomes_are_read_in_input_order(journal: Journal, tables: Tables) -> None:
    await submitted(journal, refunds(1201))
    for number, (state, known, *_) in enumerate(KNOWN):
        tables.put(number, 1195 - number, state=state, **known)
    tables.put(1200, state="succeeded", reference="R")
    outcomes = await kept(journal)
    assert [outcome.index for outcome in outcomes] == list(range(1201))
    assert [outcome.order for outcome in outcomes] == refunds(1201)
    for number, (*_, status, error, text) in enumerate(KNOWN):
        for outcome in (outcomes[number], outcomes[1195 - number]):
            assert (outcome.status, type(outcome.error)) == (status, error)
            assert text in str(outcome.error)
            assert outcome.record is None
    assert {each.status for each in outcomes[len(KNOWN) : 1100]} == {OutcomeStatus.NOT_SENT}
    record = outcomes[1200].record  # a reference is a record of a refund
    assert (record.refund_reference_id, record.transaction_id) == ("R", "T001200")
    assert str(record.refund_amount) == "1.00"


DECISIONS: list[tuple[str, str, str]] = [
    ("succeeded", "succeeded", "None"),
    (OutcomeStatus.DECLINED, "declined", "decided by a person: seen in the portal"),
    ("not_sent", "new", "decided by a person: seen in the portal; before: lost"),
    ("unknown", "held", "decided by a person: seen in the portal; before: lost"),
]


async def test_an_operator_decides(journal: Journal, tables: Tables) -> None:
    """What is to be sent again may be decided otherwise, until it is sent."""
    await submitted(journal)
    order = refunds(10)[4]
    for before, named, (status, after, text) in itertools.product(
        ("unknown", "held", "decided"), (order, 4), DECISIONS
    ):
        state = "held" if before == "decided" else before
        tables.put(4, 5, state=state, proof=Proof.NOT_DONE, text="lost")
        if before == "decided":
            await journal.resolve("job", [4, 5], "not_sent", "mistyped")
        await journal.resolve("job", named, status, "seen in the portal")
        left = "new" if before == "decided" else before
        assert tables.states() == ["new"] * 4 + [after, left] + ["new"] * 4
        assert tables.known()[4].note == "seen in the portal"
        outcome = (await kept(journal))[4]
        assert outcome.status is OutcomeStatus(status)
        assert str(outcome.error) == text
        assert getattr(outcome.error, "text", "") == ""  # the gateway said nothing


async def test_a_refused_decision_changes_nothing(journal: Journal, tables: Tables) -> None:
    await submitted(journal, [*refunds(10), *refunds(1)])
    tables.put(*range(4), 10, state="unknown")
    tables.put(6, state="intent")
    tables.put(7, state="succeeded")
    tables.put(8, state="declined")
    known = tables.snapshot()
    (unequal,) = orders_for("refund", made_up(1), refund_amount="3.00")
    refused: list[tuple[Any, type[Exception], str]] = [
        (4, JournalError, "cannot resolve order 4, which is 'new': it is not done, and the"),
        (7, JournalError, "which is 'succeeded': that is final"),
        (8, JournalError, "which is 'declined': that is final"),
        (6, JournalError, "order 6, which is 'intent': run the job again first; nothing was"),
        (refunds(1)[0], JournalError, "2 orders equal to .*T000000.*: name one by its index: 0, 1"),
        (unequal, JournalError, "0 orders equal to"),
        (99, JournalError, "has no order 99"),
        (-1, JournalError, "has no order -1"),
        (10**30, JournalError, "has no order 10"),
        ([1, 9], JournalError, "order 9, which is 'new'"),
        (range(2, 7), JournalError, "order 4, which is 'new'"),
        ([1, 11], JournalError, "has no order 11"),
        ([], JournalError, "no order is named"),
        ("T000000", InvalidOrderError, "expected RefundOrder, got str"),
        (True, InvalidOrderError, "expected RefundOrder, got bool"),
    ]
    for order, error, reason in refused:
        with pytest.raises(error, match=reason):
            await journal.resolve("job", order, "succeeded", "why")
    wrong: list[tuple[str, Any]] = [("absent", "why"), ("lost", "why"), ("unknown", " ")]
    for status, note in (*wrong, ("unknown", None)):
        with pytest.raises(ConfigurationError, match=r"status: expected one|note: expected"):
            await journal.resolve("job", 1, status, note)
    assert tables.snapshot() == known


def test_a_relative_path_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("j.db", "../j.db"):
        with pytest.raises(ConfigurationError, match="depends on the working directory") as caught:
            Journal.open(f"sqlite:///{path}")
        assert str(caught.value).rpartition(" ")[2] == f"sqlite:///{tmp_path / path}"


@on_a_file
@pytest.mark.parametrize("chunks", [199, 200, 201])
async def test_each_order_is_read_once_in_any_chunks(journal: Journal, chunks: int) -> None:
    await submit(journal.job("job"), pages_of(refunds(chunks)), chunk_size=1)
    read = [outcome.index for outcome in await kept(journal)]
    assert read == list(range(chunks))


# A state that changed meanwhile is left alone: every write finds the orders as it must


WANTED = {"intend": "new", "hold": "new", "conclude": "intent", "retract": "intent"}
CHANGES: list[tuple[str, dict[str, Any]]] = [
    *((move, {"state": each}) for move in WANTED for each in OrderState if each != WANTED[move])
]


@on_a_file
@pytest.mark.parametrize("at", [(), (1,)], ids=["a chunk", "an order of it"])
@pytest.mark.parametrize(("move", "change"), CHANGES)
async def test_orders_in_another_state_change_nothing(
    journal: Journal, tables: Tables, move: str, change: dict[str, Any], at: tuple[int, ...]
) -> None:
    known: list[object] = []

    def answer(asked: Asked) -> Any:
        if (asked.operation.name == "refund") == (WANTED[move] == "intent"):
            tables.put(*at, **change)
            known[:] = tables.known()
        if move == "retract" and asked.operation.name == "refund":
            raise NotSentError("nothing was sent")
        listed = {"refund_amount": "1.00", "refund_reference_id": "r", "refund_status": "1"}
        if move == "hold" and asked.operation.name == "search_refunds":
            return asked.done(
                refund_orders=[{"transaction_id": f"T00000{n}", **listed} for n in range(3)]
            )
        return asked.done()

    transport = MemoryTransport(answer)
    batch = client_over(transport, retry=QUICK).refund(refunds(3), job=journal.job("job"))
    said = rf"cannot {move} order \d, which is '\w+': expected '{WANTED[move]}'; nothing"
    with pytest.raises(JournalError, match=said):
        await batch
    assert [one.operation.name for one in transport.asked].count("refund") <= 1
    assert tables.known() == known


# Orders come in once and whole; a job may be cut into slices, some of which wait for a process


@on_a_file
@pytest.mark.parametrize("seed", range(5))
async def test_a_transaction_is_in_one_slice(journal: Journal, tables: Tables, seed: int) -> None:
    random = Random(seed)
    names = made_up(40)
    orders = orders_for("refund", random.choices(names[: 20 + seed], k=50) + names[30:])
    size = random.randrange(2, 12)
    await submitted(journal, orders, slice_size=size)
    most = max(Counter(order.transaction_id for order in orders).values())
    of_slice: dict[int, list[int]] = defaultdict(list)
    for chunk in tables.chunks():
        of_slice[chunk.slice] += chunk.known
    names_of = [{orders[at].transaction_id for at in found} for found in of_slice.values()]
    assert sum(map(len, names_of)) == len(set.union(*names_of))
    assert len(names_of) <= 2 * math.ceil(len(orders) / size)
    for each in await journal.slices("job"):
        found = of_slice.pop(each.number)
        assert (found[0], found[-1], len(found)) == (each.first, each.last, each.total)
        assert each.total < size + most
    assert not of_slice


async def test_a_decision_makes_its_slice_due_again(journal: Journal, tables: Tables) -> None:
    await submitted(journal, refunds(1) * 3, slice_size=3)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    await journal.resolve("job", 2, "not_sent", "not seen")  # it waits behind the others
    assert await journal.claim_due(MERCHANT, 60) == [("job", 1)]
    assert await journal.claim_due(MERCHANT, 60) == []
    await journal.resolve("job", 0, "succeeded", "seen")
    assert await journal.claim_due(MERCHANT, 60) == [("job", 1)]


async def test_a_run_or_a_decision_opens_a_finished_slice(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    tables.run("UPDATE gateway_chunks SET state = 'held'")
    tables.run("UPDATE gateway_slices SET finished = (1 = 1) WHERE slice > 0")
    await job.take(MERCHANT, 2)
    assert [each.finished for each in await journal.slices("job")] == [True, False]
    tables.end_leases()
    await journal.make_due([("job", 1), ("job", 2)])
    assert await journal.claim_due(MERCHANT, 60) == [("job", 2)]
    await client_over().resume(job, slice_number=2)  # all is held again
    await journal.resolve("job", 0, "succeeded", "seen")
    assert [each.finished for each in await journal.slices("job")] == [True, True]
    await journal.resolve("job", 3, "not_sent", "not seen")
    assert [each.finished for each in await journal.slices("job")] == [True, False]


async def test_slices_that_are_due_are_told_once_in_a_while(
    journal: Journal, other: Journal, tables: Tables
) -> None:
    job = await submitted(journal, refunds(6), slice_size=2)
    await submitted(journal, name="whole")
    assert await journal.claim_due(Merchant("M2", "A1", ""), 60) == []
    claimed = await asyncio.gather(*(one.claim_due(MERCHANT, 60) for one in (journal, other)))
    assert sorted(claimed[0] + claimed[1]) == [("job", 1), ("job", 2), ("job", 3)]
    assert await journal.claim_due(MERCHANT, 60) == []
    await other.make_due([("job", 1), ("job", 2)])
    await job.take(MERCHANT, 2)
    await other.make_due([("job", 2)])
    assert await other.claim_due(MERCHANT, 60) == [("job", 1)]
    tables.end_leases()
    assert await other.claim_due(MERCHANT, 60) == [("job", 2)]


async def test_a_slice_whose_process_died_is_due(journal: Journal, tables: Tables) -> None:
    job = await submitted(journal, refunds(4), slice_size=2)
    assert len(await journal.claim_due(MERCHANT, 60)) == 2
    lease = await job.take(MERCHANT, 2)
    for _ in range(2):
        # The time of a lease passes.
        tables.run("UPDATE gateway_slices SET expires_at = expires_at - 15, due_at = due_at - 15")
        assert await journal.claim_due(MERCHANT, 60) == [("job", 2)]
        await lease.renew()  # it was frozen, and has the slice again before any other takes it


# Orders come in once and whole; a rerun is compared


amounts = st.one_of(
    st.decimals(min_value=0, allow_nan=False, allow_infinity=False),
    st.decimals(min_value=0, max_value=10**6, places=2),
    st.builds(
        lambda digits, zeros, power: Decimal(f"{digits}{'0' * zeros}E{power}"),
        st.integers(0, 10**12),
        st.integers(0, 40),
        st.integers(-45, 45),
    ),
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
identifiers = texts.map(lambda text: f"T{text}".strip())


drawn_orders = st.builds(
    lambda amount, **fields: RefundOrder(amount=amount, refund_amount=amount, **fields),
    amount=amounts.map(lambda amount: amount or Decimal(1)),
    transaction_id=identifiers,
    order_no=identifiers,
    currency=st.just("EUR"),
    refund_reason=texts,
)


@settings(max_examples=25)
@given(st.lists(drawn_orders, min_size=1, max_size=5))
def test_orders_are_read_back_as_they_were(orders: list[RefundOrder]) -> None:
    async def check(url: str) -> None:
        async with Journal.open(url) as journal:
            for _ in range(2):  # and are equal to those that are given again
                assert await submit(journal.job("job"), pages_of(orders)) == len(orders)
            found = [outcome.order for outcome in await kept(journal)]
            assert found == orders
            assert [str(order.amount) for order in found] == [str(o.amount) for o in orders]

    with TemporaryDirectory() as folder:
        asyncio.run(check(f"sqlite:///{Path(folder) / 'journal.db'}"))


async def test_of_two_that_submit_at_once_one_is_compared(journal: Journal, other: Journal) -> None:
    async def given(size: int) -> AsyncIterator[Sequence[Any]]:
        yield refunds(size)
        await asyncio.sleep(0)

    ended = await asyncio.gather(
        *(submit(each.job("job"), given(size)) for each in (journal, other) for size in (3, 5)),
        return_exceptions=True,
    )
    sizes = [size for size in ended if isinstance(size, int)]
    assert sizes in ([3, 3], [5, 5])
    assert len([error for error in ended if isinstance(error, JobConflictError)]) == 2
    assert [o.order for o in await kept(other)] == refunds(sizes[0])

"""The journal as a whole: where it is, what it tells, and what an operator may decide."""

import itertools
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway_async import OutcomeStatus
from gateway_async.errors import (
    ConfigurationError,
    InvalidOrderError,
    JournalError,
    NotDoneError,
    NotSentError,
    OutcomeUnknownError,
    RejectedError,
)
from gateway_async.journal import Journal, OrderState
from gateway_async.journal.states import Proof
from gateway_async.workers import Workers
from gateway_async.workers.rate import shared_rate
from tests.journal.tables import Tables, on_a_file, pages_of, submit, submitted
from tests.support.dragnet import Dragnet, beyond_tests
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
        with pytest.raises(ConfigurationError) as caught:
            make()
        net.catch("refused", beyond_tests(caught.value))
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
    (
        "held",
        {"text": "absent", "proof": Proof.NOT_DONE},
        "not_sent",
        NotDoneError,
        "absent; it is held",
    ),
    ("unknown", {"proof": Proof.NOT_DONE}, "unknown", OutcomeUnknownError, ""),
]


async def test_outcomes_are_read_in_input_order(journal: Journal, tables: Tables) -> None:
    await submitted(journal, refunds(1201))
    for number, (state, known, *_) in enumerate(KNOWN):
        tables.put(number, 1195 - number, state=state, **known)
    tables.put(1200, state="succeeded", reference="R")
    outcomes: list[Any] = [outcome async for outcome in journal.outcomes("job")]
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
    ("not_sent", "new", "decided by a person: seen in the portal"),
    ("unknown", "held", "decided by a person: seen in the portal"),
]


async def test_an_operator_decides(journal: Journal, tables: Tables) -> None:
    """What is to be sent again may be decided otherwise, until it is sent."""
    await submitted(journal)
    order = refunds(10)[4]
    for before, named, (status, after, text) in itertools.product(
        ("unknown", "held", "decided"), (order, 4), DECISIONS
    ):
        tables.put(4, 5, state="held" if before == "decided" else before, proof=Proof.NOT_DONE)
        if before == "decided":
            await journal.resolve("job", [4, 5], "not_sent", "mistyped")
        await journal.resolve("job", named, status, "seen in the portal")
        left = "new" if before == "decided" else before
        assert tables.states() == ["new"] * 4 + [after, left] + ["new"] * 4
        assert tables.known()[4].note == "seen in the portal"
        outcome = [outcome async for outcome in journal.outcomes("job")][4]
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


@pytest.mark.parametrize("chunks", [199, 200, 201, 400])
async def test_each_order_is_read_once_in_any_chunks(journal: Journal, chunks: int) -> None:
    await submit(journal.job("job"), pages_of(refunds(chunks)), chunk_size=1)
    read = [row.index async for row in journal.outcomes("job")]
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
